"""The problem that the solver sees: a linear objective and linear bounds on sums over rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evenhand.solver.oracle import Vector


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
