"""Rows that are left out because a sensitive value is missing, and how far a result depends on them.

The decisions on these rows, and their labels, are known; only their groups are not. So the rates of groups
are bounded over all groups that the rows could belong to (`possible_groups`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

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
from evenhand.auditing.possible_groups import PossibleGroups, RateLimits
from evenhand.auditing.tally import Tally
from evenhand.display.text import show
from evenhand.groups.groups import GroupName, Groups
from evenhand.requirements.bounds import RateBound, bounded_groups
from evenhand.requirements.measurement import NOBODY, Measure, ratios
from evenhand.requirements.notions import Notion
from evenhand.requirements.requirement import Requirement

Floats = NDArray[np.float64]

_SETTLED: Mapping[Verdict | None, str] = {
    "satisfied": "holds whatever the missing values are",
    "violated": "fails whatever the missing values are",
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
        were. Both are attained by some assignment of the rows to groups; NaN if the rate is never defined.
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
        group has the rows that suit it best, and groups that might have no rate are not counted.
    worst : float
        The most disparity that an assignment gives, also in groups that only excluded rows are in. It is a
        bound, which need not be attained, if decisions are randomised and, between groups, for a notion of
        your own whose rows have more than two values.
    tolerance : float or None
    settled : str or None
        "holds whatever the missing values are", "fails whatever ...", or "depends on the missing values".
        Whether the tolerance holds on these rows whatever the groups of the excluded ones are. It is about
        these rows, and says nothing of chance, nor of groups that have no rate; None without a tolerance.
    """

    notion: str
    measure: Measure | Side
    groups: str
    against: str
    value: float
    best: float
    worst: float
    tolerance: float | None
    settled: str | None


@dataclass(frozen=True, eq=False)
class Excluded:
    """Rows that lack a sensitive value, under ``missing="exclude"``.

    The ranges tell how far the audit depends on these rows. Their decisions and labels are as they are; what
    varies is the group. A missing value can be any that the feature has in the data, in any combination with
    the values that the row has: also in one that no complete row has, which then is a group like others or,
    if there are pooled groups, one of those pooled. A row that has the value of a feature is in its group of
    that feature for sure. Ranges do not include sampling error. Requirements within strata (``given=``), and
    those with a reference (``NoWorse``), have none.

    Attributes
    ----------
    rows : int or None
        How many there are; None if the number is suppressed.
    of_rows : int or None
        Number of all rows, these included.
    by_feature : dict or None
        How many of them lack each feature; a row that lacks several counts in each. None if suppressed.
    rates : tuple of RateRange
        Of each rate, and each group that complete rows are in; empty where counts are suppressed.
    comparisons : tuple of DisparityRange
        Of each comparison, except those within strata and those with a reference; empty where counts are
        suppressed.
    new_groups : bool
        Whether excluded rows could form groups that no complete row is in. Worst cases include them, and
        few rows in such a group can be as far from the others as can be.
    """

    rows: int | None
    of_rows: int | None
    by_feature: Mapping[str, int] | None
    rates: tuple[RateRange, ...] = ()
    comparisons: tuple[DisparityRange, ...] = ()
    new_groups: bool = False

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


def range_notes(comparisons: Iterable[Comparison], excluded: Excluded | None) -> list[str]:
    """Sentences that belong to the ranges: which groups they include, and which comparisons have none.

    Parameters
    ----------
    comparisons : iterable of Comparison
        All comparisons of the audit.
    excluded : Excluded or None

    Returns
    -------
    list of str
        Empty if there are no ranges.
    """
    if excluded is None or not excluded.comparisons:
        return []
    notes = []
    if excluded.new_groups:
        notes.append(
            "Excluded rows could form groups that no complete row is in; the worst case includes these."
        )
    if any(found.given or found.against in ("named", "reference") for found in comparisons):
        notes.append("Comparisons within strata, and those with a reference, have no range.")
    return notes


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
    groups = counted.groups
    if not groups.excluded:
        return None
    rows = groups.excluded_rows
    of_rows = rows + round(float(counted.rows.sum()))
    if min_count:
        return Excluded(
            None if rows < min_count else rows,
            None if min(rows, of_rows - rows) < min_count else of_rows,
            _by_feature(groups, min_count),
        )
    possible = PossibleGroups(counted)
    return Excluded(
        rows,
        of_rows,
        groups.excluded_by_feature,
        tuple(_rate_ranges(findings, possible)),
        tuple(_disparity_ranges(required, comparisons, counted, possible)),
        any(map(possible.new, dict.fromkeys(found.group.features for found in findings))),
    )


def _by_feature(groups: Groups, min_count: int) -> Mapping[str, int] | None:
    """Numbers by feature, unless a small number of rows that lack the same features would follow."""
    by_lack: dict[tuple[bool, ...], int] = {}
    for key, rows in groups.excluded.items():
        lacking = tuple(value is None for value in key)
        by_lack[lacking] = by_lack.get(lacking, 0) + rows
    return groups.excluded_by_feature if min(by_lack.values()) >= min_count else None


