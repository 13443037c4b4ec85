"""Newton's method on the dual, with max(0, h) rounded off.

The rounded dual is smooth in the multipliers except for the penalty, which has one kink per multiplier,
at 0. So each step minimises a quadratic plus that penalty, exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.solver.oracle import Oracle, Vector
from evenhand.solver.problem import Problem

__all__ = ["Descent", "descend"]

_MAX_STEPS = 40
_MAX_SWEEPS = 60
_SMALLEST_SHARE = 1e-4


@dataclass(frozen=True, eq=False)
class Descent:
    """Where a descent ended, and whether the end of what could be trusted stopped it."""

    point: Vector
    stopped: bool


def descend(
    oracle: Oracle,
    problem: Problem,
    multipliers: Vector,
    *,
    width: float,
    precision: float,
    trusted: Callable[[Vector], bool] | None = None,
) -> Descent:
    """Minimise the rounded dual from a starting point.

    Parameters
    ----------
    oracle : Oracle
    problem : Problem
        With rows scaled so that their entries are comparable.
    multipliers : array, shape (J,)
        Where to start.
    width : float
        Rounding of max(0, h).
    precision : float
        Stop when a step is predicted to gain less.
    trusted : callable, optional
        Whether the rows of the oracle still stand for all rows at a direction v. A step is cut short
        where they no longer do, and the descent ends there.

    Returns
    -------
    Descent
    """
    A = problem.A
    point = multipliers
    here = oracle.smooth(problem.direction(point), width)
    value = here.value + problem.penalty(point)
    damping = 1e-6
    for _ in range(_MAX_STEPS):
        slope = A @ here.sums
        curvature = A @ here.hessian @ A.T
        curvature[np.diag_indices_from(curvature)] += damping
        target = _minimise(curvature, slope - curvature @ point, problem, point)
        step = target - point
        predicted = -(
            slope @ step + 0.5 * step @ curvature @ step + problem.penalty(target) - problem.penalty(point)
        )
        if predicted <= precision:
            break
        share, cut = 1.0, False
        while trusted is not None and not trusted(problem.direction(point + share * step)):
            cut = True
            share *= 0.5
            if share < _SMALLEST_SHARE:
                return Descent(point, stopped=True)
        while True:
            trial = point + share * step
            there = oracle.smooth(problem.direction(trial), width)
            found = there.value + problem.penalty(trial)
            if found <= value - 0.1 * share * predicted or share < _SMALLEST_SHARE:
                break
            share *= 0.5 if share == 1.0 else 0.25
        if found >= value:
            if damping > 1e3:
                break
            damping *= 100
            continue
        damping = max(1e-9, damping * (0.1 if share == 1.0 else 10))
        point, here, value = trial, there, found
        if cut:
            return Descent(point, stopped=True)
    return Descent(point, stopped=False)


def _minimise(H: NDArray[np.float64], g: Vector, problem: Problem, start: Vector) -> Vector:
    """Minimise x^T H x / 2 + g^T x + penalty(x).

    Sweeps over the coordinates find which multipliers are positive, negative and zero; a linear system then
    gives their values, and the sweeps go on if a sign was wrong.
    """
    lo, hi = problem.lo, problem.hi
    x = start.copy()
    diagonal = np.diag(H)
    gradient = H @ x + g
    for sweep in range(_MAX_SWEEPS):
        largest = 0.0
        for j in range(len(x)):
            rest = x[j] - gradient[j] / diagonal[j]
            above, below = rest + lo[j] / diagonal[j], rest + hi[j] / diagonal[j]
            new = above if above > 0 else (below if below < 0 else 0.0)
            move = new - x[j]
            if move:
                x[j] = new
                gradient += move * H[j]
                largest = max(largest, abs(move))
        if largest < 1e-12:
            return x
        if sweep % 4 == 3:
            exact = _with_signs(H, g, problem, x)
            if exact is not None:
                return exact
    return x


def _with_signs(H: NDArray[np.float64], g: Vector, problem: Problem, x: Vector) -> Vector | None:
    """Solve exactly for the signs of `x`; None if they are not those of the minimum."""
    free = np.flatnonzero(x)
    bound = np.where(x > 0, problem.lo, problem.hi)
    exact = np.zeros_like(x)
    try:
        exact[free] = np.linalg.solve(H[np.ix_(free, free)], bound[free] - g[free])
    except np.linalg.LinAlgError:
        return None
    if (exact[free] * x[free] <= 0).any():
        return None
    slope = H @ exact + g
    zero = x == 0
    inside = (slope[zero] >= problem.lo[zero] - 1e-12) & (slope[zero] <= problem.hi[zero] + 1e-12)
    return exact if inside.all() else None
