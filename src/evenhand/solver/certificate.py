"""Proof of a solution, recomputed from the rows without any solver."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.solver.oracle import Oracle, Totals, Vector
from evenhand.solver.problem import Problem

__all__ = ["Certificate", "certify"]


@dataclass(frozen=True)
class Certificate:
    """What a selection attains, and what no selection that meets the bounds can go below.

    Attributes
    ----------
    objective : float
        What the selection attains; for a fair classifier its risk.
    bound : float
        The dual value at the multipliers: no feasible selection has a smaller objective.
    violation : float
        By how much the worst bound is broken.

    Examples
    --------
    >>> round(Certificate(objective=0.25, bound=0.24, violation=0.0).gap, 6)
    0.01
    """

    objective: float
    bound: float
    violation: float

    @property
    def gap(self) -> float:
        """By how much another selection could at most be better."""
        return self.objective - self.bound


def certify(
    oracle: Oracle, problem: Problem, multipliers: Vector, index: NDArray[np.intp], values: Vector
) -> tuple[Certificate, Totals]:
    """Evaluate the selection 1[h > 0], with given values for some rows, and the bound.

    Parameters
    ----------
    oracle : Oracle
    problem : Problem
    multipliers : array, shape (J,)
    index, values : arrays
        Rows with a selection of their own, and that selection.

    Returns
    -------
    Certificate, Totals
    """
    totals = oracle.totals(problem.direction(multipliers), index, values)
    certificate = Certificate(
        problem.objective(totals.sums),
        problem.bound(multipliers, totals.positive_part),
        problem.violation(totals.sums),
    )
    return certificate, totals
