"""Rows that are left out because a sensitive value is missing, and how far a result depends on them.

The decisions on these rows, and their labels, are known; only their groups are not. So the rates of groups
are bounded over all groups that the rows could belong to: any that agree with the values that they do have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.auditing.comparison import (
    FOUR_FIFTHS_RULE,
    Comparison,
    Side,
    Verdict,
    judged,
    rule_families,
)
from evenhand.auditing.group_rates import RATES, Finding
from evenhand.auditing.tally import ExcludedSums, Tally
from evenhand.display.text import show
from evenhand.fairness.bounds import RateBound, bounded_groups
from evenhand.fairness.groups import POOLED, GroupName, Groups
from evenhand.fairness.measurement import NOBODY, Measure
from evenhand.fairness.names import Key
from evenhand.fairness.notions import Notion
from evenhand.fairness.requirement import Requirement
from evenhand.fairness.statistic import SelectedShare, Statistic

__all__ = ["DisparityRange", "Excluded", "RateRange", "excluded_ranges", "find_excluded"]

Floats = NDArray[np.float64]
Settled = Literal["holds in every case", "fails in every case", "depends on excluded rows"]

_SETTLED: Mapping[Verdict | None, Settled] = {
    "satisfied": "holds in every case",
    "violated": "fails in every case",
}


@dataclass(frozen=True)
class RateRange:
    """The rate of a group if excluded rows are counted in.

    Attributes
    ----------
    group : GroupName
    rate : str
    value : float
        Without the excluded rows, as the audit has it.
    low, high : float
        With the excluded rows that surely belong to the group and, of those that could, the ones that lower
        the rate, or the ones that raise it: of a selection rate, all that were not selected, or all that
        were. Both are attained by some assignment of the rows to groups.
    """

    group: GroupName
    rate: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class DisparityRange:
    """The disparity of a comparison if excluded rows are counted in.

    Attributes
    ----------
    notion, measure, groups, against : str
        Those of the comparison.
    value : float
        Without the excluded rows, as the audit has it.
    best : float
        No assignment of excluded rows to groups gives less disparity. It need not be attained, because every
        group has the rows that suit it best.
    worst : float
        The most disparity that an assignment gives. Of a notion of your own whose rows have more than two
        values, between groups, a bound as well.
    tolerance : float or None
    settled : {"holds in every case", "fails in every case", "depends on excluded rows"} or None
        Whether the tolerance holds on these rows whatever the groups of the excluded ones are. It is about
        these rows, and says nothing of chance; None without a tolerance.
    """

    notion: str
    measure: Measure | Side
    groups: str
    against: str
    value: float
    best: float
    worst: float
    tolerance: float | None
    settled: Settled | None


@dataclass(frozen=True, eq=False)
class Excluded:
    """Rows that lack a sensitive value, under ``missing="exclude"``.

    The ranges tell how far the audit depends on these rows. Their decisions and labels are as they are; what
    varies is the group: each row can be in any that agrees with the values that it has, or in one that no
    other row is in. A row that has the value of a feature is in its group of that feature for sure. Ranges
    do not include sampling error, and randomised decisions are taken as drawn.

    Attributes
    ----------
    rows : int or None
        How many there are; None if the number is suppressed.
    of_rows : int or None
        Number of all rows, these included.
    by_feature : dict or None
        How many of them lack each feature; a row that lacks several counts in each. None if suppressed.
    rates : tuple of RateRange
        Of each group and rate; empty where counts are suppressed.
    comparisons : tuple of DisparityRange
        Of each comparison, except those with a reference (``NoWorse``); empty where counts are suppressed.
    """

    rows: int | None
    of_rows: int | None
    by_feature: Mapping[str, int] | None
    rates: tuple[RateRange, ...] = field(default=())
    comparisons: tuple[DisparityRange, ...] = field(default=())

    @classmethod
    def of_groups(cls, groups: Groups) -> Excluded | None:
        """The rows that groups were made without, such as those of a fitted classifier; None if none.

        Examples
        --------
        >>> groups, _ = Groups.fit({"sex": ["F", None, "M"]}, missing="exclude")
        >>> print(Excluded.of_groups(groups))
        1 of 3 rows lacks a sensitive value and is left out: 1 lacks sex.
        """
        if not groups.excluded:
            return None
        of_rows = groups.excluded_rows + int(groups.counts.sum())
        return cls(groups.excluded_rows, of_rows, groups.excluded_by_feature)

    def __str__(self) -> str:
        """One sentence: how many rows are left out, and what they lack."""
        if self.rows is None or self.of_rows is None:
            return "Some rows lack a sensitive value and are left out; their number is small and not shown."
        lack, are = ("lacks", "is") if self.rows == 1 else ("lack", "are")
        text = f"{self.rows:,} of {self.of_rows:,} rows {lack} a sensitive value and {are} left out"
        lacking = [] if self.by_feature is None else [(n, name) for name, n in self.by_feature.items() if n]
        if not lacking:
            return f"{text}."
        listed = ", ".join(f"{n:,} {'lacks' if n == 1 else 'lack'} {show(name)}" for n, name in lacking)
        return f"{text}: {listed}."


def find_excluded(
    counted: Tally,
    findings: Sequence[Finding],
    required: Iterable[Requirement],
    comparisons: Sequence[Comparison],
    *,
    min_count: int = 0,
) -> Excluded | None:
    """The excluded rows of an audit; None if there are none.

    Parameters
    ----------
    counted : Tally
    findings : sequence of Finding
        Results for each group, without the excluded rows.
    required : iterable of Requirement
        What is compared.
    comparisons : sequence of Comparison
        The results.
    min_count : int, default=0
        Smaller counts are suppressed, and so are those from which they could be computed. There are then no
        ranges.

    Returns
    -------
    Excluded or None
    """
    groups = counted.rates.groups
    if counted.excluded is None:
        return None
    rows = groups.excluded_rows
    of_rows = rows + round(float(counted.rows.sum()))
    if min_count:
        return Excluded(
            None if rows < min_count else rows,
            None if min(rows, of_rows - rows) < min_count else of_rows,
            _by_feature(groups, min_count),
        )
    ranges = excluded_ranges(counted)
    return Excluded(
        rows,
        of_rows,
        groups.excluded_by_feature,
        tuple(_rate_ranges(findings, ranges)),
        tuple(_disparity_ranges(required, comparisons, counted, ranges)),
    )


def _by_feature(groups: Groups, min_count: int) -> Mapping[str, int] | None:
    """Numbers by feature, unless a small number of rows that lack the same features would follow."""
    by_lack: dict[tuple[bool, ...], int] = {}
    for key, rows in groups.excluded.items():
        lacking = tuple(value is None for value in key)
        by_lack[lacking] = by_lack.get(lacking, 0) + rows
    return groups.excluded_by_feature if min(by_lack.values()) >= min_count else None


Ranges = Callable[[Statistic | SelectedShare, Sequence[GroupName]], tuple[Floats, Floats]]
"""The lowest and the highest rate of each of several groups, over the groups of excluded rows."""


def excluded_ranges(counted: Tally) -> Ranges:
    """Rates of groups, as low and as high as the excluded rows could make them.

    Parameters
    ----------
    counted : Tally
        With excluded rows.

    Returns
    -------
    function
        Of a statistic and the names of groups; NaN where a rate is undefined in any case.
    """
    groups, excluded = counted.rates.groups, counted.excluded
    if excluded is None:
        raise ValueError("no rows are excluded")
    within = _by_decision(counted.rates.mass, counted.rates.selected)
    others = _by_decision(excluded.mass, excluded.mass_selected)

    family = groups.members("intersectional")
    codes = dict(zip(family.names, family.matrix, strict=True))
    found: dict[GroupName, tuple[Floats, Floats]] = {}

    def masses(name: GroupName) -> tuple[Floats, Floats]:
        """By label and decision: the mass of rows that are surely in a group, and of those that could be."""
        if name not in found:
            sure, perhaps = _membership(groups, excluded, name)
            own = codes[name] if name in codes else _codes(groups, name)
            found[name] = within[own].sum(axis=0) + others[sure].sum(axis=0), others[perhaps].sum(axis=0)
        return found[name]

    def ranges(statistic: Statistic | SelectedShare, names: Sequence[GroupName]) -> tuple[Floats, Floats]:
        mask, values = _kinds(statistic)
        low, high = np.empty(len(names)), np.empty(len(names))
        for k, name in enumerate(names):
            base, more = masses(name)
            low[k], high[k] = (_extreme(mask * base, mask * more, values, sign) for sign in (-1, 1))
        return low, high

    return ranges


def _by_decision(mass: Floats, selected: Floats) -> Floats:
    """Masses by label and decision, shape (n, 2, 2)."""
    return np.stack([np.maximum(mass - selected, 0.0), selected], axis=2)


def _kinds(statistic: Statistic | SelectedShare) -> tuple[Floats, Floats]:
    """How much a row of each label and decision counts, and its value, shape (2, 2) each."""
    if isinstance(statistic, SelectedShare):
        hits = np.array(statistic.hits, np.float64)
        return np.array([[0.0, 1.0], [0.0, 1.0]]), np.stack([hits, hits], axis=1)
    intercept, slope = np.array(statistic.intercept, np.float64), np.array(statistic.slope, np.float64)
    mask = np.array(statistic.mask, np.float64)
    return np.stack([mask, mask], axis=1), np.stack([intercept, intercept + slope], axis=1)


def _extreme(base: Floats, more: Floats, values: Floats, sign: int) -> float:
    """The largest mean (sign 1) or the smallest (-1) of `base` and any part of `more`."""
    total, part = float(base.sum()), float((base * values).sum())
    for k in np.argsort(-sign * values, axis=None, kind="stable"):
        weight, value = float(more.flat[k]), float(values.flat[k])
        if weight > 0 and (total == 0 or sign * (value - part / total) > 0):
            total, part = total + weight, part + weight * value
    return part / total if total > 0 else math.nan


def _codes(groups: Groups, name: GroupName) -> NDArray[np.bool_]:
    """Which codes have the values of a group of one feature; all of them for all rows."""
    places = [groups.features.index(feature) for feature in name.features]
    return np.array(
        [all(key[p] == value for p, value in zip(places, name.values, strict=True)) for key in groups.keys],
        np.bool_,
    )


def _membership(
    groups: Groups, excluded: ExcludedSums, name: GroupName
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which kinds of excluded rows are surely in a group, and which others could be."""
    if not name.features:
        every = np.ones(len(excluded.keys), np.bool_)
        return every, ~every
    raw = _raw_keys(groups, name)
    places = [groups.features.index(feature) for feature in name.features]
    known = [tuple(key[place] for place in places) for key in excluded.keys]
    sure = np.array([None not in key and key in raw for key in known], np.bool_)
    could = np.array([any(map(_agrees, [key] * len(raw), raw)) for key in known], np.bool_)
    return sure, could & ~sure


