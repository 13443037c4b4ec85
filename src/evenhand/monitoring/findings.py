"""What the counts of a monitor say: disparities with their intervals, alarms, and drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from evenhand.display.text import show
from evenhand.monitoring.batch import Cell
from evenhand.monitoring.comparisons import Comparison, find_comparisons
from evenhand.monitoring.evidence import (
    Blocks,
    find_blocks,
    least_evidence,
    limits,
    log_evidence,
    log_total,
    start_weights,
    weight_to_come,
    weights,
)
from evenhand.monitoring.history import History
from evenhand.monitoring.mixture import rate_limits
from evenhand.requirements.requirement import Constraint

__all__ = ["Alarm", "Disparity", "Drift", "find_alarm", "find_disparities", "find_drift"]

Floats = NDArray[np.float64]
Verdict = Literal["within tolerance", "violated", "insufficient evidence"]
_LARGEST = 700.0
"""Logs of evidence above this are cut, so that the evidence is a finite number."""


@dataclass(frozen=True)
class Alarm:
    """The first alarm of a monitor.

    Attributes
    ----------
    batch : int
        The batch after which it was raised.
    since : int
        The batch after which the rows with the strongest evidence begin.
    notion, statistic, group, against : str
        The inequality with the strongest evidence.
    low : bool
        Whether the rate of the group is too low; otherwise it is too high.
    evidence : float
        Against the whole requirement; the probability that it ever reaches x is at most 1 / x if the
        requirement holds.
    time : str, default=""
    """

    batch: int
    since: int
    notion: str
    statistic: str
    group: str
    against: str
    low: bool
    evidence: float
    time: str = ""

    def __str__(self) -> str:
        when = f" ({show(self.time)})" if self.time else ""
        beside = f" compared with {self.against}" if self.against else " for its bound"
        return (
            f"ALARM at batch {self.batch}{when}: {self.notion}, the {self.statistic} of {self.group} is "
            f"too {'low' if self.low else 'high'}{beside}; evidence {_short(self.evidence)}, strongest in "
            f"the rows since batch {self.since + 1}"
        )


@dataclass(frozen=True)
class Drift:
    """The first evidence that people are others than those of the fit.

    Attributes
    ----------
    batch, since : int
        As in :class:`Alarm`.
    what : str
        The share that has changed most surely.
    before, now : float
        This share in the fit and in the rows since `since`.
    evidence : float
    time : str, default=""
    """

    batch: int
    since: int
    what: str
    before: float
    now: float
    evidence: float
    time: str = ""

    def __str__(self) -> str:
        when = f" ({show(self.time)})" if self.time else ""
        return (
            f"DRIFT at batch {self.batch}{when}: the model assumed the population of its fit, which has "
            f"changed since batch {self.since + 1}: {self.what} is {self.now:.3f} and was "
            f"{self.before:.3f}; evidence {_short(self.evidence)}"
        )


@dataclass(frozen=True)
class Disparity:
    """A group beside what it is compared with, over all rows since both were known.

    Of a group that came later, these are the rows since the earliest start that is kept; see
    :doc:`/theory/monitoring`.

    Attributes
    ----------
    notion, statistic, group, against : str
        `against` is "everyone", a group, or empty for a bound.
    rows : float
        Rows of the group that the rate is about.
    rate, rate_low, rate_high : float or None
        The rate of the group with its confidence sequence.
    kind : {"difference", "ratio", "bound"}
    value, low, high : float or None
        The group's rate minus the other, or divided by it (the smaller of rates, or of one minus them), or
        the bounded rate itself; the limits hold at all times and for all groups together.
    tolerance : float
    verdict : str
    required : str
        What `value` must be, such as "at least 0.8".
    """

    notion: str
    statistic: str
    group: str
    against: str
    rows: float
    rate: float | None
    rate_low: float | None
    rate_high: float | None
    kind: str
    value: float | None
    low: float | None
    high: float | None
    tolerance: float
    verdict: Verdict
    required: str

    def __str__(self) -> str:
        low, high = (show("-" if end is None else f"{end:.3f}") for end in (self.low, self.high))
        beside = f" against {self.against}" if self.against else ""
        value = "no rows" if self.value is None else f"{self.value:.3f} [{low}, {high}]"
        return (
            f"{self.notion}, {self.statistic} of {self.group}{beside}: {value}, {self.verdict} "
            f"(required: {self.required})"
        )


def _short(evidence: float) -> str:
    return f"{evidence:.3g}" if evidence < 1e6 else "above a million"


def find_alarm(constraint: Constraint, history: History) -> tuple[float, Alarm | None]:
    """Log of the evidence against the requirement, and the alarm if it were raised now."""
    comparisons = find_comparisons(constraint, history.groups[0])
    starts = np.array([one.start for one in history.starts])
    evidence = log_evidence(comparisons, find_blocks(comparisons, history.since_starts()))
    shares = weights(comparisons, history.known_cells(), starts)
    total = min(float(log_total(comparisons, evidence, shares, starts)), _LARGEST)
    if not comparisons:
        return total, None
    with np.errstate(divide="ignore"):
        strongest = evidence + np.log(shares)
    start, j = np.unravel_index(int(strongest.round(6).argmax()), strongest.shape)
    one = comparisons[int(j)]
    return total, Alarm(
        history.last.batch,
        history.starts[int(start)].batch,
        one.notion,
        one.statistic.name,
        one.who,
        _against(one),
        one.low,
        float(np.exp(total)),
        history.last.time,
    )


def _against(one: Comparison) -> str:
    if one.kind == "bound":
        return ""
    return "everyone" if one.reference is None else str(one.reference)


def find_disparities(constraint: Constraint, history: History, alpha: float) -> list[Disparity]:
    """Each group beside what it is compared with."""
    comparisons = _one_of_each(find_comparisons(constraint, history.groups[0]))
    if not comparisons:
        return []
    starts = np.array([one.start for one in history.starts])
    shares = weights(comparisons, history.known_cells(), starts)
    counted = shares > 0
    first, columns = counted.argmax(axis=0), np.arange(len(comparisons))
    level = start_weights(starts)[first] / np.maximum(counted.sum(axis=1)[first], 1)
    sums = history.since_starts()
    every = find_blocks(comparisons, sums)
    blocks = Blocks(
        *(part[first, columns] for part in (every.n, every.total, every.n_others, every.total_others))
    )
    lows, highs = limits(comparisons, blocks, alpha * level)
    rate_lows, rate_highs = rate_limits(blocks.n, blocks.total, alpha)
    found = []
    for j, one in enumerate(comparisons):
        start, width = one.statistic.range
        n, n_others = blocks.n[j], blocks.n_others[j]
        own = _scaled(blocks.total[j], n, start, width)
        other = _scaled(blocks.total_others[j], n_others, start, width)
        seen = counted[:, j].any() and n > 0 and (n_others > 0 or one.kind == "bound")
        value, low, high = None, None, None
        if seen and own is not None:
            value = _value(one, own, other, float(blocks.share[j]))
            low, high = float(lows[j]), float(highs[j])
            if one.kind == "difference":
                low, high = -high, -low
            elif one.kind == "ratio" and high >= 1:
                high = None
        found.append(
            Disparity(
                one.notion,
                one.statistic.name,
                one.who,
                _against(one),
                float(n),
                own,
                None if own is None else start + width * float(rate_lows[j]),
                None if own is None else start + width * float(rate_highs[j]),
                one.kind,
                value,
                low,
                high,
                one.tolerance,
                _verdict(one, low, high),
                _required(one),
            )
        )
    return found


def _one_of_each(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """A difference is bounded from both sides by two inequalities, and has one interval."""
    found, seen = [], set()
    for one in comparisons:
        if one.kind == "difference":
            key = (one.requirement, one.statistic, one.stratum, frozenset({one.group, one.reference}))
            if key in seen:
                continue
            seen.add(key)
        found.append(one)
    return found


def _scaled(total: float, n: float, start: float, width: float) -> float | None:
    return float(start + width * total / n) if n > 0 else None


def _value(one: Comparison, own: float, other: float | None, share: float) -> float | None:
    if one.kind == "bound" or other is None:
        return own if one.kind == "bound" else None
    base = share * own + (1 - share) * other if one.shared else other
    if one.kind == "difference":
        return own - base
    own, base = (own, base) if one.low else (1 - own, 1 - base)
    return own / base if base > 0 else None


def _required(one: Comparison) -> str:
    if one.kind == "difference":
        return f"within {one.tolerance:g}"
    if one.kind == "ratio":
        return f"at least {one.tolerance:g}" + ("" if one.low else ", of one minus rates")
    return f"at {'least' if one.low else 'most'} {one.tolerance:g}"


def _verdict(one: Comparison, low: float | None, high: float | None) -> Verdict:
    if low is None:
        return "insufficient evidence"
    tolerance = one.tolerance
    if one.kind == "difference":
        least, most = -tolerance, tolerance
    elif one.kind == "ratio" or one.low:
        least, most = tolerance, np.inf
    else:
        least, most = -np.inf, tolerance
    end = np.inf if high is None else high
    if end < least or low > most:
        return "violated"
    return "within tolerance" if low >= least and end <= most else "insufficient evidence"


def find_drift(reference: Mapping[Cell, float], history: History) -> tuple[float, Drift | None]:
    """Log of the evidence that shares differ from those of the fit, and the drift if it were told now.

    Parameters
    ----------
    reference : dict
        Rows of the fit by cell.
    history : History
    """
    known, starts = list(reference), history.starts
    names = [f"the share of {_cell_name(history, cell)}" for cell in known] + ["the share of other groups"]
    before = np.array([*reference.values(), 0.0])
    rows = np.stack([history.last.sums[:, 0, 0] - one.sums[:, 0, 0] for one in starts])
    places = np.array([known.index(cell) if cell in reference else len(known) for cell in history.cells], int)
    now = np.stack([np.bincount(places, one, len(before)) for one in rows])
    up = (1.0, now.sum(axis=1, keepdims=True), now)
    down = (1.0, np.full((len(starts), 1), before.sum()), before)
    sides = [least_evidence(up, down, 0.0), least_evidence(down, up, 0.0)]
    numbers = np.array([one.start for one in starts])
    each = np.concatenate(sides, axis=1) + np.log(start_weights(numbers))[:, None] - np.log(2 * len(before))
    total = min(float(np.logaddexp(logsumexp(each), np.log(weight_to_come(numbers)))), _LARGEST)
    start, j = np.unravel_index(int(each.round(6).argmax()), each.shape)
    place = int(j) % len(before)
    return total, Drift(
        history.last.batch,
        starts[int(start)].batch,
        names[place],
        float(before[place] / before.sum()),
        float(now[start, place] / max(now[start].sum(), 1)),
        float(np.exp(total)),
        history.last.time,
    )


def _cell_name(history: History, cell: Cell) -> str:
    pairs = zip((*history.controls, *history.features), (*cell[0], *cell[1]), strict=True)
    return ", ".join(f"{show(name)}={show(value)}" for name, value in pairs)
