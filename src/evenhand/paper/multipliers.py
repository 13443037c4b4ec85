"""Selection of lambda on the validation half: by a grid, or by projected dual ascent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.exceptions import InputError

Floats = NDArray[np.float64]
Bounds = tuple[Floats, Floats]
"""lo and hi of the R_j: -delta and delta for MD, delta - 1 and 0 for MR."""

FEASIBLE = 1e-9
"""By how much rounding may exceed a tolerance."""
_AT_A_TIME = 2_000


@dataclass(frozen=True, eq=False)
class Candidates:
    """Values of lambda that were tried, shape (k, J), with R_cs and R_j(f) of their classifiers."""

    multipliers: Floats
    risks: Floats
    values: Floats

    def violations(self, bounds: Bounds) -> Floats:
        """How far the worst R_j is out of its bounds; 0 if none is."""
        beyond = np.maximum(bounds[0] - self.values, self.values - bounds[1])
        return np.asarray(beyond.max(axis=1, initial=0.0))

    def best(self, bounds: Bounds) -> int:
        """The one of least risk (at c = 1/2 the most accurate) within the bounds; or the nearest to them.

        The paper has "MD/MR not greater than delta". For MR that is a slip: it is to be at least delta, which
        is R_j in [delta - 1, 0].
        """
        violation = self.violations(bounds)
        fair = violation <= FEASIBLE
        return int(np.where(fair, self.risks, np.inf).argmin() if fair.any() else violation.argmin())


Evaluate = Callable[[Floats], Candidates]
"""Classifiers at values of lambda of shape (k, J), evaluated on the validation half."""


def _joined(parts: Sequence[Candidates]) -> Candidates:
    columns = zip(*(vars(one).values() for one in parts), strict=True)
    return Candidates(*map(np.concatenate, columns))


@dataclass(frozen=True)
class Grid:
    """Try lambda on a grid over [-1, 1]^J, coarse to fine.

    The paper's step is 0.01, which for four groups would be 201^4 points. By default the box is searched by
    0.1, and then around the best down to that step; ``stages=((1.0, 0.01),)`` is the whole grid.

    Parameters
    ----------
    stages : sequence of pairs, default=((1.0, 0.1), (0.1, 0.02), (0.02, 0.01))
        How far each stage goes on either side of the best so far, and its step.
    budget : int, default=250_000
        Largest number of points around one of these; more are an error.

    Examples
    --------
    >>> Grid(stages=((1.0, 0.5),)).box(1.0, 0.5, 1).ravel().tolist()
    [-1.0, -0.5, 0.0, 0.5, 1.0]
    """

    stages: Sequence[tuple[float, float]] = ((1.0, 0.1), (0.1, 0.02), (0.02, 0.01))
    budget: int = 250_000

    def box(self, reach: float, step: float, J: int) -> Floats:
        """The points of a stage around zero."""
        half = math.floor(reach / step + 1e-9)
        if (2 * half + 1) ** J > self.budget:
            raise InputError(
                f"a grid of {2 * half + 1} values for each of {J} multipliers has {(2 * half + 1) ** J:,} "
                f"points, and the budget is {self.budget:,}: use larger steps in more stages, or Ascent()."
            )
        axis = step * np.arange(-half, half + 1)
        return np.stack(np.meshgrid(*[axis] * J, indexing="ij"), axis=-1).reshape(-1, J)

    def run(self, evaluate: Evaluate, bounds: Sequence[Bounds], C: Floats) -> Candidates:
        """All points that were tried; a stage is around the best for any of the bounds.

        Of equally good ones the smallest correction is taken, by the coefficients C of the R_j, and of those
        the smallest lambda.
        """
        J = len(bounds[0][0])
        tried: list[Candidates] = []
        centres = np.zeros((1, J))
        for reach, step in self.stages:
            points = (centres[:, None] + self.box(reach, step, J)).reshape(-1, J)
            sizes = np.round(np.abs(points @ C.reshape(J, -1)).sum(axis=1), 9)
            points = points[np.lexsort((np.abs(points).sum(axis=1), sizes))]
            tried += map(evaluate, np.array_split(points, max(1, len(points) // _AT_A_TIME)))
            found = _joined(tried)
            centres = found.multipliers[list(dict.fromkeys(found.best(each) for each in bounds))]
        return found


@dataclass(frozen=True)
class Ascent:
    """Projected subgradient ascent of the dual: lambda grows where the requirement is violated.

    Parameters
    ----------
    rate : float, default=1.0
        Length of the first step; step t is shorter by a factor of the square root of t.
    radius : float, default=10.0
        lambda is projected to [-radius, radius]^J.
    max_iter : int, default=500
    patience : int, default=20
        Equilibrium: neither risk nor violation has moved by more than `settled` in so many steps.
    settled : float, default=1e-4

    Examples
    --------
    >>> Ascent(rate=0.5)
    Ascent(rate=0.5, radius=10.0, max_iter=500, patience=20, settled=0.0001)
    """

    rate: float = 1.0
    radius: float = 10.0
    max_iter: int = 500
    patience: int = 20
    settled: float = 1e-4

    def run(self, evaluate: Evaluate, bounds: Bounds) -> Candidates:
        """Every step.

        The paper returns the final lambda. A last step can leave the tolerance again, so that the best of all
        steps is taken, by the same rule as from a grid.
        """
        lo, hi = bounds
        point, steps = np.zeros(len(lo)), []
        for t in range(1, self.max_iter + 1):
            steps.append(evaluate(point[None]))
            last = _joined(steps[-self.patience :])
            moved = max(np.ptp(last.risks), np.ptp(last.violations(bounds)))
            if len(last.risks) == self.patience and moved <= self.settled:
                break
            # The dual is min_f R_cs(f) - lambda R(f), plus lambda_j lo_j above 0 and lambda_j hi_j below: its
            # slope is lo - R(f) or hi - R(f), with a kink at 0, where lambda_j stays while R_j is within.
            step = self.rate / math.sqrt(t)
            low, high = (point + step * (end - last.values[-1]) for end in (lo, hi))
            point = np.clip(np.where(low > 0, low, np.where(high < 0, high, 0.0)), -self.radius, self.radius)
        return _joined(steps)
