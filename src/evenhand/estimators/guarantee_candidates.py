"""Classifiers for a guarantee: optima under ever looser requirements, with decisions on held-out rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from evenhand.data.row_keys import row_keys
from evenhand.estimators import rank_thresholds
from evenhand.estimators.fit_rows import FitRows, ScoredRows
from evenhand.estimators.rank_thresholds import Ranked, RankSearch
from evenhand.exceptions import CertificateError, InfeasibleError, VacuousConstraintWarning
from evenhand.guarantee.guarantee import Candidate, GuaranteeResult, guaranteed, ranked_guarantee
from evenhand.guarantee.margins import internal_requirements
from evenhand.guarantee.ranks import counted_labels
from evenhand.optimum.problem import FairnessProblem
from evenhand.optimum.rule import Rule
from evenhand.optimum.solution import Solution
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.posteriors import Posteriors
from evenhand.requirements.rates import CellRates
from evenhand.requirements.requirement import Constraint


@dataclass(frozen=True, eq=False)
class GuaranteeCandidates:
    """Classifiers that a guarantee is tested for.

    Attributes
    ----------
    constraint : Constraint
        The requirement to guarantee.
    problem : FairnessProblem
        That requirement on the rows that are not held out.
    scored : ScoredRows
        Posteriors of these rows.
    rows : FitRows
        Rows that were learned from, and held out ones.
    seed : int
    """

    constraint: Constraint
    problem: FairnessProblem
    scored: ScoredRows
    rows: FitRows
    seed: int

    @property
    def held_out(self) -> Examples:
        """Rows that nothing was learned from."""
        return cast("Examples", self.rows.held_out)

    def _rule(self, solution: Solution) -> Rule:
        return self.scored.rule(solution, self.seed, self.problem)

    def guarantee(self, confidence: float) -> tuple[Solution, Rule, GuaranteeResult]:
        """The classifier that can be guaranteed, or else the one without a guarantee.

        Thresholds of known groups are set by ranks where the requirement is about one rate. Otherwise
        classifiers are tested, from the strictest on.

        Parameters
        ----------
        confidence : float

        Returns
        -------
        Solution, Rule, GuaranteeResult
        """
        search, level = self._rank_search, 1 - confidence
        if search is not None:
            careful = next(filter(None, (search.under(one, level) for one in self._requirements)), None)
            if careful is not None:
                return self._at_ranks(search, careful, confidence)
        resolved, everyone = self.problem.constraint, self.rows.data.everyone
        solution, guarantee = guaranteed(
            self.from_strictest(), self.constraint, confidence, resolved=resolved, all_rows=everyone
        )
        return solution, self._rule(solution), guarantee

    def _at_ranks(
        self, search: RankSearch, careful: Ranked, confidence: float
    ) -> tuple[Solution, Rule, GuaranteeResult]:
        """The rule with thresholds at ranks that guarantee the requirement, or else at careful ones."""
        level, parity = 1 - confidence, self.constraint.tightened(1.0)
        kept = search.loosest((parity, *self._requirements), level)
        found = kept or careful
        reached = self.constraint if kept else search.weaker(found.ranks, self.constraint, level)
        rule = self._rule(found.solution)
        placed = None
        if reached:
            placed = rank_thresholds.set_thresholds(rule, self._scores, self.held_out.positive, found.ranks)
        rule = placed or rule
        decided, cells = rule.selection(self._scores) == 1, self.held_out.compared_cells
        counts = CellRates.count(self.rows.data.compared, cells, decided)
        asked, resolved = self.constraint, self.problem.constraint
        about = (found.internal, found.ranks, counts)
        total, known = len(self.rows.data.examples) + len(self.held_out), reached if placed else None
        guarantee = ranked_guarantee(
            about, asked, confidence, chances=found.chances, resolved=resolved, found=known, total=total
        )
        return found.solution, rule, guarantee

    def from_strictest(self) -> Iterator[Candidate[Solution]]:
        """Optima at ever looser requirements, with what they decide for the held-out rows.

        Requirements that nothing satisfies are left out, which the held-out rows have no part in. A
        randomised decision depends on the features of a row or on an id: both are counted.
        """
        cells = self.held_out.compared_cells
        for internal in self._requirements:
            found = self._solve(internal)
            if found is None:
                continue
            rule = self._rule(found)
            by_features = rule.decide(self._scores, lambda rows: row_keys(self.held_out.X, rows))
            by_id = rule.decide(self._scores, lambda rows: [b"%d" % number for number in rows])
            ways = [by_features, by_id] if (by_features != by_id).any() else [by_features]
            yield internal, found, [CellRates.count(self.rows.data.compared, cells, one) for one in ways]

    @cached_property
    def _rank_search(self) -> RankSearch | None:
        """What looks for ranks of the held-out rows; None if they are no use, which the other rows decide."""
        if self.rows.sample is not None:
            return None  # numbers of the rows learned from are not those of the population
        groups = self.rows.data.compared
        labels = counted_labels(self.problem.constraint, groups)
        deployed, learned = self.scored.learned.deployed, self.rows.data.examples
        if labels is None or deployed.codes is None or self._loosest.group_weights:
            return None
        positive = learned.positive[self.scored.learned.rows]
        scores = tuple(rank_thresholds.ranked_scores(deployed, labels, positive))
        expected = rank_thresholds.count_ranked(labels, learned, groups) * len(self.held_out) // len(learned)
        if rank_thresholds.plan_ranks(self._loosest.rates, labels, scores, expected).tied:
            return None
        sizes = rank_thresholds.count_ranked(labels, self.held_out, groups)
        everyone = rank_thresholds.count_all(labels, learned, self.held_out, groups)
        about = (self.problem.constraint, groups, labels, scores, sizes, everyone)
        return RankSearch(*about, self._solve)

    @cached_property
    def _requirements(self) -> tuple[Constraint, ...]:
        """Internal requirements, from the strictest on."""
        loosest, resolved = self._loosest.rates, self.problem.constraint
        return tuple(internal_requirements(self.constraint, loosest, len(self.held_out), resolved=resolved))

    @cached_property
    def _loosest(self) -> Solution:
        return self.problem.solve()

    @cached_property
    def _scores(self) -> Posteriors:
        """Posteriors of the held-out rows."""
        data, held_out = self.rows.data, self.held_out
        cells = self.scored.learned.model.cells(held_out.X, held_out.allowed)
        return data.access.posteriors(data.groups, cells, held_out.codes, held_out.strata)

    def _solve(self, internal: Constraint) -> Solution | None:
        try:
            # `problem` has warned.
            with warnings.catch_warnings(action="ignore", category=VacuousConstraintWarning):
                return self.problem.under(internal).solve(advise=False)
        except (InfeasibleError, CertificateError):
            return None
