"""Classifiers for a promise: optima under ever looser requirements, and their decisions on reserved rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from evenhand.estimators.learned_posteriors import LearnedPosteriors, as_posteriors
from evenhand.estimators.rule_making import make_rule
from evenhand.estimators.training_data import TrainingData
from evenhand.exceptions import CertificateError, InfeasibleError, VacuousConstraintWarning
from evenhand.fairness.rates import CellRates
from evenhand.fairness.requirement import Constraint
from evenhand.fairness.scores import AnyPosteriors, in_strata
from evenhand.inference.guarantee import Candidate
from evenhand.inference.margins import internal_requirements, unpromised_requirement
from evenhand.inputs.row_keys import row_keys
from evenhand.optimum.problem import FairnessProblem
from evenhand.optimum.solution import Solution
from evenhand.posteriors.examples import Examples

__all__ = ["PromiseCandidates"]


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
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", VacuousConstraintWarning)  # `problem` has warned
                solution = self.problem.under(internal).solve(tol=self.tol, start=start, advise=False)
        except (InfeasibleError, CertificateError):
            return None
        rule = make_rule(solution, self.posteriors, self.seed)
        by_features = rule.decide(self._scores, lambda rows: row_keys(self.reserved.X, rows))
        by_id = rule.decide(self._scores, lambda rows: [b"%d" % number for number in rows])
        ways = [by_features, by_id] if (by_features != by_id).any() else [by_features]
        cells = self.reserved.compared_cells
        return internal, solution, [CellRates.count(self.data.compared, cells, one) for one in ways]
