"""Disparities between groups, with an interval that holds for the worst group, and a verdict.

The largest of several estimated gaps is biased upwards: even among equal groups, some group seems to be far
off. So the intervals of the groups hold simultaneously (Bonferroni, on exact limits of the shares), and the
interval of the maximum is made from them: its lower limit is the largest lower limit of a gap, its upper
limit the largest upper limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from evenhand.auditing.distances import distances
from evenhand.auditing.proxy_tally import ProxyTally
from evenhand.auditing.tally import Tally
from evenhand.display.notebook import ShownAsTable
from evenhand.display.text import show
from evenhand.groups.groups import GroupName, Groups, Members, Mode
from evenhand.groups.strata import nothing_to_compare
from evenhand.guarantee.intervals import Estimate
from evenhand.requirements.measurement import Measure, Measurement
from evenhand.requirements.notions import NOTIONS, DemographicParity, Notion

Side = Literal["at least", "at most"]
Verdict = Literal["satisfied", "violated", "insufficient evidence"]
FOUR_FIFTHS = "four-fifths rule"
FOUR_FIFTHS_RULE = DemographicParity(ratio=0.8, against="groups")


@dataclass(frozen=True)
class Distance:
    """Distance of one group from its reference; the limits hold simultaneously for all groups.

    Attributes
    ----------
    statistic : str
    group : GroupName
    value, low, high : float
        By difference: the group's statistic minus that of all rows or, against groups, the highest. By ratio:
        the smaller of q_g / q and (1 - q_g) / (1 - q) or, against groups, the group's rate divided by the
        highest. Of a bound: the rate itself, or the rate minus that of the reference. NaN if it is undefined.
    stratum : GroupName or None
        The stratum that the group is compared in.
    """

    statistic: str
    group: GroupName
    value: float
    low: float
    high: float
    stratum: GroupName | None = None


@dataclass(frozen=True, repr=False)
class Comparison(ShownAsTable):
    """Disparity between the groups by one notion and measure, or a rate and its bound.

    Attributes
    ----------
    notion : str
        The notion or, for a bound, the rate.
    measure : {"difference", "ratio", "at least", "at most"}
        What is measured of a notion; which side of a rate is bounded.
    groups : str
        What is compared: "intersectional" or "independent"; for a bound also "population"; for the
        four-fifths rule, "intersectional" or the name of a feature.
    value, low, high : float
        The largest difference (MD) or the smallest ratio (MR), and its interval; for a bound, the lowest rate
        that a lower bound is about, or the highest for an upper bound. NaN if it is undefined.
    statistic : str or None
        The statistic in which it is attained.
    group : GroupName or None
        The group in which it is attained.
    reference : GroupName or None
        The group that it is compared with; None stands for all rows or for a bound.
    tolerance : float or None
        The required bound; None if nothing is required.
    verdict : {"satisfied", "violated", "insufficient evidence"} or None
        Whether the tolerance holds, as far as the interval tells; None if there is no tolerance.
    undefined : tuple of GroupName
        Groups without any row that the notion or the rate looks at. Nothing is known about them, so the
        interval is open on the side of a violation. A bound on precision holds where nobody is selected.
    distances : tuple of Distance
        One for each group and statistic.
    against : {"population", "groups", "named", "bound", "reference"}
        What each group is compared with: all rows, the group with the highest rate, a named group, a bound,
        or its own rate under a reference. In the last case, `value` is the rate minus that of the reference.
    given : tuple of str
        Control features, if groups are compared within strata.
    stratum : GroupName or None
        The stratum in which the value is attained.
    strata : tuple of Comparison
        That of each stratum with at least two groups. Their intervals hold simultaneously.
    vacuous : tuple of GroupName
        Strata with one group, in which there is nothing to compare.
    empty : tuple of GroupName
        Combinations of stratum and group that no row has.
    aggregate : Comparison or None
        The same without control features: of all rows together, which can show a disparity that no stratum
        has, or hide one that all of them have (Simpson's paradox).
    side : str or None
        Whose ratio the smallest is, compared with all rows: of those "selected", or of those "refused". Of
        several actions, the rate.
    """

    notion: str
    measure: Measure | Side
    groups: str
    value: float
    low: float
    high: float
    statistic: str | None
    group: GroupName | None
    reference: GroupName | None
    tolerance: float | None
    verdict: Verdict | None
    undefined: tuple[GroupName, ...]
    distances: tuple[Distance, ...]
    against: Literal["population", "groups", "named", "bound", "reference"] = "population"
    given: tuple[str, ...] = ()
    stratum: GroupName | None = None
    strata: tuple[Comparison, ...] = ()
    vacuous: tuple[GroupName, ...] = ()
    empty: tuple[GroupName, ...] = ()
    aggregate: Comparison | None = None
    side: str | None = None

    def __str__(self) -> str:
        verdict = "" if self.verdict is None else f", {self.verdict}"
        return f"{asks(self)}: {estimate(self.value, self.low, self.high)}{verdict}"

    def _table(self) -> tuple[str, Sequence[str], list[tuple[str, str, str]]]:
        lines = []
        for one in self.distances:
            stratum = "" if one.stratum is None else f" given {one.stratum}"
            number = estimate(one.value, one.low, one.high)
            lines.append((group_name(one.group) + stratum, one.statistic, number))
        return str(self), ["group", "statistic", "value [interval]"], lines


def estimate(value: float, low: float, high: float) -> str:
    """A number with its interval.

    Examples
    --------
    >>> estimate(0.3118, 0.29, 0.335), estimate(math.nan, 0.0, 1.0)
    ('0.312 [0.290, 0.335]', 'undefined')
    """
    return (
        "undefined"
        if math.isnan(value)
        else "{:.3f} [{:.3f}, {:.3f}]".format(*(round(one, 3) + 0.0 for one in (value, low, high)))
    )


def group_name(group: GroupName) -> str:
    """The name of a group; "everyone" if it has no features."""
    return str(group) or "everyone"


def asks(found: Comparison) -> str:
    """What a comparison is about, in a few words.

    Examples
    --------
    >>> from evenhand import RateBound, audit
    >>> capacity = RateBound("selection rate", at_most=0.3)
    >>> asks(audit(None, [1, 0, 1, 0], {"sex": ["F", "F", "M", "M"]}, constraint=capacity).comparisons[0])
    'selection rate, at most 0.3'
    """
    if found.against == "bound":
        return f"{found.notion}, {found.measure} {found.tolerance:g}"
    if found.against == "reference":
        return found.notion
    between = " between groups" if found.against == "groups" and found.notion != FOUR_FIFTHS else ""
    if found.against == "named":
        between = f" from {found.reference}" if found.measure == "difference" else f" to {found.reference}"
    given = f" given {', '.join(map(show, found.given))}" if found.given else ""
    return f"{found.notion}, {found.measure}{between}{given}"


def judged(measure: Measure | Side, tolerance: float | None, low: float, high: float) -> Verdict | None:
    """Whether a tolerance holds: only if the whole interval is on one side of it.

    Examples
    --------
    >>> judged("difference", 0.1, 0.02, 0.05), judged("at least", 0.6, 0.55, 0.7)
    ('satisfied', 'insufficient evidence')
    """
    if tolerance is None:
        return None
    if measure in ("difference", "at most"):
        holds, fails = high <= tolerance, low > tolerance
    else:
        holds, fails = low >= tolerance, high < tolerance
    return "satisfied" if holds else "violated" if fails else "insufficient evidence"


def all_notions(groups: Groups, *, labelled: bool) -> Iterator[Notion]:
    """Every notion by both measures, for combinations and single features; with exact parity."""
    modes: tuple[Mode, ...] = ("intersectional", "independent")
    for mode in modes if len(groups.features) > 1 and not groups.merged else modes[:1]:
        for kind in NOTIONS:
            if labelled or not any(part.needs_labels for part in kind.statistics):
                yield kind(difference=0.0, groups=mode)
                yield kind(ratio=1.0, groups=mode)


def compare(
    notion: Notion, counted: Tally, confidence: float, *, family: Members | None = None, judge: bool = True
) -> Comparison:
    """Compare each group with all rows, or with the group that has the highest rate.

    All rows contain the group, so the gap is written as q - q_g = (1 - pi)(q_r - q_g), a function of three
    independent shares: the group's, the rest's, and the group's share pi of all rows. Which group has the
    highest rate is itself uncertain, so against groups the limits come from simultaneous intervals for all
    pairs of groups, of each feature by itself.

    Parameters
    ----------
    notion : Notion
    counted : Tally
    confidence : float
        Of the interval as a whole.
    family : Members, default=None
        The groups; None stands for those of the notion.
    judge : bool, default=True
        Whether to compare with the notion's tolerance; otherwise there is no verdict.

    Returns
    -------
    Comparison
    """
    family = counted.groups.members(notion.groups) if family is None else family
    measured: Sequence[Measurement]
    if isinstance(counted, ProxyTally):
        measured, found = counted.measure(notion, family, confidence)
    else:
        measured = notion.measure_in(family, counted.rates)
        found = distances(notion, counted, family, confidence)
    by_difference, tolerance = notion.compares_by == "difference", notion.tolerance if judge else None
    reach = max(part.range[1] for part in notion.statistics)
    undefined = tuple(dict.fromkeys(name for part in measured for name in part.undefined))
    blind = bool(undefined) or nothing_to_compare(family.names)
    lows, highs = np.concatenate([(part.low, part.high) for part in found], axis=1)
    if by_difference:
        low = max(0.0, float(np.fmax.reduce(np.fmax(lows, -highs), initial=0.0)))  # not -0.0
        high = reach if blind else min(reach, float(np.fmax.reduce(np.fmax(-lows, highs), initial=0.0)))
    else:
        low = 0.0 if blind else float(np.fmin.reduce(lows, initial=1.0))
        high = float(np.fmin.reduce(highs, initial=1.0))
    known = [part for part in measured if not math.isnan(part.value)]
    worst = (max if by_difference else min)(known or measured, key=lambda part: part.value)
    return Comparison(
        notion=notion.label,
        measure=notion.compares_by,
        groups=notion.groups,
        value=worst.value,
        low=low,
        high=high,
        statistic=worst.statistic if known else None,
        group=worst.worst,
        reference=worst.reference,
        tolerance=tolerance,
        verdict=judged(notion.compares_by, tolerance, low, high),
        undefined=undefined,
        distances=tuple(
            distance
            for part, estimate in zip(measured, found, strict=True)
            for distance in listed(part.statistic, part.names, estimate)
        ),
        against=notion.against if isinstance(notion.against, str) else "named",
        side=worst.side,
    )


def four_fifths(counted: Tally, confidence: float) -> tuple[Comparison, ...]:
    """Compare each group's selection rate with the highest.

    This is the rule of the US Uniform Guidelines on Employee Selection Procedures (29 CFR 1607.4 D): a rate
    below four fifths of the highest is evidence of adverse impact. It is demographic parity by ratio against
    groups; that against the population compares with all rows. The values of each feature are compared, and
    all combinations.

    Parameters
    ----------
    counted : Tally
    confidence : float
        Of each interval as a whole.

    Returns
    -------
    tuple of Comparison
        All combinations, then each feature; with a single feature, only that.
    """
    groups, families = counted.groups, dict[str, Members]()
    if len(groups.features) > 1:
        families["intersectional"] = groups.members("intersectional")
    if not groups.merged:  # single features cannot be recovered from merged combinations
        families |= {feature: groups.members_of(feature) for feature in groups.features}
    return tuple(
        replace(compare(FOUR_FIFTHS_RULE, counted, confidence, family=one), notion=FOUR_FIFTHS, groups=what)
        for what, one in families.items()
    )


def listed(statistic: str, names: Sequence[GroupName], found: Estimate) -> Iterator[Distance]:
    """The distance of each group."""
    for name, value, low, high in zip(
        names, found.value.tolist(), found.low.tolist(), found.high.tolist(), strict=True
    ):
        yield Distance(statistic, name, value, low, high)
