"""Classifiers trained with the costs that multipliers give, and judged on rows set aside."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import train_test_split

from evenhand.classifier import Evidence
from evenhand.exceptions import VacuousConstraintWarning
from evenhand.learner import Learner, fit_learner
from evenhand.posteriors import Examples
from evenhand.rates import CellRates
from evenhand.scores import GroupedScores
from evenhand.search import Trial
from evenhand.solution import Task, error_prices

__all__ = ["Trained", "Trainer"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Trained(Trial):
    """A trial, with the classifier that was trained for it and its rates on the rows set aside."""

    learner: Learner
    rates: CellRates


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
    weights : array or None
        How much rows count where classifiers are judged.
    first, second : arrays of int
        Rows to train on, and rows to judge on.
    fits : int
        How many classifiers were trained so far.
    """

    task: Task
    examples: Examples
    estimator: Any
    prices: Floats
    weights: Floats | None
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    fits: int = 0

    @classmethod
    def of(cls, task: Task, evidence: Evidence, estimator: Any, cost: ArrayLike, holdout: float) -> Trainer:
        """Set rows aside, with every cell on both sides as far as it can be."""
        examples = evidence.given.examples.take(evidence.rows)
        rows = np.arange(len(examples))
        counts = np.bincount(examples.cells, minlength=2 * examples.n_groups)
        strata = np.where(counts[examples.cells] > 1, examples.cells, -1 - examples.positive)
        try:
            first, second = train_test_split(
                rows, test_size=holdout, random_state=evidence.seed, stratify=strata
            )
        except ValueError:  # too few rows for that
            first, second = train_test_split(rows, test_size=holdout, random_state=evidence.seed)
        prices = error_prices(cost, examples.n_groups)
        return cls(task, examples, estimator, prices, evidence.weights, first, second)

    def many(self, points: NDArray[np.float64]) -> list[Trained]:
        """Train and judge at several multipliers."""
        return [self._try(point) for point in points]

    def _try(self, point: Floats) -> Trained:
        learner = self.train(point, self.first)
        part = self.examples.take(self.second)
        decided = learner.choose(part.X) == 1
        weights = np.ones(len(part)) if self.weights is None else self.weights[self.second]
        shape = (self.examples.n_groups, 2)
        mass = np.bincount(part.cells, weights=weights, minlength=2 * shape[0]).reshape(shape)
        selected = np.bincount(part.cells, weights=weights * decided, minlength=2 * shape[0]).reshape(shape)
        rates = CellRates(self.task.groups, mass.astype(np.float64), selected.astype(np.float64))
        missed, wrong = mass[:, 1] - selected[:, 1], selected[:, 0]
        risk = float((self.prices[:, 1] @ missed + self.prices[:, 0] @ wrong) / mass.sum())
        values = self._values(rates)
        over = np.fmax(self.task.rows.lo - values, values - self.task.rows.hi)
        violation = max(0.0, float(np.nanmax(over, initial=0.0)))
        return Trained(point, risk, values, violation, learner, rates)

    def _values(self, rates: CellRates) -> Floats:
        """Values of the requirement's rows on the rows set aside; NaN where they are undefined there."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", VacuousConstraintWarning)
            rows = self.task.constraint.rows(rates.masses, rates.groups)
        values = dict(zip(rows.names, rows.values(rates.rates).tolist(), strict=True))
        return np.array([values.get(name, np.nan) for name in self.task.rows.names])

    def train(self, multipliers: Floats, rows: NDArray[np.intp] | slice) -> Learner:
        """Train a copy of the classifier with the costs that the multipliers give.

        A false positive costs c + Q(x) and a false negative 1 - c - Q(x); of a negative cost the label is
        turned round.
        """
        self.fits += 1
        index = np.arange(len(self.examples))[rows]
        part = self.examples.take(index)
        prices, Q = self._prices(index), self._correction(multipliers, index)
        cost = np.where(part.positive, prices[:, 1] - Q, prices[:, 0] + Q)
        label = part.positive ^ (cost < 0)
        given = np.ones(len(part)) if part.weights is None else part.weights
        size = float(given @ np.abs(cost)) / float(given.sum())  # regularisation is made for costs of about 1
        weights = given * np.abs(cost) / (size if size > 0 else 1.0)
        return fit_learner(self.estimator, part.X, label.astype(np.intp), n_classes=2, weights=weights)

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