def _rate_ranges(findings: Sequence[Finding], possible: PossibleGroups) -> Iterator[RateRange]:
    names = [found.group for found in findings]
    limits = {part.name: possible.limits(part, names) for part in RATES if part.name in findings[0].rates}
    for k, found in enumerate(findings):
        for rate, of in limits.items():
            yield RateRange(found.group, rate, found.rates[rate].value, float(of.low[k]), float(of.high[k]))


def _disparity_ranges(
    required: Iterable[Requirement],
    comparisons: Sequence[Comparison],
    counted: Tally,
    possible: PossibleGroups,
) -> Iterator[DisparityRange]:
    """The range of each comparison, in their order."""
    rest = iter(comparisons)
    for part in required:
        if isinstance(part, Notion) and isinstance(part.against, str):
            names = possible.among(counted.groups.members(part.groups).names)
            yield _ranged(next(rest), *_notion_range(part, names, possible))
        elif isinstance(part, RateBound):
            names = possible.among(bounded_groups(counted.groups, part.groups).names)
            limits = possible.limits(part.rate_statistic, names)
            if part.at_least is not None:
                yield _ranged(next(rest), *_lowest(limits.low, limits.high, limits.certain))
            if part.at_most is not None:
                best, worst = _lowest(-limits.high, -limits.low, limits.certain)
                yield _ranged(next(rest), -best, -worst)
        else:
            next(rest)
    for found, (_, family) in zip(rest, rule_families(counted.groups), strict=True):
        names = possible.among(family.names)
        yield _ranged(found, *_notion_range(FOUR_FIFTHS_RULE, names, possible))


def _lowest(low: Floats, high: Floats, certain: NDArray[np.bool_]) -> tuple[float, float]:
    """The lowest rate of all groups, in the best case and in the worst.

    If no group has a rate in any case, some group has one, and that is at most the highest of all.
    """
    return (_least(high[certain]) if certain.any() else -_least(-high)), _least(low)


def _notion_range(
    notion: Notion, names: Sequence[GroupName], possible: PossibleGroups
) -> tuple[float, float]:
    """The least and the most disparity."""
    found = []
    for statistic in notion.statistics:
        limits = possible.limits(statistic, names)
        if np.isnan(limits.low).all():
            continue
        if notion.against == "groups":
            found.append(_between(notion, limits, [name.features for name in names]))
        else:
            everyone = possible.limits(statistic, [GroupName((), ())])
            found.append(_from_everyone(notion, limits, float(everyone.low[0])))
    if not found:
        return math.nan, math.nan
    best, worst = (np.nanmax if notion.compares_by == "difference" else np.nanmin)(found, axis=0)
    return float(best), float(worst)


def _from_everyone(notion: Notion, limits: RateLimits, q: float) -> tuple[float, float]:
    """Against the rate of all rows, which does not depend on the groups of excluded ones."""
    low, high = limits.low, limits.high
    nearest = np.clip(q, low, high)[limits.certain]
    if notion.compares_by == "difference":
        worst = np.fmax(np.abs(q - low), np.abs(q - high))
        return float(np.abs(q - nearest).max(initial=0.0)), -_least(-worst)
    worst = np.fmin(ratios(low, q), ratios(high, q))
    return float(ratios(nearest, q).min(initial=1.0)), _least(worst)


def _between(notion: Notion, limits: RateLimits, features: Sequence[tuple[str, ...]]) -> tuple[float, float]:
    """Between groups of the same features, every one with every other."""

    def smallest(rates: Floats, highest: Floats) -> float:
        """The smallest difference or quotient of each rate and the highest of another group."""
        others, most = ~np.eye(len(rates), dtype=np.bool_), highest[:, None]
        if notion.compares_by == "difference":
            return float((rates - most)[others].min(initial=0.0))
        quotients = np.minimum(1.0, rates / np.where(most > NOBODY, most, 1.0))
        return float(np.where(most > NOBODY, quotients, 1.0)[others].min(initial=1.0))

    best, worst = [], []
    for own in dict.fromkeys(features):
        here = np.array([other == own for other in features]) & ~np.isnan(limits.low)
        certain = here & limits.certain
        best.append(smallest(limits.high[certain], limits.low[certain]))
        worst.append(smallest(limits.low[here], limits.high[here]))
    return abs(min(best)), abs(min(worst))


def _ranged(found: Comparison, best: float, worst: float) -> DisparityRange:
    settled = None
    if found.tolerance is not None and not math.isnan(best + worst):
        verdict = judged(found.measure, found.tolerance, min(best, worst), max(best, worst))
        settled = _SETTLED.get(verdict, "depends on the missing values")
    about = (found.notion, found.measure, found.groups, found.against, found.value)
    return DisparityRange(*about, best, worst, found.tolerance, settled)


def _least(values: Floats) -> float:
    return float(np.fmin.reduce(values, initial=np.nan))