def _raw_keys(groups: Groups, name: GroupName) -> list[Key]:
    """The values of a group's features: one combination or, of a pooled group, those in it."""
    if POOLED not in name.values:
        return [name.values]
    places = [groups.features.index(feature) for feature in name.features]
    rare = dict.fromkeys(tuple(key[place] for place in places) for key in groups.pooled)
    if len(places) == len(groups.features) > 1:
        return list(rare)
    kept = set(groups.levels(name.features[0]))
    return [key for key in rare if key[0] not in kept]


def _agrees(partial: Key, key: Key) -> bool:
    return all(value is None or value == own for value, own in zip(partial, key, strict=True))


def _rate_ranges(findings: Sequence[Finding], ranges: Ranges) -> Iterator[RateRange]:
    names = [found.group for found in findings]
    limits = {part.name: ranges(part, names) for part in RATES if part.name in findings[0].rates}
    for k, found in enumerate(findings):
        for rate, (low, high) in limits.items():
            yield RateRange(found.group, rate, found.rates[rate].value, float(low[k]), float(high[k]))


def _disparity_ranges(
    required: Iterable[Requirement], comparisons: Sequence[Comparison], counted: Tally, ranges: Ranges
) -> Iterator[DisparityRange]:
    """The range of each comparison, in their order."""
    rest = iter(comparisons)
    for part in required:
        if isinstance(part, Notion):
            names = counted.rates.groups.members(part.groups).names
            yield _ranged(next(rest), *_notion_range(part, names, ranges))
        elif isinstance(part, RateBound):
            names = bounded_groups(counted.rates.groups, part.groups).names
            low, high = ranges(part.rate_statistic, names)
            for side, bound in (("at least", part.at_least), ("at most", part.at_most)):
                if bound is None:
                    continue
                least = side == "at least"
                worst = _least(low) if least else -_least(-high)
                best = _least(high) if least else -_least(-low)
                yield _ranged(next(rest), best, worst)
        else:
            next(rest)
    for found, (_, family) in zip(rest, rule_families(counted.rates.groups), strict=True):
        yield _ranged(found, *_notion_range(FOUR_FIFTHS_RULE, family.names, ranges))


