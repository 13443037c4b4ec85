"""The result of `solve`: rule, selection, multipliers, shadow prices, certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.fairness.constraints import ConstraintName, LinearConstraints
from evenhand.fairness.rates import CellRates
from evenhand.optimum.rule import Rule
from evenhand.solver.certificate import Certificate

__all__ = ["Solution"]


@dataclass(frozen=True, eq=False)
class Solution:
    """The best classifier that satisfies a requirement on given rows.

    Attributes
    ----------
    rule : Rule
        The classifier: W, and its decisions on the boundary.
    selection : array, shape (n,)
        The probability of deciding 1 for each row. Of rows that are elsewhere, what computes it: a dask
        array, or ``RowValues``, which ``numpy.asarray`` turns into an array.
    multipliers : dict
        The multiplier of each linear constraint, by name: positive where the group's statistic is held down,
        negative where it is held up, and 0 where the tolerance does not bind.
    shadow_prices : dict
        Change of the optimal risk per unit of each constraint's tolerance: negative for a difference, as a
        larger one is easier, positive for a ratio, as a larger one is harder, and 0 where the tolerance does
        not bind.
    rates : CellRates
        Masses and selection rates according to the posteriors.
    certificate : Certificate
        Risk attained, the bound that proves it, gap and worst violation.
    linear_constraints : LinearConstraints
        The requirement, with the constraints that were left out as undefined.
    """

    rule: Rule
    selection: NDArray[np.float64]
    multipliers: Mapping[ConstraintName, float]
    shadow_prices: Mapping[ConstraintName, float]
    rates: CellRates
    certificate: Certificate
    linear_constraints: LinearConstraints

    def __repr__(self) -> str:
        return f"<Solution for {len(self.selection):,} rows of data: {self.certificate!r}>"
