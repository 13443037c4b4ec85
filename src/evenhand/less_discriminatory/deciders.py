"""Deciders on held-out rows: performance and selection rates at one approval rate, with paired draws.

Every draw is a bootstrap sample of the rows, the same for all deciders. In each, scores are cut anew at the
approval rate of the incumbent; rows that are tied at the cut-off are selected in part, all by the same share.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenhand.groups.groups import GroupName

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rows:
    """Held-out rows, and the groups that are compared.

    Attributes
    ----------
    positive : array of bool, shape (n,)
    weights : array, shape (n,)
    members : array of bool, shape (G, n)
    names : tuple of GroupName
    references : array of int, shape (G,)
        The place of the group that each is compared with, itself where it is the reference; -1 stands for the
        group of its feature with the highest rate.
    """

    positive: NDArray[np.bool_]
    weights: Floats
    members: NDArray[np.bool_]
    names: tuple[GroupName, ...]
    references: NDArray[np.intp]

    def take(self, rows: NDArray[np.intp]) -> Rows:
        """Some of the rows."""
        weights, members = self.weights[rows], self.members[:, rows]
        return replace(self, positive=self.positive[rows], weights=weights, members=members)

    @cached_property
    def columns(self) -> Floats:
        """Of each row 1, its label and its groups."""
        columns = (np.ones(len(self.weights)), self.positive, *self.members)
        return np.asarray(np.column_stack(columns), np.float64)

    def compared_with(self, rates: Floats) -> NDArray[np.intp]:
        """The place of the group that each is compared with, at these rates."""
        places = self.references.copy()
        for k in np.flatnonzero(places < 0):
            own = [j for j, name in enumerate(self.names) if name.features == self.names[k].features]
            places[k] = own[int(np.argmax(rates[own]))]
        return places

    def ratios(self, rates: Floats) -> Floats:
        """Impact ratio of each group; NaN where the rate of its reference is 0, 1 of the reference itself."""
        base = rates[self.compared_with(rates)]
        return np.asarray(np.divide(rates, base, out=np.full(len(rates), np.nan), where=base > 0))

    def lowest(self, figures: Floats) -> Floats:
        """The lowest impact ratio of each draw of figures; NaN where nobody is selected."""
        ratios = np.array([self.ratios(draw[3:]) for draw in figures])
        return np.where(np.isnan(ratios).all(axis=1), np.nan, np.fmin.reduce(ratios, axis=1))

    def draws(self, number: int, seed: int) -> Iterator[Floats]:
        """How often each row counts: its weight, then in each bootstrap sample."""
        n, rng = len(self.weights), np.random.default_rng(seed)
        yield self.weights
        for _ in range(number):
            yield self.weights * np.bincount(rng.integers(n, size=n), minlength=n)


@dataclass(frozen=True, eq=False)
class Decider:
    """What decides about rows: scores, decisions, or both.

    Attributes
    ----------
    scores : array, shape (n,), or None
        Cut at the approval rate, if there are no decisions.
    decisions : array, shape (n,), or None
        The share of each row that is selected.
    """

    scores: Floats | None
    decisions: Floats | None = None

    def take(self, rows: NDArray[np.intp]) -> Decider:
        """That of some rows."""
        return Decider(*(None if part is None else part[rows] for part in (self.scores, self.decisions)))

    def same(self, other: Decider) -> bool:
        """Whether it has the same scores."""
        return self.scores is not None and np.array_equal(self.scores, np.asarray(other.scores))

    def selected(self, counts: Floats, share: float) -> Floats:
        """The share of each row that is selected at an approval rate."""
        if self.decisions is not None:
            return self.decisions
        starts, level = self._levels
        masses = np.bincount(level, counts, minlength=len(starts))
        above = np.cumsum(masses) - masses
        part = np.clip((share * counts.sum() - above) / np.where(masses > 0, masses, 1.0), 0.0, 1.0)
        return np.asarray(part[level])

    @cached_property
    def _levels(self) -> tuple[Floats, NDArray[np.intp]]:
        """The distinct scores, falling, and the place of each row among them."""
        values, level = np.unique(-np.asarray(self.scores), return_inverse=True)
        return values, level

    def figures(self, rows: Rows, counts: Floats, share: float) -> Floats:
        """Accuracy, AUC and KS (NaN without scores), and the selection rate of each group."""
        columns = rows.columns
        totals, chosen = counts @ columns, (counts * self.selected(counts, share)) @ columns
        accuracy = (totals[0] - totals[1] - chosen[0] + 2 * chosen[1]) / totals[0]
        rates = chosen[2:] / np.where(totals[2:] > 0, totals[2:], np.nan)
        return np.concatenate([[accuracy, *self._ranks(rows, counts)], rates])

    def _ranks(self, rows: Rows, counts: Floats) -> tuple[float, float]:
        if self.scores is None:
            return np.nan, np.nan
        starts, level = self._levels
        hits, others = (
            np.bincount(level, counts * part, minlength=len(starts))
            for part in (rows.positive, ~rows.positive)
        )
        if not hits.sum() or not others.sum():
            return np.nan, np.nan
        up, across = np.cumsum(hits) / hits.sum(), np.cumsum(others) / others.sum()
        auc = 1 - (hits / hits.sum()) @ (across - others / others.sum() / 2)
        return float(auc), float(np.abs(up - across).max())