def _notion_range(notion: Notion, names: Sequence[GroupName], ranges: Ranges) -> tuple[float, float]:
    """The least and the most disparity."""
    one = _between if notion.against == "groups" else _from_everyone
    found = np.array([one(notion, part, names, ranges) for part in notion.statistics])
    if np.isnan(found).all():
        return math.nan, math.nan
    best, worst = (np.nanmax if notion.compares_by == "difference" else np.nanmin)(found, axis=0)
    return float(best), float(worst)


def _from_everyone(
    notion: Notion, statistic: Statistic, names: Sequence[GroupName], ranges: Ranges
) -> tuple[float, float]:
    """Against all rows, whose rate does not depend on the groups of excluded ones."""
    low, high = ranges(statistic, names)
    q = float(ranges(statistic, [GroupName((), ())])[0][0])
    nearest = np.clip(q, low, high)
    if notion.compares_by == "difference":
        return -_least(-np.abs(q - nearest)), -_least(-np.fmax(np.abs(q - low), np.abs(q - high)))

    def ratio(rates: Floats) -> Floats:
        up = rates / q if q > NOBODY else 1.0 + 0 * rates
        down = (1 - rates) / (1 - q) if 1 - q > NOBODY else 1.0 + 0 * rates
        return np.minimum(up, down)

    return _least(ratio(nearest)), _least(np.fmin(ratio(low), ratio(high)))


