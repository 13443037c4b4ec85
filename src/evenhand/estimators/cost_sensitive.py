"""Cost-sensitive classifiers for given multipliers, evaluated on rows that they have not learned from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.data.features import take_rows
from evenhand.estimators.estimated_rates import RateEstimator
from evenhand.optimum.problem import FairnessProblem, prices_of
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.learner import Learner, fit_learner
from evenhand.posteriors.posteriors import Posteriors

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Classifiers trained on each half of the rows, so that the other half shows what new rows would.

    Decisions on rows that a classifier has learned from show neither its risk nor its rates: it is drawn to
    their labels, so that these flatter it, and probabilities of the label count as errors what new rows would
    not have.

    Attributes
    ----------
    X : table or matrix
    halves : pair of arrays of int
    learners : pair of Learner
        The first decides the first half and has learned from the second.
    """

    X: Any
    halves: tuple[NDArray[np.intp], NDArray[np.intp]]
    learners: tuple[Learner, ...]

    @property
    def decisions(self) -> tuple[Floats, Floats]:
        """Decisions for each row, 0 or 1: of the one that has not learned from it, and of the other."""
        return self._joined(Learner.selection, 1), self._joined(Learner.selection, -1)

    @property
    def scores(self) -> tuple[Floats, Floats]:
        """Scores likewise, positive where the decision is 1."""
        return self._joined(Learner.score, 1), self._joined(Learner.score, -1)

    def _joined(self, method: Callable[[Learner, Any], Floats], order: int) -> Floats:
        out = np.empty(sum(map(len, self.halves)))
        for rows, learner in zip(self.halves, self.learners[::order], strict=True):
            out[rows] = method(learner, take_rows(self.X, rows))
        return out


@dataclass(eq=False)
class CostSensitiveTrainer:
    """Trains classifiers at given multipliers and evaluates them.

    Attributes
    ----------
    problem : FairnessProblem
    examples : Examples
    estimator : classifier
    weights : array or None
        Weights of the examples in the requirement.
    cost : float, pair or array
    seed : int
        Of the halves.
    fits : int, default=0
        Number of classifiers trained so far.
    """

    problem: FairnessProblem
    examples: Examples
    estimator: Any
    weights: Floats | None
    cost: ArrayLike
    seed: int
    fits: int = 0

    @cached_property
    def prices(self) -> Floats:
        """Costs of a false positive and a false negative in each group, shape (M, 2)."""
        return prices_of(self.cost, self.problem.groups)

    @cached_property
    def rate_estimator(self) -> RateEstimator:
        """Estimates rates by the posteriors."""
        return RateEstimator(self.problem, self.examples, self.weights)

    @cached_property
    def judge(self) -> RateEstimator:
        """Estimates rates of out-of-fold decisions, by the labels themselves."""
        return self.rate_estimator.with_labels(self.cost)

    @cached_property
    def _halves(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        return self.examples.split(0.5, self.seed)

    def out_of_fold(self, table: Floats, distillation: float) -> OutOfFold:
        """Train on each half of the rows with the costs of `table`; see :meth:`train`."""
        first, second = self._halves
        learners = [self.train(table, distillation, rows) for rows in (second, first)]
        return OutOfFold(self.examples.X, self._halves, tuple(learners))

    def train(self, table: Floats, distillation: float, rows: NDArray[np.intp] | slice) -> Learner:
        """Train a copy of the classifier with the costs that multipliers imply, given as A^T lambda.

        Selecting a row gains y - c - Q(x); the sign of the gain is the label to learn, its size the weight.
        With the label for y, a false positive costs c + Q(x) and a false negative 1 - c - Q(x); with the
        posterior eta(x) for y, the gain is the optimum's H(x). If only the latter is learned, all rows have
        the same weight, because rates are shares of rows.
        """
        self.fits += 1
        index = np.arange(len(self.examples))[rows]
        part = self.examples.take(index)
        prices, eta = self._prices(index), self._summed(np.ones_like(self.prices), index)[:, 1]
        y = part.positive + distillation * (eta - part.positive)
        gain = y * prices[:, 1] - (1 - y) * prices[:, 0] + self._summed(table, index).sum(axis=1)
        given = np.ones(len(part)) if part.weights is None else part.weights
        costs = np.abs(gain) if distillation < 1 else (gain != 0).astype(np.float64)
        size = float(given @ costs) / float(given.sum())  # regularisation assumes weights of about 1
        weights = given * costs / (size if size > 0 else 1.0)
        alike = part.weights is None and np.ptp(costs) == 0  # the learner then sees what it would see alone
        target = (gain > 0).astype(np.intp)
        return fit_learner(self.estimator, part.X, target, n_classes=2, weights=None if alike else weights)

    def _prices(self, index: NDArray[np.intp]) -> Floats:
        """Costs of the two errors for each row, averaged over the groups that it may belong to."""
        if (self.prices == self.prices[0]).all():
            return np.broadcast_to(self.prices[0], (len(index), 2))
        share = self._summed(np.ones_like(self.prices), index)
        return np.asarray(self._summed(self.prices, index) / np.where(share > 0, share, 1.0))

    def _summed(self, table: Floats, index: NDArray[np.intp]) -> Floats:
        """A table summed over the groups, weighted by the posteriors: shape (n, 2)."""
        return cast("Posteriors", self.problem.posteriors).take(index).by_label(table)
