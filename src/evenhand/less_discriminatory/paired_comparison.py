"""Models beside the incumbent on held-out rows, with paired draws; and which of them is chosen.

Every draw is a bootstrap sample of the rows, the same for all models. In each, scores are cut anew at the
approval rate of the incumbent; rows that are tied at the cut-off are selected in part, all by the same share.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenhand.auditing.association_tests import fisher
from evenhand.auditing.reference import impact_ratio
from evenhand.auditing.score_audit import standardized_difference
from evenhand.groups.groups import GroupName
from evenhand.guarantee.intervals import critical_value
from evenhand.less_discriminatory.alternatives_found import Compared, GroupOutcome

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rows:
    """Held-out rows, and the groups that are compared.

    Attributes
    ----------
    positive : array of bool, shape (n,)
    members : array of bool, shape (G, n)
    names : tuple of GroupName
    references : array of int, shape (G,)
        The place of the group that each is compared with, itself where it is the reference; -1 stands for the
        group of its feature with the highest rate.
    """

    positive: NDArray[np.bool_]
    members: NDArray[np.bool_]
    names: tuple[GroupName, ...]
    references: NDArray[np.intp]

    def take(self, rows: NDArray[np.intp]) -> Rows:
        """Some of the rows."""
        return replace(self, positive=self.positive[rows], members=self.members[:, rows])

    @cached_property
    def columns(self) -> Floats:
        """Of each row 1, its label and its groups."""
        return np.column_stack([self.once, self.positive, *self.members]).astype(np.float64)

    @property
    def once(self) -> Floats:
        """Every row counts once."""
        return np.ones(len(self.positive))

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
        """How often each row counts: once, then in each bootstrap sample."""
        n, rng = len(self.positive), np.random.default_rng(seed)
        yield self.once
        for _ in range(number):
            yield np.bincount(rng.integers(n, size=n), minlength=n).astype(np.float64)


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
        return np.unique(-np.asarray(self.scores), return_inverse=True)

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
        labels = (rows.positive, ~rows.positive)
        hits, others = (np.bincount(level, counts * part, minlength=len(starts)) for part in labels)
        if not hits.sum() or not others.sum():
            return np.nan, np.nan
        up, across = np.cumsum(hits) / hits.sum(), np.cumsum(others) / others.sum()
        auc = 1 - (hits / hits.sum()) @ (across - others / others.sum() / 2)
        return float(auc), float(np.abs(up - across).max())


@dataclass(frozen=True, eq=False)
class Comparison:
    """Models on the same rows and draws, the incumbent first.

    Attributes
    ----------
    rows : Rows
    deciders : sequence of Decider
    share : float
        The approval rate; if the incumbent has decisions, theirs counts, in each draw.
    draws, seed : int
    confidence : float
    """

    rows: Rows
    deciders: Sequence[Decider]
    share: float
    draws: int
    seed: int
    confidence: float

    @cached_property
    def figures(self) -> Floats:
        """Of each draw and model, shape (1 + draws, deciders, 3 + G); the first draw is the rows."""
        own, found = self.deciders[0].decisions, []
        for counts in self.rows.draws(self.draws, self.seed):
            share = self.share if own is None else float(counts @ own / counts.sum())
            found.append([one.figures(self.rows, counts, share) for one in self.deciders])
        return np.array(found)

    @property
    def rate(self) -> float:
        """The approval rate."""
        return float(self.deciders[0].selected(self.rows.once, self.share).mean())

    def lowest(self, k: int) -> Floats:
        """The lowest impact ratio of a model, in each draw."""
        return self.rows.lowest(self.figures[:, k])

    def differences(self, k: int) -> Floats:
        """Accuracy, AUC, KS and lowest impact ratio of a model minus those of the incumbent, in each draw."""
        ranks = self.figures[:, k, :3] - self.figures[:, 0, :3]
        return np.column_stack([ranks, self.lowest(k) - self.lowest(0)])

    def limits(self, draws: Floats) -> Floats:
        """Limits of figures, shape (2, ...); NaN without draws."""
        if not len(draws):
            return np.full((2, *draws.shape[1:]), np.nan)
        return np.asarray(np.quantile(draws, [(1 - self.confidence) / 2, (1 + self.confidence) / 2], axis=0))

    def compared(self, k: int, name: str, kind: str, protected: str) -> Compared:
        """The figures of a model.

        Parameters
        ----------
        k : int
            Its place.
        name, kind, protected : str
            See :class:`Compared`.

        Returns
        -------
        Compared
        """
        draws = self.differences(k)
        parts = np.column_stack([draws[0], *self.limits(draws[1:])]).tolist()
        ranks = [[value, *part] for value, part in zip(self.figures[0, k, :3].tolist(), parts, strict=False)]
        worst = min(self.groups(k, name), key=lambda group: np.nan_to_num(group.impact_ratio, nan=np.inf))
        return Compared(
            *(name, kind, protected, *ranks[0], *ranks[1], *ranks[2]),
            *(worst.group, worst.impact_ratio, worst.low, worst.high, *parts[3]),
        )

    def groups(self, k: int, name: str) -> Iterator[GroupOutcome]:
        """The groups under a model."""
        rows, rates, scores = self.rows, self.figures[0, k, 3:], self.deciders[k].scores
        before, after = (self.deciders[place].selected(rows.once, self.rate) for place in (0, k))
        swaps = np.maximum(after - before, 0), np.maximum(before - after, 0)
        places, sizes = rows.compared_with(rates), rows.members.sum(axis=1).tolist()
        z = critical_value(self.confidence, len(rates) - len(set(places.tolist())))
        for m, place in enumerate(places.tolist()):
            own, other = rows.members[m], rows.members[place]
            ratio, p, shortfall, smd = [math.nan] * 3, math.nan, math.nan, math.nan
            if m != place:
                ratio = [*impact_ratio(float(rates[m]), sizes[m], float(rates[place]), sizes[place], z)]
                hits = [round(rates[one] * sizes[one]) for one in (m, place)]
                p = fisher(hits[0], sizes[m], hits[1], sizes[place])[0]
                shortfall = float((rates[place] - rates[m]) * sizes[m])
                smd = smd if scores is None else standardized_difference(scores[own], scores[other], scores)
            swapped = [float(part[own].sum()) for part in swaps]
            hits = [float(part[own] @ rows.positive[own]) for part in swaps]
            good = [hit / size if size > 0 else math.nan for hit, size in zip(hits, swapped, strict=True)]
            yield GroupOutcome(
                *(name, rows.names[m], rows.names[place], sizes[m], float(rates[m])),
                *(*ratio, p, shortfall, smd, *swapped, *good),
            )


def judged(found: Sequence[Compared], margin: float) -> tuple[str | None, dict[str, str]]:
    """The model that is chosen, and why the others are not, on the rows that choose.

    Parameters
    ----------
    found : sequence of Compared
        The incumbent first.
    margin : float

    Returns
    -------
    chosen : str or None
    reasons : dict
    """
    incumbent, able, reasons = found[0], [], {found[0].name: "in use"}
    for one in found[1:]:
        against = {
            "uses sensitive features": one.protected == "yes",
            "infers sensitive features": one.protected == "infers them",
            "has no scores to cut at the approval rate": math.isnan(one.auc),
            "less accurate by more than the margin": one.accuracy_difference < -margin,
            "impact ratios cannot be compared": math.isnan(one.ratio_difference),
            "no group of the incumbent is below its reference": incumbent.impact_ratio >= 1,
            "impact ratio is not higher": one.ratio_difference <= 0,
        }
        reason = next((why for why, holds in against.items() if holds), None)
        reasons[one.name] = reason or "not better than the chosen one"
        able += [] if reason else [one]
    best = max(able, key=lambda one: (min(one.impact_ratio, 1.0), one.accuracy), default=None)
    return (None, reasons) if best is None else (best.name, {**reasons, best.name: "chosen"})
