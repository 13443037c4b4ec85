"""Rates of a classifier on rows that it has learned from.

Labels of such rows flatter a classifier that has learned them by heart, so P(Y | x) comes from posteriors
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
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.exceptions import VacuousConstraintWarning
from evenhand.optimum.problem import FairnessProblem
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.posteriors import Posteriors
from evenhand.requirements.constraints import LinearConstraints
from evenhand.requirements.measurement import AnyMeasurement
from evenhand.requirements.rates import CellRates
from evenhand.requirements.requirement import Constraint

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Correction:
    """Mass of each cell that counting adds in `total`, and the share of it that is `kept`."""

    total: Floats
    kept: Floats


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
        masses = self.problem.masses
        chosen, everybody = self._about_groups(selection), self._about_everybody
        selected = self.by_posteriors(selection) + chosen.kept * chosen.total
        if everybody.kept.any():
            # The posteriors are wrong about how large groups are, so both parts of a rate are counted.
            counted = masses + np.where(everybody.kept > 0, chosen.kept * everybody.total, 0.0)
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

    def _about_groups(self, selection: NDArray[Any]) -> _Correction:
        """What counting groups adds to the estimate by posteriors."""
        shape, size = self.problem.masses.shape, self.problem.masses.size
        if self._surprise is None:
            return _Correction(np.zeros(shape), np.zeros(shape))
        places, surprise = self._surprise
        chosen = selection[:, None] * surprise
        total = np.bincount(places.ravel(), chosen.ravel(), size).astype(np.float64)
        squares = np.bincount(places.ravel(), (chosen**2).ravel(), size)
        variance = squares - total**2 / len(selection)
        kept = np.zeros(size)
        np.divide(variance, total**2, out=kept, where=total != 0)
        kept = np.where(total != 0, np.maximum(0.0, 1.0 - kept), 0.0)
        return _Correction(total.reshape(shape), kept.reshape(shape))

    @cached_property
    def _about_everybody(self) -> _Correction:
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
