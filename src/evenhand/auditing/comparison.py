"""Disparities between groups, with an interval that holds for the worst group, and a verdict.

The largest of several estimated gaps is biased upwards: even among equal groups, some group seems to be far
off. So the intervals of the groups hold simultaneously (Bonferroni, on exact limits of the shares), and the
interval of the maximum is made from them: its lower limit is the largest lower limit of a gap, its upper
limit the largest upper limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.auditing.tally import Share, Tally
from evenhand.fairness.groups import GroupName, Groups, Members
from evenhand.fairness.measurement import Measure, Measurement
from evenhand.fairness.notions import Notion
from evenhand.fairness.statistic import Statistic
from evenhand.inference.intervals import Estimate, clopper_pearson, critical_value, gap, quotient

__all__ = ["FOUR_FIFTHS", "Comparison", "Distance", "Verdict", "compare", "four_fifths"]

Verdict = Literal["satisfied", "violated", "insufficient evidence"]
FOUR_FIFTHS = "four-fifths rule"


@dataclass(frozen=True)
class Distance:
    """Distance of one group from its reference; the limits hold simultaneously for all groups.

    Attributes
    ----------
    statistic : str
    group : GroupName
    value, low, high : float
        By difference: the group's statistic minus that of all rows. By ratio: the smaller of q_g / q and
        (1 - q_g) / (1 - q); for the four-fifths rule, the group's rate divided by the highest. NaN if it is
        undefined.
    """

    statistic: str
    group: GroupName
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """Disparity between the groups by one notion and measure.

    Attributes
    ----------
    notion : str
    measure : {"difference", "ratio"}
    groups : str
        What is compared: "intersectional" or "independent"; for the four-fifths rule, "intersectional" or the
        name of a feature.
    value, low, high : float
        The largest difference (MD) or the smallest ratio (MR), and its interval. NaN if it is undefined.
    statistic : str or None
        The statistic in which it is attained.
    group : GroupName or None
        The group in which it is attained.
    reference : GroupName or None
        The group that it is compared with; None stands for all rows.
    tolerance : float or None
        The required bound; None if nothing is required.
    undefined : tuple of GroupName
        Groups without any row that the notion looks at. Nothing is known about them, so the interval is open
        on the side of a violation.
    distances : tuple of Distance
        One for each group and statistic.
    """

    notion: str
    measure: Measure
    groups: str
    value: float
    low: float
    high: float
    statistic: str | None
    group: GroupName | None
    reference: GroupName | None
    tolerance: float | None
    undefined: tuple[GroupName, ...]
    distances: tuple[Distance, ...]

    @property
    def verdict(self) -> Verdict | None:
        """Whether the tolerance holds, as far as the interval tells; None if there is no tolerance."""
        if self.tolerance is None:
            return None
        if self.measure == "difference":
            holds, fails = self.high <= self.tolerance, self.low > self.tolerance
        else:
            holds, fails = self.low >= self.tolerance, self.high < self.tolerance
        return "satisfied" if holds else "violated" if fails else "insufficient evidence"


def compare(notion: Notion, counted: Tally, confidence: float, *, judge: bool = True) -> Comparison:
    """Compare each group with all rows.

    These contain the group, so the gap is written as q - q_g = (1 - pi)(q_r - q_g), a function of three
    independent shares: the group's, the rest's, and the group's share pi of all rows.

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
    measured = notion.measure(counted.rates)
    family = counted.rates.groups.members(notion.groups)
    z = critical_value(confidence, sum(_splits(part, counted, family) for part in notion.statistics))
    make = _differences if notion.compares_by == "difference" else _ratios
    distances = [make(statistic, counted, family, z) for statistic in notion.statistics]
    worst = _worst(measured)
    blind = counted.rates.groups.is_one_group(notion.groups) or any(found.undefined for found in measured)
    if notion.compares_by == "difference":
        reach = max(counted.share(part, family.matrix).width for part in notion.statistics)
        low = max(_largest(np.fmax(part.low, -part.high)) for part in distances)
        high = max(_largest(np.fmax(-part.low, part.high)) for part in distances)
        low, high = max(low, 0.0), reach if blind else min(high, reach)
    else:
        low = 0.0 if blind else min(_smallest(part.low) for part in distances)
        high = min(1.0, *(_smallest(part.high) for part in distances))
    return Comparison(
        notion=notion.label,
        measure=notion.compares_by,
        groups=notion.groups,
        value=math.nan if worst is None else worst.value,
        low=low,
        high=high,
        statistic=None if worst is None else worst.statistic,
        group=None if worst is None else worst.worst,
        reference=None,
        tolerance=notion.tolerance if judge else None,
        undefined=tuple(dict.fromkeys(name for found in measured for name in found.undefined)),
        distances=tuple(
            distance
            for statistic, part in zip(notion.statistics, distances, strict=True)
            for distance in _listed(statistic.name, family.names, part)
        ),
    )


def _splits(statistic: Statistic, counted: Tally, family: Members) -> int:
    """Number of distinct splits of the rows into a group and the rest; women and men are one split."""
    known = (np.array(statistic.mask) * counted.rates.mass).sum(axis=1) > 0
    groups = family.matrix[:, known]
    groups = groups[groups.any(axis=1)]
    with_first = np.where(groups[:, :1], groups, ~groups)  # a group and its complement are one split
    return len({row.tobytes() for row in np.packbits(with_first, axis=1)})


