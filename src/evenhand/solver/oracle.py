"""What the solver sees: a problem on sums over rows, and the one operation that touches rows, as a protocol.

Row i has a weight w_i and a vector p_i of D non-negative numbers. For a direction v the solver needs
h_i = <v, p_i> and sums over rows that depend on it. Rows in memory, in files or on a cluster can all be
solved: whatever computes these sums is an oracle.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from evenhand.solver.dense import DenseRows
    from evenhand.solver.thresholds import Steps

Vector = NDArray[np.float64]

ALL = sys.maxsize
"""As many rows as there are."""

ROUNDING = 1e-10
"""Size of h below which its sign means nothing, relative to the largest entry of v: as exact as HiGHS."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise constant - <gain, s> subject to lo <= A s <= hi, where s = sum of w_i f_i p_i, 0 <= f <= 1.

    For multipliers lambda in R^J, positive on a lower bound and negative on an upper one, the best f is
    1 where <v, p> > 0 with v = gain + A^T lambda, and no feasible f does better than

        constant - sum of w max(0, <v, p>) - penalty(lambda).

    Attributes
    ----------
    gain : array, shape (D,)
    A : array, shape (J, D)
    lo, hi : arrays, shape (J,)
        Infinite where there is no bound; a multiplier never has the sign of such an end.
    constant : float
    scalars : int
        Number of columns, the last ones, that stand for scalars (:mod:`evenhand.solver.scalars`).
    """

    gain: Vector
    A: NDArray[np.float64]
    lo: Vector
    hi: Vector
    constant: float = 0.0
    scalars: int = 0

    def direction(self, multipliers: Vector) -> Vector:
        """Direction v = gain + A^T lambda."""
        return self.gain + multipliers @ self.A

    def penalty(self, multipliers: Vector) -> float:
        """Cost of the bounds: -lo lambda where lambda is positive, -hi lambda where it is negative."""
        paid = np.flatnonzero(multipliers)  # an end that is infinite would make 0 NaN
        lam = multipliers[paid]
        return float(-np.where(lam > 0, self.lo[paid], self.hi[paid]) @ lam)

    def allowed(self, multipliers: Vector) -> Vector:
        """The multipliers, with 0 where their end is infinite: rounding errors, or another problem's."""
        unset = np.where(multipliers > 0, np.isinf(self.lo), np.isinf(self.hi))
        return np.where(unset, 0.0, multipliers)

    def objective(self, sums: Vector) -> float:
        """Objective at sums s."""
        return self.constant - float(self.gain @ sums)

    def bound(self, multipliers: Vector, positive_part: float) -> float:
        """Dual value at these multipliers, from the sum of w max(0, h): no feasible selection is below it."""
        return self.constant - positive_part - self.penalty(multipliers)

    def violation(self, sums: Vector) -> float:
        """Largest amount by which a bound is broken at s; 0 if none is."""
        values = self.A @ sums
        return float(np.maximum(self.lo - values, values - self.hi).max(initial=0.0))

    def tilted(self, amounts: Vector) -> Problem:
        """The same with more gain from each scalar."""
        gain = self.gain.copy()
        gain[len(gain) - self.scalars :] += amounts
        return replace(self, gain=gain)

    def scaled(self, factors: Vector) -> Problem:
        """Multiply each bound; its multiplier is divided by the same factor."""
        return replace(self, A=factors[:, None] * self.A, lo=factors * self.lo, hi=factors * self.hi)


@dataclass(frozen=True, eq=False)
class Smoothed:
    """Sums over rows at a direction v, with max(0, h) smoothed within `width` of 0.

    With z = clip((h + width) / (2 width), 0, 1), the selection of a row:

    Attributes
    ----------
    value : float
        sum of w phi(h), where phi(h) is 0 below -width, width z^2 within, h above.
    sums : array, shape (D,)
        sum of w z p, the gradient of `value`.
    hessian : array, shape (D, D)
        sum of w p p^T / (2 width) over the rows with |h| < width.
    """

    value: float
    sums: Vector
    hessian: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Totals:
    """Exact sums at a direction v, for a certificate.

    Attributes
    ----------
    positive_part : float
        sum of w max(0, h).
    sums : array, shape (D,)
        sum of w f p.
    selection : array, shape (n,), or whatever stands for it
        f: 1 where h > 0, else 0, except for the rows whose value was given. The solver passes it on and never
        reads it, so an oracle may leave it where its rows are.
    ties : int
        How many of the other rows have an h of 0 up to rounding: its sign means nothing.
    """

    positive_part: float
    sums: Vector
    selection: Any
    ties: int


@dataclass(frozen=True, eq=False)
class Direct:
    """An exact solution from the structure of the rows, before it is proven.

    Attributes
    ----------
    multipliers : array, shape (J,)
    totals : Totals
        Sums at these multipliers, with the selection of every row.
    steps : Steps
        The selection by group and score.
    scalars : array, shape (K,)
        Of the scalars that the problem has besides sums over rows (:mod:`evenhand.solver.scalars`).
    """

    multipliers: Vector
    totals: Totals
    steps: Steps
    scalars: Vector


class Oracle(Protocol):
    """Weighted rows that the solver sees only through sums and through a few of them."""

    most: int
    """How many rows may be taken at a time: they have to travel, and to fit into memory."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def n_columns(self) -> int:
        """D, the length of a row."""

    def smooth(self, v: Vector, width: float) -> Smoothed:
        """Sum over all rows, smoothed within `width` of the boundary."""

    def sample(self, count: int) -> DenseRows:
        """Take about `count` rows that represent all of them; the same ones every time."""

    def near(self, v: Vector, count: int) -> DenseRows:
        """Take the `count` rows with the smallest |h|, and those that tie with the last of them.

        The others are decided by the sign of h and summed up in the `base` of what is returned. Copies of a
        row may be taken as one. All rows are asked for only if nothing less was proven.
        """

    def totals(self, v: Vector, given: DenseRows | None = None, values: Vector | None = None) -> Totals:
        """Sum over all rows without smoothing, with the selection of rows that `near` took given."""

    def direct(self, problem: Problem) -> Direct | None:
        """Solve the problem by the structure of the rows; None if they have none."""

    def distinct(self) -> tuple[Oracle, NDArray[np.intp]] | None:
        """Each distinct row once, and which of them each row is; None if that gains nothing.

        Asked for where rows mostly repeat.
        """
