"""Classifiers trained with the costs that multipliers give, judged by posteriors and on rows set aside."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.estimators.search import Trial
from evenhand.exceptions import VacuousConstraintWarning
from evenhand.fairness.measurement import Measurement
from evenhand.fairness.notions import Constraint
from evenhand.fairness.rates import CellRates
from evenhand.fairness.scores import GroupedScores
from evenhand.optimum.problem import FairnessProblem, error_prices
from evenhand.posteriors.learner import Learner, fit_learner
from evenhand.posteriors.models import Examples

__all__ = ["CostSensitiveTrainer", "TrainedClassifier"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TrainedClassifier(Trial):
    """A trial, with the classifier that was trained for it.

    Attributes
    ----------
    distillation : float
        How far labels were replaced by their posteriors in its training.
    learner : Learner
    expected : CellRates
        By the posteriors of all rows; `values` are of these.
    rates : CellRates
        On the rows set aside; `risk` is of these.
    clear : float
        The part of a violation there that so many rows do not show by chance: two standard errors less.
        `violation` is at least as large.
    constraint : Constraint
    """

    distillation: float
    learner: Learner
    expected: CellRates
    rates: CellRates
    clear: float
    constraint: Constraint

    @property
    def excess(self) -> float:
        """How far the measures miss their tolerances, or rows set aside clearly object.

        By ratio, rows of the requirement are nearly satisfied by who selects nearly nobody, ratios are not.
        """
        found = _measured(self.constraint, self.expected)
        return float(np.nanmax([self.clear, *(one.excess for one in found)]))

    @property
    def measured(self) -> tuple[Measurement, ...]:
        """What the requirement's measures are on the rows set aside."""
        return _measured(self.constraint, self.rates)


def _measured(constraint: Constraint, rates: CellRates) -> tuple[Measurement, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VacuousConstraintWarning)
        return tuple(constraint.measure(rates))


