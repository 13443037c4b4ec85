"""Ranks of held-out rows that a guarantee can rest on: those of the loosest requirement that allows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.estimators.rank_thresholds import plan_ranks
from evenhand.groups.groups import Groups
from evenhand.guarantee.attainable import attainable
from evenhand.guarantee.ranks import Ranks, violation_chances
from evenhand.optimum.solution import Solution
from evenhand.requirements.bounds import RateBound
from evenhand.requirements.constraints import ConstraintName
from evenhand.requirements.requirement import Constraint

_RATES = {
    (True, True): "selection rate",
    (False, True): "true-positive rate",
    (True, False): "false-positive rate",
}
"""The share selected of the rows with given labels."""
_NEARER = tuple(np.linspace(0.5, 0.0, 20, endpoint=False).tolist())
"""Parts of the way to a rate of 0 or 1, where a classifier is constant: beyond half of the way, a classifier
with a weaker guarantee is more use."""


@dataclass(frozen=True, eq=False)
class Ranked:
    """A requirement, its optimum, and ranks for its rates, with the probability of each violation or any."""

    internal: Constraint
    solution: Solution
    ranks: Ranks
    chances: Sequence[tuple[ConstraintName, float]]
    joint: float


@dataclass(frozen=True, eq=False)
class RankSearch:
    """Looks for ranks with the numbers of held-out rows, and without their scores.

    Attributes
    ----------
    constraint : Constraint
        The requirement to guarantee.
    groups : Groups
    labels : pair of bool
        Which of the labels 0 and 1 count in its rate.
    learned : tuple of arrays
        Scores of rows that are not held out, by group, from the highest on.
    sizes, everyone : arrays of int, shape (M,)
        Rows that count in each group: held out ones, and those that limit the groups' parts.
    solve : function
        The optimum under a requirement; None if there is none.
    """

    constraint: Constraint
    groups: Groups
    labels: tuple[bool, bool]
    learned: tuple[NDArray[np.float64], ...]
    sizes: NDArray[np.intp]
    everyone: NDArray[np.intp]
    solve: Callable[[Constraint], Solution | None]

    def plan(self, solution: Solution) -> Ranks:
        """Ranks for the rates of an optimum."""
        return plan_ranks(solution.rates, self.labels, self.learned, self.sizes)

    def loosest(self, requirements: Sequence[Constraint], level: float) -> Ranked | None:
        """Ranks of the loosest requirement that break the guarantee with at most a given probability.

        If those of exact parity do so more often, its rate is moved towards 0 or 1, where it varies less.

        Parameters
        ----------
        requirements : sequence of Constraint
            From the strictest on, which is exact parity. Those that nothing satisfies are left out.
        level : float

        Returns
        -------
        Ranked or None
        """
        first = next((k for k, one in enumerate(requirements) if self.solve(one) is not None), None)
        if first is None or not self.sizes.all():
            return None
        possible = requirements[first:]
        return self._last(possible, level) or self._varying_less(possible[0], level)

    def weaker(self, ranks: Ranks, constraint: Constraint, level: float) -> Constraint | None:
        """The strictest requirement that given ranks guarantee."""

        def holds(weaker: Constraint) -> bool:
            return violation_chances(weaker, self.groups, ranks, self.everyone, level)[0] <= level

        return attainable(constraint, holds, resolved=self.constraint)

    def _last(self, requirements: Sequence[Constraint], level: float) -> Ranked | None:
        """The last requirement that allows a guarantee, if the first one does."""
        best, strict, beyond = self._under(requirements[0], level), 0, len(requirements)
        while best is not None and beyond - strict > 1:
            middle = (strict + beyond) // 2
            found = self._under(requirements[middle], level)
            best, strict, beyond = (best, strict, middle) if found is None else (found, middle, beyond)
        return best

    def _varying_less(self, parity: Constraint, level: float) -> Ranked | None:
        solution = self.solve(parity)
        if solution is None:
            return None
        selected, mass = (
            (part * self.labels).sum() for part in (solution.rates.selected, solution.rates.mass)
        )
        rate, name = float(selected / mass), _RATES[self.labels]
        up = [parity & RateBound(name, at_least=round(rate + part * (1 - rate), 4)) for part in _NEARER]
        down = [parity & RateBound(name, at_most=round(rate * (1 - part), 4)) for part in _NEARER]
        found = [self._last(ends, level) for ends in (up, down)]
        return min(filter(None, found), key=lambda one: one.solution.certificate.objective, default=None)

    def under(self, internal: Constraint, level: float) -> Ranked | None:
        """Ranks for a requirement, whatever they guarantee; None if thresholds cannot do what is optimal."""
        solution = self.solve(internal)
        if solution is None or not (np.diff(solution.rule.table, axis=1) > 0).all():
            return None  # low scores are selected
        ranks = self.plan(solution)
        joint, chances = violation_chances(self.constraint, self.groups, ranks, self.everyone, level)
        return Ranked(internal, solution, ranks, chances, joint)

    def _under(self, internal: Constraint, level: float) -> Ranked | None:
        found = self.under(internal, level)
        return found if found is not None and found.joint <= level else None
