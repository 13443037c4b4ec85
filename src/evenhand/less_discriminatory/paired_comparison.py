"""Models beside the incumbent, with paired limits; and which of them is chosen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from evenhand.auditing.association_tests import fisher
from evenhand.auditing.reference import impact_ratio
from evenhand.auditing.score_audit import standardized_difference
from evenhand.groups.groups import GroupName
from evenhand.guarantee.intervals import critical_value
from evenhand.less_discriminatory.candidates import Candidate, sees
from evenhand.less_discriminatory.deciders import Decider, Floats, Rows


@dataclass(frozen=True)
class GroupOutcome:
    """A group under one model. What is undefined, or not compared, is NaN.

    Attributes
    ----------
    candidate : str
    group, reference : GroupName
    rows : int
    rate : float
        The share that is selected.
    impact_ratio, low, high : float
        With limits that hold for all groups at once (Bonferroni).
    p_value : float
        Fisher's exact test, two-sided; not with weights.
    shortfall : float
        People missing to the rate of the reference.
    smd : float
        Standardized mean difference of the scores.
    newly_selected, newly_declined : float
        People who are selected and were not by the incumbent, and the reverse.
    good_selected, good_declined : float
        The shares of them with a good outcome.
    """

    candidate: str
    group: GroupName
    reference: GroupName
    rows: int
    rate: float
    impact_ratio: float
    low: float
    high: float
    p_value: float
    shortfall: float
    smd: float
    newly_selected: float
    newly_declined: float
    good_selected: float
    good_declined: float


@dataclass(frozen=True)
class Compared:
    """One model beside the incumbent.

    Attributes
    ----------
    name, kind : str
    protected : str
        Whether it uses sensitive features when it decides: "no", "yes", "infers them" or "unknown".
    accuracy, auc, ks : float
    accuracy_difference, accuracy_low, accuracy_high : float
        From the incumbent's, with paired limits; also of AUC and KS.
    group : GroupName
        With the lowest impact ratio.
    impact_ratio, ratio_low, ratio_high : float
        The lowest one.
    ratio_difference, difference_low, difference_high : float
        From the incumbent's lowest one, with paired limits.
    closed : float
        The share of the distance from the incumbent's impact ratio to the bound; NaN beyond the margin.
    comparable : bool or None
        Whether the limits of the accuracy say that it is not below the incumbent's by the margin.
    verdict : str
    """

    name: str
    kind: str
    protected: str
    accuracy: float
    accuracy_difference: float
    accuracy_low: float
    accuracy_high: float
    auc: float
    auc_difference: float
    auc_low: float
    auc_high: float
    ks: float
    ks_difference: float
    ks_low: float
    ks_high: float
    group: GroupName
    impact_ratio: float
    ratio_low: float
    ratio_high: float
    ratio_difference: float
    difference_low: float
    difference_high: float
    closed: float = math.nan
    comparable: bool | None = None
    verdict: str = ""

    def judged(self, incumbent: Compared, bound: float, margin: float, verdict: str) -> Compared:
        """The same with its part of the way to the bound, and why it was chosen or not."""
        if self is incumbent:
            return replace(self, verdict=verdict)
        start, within = incumbent.impact_ratio, self.accuracy_difference >= -margin
        closed = (self.impact_ratio - start) / (bound - start) if within and bound > start else math.nan
        return replace(self, closed=closed, comparable=self.accuracy_low > -margin, verdict=verdict)


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
        w = self.rows.weights
        return float(np.average(self.deciders[0].selected(w, self.share), weights=w))

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

    def compared(self, k: int, one: Candidate, hidden: tuple[Any, ...]) -> Compared:
        """The figures of a model.

        Parameters
        ----------
        k : int
            Its place.
        one : Candidate
        hidden : tuple
            Sensitive columns of X.

        Returns
        -------
        Compared
        """
        draws = self.differences(k)
        parts = np.column_stack([draws[0], *self.limits(draws[1:])]).tolist()
        ranks = [[value, *part] for value, part in zip(self.figures[0, k, :3].tolist(), parts, strict=False)]
        worst = min(self.groups(k, one.name), key=lambda group: np.nan_to_num(group.impact_ratio, nan=np.inf))
        return Compared(
            *(one.name, one.kind, sees(one, hidden), *ranks[0], *ranks[1], *ranks[2]),
            *(worst.group, worst.impact_ratio, worst.low, worst.high, *parts[3]),
        )

    def groups(self, k: int, name: str) -> Iterator[GroupOutcome]:
        """The groups under a model."""
        rows, w, rates, scores = self.rows, self.rows.weights, self.figures[0, k, 3:], self.deciders[k].scores
        before, after = (self.deciders[place].selected(w, self.rate) for place in (0, k))
        swaps = w * np.maximum(after - before, 0), w * np.maximum(before - after, 0)
        places, equal = rows.compared_with(rates), bool((w == 1).all())
        z = critical_value(self.confidence, len(rates) - len(set(places.tolist())))
        for m, place in enumerate(places.tolist()):
            own, other = rows.members[m], rows.members[place]
            sizes = [round(float(w[part].sum() ** 2 / (w[part] ** 2).sum())) for part in (own, other)]
            ratio, p, shortfall, smd = [math.nan] * 3, math.nan, math.nan, math.nan
            if m != place:
                ratio = [*impact_ratio(float(rates[m]), sizes[0], float(rates[place]), sizes[1], z)]
                shortfall = float((rates[place] - rates[m]) * w[own].sum())
            if m != place and equal:
                p = fisher(round(rates[m] * sizes[0]), sizes[0], round(rates[place] * sizes[1]), sizes[1])[0]
                smd = smd if scores is None else standardized_difference(scores[own], scores[other], scores)
            swapped = [float(part[own].sum()) for part in swaps]
            hits = [float(part[own] @ rows.positive[own]) for part in swaps]
            good = [hit / size if size > 0 else math.nan for hit, size in zip(hits, swapped, strict=True)]
            yield GroupOutcome(
                *(name, rows.names[m], rows.names[place], int(own.sum()), float(rates[m])),
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
