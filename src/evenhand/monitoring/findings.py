"""What the counts of a monitor say: disparities with their intervals, alarms, and drift."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from evenhand.display.text import show
from evenhand.groups.names import GroupName, Key
from evenhand.monitoring import evidence
from evenhand.monitoring.comparisons import Comparison, block_sums, find_comparisons
from evenhand.monitoring.counts import History
from evenhand.requirements.requirement import Constraint

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
        beside = f" compared with {self.against}" if self.against else " for its bound"
        return (
            f"ALARM at batch {_when(self)}: {self.notion}, the {self.statistic} of {self.group} is "
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
        return (
            f"DRIFT at batch {_when(self)}: the model assumed the population of its fit, which has "
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


def _when(one: Alarm | Drift) -> str:
    return f"{one.batch} ({show(one.time)})" if one.time else str(one.batch)


def _short(evidence: float) -> str:
    return f"{evidence:.3g}" if evidence < 1e6 else "above a million"


def find_alarm(constraint: Constraint, history: History) -> tuple[float, Alarm | None]:
    """Log of the evidence against the requirement, and the alarm if it were raised now."""
    comparisons, starts = find_comparisons(constraint, history.groups[0]), history.start_numbers
    if not comparisons:
        return float(np.log(evidence.weight_to_come(starts))), None
    found = evidence.log_evidence(comparisons, evidence.find_blocks(comparisons, history.since_starts()))
    shares = evidence.weights(comparisons, history.known_cells(), starts)
    total = min(float(evidence.log_total(comparisons, found, shares, starts)), _LARGEST)
    with np.errstate(divide="ignore"):
        strongest = found + np.log(shares)
    start, j = np.unravel_index(int(strongest.round(6).argmax()), strongest.shape)
    one, last = comparisons[int(j)], history.last
    about = (one.notion, one.statistic.name, one.who, one.against, one.low)
    since = history.starts[int(start)].batch
    return total, Alarm(last.batch, since, *about, float(np.exp(total)), last.time)


def find_disparities(constraint: Constraint, history: History, alpha: float) -> list[Disparity]:
    """Each group beside what it is compared with."""
    # A difference is bounded from both sides by two inequalities, and has one interval.
    each: dict[Any, Comparison] = {}
    for one in find_comparisons(constraint, history.groups[0]):
        pair = frozenset({one.group, one.reference}) if one.kind == "difference" else one
        each.setdefault((one.requirement, one.statistic, one.stratum, pair), one)
    comparisons, starts = list(each.values()), history.start_numbers
    if not comparisons:
        return []
    counted = evidence.weights(comparisons, history.known_cells(), starts) > 0
    first, columns = counted.argmax(axis=0), np.arange(len(comparisons))
    level = evidence.start_weights(starts)[first] / np.maximum(counted.sum(axis=1)[first], 1)
    blocks = evidence.find_blocks(comparisons, history.since_starts())
    blocks = evidence.Blocks(*(part[first, columns] for part in vars(blocks).values()))
    limits = evidence.limits(comparisons, blocks, alpha * level)
    rate_limits = evidence.rate_limits(blocks.n, blocks.total, alpha)

    start, width = np.array([one.statistic.range for one in comparisons]).T
    own, other = (
        start + width * np.divide(total, n, out=np.full(n.shape, np.nan), where=n > 0)
        for total, n in ((blocks.total, blocks.n), (blocks.total_others, blocks.n_others))
    )
    rates = np.array([own, *(np.where(np.isnan(own), np.nan, start + width * end) for end in rate_limits)])
    found = []
    for j, one in enumerate(comparisons):
        seen = counted[:, j].any() and not np.isnan(own[j] + (0 if one.kind == "bound" else other[j]))
        value, low, high = (np.nan,) * 3
        if seen:
            value = _value(one, own[j], other[j], blocks.share[j])
            low, high = (end[j] for end in limits)
            if one.kind == "difference":
                low, high = -high, -low
            elif one.kind == "ratio" and high >= 1:
                high = np.inf
        rate, rate_low, rate_high = map(_known, rates[:, j])
        about = (one.notion, one.statistic.name, one.who, one.against, float(blocks.n[j]))
        limited = _known(value), _known(low), _known(high)
        required = one.tolerance, _verdict(one, low, high), _required(one)
        found.append(Disparity(*about, rate, rate_low, rate_high, one.kind, *limited, *required))
    return found


def _known(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None


def _value(one: Comparison, own: float, other: float, share: float) -> float:
    if one.kind == "bound":
        return own
    base = share * own + (1 - share) * other if one.reference is None else other
    if one.kind == "difference":
        return own - base
    own, base = (own, base) if one.low else (1 - own, 1 - base)
    return own / base if base > 0 else np.nan


def _required(one: Comparison) -> str:
    if one.kind == "difference":
        return f"within {one.tolerance:g}"
    of = ", of one minus rates" if one.kind == "ratio" and not one.low else ""
    return f"at {'most' if np.isinf(one.allowed[0]) else 'least'} {one.tolerance:g}{of}"


def _verdict(one: Comparison, low: float, high: float) -> Verdict:
    least, most = one.allowed
    if high < least or low > most:
        return "violated"
    return "within tolerance" if low >= least and high <= most else "insufficient evidence"


def find_periods(constraint: Constraint, history: History, alpha: float) -> list[dict[str, Any]]:
    """Rates between two records, with intervals; see :meth:`Monitor.history`."""
    blocks = {(one.statistic, one.who): one.inside for one in find_comparisons(constraint, history.groups[0])}
    found: list[dict[str, Any]] = []
    for before, after in pairwise(history.records):
        sums = history.placed(after.sums - before.sums).astype(np.float64)
        for (statistic, who), inside in blocks.items():
            start, width = statistic.range
            n, total = (np.atleast_1d(part[inside].sum()) for part in block_sums(statistic, sums))
            if n[0] <= 0:
                continue
            ends = (total / n, *evidence.rate_limits(n, total, alpha))
            rate, low, high = (float(start + width * end[0]) for end in ends)
            named = {"batch": after.batch, "time": after.time, "group": who, "statistic": statistic.name}
            strength = float(np.exp(after.evidence))
            found.append({**named, "rate": rate, "low": low, "high": high, "evidence": strength})
    return found


def find_drift(reference: Mapping[Key, float], history: History) -> tuple[float, Drift | None]:
    """Log of the evidence that shares differ from those of the fit, and the drift if it were told now.

    Parameters
    ----------
    reference : dict
        Rows of the fit by cell.
    history : History
    """
    known, starts, numbers = list(reference), history.starts, history.start_numbers
    names = [f"the share of {GroupName(history.names, cell)}" for cell in known]
    before = np.array([*reference.values(), 0.0])
    rows = np.stack([history.last.sums[:, 0, 0] - one.sums[:, 0, 0] for one in starts])
    places = np.array([known.index(cell) if cell in reference else len(known) for cell in history.cells], int)
    now = np.stack([np.bincount(places, one, len(before)) for one in rows])
    up = (1.0, now.sum(axis=1, keepdims=True), now)
    down = (1.0, np.full((len(starts), 1), before.sum()), before)
    sides = [evidence.least_evidence(up, down, 0.0), evidence.least_evidence(down, up, 0.0)]
    shares = evidence.start_weights(numbers)[:, None] / (2 * len(before))
    each = np.concatenate(sides, axis=1) + np.log(shares)
    total = min(float(np.logaddexp(logsumexp(each), np.log(evidence.weight_to_come(numbers)))), _LARGEST)
    start, j = np.unravel_index(int(each.round(6).argmax()), each.shape)
    place, last = int(j) % len(before), history.last
    was, now_is = before[place] / before.sum(), now[start, place] / max(now[start].sum(), 1)
    what, since = [*names, "the share of other groups"][place], starts[int(start)].batch
    return total, Drift(last.batch, since, what, float(was), float(now_is), float(np.exp(total)), last.time)