@dataclass(eq=False)
class CostSensitiveTrainer:
    """Trains classifiers at given multipliers, and judges them.

    Attributes
    ----------
    problem : FairnessProblem
    examples : Examples
    estimator : classifier
    prices : array, shape (M, 2)
        Of a false positive and a false negative.
    distillation : float
        How far labels are replaced by their posteriors, unless told otherwise.
    weights : array or None
        How much the examples count in the requirement.
    first : array of int
        Those to train on.
    second : array of int
        Those that are set aside.
    reserved : Examples or None
        Rows reserved for a promise, instead.
    fits : int
        How many classifiers were trained so far.
    """

    problem: FairnessProblem
    examples: Examples
    estimator: Any
    prices: Floats
    distillation: float
    weights: Floats | None
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    reserved: Examples | None
    fits: int = 0

    @classmethod
    def of(
        cls,
        problem: FairnessProblem,
        examples: Examples,
        estimator: Any,
        *,
        cost: ArrayLike,
        distillation: float,
        weights: Floats | None,
        holdout: float,
        reserved: Examples | None,
        seed: int,
    ) -> CostSensitiveTrainer:
        """Hold rows out, unless some are reserved already."""
        first, second = np.arange(len(examples)), np.arange(0)
        if reserved is None:
            first, second = examples.split(holdout, seed)
        prices = error_prices(cost, examples.n_groups)
        return cls(problem, examples, estimator, prices, distillation, weights, first, second, reserved)

    @property
    def explained(self) -> float:
        """Share of the labels' variance that the posteriors tell."""
        y, weights = self.examples.positive.astype(np.float64), self.examples.weights
        eta = self._summed(np.ones_like(self.prices), np.arange(len(y)))[:, 1]
        mean = np.average(y, weights=weights)
        left, total = (np.average((y - by) ** 2, weights=weights) for by in (eta, mean))
        return float(1 - left / total) if total > 0 else 0.0

    def many(self, points: NDArray[np.float64]) -> list[TrainedClassifier]:
        """Train and judge at several multipliers."""
        return [self.attempt(point, self.distillation) for point in points]

    def attempt(self, point: Floats, distillation: float) -> TrainedClassifier:
        """Train and judge at some multipliers."""
        learner = self.train(point, distillation, self.first)
        decided = learner.choose(self.examples.X) == 1
        expected, linear = self._expected(decided), self.problem.linear_constraints
        values = linear.values(expected.rates)
        over = np.fmax(linear.lo - values, values - linear.hi)
        rates, counts = self._held_out(learner, decided)
        clear = self._clear(rates, counts)
        return TrainedClassifier(
            point,
            risk=self._risk(rates),
            values=values,
            violation=float(np.nanmax(over, initial=clear)),
            distillation=distillation,
            learner=learner,
            expected=expected,
            rates=rates,
            clear=clear,
            constraint=self.problem.constraint,
        )

    def _expected(self, decided: NDArray[np.bool_]) -> CellRates:
        """Give the rates of decisions by the posteriors of all rows, as the optimum is judged too.

        The labels of rows set aside say little of a small group, where the posteriors of everyone who may be
        of it say much; and what a classifier has learned of their labels by heart they do not know.
        """
        chosen = decided.astype(np.float64)
        if self.weights is not None:
            chosen *= self.weights / self.weights.mean()
        posteriors, shape = self.problem.posteriors, self.problem.masses.shape
        if isinstance(posteriors, GroupedScores):
            eta, codes = posteriors.eta, posteriors.codes
            sums = [np.bincount(codes, chosen * by, shape[0]) for by in (1 - eta, eta)]
            selected = np.column_stack(sums) / len(chosen)
        else:
            selected = np.tensordot(chosen, posteriors, axes=1) / len(chosen)
        return CellRates(self.problem.groups, self.problem.masses, np.minimum(selected, self.problem.masses))

    def _held_out(self, learner: Learner, decided: NDArray[np.bool_]) -> tuple[CellRates, NDArray[np.intp]]:
        """Count decisions on the rows set aside or kept back; give the rows in each cell as well."""
        part, weights = self.reserved, None
        if part is None:
            part, decided = replace(self.examples, X=None).take(self.second), decided[self.second]
            weights = None if self.weights is None else self.weights[self.second]
        else:
            decided = learner.choose(part.X) == 1
        rates = CellRates.count(self.problem.groups, part.cells, decided, weights)
        return rates, np.bincount(part.cells, minlength=rates.mass.size).reshape(rates.mass.shape)

    def _risk(self, rates: CellRates) -> float:
        missed, wrong = rates.mass[:, 1] - rates.selected[:, 1], rates.selected[:, 0]
        return float((self.prices[:, 1] @ missed + self.prices[:, 0] @ wrong) / rates.mass.sum())

    def _clear(self, rates: CellRates, counts: NDArray[np.intp]) -> float:
        """Give the violation of the requirement by some rows, less two standard errors."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", VacuousConstraintWarning)
            linear = self.problem.constraint.linear(rates.masses, rates.groups)
        share = np.nan_to_num((rates.rates * counts + 1) / (counts + 2), nan=0.5)
        variance = share * (1 - share) / np.maximum(counts, 1)
        errors = np.sqrt((linear.C**2 * variance).reshape(len(linear), -1).sum(axis=1))
        values = linear.values(rates.rates)
        over = np.fmax(linear.lo - values, values - linear.hi)
        return float(np.nanmax(over - 2 * errors, initial=0.0))

    def train(self, multipliers: Floats, distillation: float, rows: NDArray[np.intp] | slice) -> Learner:
        """Train a copy of the classifier with the costs that the multipliers give.

        To select a person gains y - c - Q(x) on average over y; the sign of that is the label to learn, its
        size the weight. With the label itself for y this is a cost of c + Q(x) for a false positive and of
        1 - c - Q(x) for a false negative; with the posterior eta(x), it is the optimum's own H(x). Where
        nothing but that is learned, all rows count alike: rates are shares of rows.
        """
        self.fits += 1
        index = np.arange(len(self.examples))[rows]
        part = self.examples.take(index)
        prices, eta = self._prices(index), self._summed(np.ones_like(self.prices), index)[:, 1]
        y = part.positive + distillation * (eta - part.positive)
        gain = y * prices[:, 1] - (1 - y) * prices[:, 0] - self._correction(multipliers, index)
        given = np.ones(len(part)) if part.weights is None else part.weights
        costs = np.abs(gain) if distillation < 1 else (gain != 0).astype(np.float64)
        size = float(given @ costs) / float(given.sum())  # regularisation is made for costs of about 1
        weights = given * costs / (size if size > 0 else 1.0)
        return fit_learner(self.estimator, part.X, (gain > 0).astype(np.intp), n_classes=2, weights=weights)

    def _correction(self, multipliers: Floats, index: NDArray[np.intp]) -> Floats:
        """Q(x) = -sum over cells of (A^T lambda)[m,y] p[m,y](x)."""
        table = (multipliers @ self.problem.program.A).reshape(-1, 2)
        return np.asarray(-self._summed(table, index).sum(axis=1))

    def _prices(self, index: NDArray[np.intp]) -> Floats:
        """Prices of the two errors for each row, averaged over the groups that it may be of."""
        if (self.prices == self.prices[0]).all():
            return np.broadcast_to(self.prices[0], (len(index), 2))
        share = self._summed(np.ones_like(self.prices), index)
        return np.asarray(self._summed(self.prices, index) / np.where(share > 0, share, 1.0))

    def _summed(self, table: Floats, index: NDArray[np.intp]) -> Floats:
        """Sum a table over the groups, weighted by the posteriors: shape (n, 2)."""
        posteriors = self.problem.posteriors
        if isinstance(posteriors, GroupedScores):
            eta, codes = posteriors.eta[index], posteriors.codes[index]
            return np.asarray(table[codes] * np.column_stack([1 - eta, eta]))
        return np.asarray(np.einsum("nmy,my->ny", posteriors[index], table))
