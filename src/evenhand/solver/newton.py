"""Newton's method on the dual, with max(0, h) smoothed.

The smoothed dual is smooth in the multipliers except for the penalty, which has one kink per multiplier, at
0. So each step minimises a quadratic plus that penalty, exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.solver.oracle import Oracle, Problem, Vector

# Limits on time only: the certificate decides whether where a descent ended is good enough.
_MAX_STEPS = 40
_MAX_CHANGES = 4  # of sign, for each multiplier
_SMALLEST_SHARE = 1e-4  # of a step; more damping helps where even this little gains nothing
_NO_PULL = 1e-13  # rounding error of a slope


@dataclass(frozen=True, eq=False)
class Descent:
    """Where a descent ended, and whether it stopped because its rows no longer represent all.

    Attributes
    ----------
    point : array, shape (J,)
    stopped : bool
    sums : array, shape (D,)
        Smoothed sums there.
    """

    point: Vector
    stopped: bool
    sums: Vector


def descend(
    oracle: Oracle,
    problem: Problem,
    multipliers: Vector,
    *,
    width: float,
    precision: float,
    trusted: Callable[[Vector], bool] | None = None,
) -> Descent:
    """Minimise the smoothed dual from a starting point.

    Parameters
    ----------
    oracle : Oracle
    problem : Problem
        With bounds scaled to effects of comparable size.
    multipliers : array, shape (J,)
        Where to start.
    width : float
        Width of smoothing of max(0, h).
    precision : float
        Stop when a step is predicted to gain less.
    trusted : callable, default=None
        Whether the rows of the oracle still represent all rows at a direction v. A step is cut short where
        they no longer do, and the descent ends there.

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
                return Descent(point, stopped=True, sums=here.sums)
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
            return Descent(point, stopped=True, sums=here.sums)
    return Descent(point, stopped=False, sums=here.sums)


def _minimise(H: NDArray[np.float64], g: Vector, problem: Problem, start: Vector) -> Vector:
    """Minimise x^T H x / 2 + g^T x + penalty(x), exactly.

    With given signs, at first those of the start, the minimum solves a linear system. If a sign would change
    on the way, that multiplier stops at zero; at the end, the multiplier with the steepest descent away from
    zero is freed, until there is none.
    """
    lo, hi = problem.lo, problem.hi
    x = start
    signs = np.sign(x)
    for _ in range(_MAX_CHANGES * len(x)):
        free = np.flatnonzero(signs)
        goal = np.zeros_like(x)
        held = np.where(signs > 0, lo, hi)[free] - g[free]
        goal[free] = np.linalg.lstsq(H[np.ix_(free, free)], held)[0] if len(free) else 0.0
        crossing = free[goal[free] * signs[free] < 0]
        if len(crossing):
            shares = x[crossing] / (x[crossing] - goal[crossing])
            first = int(np.argmin(shares))
            x = x + shares[first] * (goal - x)
            x[crossing[first]] = signs[crossing[first]] = 0.0
            continue
        x = goal
        slope = H @ x + g
        pull = np.where(signs == 0, np.maximum(lo - slope, slope - hi), 0.0)
        leaving = int(np.argmax(pull))
        if pull[leaving] <= _NO_PULL:
            break
        signs[leaving] = 1.0 if slope[leaving] < lo[leaving] else -1.0
    return x
