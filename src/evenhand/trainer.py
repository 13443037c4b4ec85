"""Classifiers trained with the costs that multipliers give, and judged on rows set aside."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.classifier import Evidence, counted
from evenhand.exceptions import VacuousConstraintWarning
from evenhand.learner import Learner, fit_learner
from evenhand.measurement import Measurement
from evenhand.posteriors import Examples
from evenhand.rates import CellRates
from evenhand.scores import GroupedScores
from evenhand.search import Trial
from evenhand.solution import Task, error_prices

__all__ = ["Trained", "Trainer"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Trained(Trial):
    """A trial, with the classifier that was trained for it and its rates on the rows set aside.

    `distillation` is how far labels were replaced by their posteriors in its training. `clear` is the part of
    the violation that so many rows do not show by chance: two standard errors less. `measured` is what the
    requirement's measures are there.
    """

    distillation: float
    learner: Learner
    rates: CellRates
    clear: float
    measured: tuple[Measurement, ...]

    @property
    def excess(self) -> float:
        """How far the measures miss their tolerances.

        By ratio, rows of the requirement are nearly satisfied by who selects nearly nobody, ratios are not.
        """
        return float(np.nanmax([0.0, *(one.excess for one in self.measured)]))


@dataclass(eq=False)
class Trainer:
    """Trains classifiers at given multipliers, and judges them on rows set aside.

    Attributes
    ----------
    task : Task
    examples : Examples
    estimator : classifier
    prices : array, shape (M, 2)
        Of a false positive and a false negative.
    distillation : float
        How far labels are replaced by their posteriors, unless told otherwise.
    weights : array or None
        How much the latter count.
    first : array of int
        Rows to train on.
    judged : Examples
        Rows to judge on.
    fits : int
        How many classifiers were trained so far.
    """

    task: Task
    examples: Examples
    estimator: Any
    prices: Floats
    distillation: float
    weights: Floats | None
    first: NDArray[np.intp]
    judged: Examples
    fits: int = 0

    @classmethod
    def of(
        cls,
        task: Task,
        evidence: Evidence,
        estimator: Any,
        *,
        cost: ArrayLike,
        holdout: float,
        distillation: float,
    ) -> Trainer:
        """Set rows aside to judge on, unless some are kept back already."""
        examples = evidence.given.examples.take(evidence.rows)
        first, judged, weights = np.arange(len(examples)), evidence.reserved, evidence.weights
        if judged is None:
            first, second = examples.split(holdout, evidence.seed)
            judged, weights = examples.take(second), None if weights is None else weights[second]
        prices = error_prices(cost, examples.n_groups)
        return cls(task, examples, estimator, prices, distillation, weights, first, judged)

    def many(self, points: NDArray[np.float64]) -> list[Trained]:
        """Train and judge at several multipliers."""
        return [self.attempt(point, self.distillation) for point in points]

    def attempt(self, point: Floats, distillation: float) -> Trained:
        """Train and judge at some multipliers."""
        learner = self.train(point, distillation, self.first)
        part = self.judged
        rates = counted(part, learner.choose(part.X) == 1, self.task.groups, self.weights)
        mass, selected, shape = rates.mass, rates.selected, rates.mass.shape
        missed, wrong = mass[:, 1] - selected[:, 1], selected[:, 0]
        risk = float((self.prices[:, 1] @ missed + self.prices[:, 0] @ wrong) / mass.sum())
        values, errors = self._values(rates, np.bincount(part.cells, minlength=2 * shape[0]).reshape(shape))
        over = np.fmax(self.task.rows.lo - values, values - self.task.rows.hi)
        violation, clear = (float(np.nanmax(by, initial=0.0)) for by in (over, over - 2 * errors))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", VacuousConstraintWarning)
            measured = tuple(self.task.constraint.measure(rates))
        return Trained(point, risk, values, violation, distillation, learner, rates, clear, measured)

    def _values(self, rates: CellRates, counts: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Values of the requirement's rows on the rows set aside, and their standard errors.

        NaN where they are undefined there.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", VacuousConstraintWarning)
            rows = self.task.constraint.rows(rates.masses, rates.groups)
        share = np.nan_to_num((rates.rates * counts + 1) / (counts + 2), nan=0.5)
        variance = share * (1 - share) / np.maximum(counts, 1)
        errors = np.sqrt((rows.C**2 * variance).reshape(len(rows), -1).sum(axis=1))
        found = dict(zip(rows.names, zip(rows.values(rates.rates), errors, strict=True), strict=True))
        pairs = np.array([found.get(name, (np.nan, np.nan)) for name in self.task.rows.names])
        return pairs[:, 0], pairs[:, 1]

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
        table = (multipliers @ self.task.problem.A).reshape(-1, 2)
        return np.asarray(-self._summed(table, index).sum(axis=1))

    def _prices(self, index: NDArray[np.intp]) -> Floats:
        """Prices of the two errors for each row, averaged over the groups that it may be of."""
        if (self.prices == self.prices[0]).all():
            return np.broadcast_to(self.prices[0], (len(index), 2))
        share = self._summed(np.ones_like(self.prices), index)
        return np.asarray(self._summed(self.prices, index) / np.where(share > 0, share, 1.0))

    def _summed(self, table: Floats, index: NDArray[np.intp]) -> Floats:
        """Sum a table over the groups, weighted by the posteriors: shape (n, 2)."""
        posteriors = self.task.posteriors
        if isinstance(posteriors, GroupedScores):
            eta, codes = posteriors.eta[index], posteriors.codes[index]
            return np.asarray(table[codes] * np.column_stack([1 - eta, eta]))
        return np.asarray(np.einsum("nmy,my->ny", posteriors[index], table))
