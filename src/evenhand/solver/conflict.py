"""Proof that bounds cannot be met.

If for some lambda the sum of w max(0, <A^T lambda, p>) + penalty(lambda) is negative, no selection
meets the bounds, because the sum is at least <lambda, A s> for every s, and a feasible s would make the total
at least 0. The rows with lambda other than 0 are those in conflict.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenhand.solver.finish import finish
from evenhand.solver.oracle import Oracle, Vector
from evenhand.solver.problem import Problem

__all__ = ["find_conflict"]

_SAMPLE = 20_000
_PROVEN = -1e-10


def find_conflict(oracle: Oracle, problem: Problem, masses: Vector) -> Vector | None:
    """Find multipliers that prove the bounds impossible.

    Parameters
    ----------
    oracle : Oracle
    problem : Problem
    masses : array, shape (D,)
        sum of w p over all rows.

    Returns
    -------
    array, shape (J,), or None
        None if a constant selection meets the bounds, or if no proof was found. On more than 20,000 rows
        the multipliers are looked for on a sample, and proven on all rows.
    """
    if any(problem.violation(chance * masses) <= 0 for chance in (0.5, 0.0, 1.0)):
        return None
    size = np.abs(problem.A).max(axis=1)
    scale = 1 / np.where(size > 0, size, 1.0)
    nothing = np.zeros(oracle.n_columns)
    only_bounds = replace(problem.scaled(scale), gain=nothing, constant=0.0)
    found = finish(oracle.sample(_SAMPLE), only_bounds, price=1.0)
    if found is None:
        return None
    multipliers = found.multipliers * scale
    empty = np.empty(0, np.intp)
    totals = oracle.totals(multipliers @ problem.A, empty, np.empty(0))
    value = totals.positive_part + problem.penalty(multipliers)
    if value >= _PROVEN:
        return None
    return np.where(np.abs(found.multipliers) > 1e-9, multipliers, 0.0)
