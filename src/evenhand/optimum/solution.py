"""The optimum as it is handed over: rule, selection, multipliers, prices, certificate."""

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
        The classifier: W, and what it does on the boundary.
    selection : array, shape (n,)
        The probability of deciding 1 for each row.
    multipliers : dict
        The multiplier of each row of the requirement, by its name: positive where the group's statistic is
        held down, negative where it is held up, and 0 where the tolerance does not bind.
    shadow_prices : dict
        By how much the optimal risk changes per unit of each row's tolerance: below 0 for a difference, which
        it helps to widen, above 0 for a ratio, which it costs to raise, 0 where the tolerance does not bind.
    rates : CellRates
        Masses and selection rates, as the posteriors have them.
    certificate : Certificate
        Risk attained, the bound that proves it, gap and worst violation.
    linear_constraints : LinearConstraints
        The requirement written out, with the rows that were left out as undefined.
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