def _between(
    notion: Notion, statistic: Statistic, names: Sequence[GroupName], ranges: Ranges
) -> tuple[float, float]:
    """Between groups of the same features, every one with every other."""
    low, high = ranges(statistic, names)
    features = [name.features for name in names]
    best, worst = [], []
    for own in dict.fromkeys(features):
        here = np.array([other == own for other in features]) & ~np.isnan(low)
        lower, higher = low[here], high[here]
        others = ~np.eye(len(lower), dtype=np.bool_)
        if notion.compares_by == "difference":  # negative, as smaller is worse for a ratio
            best.append(np.minimum(0.0, (higher[None] - lower[:, None])[others]).min(initial=0.0))
            worst.append((lower[None] - higher[:, None])[others].min(initial=0.0))
        else:
            best.append(_quotients(higher, lower)[others].min(initial=1.0))
            worst.append(_quotients(lower, higher)[others].min(initial=1.0))
    return abs(float(min(best))), abs(float(min(worst)))


def _quotients(rates: Floats, highest: Floats) -> Floats:
    """Each rate (second axis) divided by each of the highest (first axis), at most 1."""
    known = highest[:, None] > NOBODY
    return np.where(known, np.minimum(1.0, rates[None] / np.where(known, highest[:, None], 1.0)), 1.0)


def _ranged(found: Comparison, best: float, worst: float) -> DisparityRange:
    settled: Settled | None = None
    if found.tolerance is not None and not math.isnan(best + worst):
        verdict = judged(found.measure, found.tolerance, min(best, worst), max(best, worst))
        settled = _SETTLED.get(verdict, "depends on excluded rows")
    return DisparityRange(
        found.notion,
        found.measure,
        found.groups,
        found.against,
        found.value,
        best,
        worst,
        found.tolerance,
        settled,
    )


def _least(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.min()) if len(known) else math.nan
