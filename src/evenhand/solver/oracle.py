"""The one operation that touches rows, as a protocol.

Row i has a weight w_i and a vector p_i of D non-negative numbers. For a direction v the solver needs
h_i = <v, p_i> and sums over rows that depend on it. Whoever can compute those, from memory, from files in
chunks or on a cluster, can be solved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from evenhand.solver.dense import DenseRows

__all__ = ["ROUNDING", "Oracle", "Smoothed", "Totals", "Vector"]

Vector = NDArray[np.float64]

ROUNDING = 1e-10
"""Size of h below which its sign means nothing, relative to the largest entry of v."""


@dataclass(frozen=True, eq=False)
class Smoothed:
    """Sums over rows at a direction v, with max(0, h) rounded off within `width` of 0.

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
    selection : array, shape (n,)
        f: 1 where h > 0, else 0, except for the rows whose value was given.
    ties : int
        Other rows whose h is 0 up to rounding, so that its sign means nothing.
    """

    positive_part: float
    sums: Vector
    selection: Vector
    ties: int


class Oracle(Protocol):
    """Weighted rows, of which only sums and a few rows are asked for."""

    fast: bool
    """Whether sums cost little whatever the number of rows, so that taking fewer rows gains nothing."""

    @property
    def n_rows(self) -> int:
        """How many rows there are."""

    @property
    def n_columns(self) -> int:
        """D, the length of a row."""

    def smooth(self, v: Vector, width: float) -> Smoothed:
        """Sum over all rows, rounded off within `width` of the boundary."""

    def sample(self, count: int) -> DenseRows:
        """Take about `count` rows that stand for all of them; the same ones every time."""

    def near(self, v: Vector, count: int) -> DenseRows:
        """Take the `count` rows with the smallest |h|, and those that tie with the last of them.

        The others are decided by the sign of h, and summed up in the `base` of what is returned.
        """

    def sums(self, directions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum of w p over the rows with h > 0, for several directions v at once, shape (k, D)."""

    def totals(self, v: Vector, index: NDArray[np.intp], values: Vector) -> Totals:
        """Sum over all rows without rounding off, with the selection of some rows given."""
