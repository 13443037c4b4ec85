"""Proof of a solution, recomputed from the rows without any solver."""

from __future__ import annotations

import html
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.solver.oracle import Oracle, Totals, Vector
from evenhand.solver.problem import Problem

__all__ = ["Certificate", "certify", "small"]

_ROUNDING = 1e-12
"""Sums over all rows are not more exact than this."""


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

    def __repr__(self) -> str:
        return (
            f"Certificate(objective={self.objective:.6f}, bound={self.bound:.6f}, "
            f"gap {small(self.gap)}, violation {small(self.violation)})"
        )

    def _repr_html_(self) -> str:
        parts = {
            "attained": f"{self.objective:.6f}",
            "no fair classifier is below": f"{self.bound:.6f}",
            "gap": small(self.gap),
            "violation of the requirement": small(self.violation),
        }
        rows = (f"<tr><th>{name}</th><td>{html.escape(value)}</td></tr>" for name, value in parts.items())
        return f"<table>{''.join(rows)}</table>"


def small(amount: float) -> str:
    """Write a gap or a violation; what is within rounding of 0 is not told from it.

    Parameters
    ----------
    amount : float

    Returns
    -------
    str

    Examples
    --------
    >>> small(-5.6e-17), small(3.2e-7)
    ('<1e-12', '3.2e-07')
    """
    return "<1e-12" if amount < _ROUNDING else f"{amount:.1e}"


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
