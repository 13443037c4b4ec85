"""Proof that bounds cannot be met.

If the sum of w max(0, <A^T lambda, p>) + penalty(lambda) is negative for some lambda, no selection meets the
bounds, because the sum is at least <lambda, A s> for every s, and a feasible s would make the total at least
0. The bounds whose lambda is not 0 are those in conflict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evenhand.solver.finish import Finish, finish
from evenhand.solver.optimize import without_noise
from evenhand.solver.oracle import Oracle, Problem, Vector

CONFLICT_ROWS = 50_000  # a linear program of seconds; the proof is on all rows whatever the sample
TOLERANCE = 1e-9  # the violation that `optimize` accepts: what it can solve is no conflict


@dataclass(frozen=True, eq=False)
class Conflict:
    """Total amount by which bounds must be broken, and the multipliers that show it.

    Attributes
    ----------
    slack : float
        Exact if there are no more rows than the sample has, otherwise that of the sample.
    multipliers : array, shape (J,)
    proven : bool
        Whether the multipliers prove on all rows that the bounds cannot be met.
    """

    slack: float
    multipliers: Vector
    proven: bool

    @classmethod
    def of(cls, oracle: Oracle, only_bounds: Problem, found: Finish | None) -> Conflict:
        """Whether the multipliers of a program on some rows are a proof on all."""
        if found is None:
            return cls(0.0, np.zeros(len(only_bounds.lo)), proven=False)
        largest = np.abs(found.multipliers).max(initial=0.0)
        multipliers = np.where(np.abs(found.multipliers) > TOLERANCE * largest, found.multipliers, 0.0)
        totals = oracle.totals(multipliers @ only_bounds.A)
        value = totals.positive_part + only_bounds.penalty(multipliers)
        return cls(found.slack, multipliers, proven=value < -TOLERANCE * (1 + np.abs(multipliers).sum()))

    @property
    def possible(self) -> bool:
        """Whether the bounds can be met."""
        return self.slack <= TOLERANCE


def find_conflict(oracle: Oracle, problem: Problem, masses: Vector, *, rows: int = CONFLICT_ROWS) -> Conflict:
    """Look for multipliers that prove the bounds impossible.

    Parameters
    ----------
    oracle : Oracle
    problem : Problem
    masses : array, shape (D,)
        sum of w p over all rows.
    rows : int, default=50_000
        Size of the sample on which multipliers are looked for. Whether they are a proof is a question about
        all rows.

    Returns
    -------
    Conflict
    """
    whole = np.concatenate([masses, np.ones(problem.scalars)])
    if any(problem.violation(chance * whole) <= TOLERANCE for chance in (0.5, 0.0, 1.0)):
        return Conflict.of(oracle, problem, None)
    only_bounds = replace(without_noise(oracle, problem), gain=np.zeros(oracle.n_columns), constant=0.0)
    return Conflict.of(oracle, only_bounds, finish(oracle.sample(rows), only_bounds, price=1.0))
