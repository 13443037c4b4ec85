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
from numpy.typing import NDArray

from evenhand.auditing.distances import distances
from evenhand.auditing.tally import Tally
from evenhand.groups.groups import GroupName, Groups, Members, Mode
from evenhand.guarantee.intervals import Estimate
from evenhand.requirements.measurement import Against, Measure, Measurement
from evenhand.requirements.notions import NOTIONS, DemographicParity, Notion

__all__ = [
    "FOUR_FIFTHS",
    "FOUR_FIFTHS_RULE",
    "Comparison",
    "Distance",
    "Side",
    "Verdict",
    "all_notions",
    "compare",
    "concluded",
    "four_fifths",
    "judged",
    "listed",
    "rule_families",
]

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


@dataclass(frozen=True)
class Comparison:
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
        that should be at least the bound, or the highest that should be at most it. NaN if it is undefined.
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
    against : {"population", "groups", "bound", "reference"}
        What each group is compared with: all rows, the group with the highest rate, a bound, or its own rate
        under a reference. In the last case, `value` is the rate minus that of the reference.
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
    against: Against | Literal["bound", "reference"] = "population"
    given: tuple[str, ...] = ()
    stratum: GroupName | None = None
    strata: tuple[Comparison, ...] = ()
    vacuous: tuple[GroupName, ...] = ()
    empty: tuple[GroupName, ...] = ()
    aggregate: Comparison | None = None


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


def compare(notion: Notion, counted: Tally, confidence: float, *, judge: bool = True) -> Comparison:
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
    judge : bool, default=True
        Whether to compare with the notion's tolerance; otherwise there is no verdict.

    Returns
    -------
    Comparison
    """
    groups = counted.rates.groups
    alone = groups.is_one_group(notion.groups)
    found = _compare(notion, counted, groups.members(notion.groups), confidence, alone=alone)
    return found if judge else replace(found, tolerance=None, verdict=None)


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
    found = []
    for what, family in rule_families(counted.rates.groups):
        one = _compare(FOUR_FIFTHS_RULE, counted, family, confidence, alone=len(family.names) == 1)
        found.append(replace(one, notion=FOUR_FIFTHS, groups=what))
    return tuple(found)


def rule_families(groups: Groups) -> Iterator[tuple[str, Members]]:
    """What the four-fifths rule compares: all combinations, then the values of each feature."""
    if len(groups.features) > 1:
        yield "intersectional", groups.members("intersectional")
    if groups.merged:  # the groups of single features cannot be recovered from these
        return
    single = groups.members("independent")
    for feature in groups.features:
        places = [k for k, name in enumerate(single.names) if name.features == (feature,)]
        yield feature, Members(tuple(single.names[k] for k in places), single.matrix[places])


def _compare(
    notion: Notion, counted: Tally, family: Members, confidence: float, *, alone: bool
) -> Comparison:
    measured = notion.measure_in(family, counted.rates)
    found = distances(
        notion.statistics,
        counted,
        family,
        measure=notion.compares_by,
        against=notion.against,
        confidence=confidence,
    )
    reach = max(counted.share(part, family.matrix).width for part in notion.statistics)
    return concluded(notion, measured, found, reach=reach, alone=alone)


def concluded(
    notion: Notion,
    measured: Sequence[Measurement],
    found: Sequence[Estimate],
    *,
    reach: float = 1.0,
    alone: bool = False,
) -> Comparison:
    """The comparison by a notion, with the interval of the worst group.

    Parameters
    ----------
    notion : Notion
    measured : sequence of Measurement
        One per statistic.
    found : sequence of Estimate
        The distances of all groups, for each statistic.
    reach : float, default=1.0
        The largest difference that is possible.
    alone : bool, default=False
        Whether there is only one group.

    Returns
    -------
    Comparison
    """
    blind = alone or any(part.undefined for part in measured)
    if notion.compares_by == "difference":
        low = max(0.0, *(_largest(np.fmax(part.low, -part.high)) for part in found))  # not -0.0
        high = reach if blind else min(reach, max(_largest(np.fmax(-part.low, part.high)) for part in found))
    else:
        low = 0.0 if blind else min(_smallest(part.low) for part in found)
        high = min(_smallest(part.high) for part in found)
    worst = _worst(measured)
    return Comparison(
        notion=notion.label,
        measure=notion.compares_by,
        groups=notion.groups,
        value=math.nan if worst is None else worst.value,
        low=low,
        high=high,
        statistic=None if worst is None else worst.statistic,
        group=None if worst is None else worst.worst,
        reference=None if worst is None else worst.reference,
        tolerance=notion.tolerance,
        verdict=judged(notion.compares_by, notion.tolerance, low, high),
        undefined=tuple(dict.fromkeys(name for part in measured for name in part.undefined)),
        distances=tuple(
            distance
            for part, estimate in zip(measured, found, strict=True)
            for distance in listed(part.statistic, part.names, estimate)
        ),
        against=notion.against,
    )


def _worst(measured: Sequence[Measurement]) -> Measurement | None:
    """The statistic with the largest disparity."""
    known = [found for found in measured if not math.isnan(found.value)]
    if not known:
        return None
    if known[0].measure == "difference":
        return max(known, key=lambda found: found.value)
    return min(known, key=lambda found: found.value)


def _largest(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(known.max(initial=0.0))


def _smallest(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(known.min(initial=1.0))


def listed(statistic: str, names: Sequence[GroupName], found: Estimate) -> Iterator[Distance]:
    """The distance of each group."""
    for name, value, low, high in zip(
        names, found.value.tolist(), found.low.tolist(), found.high.tolist(), strict=True
    ):
        yield Distance(statistic, name, value, low, high)
