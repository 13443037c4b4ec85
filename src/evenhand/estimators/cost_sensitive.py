"""Cost-sensitive classifiers for given multipliers, and the rates of what was trained.

Labels flatter a classifier that has learned them by heart, so P(Y | x) comes from posteriors
that have not seen the row. Groups are another matter: an attribute-blind classifier has not been told them,
so that given the label they can be counted. With f the decision, p the posterior and g[m] = p[m,y] / p[y]
the probability of the group given features and label,

    mass selected of cell (m, y) = E[p[m,y] f] + k E[1(Y=y) (1(S=m) - g[m]) f].

The second term is what the posteriors get wrong about groups. It is noisy, so it counts by
k = max(0, 1 - variance / square), the positive-part estimate of Stein: not at all where it could be chance,
nearly in full where it could not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.data.features import take_rows
from evenhand.exceptions import VacuousConstraintWarning
from evenhand.optimum.problem import FairnessProblem, prices_of
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.learner import Learner, fit_learner
from evenhand.posteriors.posteriors import Posteriors
from evenhand.requirements.constraints import LinearConstraints
from evenhand.requirements.measurement import AnyMeasurement
from evenhand.requirements.rates import CellRates
from evenhand.requirements.requirement import Constraint

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RateEstimator:
    """Estimates the rates of decisions on the rows of a fairness problem.

    Attributes
    ----------
    problem : FairnessProblem
        With out-of-fold posteriors.
    examples : Examples
        The same rows; their features are not used.
    weights : array or None
        Of the rows, in the requirement.
    """

    problem: FairnessProblem
    examples: Examples
    weights: Floats | None

    def rates(self, selection: NDArray[Any]) -> CellRates:
        """Estimated rates of decisions.

        Parameters
        ----------
        selection : array, shape (n,)
            Probability of deciding 1 for each row.

        Returns
        -------
        CellRates
        """
        masses, (total, kept) = self.problem.masses, self._about_groups(selection)
        all_total, all_kept = self._about_everybody
        selected = self.by_posteriors(selection) + kept * total
        if all_kept.any():
            # The posteriors are wrong about how large groups are, so both parts of a rate are counted.
            counted = masses + np.where(all_kept > 0, kept * all_total, 0.0)
            selected = np.divide(selected * masses, counted, out=selected, where=counted > 0)
        return CellRates(self.problem.groups, masses, np.clip(selected, 0.0, masses))

    def with_labels(self, cost: ArrayLike) -> RateEstimator:
        """The same with the label of each row in place of P(Y | x), for decisions that have not seen it.

        What is left of the posteriors is P(S | x, y), so that risks are those that the labels show.
        """
        p = self._posteriors.with_labels(self.examples.positive)
        # The problem by posteriors has warned already.
        with warnings.catch_warnings(action="ignore", category=VacuousConstraintWarning):
            problem = FairnessProblem.read(
                p, self.problem.constraint, cost=cost, sample_weight=self.weights, groups=self.problem.groups
            )
        return replace(self, problem=problem)

    def by_posteriors(self, selection: NDArray[Any]) -> Floats:
        """Mass selected of each cell, E[p f]."""
        return self._posteriors.summed(selection * self._shares)

    @property
    def _posteriors(self) -> Posteriors:
        return cast("Posteriors", self.problem.posteriors)

    @cached_property
    def counts(self) -> NDArray[np.intp]:
        """Number of rows in each cell."""
        cells = self.examples.compared_cells
        shape = self.problem.masses.shape
        return np.bincount(cells[cells >= 0], minlength=self.problem.masses.size).reshape(shape)

    @cached_property
    def _shares(self) -> Floats:
        """Weight of each row; they sum to 1."""
        n = len(self.examples)
        return np.full(n, 1 / n) if self.weights is None else self.weights / self.weights.sum()

    def _about_groups(self, selection: NDArray[Any]) -> tuple[Floats, Floats]:
        """Mass of each cell that counting groups adds to the estimate, and the share of it that is kept."""
        shape, size = self.problem.masses.shape, self.problem.masses.size
        if self._surprise is None:
            return np.zeros(shape), np.zeros(shape)
        places, surprise = self._surprise
        chosen = selection[:, None] * surprise
        total = np.bincount(places.ravel(), chosen.ravel(), size).astype(np.float64)
        variance = np.bincount(places.ravel(), (chosen**2).ravel(), size) - total**2 / len(selection)
        left = np.divide(variance, total**2, out=np.ones(size), where=total != 0)
        return total.reshape(shape), np.maximum(0.0, 1.0 - left).reshape(shape)

    @cached_property
    def _about_everybody(self) -> tuple[Floats, Floats]:
        """The same for the decision to select everybody, by which posteriors are wrong about masses."""
        return self._about_groups(np.ones(len(self.examples)))

    @cached_property
    def _surprise(self) -> tuple[NDArray[np.intp], Floats] | None:
        """For each row and group, the cell of its label and 1(S=m) - g[m], weighted; None if all are 0."""
        posteriors, y = self._posteriors, self.examples.positive
        if posteriors.codes is not None:
            return None
        given = posteriors.given_label(y)
        groups = np.arange(given.shape[1])
        surprise = (self.examples.codes[:, None] == groups) - given
        surprise[self.examples.codes < 0] = 0.0
        places = 2 * (posteriors.offsets[:, None] + groups) + y[:, None]
        return places, surprise * self._shares[:, None]


def measured(constraint: Constraint, rates: CellRates) -> tuple[AnyMeasurement, ...]:
    """The requirement's measures of some rates."""
    with warnings.catch_warnings(action="ignore", category=VacuousConstraintWarning):
        return tuple(constraint.measure(rates))


def standard_errors(linear: LinearConstraints, rates: Floats, counts: NDArray[np.intp]) -> Floats:
    """Standard error of the value of each constraint, if each rate were counted on so many rows.

    Parameters
    ----------
    linear : LinearConstraints
    rates : array, shape (M, 2)
        NaN where undefined.
    counts : array of int, shape (M, 2)

    Returns
    -------
    array, shape (J,)
    """
    share = np.nan_to_num((rates * counts + 1) / (counts + 2), nan=0.5)  # no rate is certainly 0 or 1
    variance = share * (1 - share) / np.maximum(counts, 1)
    return np.asarray(np.sqrt((linear.C**2 * variance).reshape(len(linear), -1).sum(axis=1)))


def broken(problem: FairnessProblem, rates: CellRates) -> Floats:
    """How far estimated rates are beyond each linear constraint; NaN where it is undefined."""
    linear = problem.linear_constraints
    values = linear.values(rates.rates)
    return np.asarray(np.fmax(linear.lo - values, values - linear.hi))


def risk_of(problem: FairnessProblem, rates: CellRates) -> float:
    """Risk by estimated rates."""
    program, selected = problem.program, rates.selected.ravel()
    return problem.unit * (program.constant - float(program.gain[: len(selected)] @ selected))


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

    def answers(self, method: Callable[[Learner, Any], Floats] = Learner.selection) -> tuple[Floats, Floats]:
        """Decisions, or scores, for each row: of the one that has not learned from it, and of the other."""
        out = np.empty((2, sum(map(len, self.halves))))
        for own, learners in zip(out, (self.learners, self.learners[::-1]), strict=True):
            for rows, learner in zip(self.halves, learners, strict=True):
                own[rows] = method(learner, take_rows(self.X, rows))
        return out[0], out[1]


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

    def train(self, table: Floats, distillation: float, rows: Any = slice(None)) -> Learner:
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
