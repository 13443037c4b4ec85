"""The stages of a fit, one by one: posteriors are learned once and used for many requirements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from evenhand.estimators.base import FairClassifier
from evenhand.estimators.fit_rows import ScoredRows
from evenhand.estimators.learned_posteriors import LearnedPosteriors, learn_posteriors
from evenhand.estimators.training_data import TrainingData, draw_seed, read_training_data
from evenhand.optimum.rule import Rule
from evenhand.optimum.solution import Solution
from evenhand.posteriors.learner import fit_learner
from evenhand.requirements.requirement import Constraint

__all__ = ["Learned", "learn"]


@dataclass(frozen=True, eq=False)
class Learned:
    """What was read and learned, which all requirements share."""

    classifier: Any
    data: TrainingData
    posteriors: LearnedPosteriors
    seed: int
    fits: int
    """Number of classifiers that were fitted for the posteriors."""

    def solve(self, constraint: Constraint) -> Solution:
        """The optimum under a requirement."""
        problem = self.posteriors.problem(constraint, self.classifier.cost, self.data.groups)
        return problem.solve()

    def rule(self, solution: Solution) -> Rule:
        """The rule for new rows."""
        return ScoredRows(self.posteriors).rule(solution, self.seed)

    def new(self, X: Any, sensitive: Any = None) -> Any:
        """Posteriors of new rows; `sensitive` only where it may be used."""
        groups, access = self.data.groups, self.data.access
        visible = access.read(self.classifier, X, sensitive)
        cells = self.posteriors.model.cells(visible.X, access.allowed(groups, visible.known))
        return access.posteriors(groups, cells, visible.known, None)


def learn(classifier: FairClassifier, X: Any, y: Any, sensitive: Any) -> Learned:
    """Read the rows and learn posteriors, as `fit` does."""
    settings = classifier.settings()
    data = read_training_data(settings, X, y, sensitive, None)
    seed = draw_seed(classifier.random_state)
    with patch("evenhand.posteriors.spec.fit_learner", wraps=fit_learner) as fitted:
        posteriors = learn_posteriors(settings, data, seed=seed)
    return Learned(classifier, data, posteriors, seed, fitted.call_count)
