"""Ranks of held-out rows that a guarantee can rest on: those of the loosest requirement that allows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.estimators.rank_thresholds import plan_ranks
from evenhand.groups.groups import Groups
from evenhand.guarantee.ranks import Ranks, violation_chances
from evenhand.optimum.solution import Solution
from evenhand.requirements.bounds import RateBound
from evenhand.requirements.constraints import ConstraintName
from evenhand.requirements.requirement import Constraint

__all__ = ["RankSearch", "Ranked"]

_RATES = {
    (True, True): "selection rate",
    (False, True): "true-positive rate",
    (True, False): "false-positive rate",
}
"""The share selected of the rows with given labels."""
_NEARER = tuple(np.linspace(0.9, 0.0, 36, endpoint=False).tolist())
"""Parts of the way to a rate of 0 or 1, where a classifier is constant."""
_NEAR = tuple(part for part in _NEARER if part <= 0.5)
"""If more than half of the way is expected to be needed, a classifier without a guarantee is more use."""
_MOST_TIMES = 1000
"""More than so many times the rows are not worth a number."""


@dataclass(frozen=True, eq=False)
class Ranked:
    """A requirement, its optimum, and ranks for the rates of that, with the probability of each violation."""

    internal: Constraint
    solution: Solution
    ranks: Ranks
    chances: Sequence[tuple[ConstraintName, float]]


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

    def plan(self, solution: Solution, times: float = 1.0) -> Ranks:
        """Ranks for the rates of an optimum, among as many held-out rows or so many times more."""
        return plan_ranks(solution.rates, self.labels, self.learned, self._times(self.sizes, times))

    def may_guarantee(self, requirements: Sequence[Constraint], level: float) -> bool:
        """Whether ranks do, at a rate that is not moved far."""
        possible = self._possible(requirements)
        if not possible or not self.sizes.all():
            return False
        return (self._under(possible[0], level) or self._varying_less(possible[0], level, _NEAR)) is not None

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
        possible = self._possible(requirements)
        if not possible or not self.sizes.all():
            return None
        return (
            self._last(possible, level)
            or self._varying_less(possible[0], level, _NEAR)
            or self._varying_less(possible[0], level, _NEARER)
        )

    def times_more_rows(self, requirements: Sequence[Constraint], level: float) -> float | None:
        """How many times the rows the strictest requirement takes; None without a classifier or an end."""
        solution = next(filter(None, map(self.solve, requirements)), None)
        if solution is None or not self.sizes.all():
            return None
        few, many = 1.0, 1.0
        while not self._fits(solution, level, many):
            few, many = many, 2 * many
            if many > _MOST_TIMES:
                return None
        while many > 1.05 * few:
            middle = (few + many) / 2
            few, many = (few, middle) if self._fits(solution, level, middle) else (middle, many)
        return many

    def _possible(self, requirements: Sequence[Constraint]) -> Sequence[Constraint]:
        """The requirements from the first on that something satisfies."""
        first = next((k for k, one in enumerate(requirements) if self.solve(one) is not None), None)
        return () if first is None else requirements[first:]

    def _last(self, requirements: Sequence[Constraint], level: float) -> Ranked | None:
        """The last requirement that allows a guarantee, if the first one does."""
        best, strict, beyond = self._under(requirements[0], level), 0, len(requirements)
        while best is not None and beyond - strict > 1:
            middle = (strict + beyond) // 2
            found = self._under(requirements[middle], level)
            best, strict, beyond = (best, strict, middle) if found is None else (found, middle, beyond)
        return best

    def _varying_less(self, parity: Constraint, level: float, nearer: Sequence[float]) -> Ranked | None:
        solution = self.solve(parity)
        if solution is None:
            return None
        selected, mass = (
            (part * self.labels).sum() for part in (solution.rates.selected, solution.rates.mass)
        )
        rate, name = float(selected / mass), _RATES[self.labels]
        up = [parity & RateBound(name, at_least=round(rate + part * (1 - rate), 4)) for part in nearer]
        down = [parity & RateBound(name, at_most=round(rate * (1 - part), 4)) for part in nearer]
        found = [self._last(ends, level) for ends in (up, down)]
        return min(filter(None, found), key=lambda one: one.solution.certificate.objective, default=None)

    def _under(self, internal: Constraint, level: float) -> Ranked | None:
        solution = self.solve(internal)
        if solution is None or not (np.diff(solution.rule.table, axis=1) > 0).all():
            return None  # where low scores are selected, a threshold cannot do it
        ranks = self.plan(solution)
        joint, chances = violation_chances(self.constraint, self.groups, ranks, self.everyone, level)
        return Ranked(internal, solution, ranks, chances) if joint <= level else None

    def _fits(self, solution: Solution, level: float, times: float) -> bool:
        everyone = self._times(self.everyone, times)
        return (
            violation_chances(self.constraint, self.groups, self.plan(solution, times), everyone, level)[0]
            <= level
        )

    @staticmethod
    def _times(counts: NDArray[np.intp], times: float) -> NDArray[np.intp]:
        return np.asarray(np.ceil(counts * times), dtype=np.intp)
