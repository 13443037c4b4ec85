"""Classifiers for a promise: optima under ever looser requirements, and their decisions on reserved rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from evenhand.estimators.learned_posteriors import LearnedPosteriors, as_posteriors
from evenhand.estimators.rank_thresholds import count_ranked, plan_ranks, ranked_scores, set_thresholds
from evenhand.estimators.rule_making import make_rule
from evenhand.estimators.training_data import TrainingData, count_all_rows
from evenhand.exceptions import CertificateError, InfeasibleError, VacuousConstraintWarning
from evenhand.fairness.bounds import FalsePositiveRate, RateBound, SelectionRate, TruePositiveRate
from evenhand.fairness.constraints import ConstraintName
from evenhand.fairness.rates import CellRates
from evenhand.fairness.requirement import Constraint
from evenhand.fairness.scores import AnyPosteriors, GroupedScores, in_strata
from evenhand.inference.guarantee import Candidate, Promise, promised, ranked_promise
from evenhand.inference.margins import internal_requirements, unpromised_requirement
from evenhand.inference.ranks import Ranks, counted_labels, violation_chances
from evenhand.inputs.row_keys import row_keys
from evenhand.optimum.problem import FairnessProblem
from evenhand.optimum.rule import Rule
from evenhand.optimum.solution import Solution
from evenhand.posteriors.examples import Examples

__all__ = ["PromiseCandidates"]

Ranked: TypeAlias = tuple[Constraint, Solution, Ranks, dict[ConstraintName, float]]
"""A requirement, its optimum, ranks for the rates of that, and the probability of each violation."""

_BOUNDS: dict[tuple[bool, bool], type[RateBound]] = {
    (True, True): SelectionRate,
    (False, True): TruePositiveRate,
    (True, False): FalsePositiveRate,
}
"""Bounds on the share selected of the rows with given labels."""
_NEARER = tuple(np.linspace(0.5, 0.0, 20, endpoint=False).tolist())
"""Parts of the way to a rate of 0 or 1, where a classifier is constant. Beyond half of it, one without a
promise is more use."""


@dataclass(frozen=True, eq=False)
class PromiseCandidates:
    """Classifiers that a promise is tested for.

    Attributes
    ----------
    constraint : Constraint
        The requirement to promise.
    problem : FairnessProblem
        That requirement on the rows that are not reserved.
    posteriors : LearnedPosteriors
    data : TrainingData
        Without the reserved rows.
    reserved : Examples
    tol : float
        Largest gap of an optimum.
    seed : int
    """

    constraint: Constraint
    problem: FairnessProblem
    posteriors: LearnedPosteriors
    data: TrainingData
    reserved: Examples
    tol: float
    seed: int

    def promise(self, confidence: float) -> tuple[Solution, Rule, Promise]:
        """The classifier that can be promised, or else the one without a promise.

        Thresholds of known groups are set by ranks where the requirement is about one rate, and the numbers
        of reserved rows allow it. Otherwise classifiers are tested, from the strictest on.

        Parameters
        ----------
        confidence : float

        Returns
        -------
        Solution, Rule, Promise
        """
        found = self._by_ranks(1 - confidence)
        if found is None:
            solution, promise = promised(
                self.from_strictest(),
                self.constraint,
                confidence,
                resolved=self.problem.constraint,
                all_rows=count_all_rows(self.data.compared, self.data.examples, self.reserved),
                otherwise=self.unpromised,
            )
            return solution, make_rule(solution, self.posteriors, self.seed), promise
        internal, solution, ranks, chances = found
        rule = make_rule(solution, self.posteriors, self.seed)
        placed = set_thresholds(rule, self._scores, self.reserved.positive, ranks)
        rule = rule if placed is None else placed
        counts = CellRates.count(
            self.data.compared, self.reserved.compared_cells, rule.selection(self._scores) == 1
        )
        promise = ranked_promise(
            (internal, ranks, counts),
            self.constraint,
            confidence,
            chances=chances,
            resolved=self.problem.constraint,
            holds=placed is not None,
        )
        return solution, rule, promise

    def from_strictest(self) -> Iterator[Candidate[Solution]]:
        """Optima at ever looser requirements, with what they decide for the reserved rows.

        Requirements that nothing satisfies are left out, which the reserved rows have no part in.
        """
        start = None
        for internal in internal_requirements(
            self.constraint, self._loosest.rates, len(self.reserved), resolved=self.problem.constraint
        ):
            found = self._under(internal, start)
            if found is not None:
                start = found[1]
                yield found

    def unpromised(self) -> Candidate[Solution] | None:
        """The optimum to return if nothing can be promised; None if nothing satisfies its requirement."""
        internal = unpromised_requirement(
            self.constraint, self._loosest.rates, len(self.reserved), resolved=self.problem.constraint
        )
        return self._under(internal, self._loosest)

    def _by_ranks(self, level: float) -> Ranked | None:
        """The loosest requirement whose rates, aimed at by ranks, meet the one to promise; None without any.

        This looks at the numbers of reserved rows, their groups and their labels, and not at their scores.
        """
        labels, reserved, data = self._labels, self.reserved, self.data
        deployed = self.posteriors.deployed
        if labels is None or not isinstance(deployed, GroupedScores) or self._loosest.group_weights:
            return None
        sizes, others = (count_ranked(labels, rows, data.compared) for rows in (reserved, data.examples))
        learned = ranked_scores(deployed, labels, data.examples.positive[self.posteriors.rows])
        if plan_ranks(self._loosest.rates, labels, learned, sizes).tied:
            return None
        asked = self.problem.constraint
        steps = list(
            internal_requirements(self.constraint, self._loosest.rates, len(reserved), resolved=asked)
        )

        def under(internal: Constraint) -> Ranked | None:
            solution = self._solve(internal, self._loosest)
            if solution is None or not (np.diff(solution.rule.table, axis=1) > 0).all():
                return None
            ranks = plan_ranks(solution.rates, labels, learned, sizes)
            joint, chances = violation_chances(asked, data.compared, ranks, sizes + others, level)
            return (internal, solution, ranks, chances) if joint <= level else None

        return _loosest_of(under, steps) or self._varying_less(under, steps[0], labels)

    def _varying_less(
        self, under: Callable[[Constraint], Ranked | None], parity: Constraint, labels: tuple[bool, bool]
    ) -> Ranked | None:
        """Exact parity at a rate nearer to 0 or 1, which varies less."""
        solution = self._solve(parity, self._loosest)
        if solution is None:
            return None
        rate = float((solution.rates.selected * labels).sum() / (solution.rates.mass * labels).sum())
        bound = _BOUNDS[labels]
        found = [
            _loosest_of(under, [parity & bound(**end) for end in ends])
            for ends in (
                [{"at_least": round(rate + part * (1 - rate), 4)} for part in _NEARER],
                [{"at_most": round(rate * (1 - part), 4)} for part in _NEARER],
            )
        ]
        return min(filter(None, found), key=lambda one: one[1].certificate.objective, default=None)

    @cached_property
    def _labels(self) -> tuple[bool, bool] | None:
        return counted_labels(self.problem.constraint, self.data.compared)

    @cached_property
    def _loosest(self) -> Solution:
        return self.problem.solve(tol=self.tol)

    @cached_property
    def _scores(self) -> AnyPosteriors:
        """Posteriors of the reserved rows."""
        data, reserved = self.data, self.reserved
        cells = self.posteriors.model.cells(reserved.X, reserved.allowed)
        known = data.access.knows(data.groups)
        scores = as_posteriors(cells, reserved.codes, data.groups, known=known)
        return in_strata(scores, reserved.strata, len(data.compared) // len(data.groups))

    def _under(self, internal: Constraint, start: Solution | None) -> Candidate[Solution] | None:
        """The optimum under a requirement; None if there is none.

        A randomised decision depends on the features of a row or on an id: both are counted.
        """
        solution = self._solve(internal, start)
        if solution is None:
            return None
        rule = make_rule(solution, self.posteriors, self.seed)
        by_features = rule.decide(self._scores, lambda rows: row_keys(self.reserved.X, rows))
        by_id = rule.decide(self._scores, lambda rows: [b"%d" % number for number in rows])
        ways = [by_features, by_id] if (by_features != by_id).any() else [by_features]
        cells = self.reserved.compared_cells
        return internal, solution, [CellRates.count(self.data.compared, cells, one) for one in ways]

    def _solve(self, internal: Constraint, start: Solution | None) -> Solution | None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", VacuousConstraintWarning)  # `problem` has warned
                return self.problem.under(internal).solve(tol=self.tol, start=start, advise=False)
        except (InfeasibleError, CertificateError):
            return None


def _loosest_of(under: Callable[[Constraint], Ranked | None], steps: Sequence[Constraint]) -> Ranked | None:
    """The last of some requirements, from the strictest on, that has one; None if the first has none."""
    best, strict, beyond = under(steps[0]), 0, len(steps)
    while best is not None and beyond - strict > 1:
        middle = (strict + beyond) // 2
        found = under(steps[middle])
        best, strict, beyond = (best, strict, middle) if found is None else (found, middle, beyond)
    return best
