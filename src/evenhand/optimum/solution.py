"""The result of `solve`: rule, selection, multipliers, shadow prices, certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.groups.groups import GroupName
from evenhand.optimum.rule import Rule
from evenhand.requirements.constraints import ConstraintName, LinearConstraints
from evenhand.requirements.notions import Notion
from evenhand.requirements.rates import CellRates
from evenhand.solver.certificate import Certificate


@dataclass(frozen=True, eq=False)
class Solution:
    """The best classifier that satisfies a requirement, given the posteriors of some rows.

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
        Change of the optimal risk per unit of each constraint's tolerance or bound: negative for a difference
        and for what a rate is at most, as a larger one is easier, positive for a ratio and for what a rate is
        at least, as a larger one is harder, and 0 where it does not bind. For a capacity,
        ``RateBound("selection rate", at_most=...)``, it is what one more place would save: among 1,000 people
        a place is 0.001 of the share, so the costs of their errors change by the price itself.
    rates : CellRates
        Masses and selection rates according to the posteriors.
    certificate : Certificate
        Risk attained, or the largest risk of a group; the bound that proves it, gap and worst violation.
    linear_constraints : LinearConstraints
        The requirement, with the constraints that were left out as undefined.
    group_weights : dict or None
        With ``objective="minimax"``, the weight of each group: they sum to 1, and are 0 for groups whose
        risk is below the largest one. They are the least favourable mixture of the groups: among all
        populations with these groups, whatever their sizes, the one in which the smallest possible risk is
        largest. Multipliers and shadow prices are then those of the largest risk of a group.
    rule_multipliers : dict or None
        With ``objective="minimax"``, the multipliers that the rule's table W follows from: of the
        requirement, and minus the weight that the risk of each group has in it; the rest up to 1 is the
        weight of the risk of all. With a notion as the objective, those of the requirement and of `nearest`.
        Otherwise None, and W follows from the multipliers.
    nearest : Notion or None
        With a notion as the objective, that notion with the tolerance that is attained, rounded up by less
        than `tol`. Multipliers are then of the distance from it, as shadow prices are; ``certificate.bound``
        is the tolerance up to which they prove that it cannot be satisfied.

    Examples
    --------
    >>> from evenhand import DemographicParity, GroupedScores, solve
    >>> scores = GroupedScores([0.9, 0.55, 0.4, 0.3], [0, 0, 1, 1], n_groups=2)
    >>> solution = solve(scores, DemographicParity(difference=0.1))
    >>> solution.selection.round(3).tolist()
    [1.0, 0.0, 0.6, 0.0]
    >>> solution.certificate.gap < 1e-9
    True
    """

    rule: Rule
    selection: NDArray[np.float64]
    multipliers: Mapping[ConstraintName, float]
    shadow_prices: Mapping[ConstraintName, float]
    rates: CellRates
    certificate: Certificate
    linear_constraints: LinearConstraints
    group_weights: Mapping[GroupName, float] | None = None
    rule_multipliers: Mapping[ConstraintName, float] | None = None
    nearest: Notion | None = None

    def __repr__(self) -> str:
        return f"<Solution for {len(self.selection):,} rows of data: {self.certificate!r}>"