def _worst(measured: Sequence[Measurement]) -> Measurement | None:
    """The statistic with the largest disparity."""
    known = [found for found in measured if not math.isnan(found.value)]
    if not known:
        return None
    if known[0].measure == "difference":
        return max(known, key=lambda found: found.value)
    return min(known, key=lambda found: found.value)


def _shares(
    statistic: Statistic, counted: Tally, family: Members, z: float
) -> tuple[Estimate, Estimate, Estimate, NDArray[np.bool_]]:
    """The statistic in each group and in the rest, the group's part of all, and whether there is no rest."""
    own, rest = counted.share(statistic, family.matrix), counted.share(statistic, ~family.matrix)
    everyone = counted.share(statistic, np.ones((1, family.matrix.shape[1])))
    part = _part(own, rest, everyone, weighted=counted.weighted).estimate(z, clopper_pearson)
    shares = own.estimate(z, clopper_pearson), rest.estimate(z, clopper_pearson)
    return *shares, part, (own.mass > 0) & (rest.mass == 0)


def _part(own: Share, rest: Share, everyone: Share, *, weighted: bool) -> Share:
    """Each group's share of all rows, as a statistic that is 1 in the group and 0 in the rest."""
    value = own.mass / np.where(everyone.mass > 0, everyone.mass, 1.0)
    spread = own.squares * (1 - value) ** 2 + rest.squares * value**2 if weighted else None
    return Share(everyone.mass, everyone.squares, value, spread=spread)


def _differences(statistic: Statistic, counted: Tally, family: Members, z: float) -> Estimate:
    own, rest, part, alone = _shares(statistic, counted, family, z)
    found = gap(own, rest, part)
    return Estimate(*(np.where(alone, 0.0, -x) for x in (found.value, found.high, found.low)))


def _ratios(statistic: Statistic, counted: Tally, family: Members, z: float) -> Estimate:
    own, rest, part, alone = _shares(statistic, counted, family, z)
    up, down = quotient(own, rest, part), quotient(own.complement, rest.complement, part)
    pairs = ((up.value, down.value), (up.low, down.low), (up.high, down.high))
    return Estimate(*(np.where(alone, 1.0, np.minimum(np.minimum(*pair), 1.0)) for pair in pairs))


def _largest(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(known.max(initial=0.0))


def _smallest(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(known.min(initial=1.0))


def _listed(statistic: str, names: Sequence[GroupName], found: Estimate) -> Iterator[Distance]:
    for name, value, low, high in zip(
        names, found.value.tolist(), found.low.tolist(), found.high.tolist(), strict=True
    ):
        yield Distance(statistic, name, value, low, high)


def four_fifths(counted: Tally, confidence: float) -> tuple[Comparison, ...]:
    """Compare each group's selection rate with the highest.

    This is the rule of the US Uniform Guidelines on Employee Selection Procedures (29 CFR 1607.4 D): a rate
    below four fifths of the highest is evidence of adverse impact. Demographic parity by ratio differs: it
    compares with all rows. The values of each feature are compared, and all combinations.

    Which group has the highest rate is itself uncertain, so the limits come from simultaneous intervals for
    the quotients of all pairs of groups.

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
    groups = counted.rates.groups
    return tuple(_four_fifths(what, family, counted, confidence) for what, family in _families(groups))


def _families(groups: Groups) -> Iterator[tuple[str, Members]]:
    if len(groups.features) > 1:
        yield "intersectional", groups.members("intersectional")
    if groups.merged:  # the groups of single features cannot be recovered from these
        return
    single = groups.members("independent")
    for feature in groups.features:
        places = [k for k, name in enumerate(single.names) if name.features == (feature,)]
        yield feature, Members(tuple(single.names[k] for k in places), single.matrix[places])


def _four_fifths(what: str, family: Members, counted: Tally, confidence: float) -> Comparison:
    statistic = Statistic("selection rate")
    share = counted.share(statistic, family.matrix)
    known = np.flatnonzero(share.mass > 0)
    pairs = len(known) * (len(known) - 1) // 2
    rates = share.estimate(critical_value(confidence, pairs), clopper_pearson)
    low, high = np.full((2, len(share.mass)), np.nan)
    low[known] = high[known] = 1.0
    for k in known:
        other = Estimate(rates.value[k], rates.low[k], rates.high[k])
        against = quotient(rates, other)
        rest = known[known != k]
        low[rest] = np.minimum(low[rest], against.low[rest])
        high[rest] = np.minimum(high[rest], against.high[rest])
    top = int(known[np.argmax(rates.value[known])])
    lowest = int(known[np.argmin(rates.value[known])])
    most = rates.value[top]
    value = np.where(np.isnan(rates.value), np.nan, rates.value / most if most > 0 else 1.0)
    undefined = tuple(name for name, mass in zip(family.names, share.mass, strict=True) if not mass > 0)
    blind = bool(undefined) or not pairs
    return Comparison(
        notion=FOUR_FIFTHS,
        measure="ratio",
        groups=what,
        value=float(value[lowest]),
        low=0.0 if blind else _smallest(low),
        high=_smallest(high),
        statistic=statistic.name,
        group=family.names[lowest],
        reference=family.names[top],
        tolerance=0.8,
        undefined=undefined,
        distances=tuple(_listed(statistic.name, family.names, Estimate(value, low, high))),
    )
