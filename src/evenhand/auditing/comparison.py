"""How far groups are apart, with an interval that holds for the worst of them, and a verdict.

The largest of several estimated gaps is biased upwards: among equal groups some group always seems to be
far off. So each group gets an interval that holds for all groups at once (Bonferroni, on exact limits of the
shares), and the interval of the maximum is made from theirs: its lower limit is the largest gap that is
certain, its upper limit the largest that is possible.
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
    """How far one group is from what it is compared with; the limits hold for all groups at once.

    Attributes
    ----------
    statistic : str
    group : GroupName
    value, low, high : float
        By difference: the group's statistic minus everybody's. By ratio: the smaller of q_g / q and
        (1 - q_g) / (1 - q); under the four-fifths rule the quotient with the highest rate. NaN where it is
        undefined.
    """

    statistic: str
    group: GroupName
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """How far the groups are apart by one notion and measure.

    Attributes
    ----------
    notion : str
    measure : {"difference", "ratio"}
    groups : str
        What is compared: "intersectional" or "independent", or one feature under the four-fifths rule.
    value, low, high : float
        The largest difference (MD) or the smallest ratio (MR), and its interval. NaN where it is undefined.
    statistic : str or None
        The statistic that sets it.
    group : GroupName or None
        The group that sets it.
    reference : GroupName or None
        What that group is compared with; None stands for everybody.
    tolerance : float or None
        What is asked for, if anything.
    undefined : tuple of GroupName
        Groups without any row that the notion looks at: nothing is known about them, so they leave
        the interval open on the side of the violation.
    distances : tuple of Distance
        Each group by itself.
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
        """Whether the tolerance holds, beyond what chance explains; None if nothing is asked for."""
        if self.tolerance is None:
            return None
        if self.measure == "difference":
            holds, fails = self.high <= self.tolerance, self.low > self.tolerance
        else:
            holds, fails = self.low >= self.tolerance, self.high < self.tolerance
        return "satisfied" if holds else "violated" if fails else "insufficient evidence"


def compare(notion: Notion, counted: Tally, confidence: float, *, judge: bool = True) -> Comparison:
    """Compare each group with everybody.

    Everybody contains the group. The gap is therefore written with the rest, q - q_g = (1 - pi)(q_r - q_g),
    so that it is made from three independent shares: the group's, the rest's, and the group's share pi of
    all rows.

    Parameters
    ----------
    notion : Notion
    counted : Tally
    confidence : float
        Of the interval as a whole.
    judge : bool
        Whether the notion's tolerance is meant; otherwise there is no verdict.

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
    """In how many ways the rows are split into a group and the rest; women and men are one split."""
    known = (np.array(statistic.mask) * counted.rates.mass).sum(axis=1) > 0
    groups = family.matrix[:, known]
    groups = groups[groups.any(axis=1)]
    turned = np.where(groups[:, :1], groups, ~groups)
    return len({row.tobytes() for row in np.packbits(turned, axis=1)})


def _worst(measured: Sequence[Measurement]) -> Measurement | None:
    """The statistic whose groups are furthest apart."""
    known = [found for found in measured if not math.isnan(found.value)]
    if not known:
        return None
    if known[0].measure == "difference":
        return max(known, key=lambda found: found.value)
    return min(known, key=lambda found: found.value)


def _shares(
    statistic: Statistic, counted: Tally, family: Members, z: float
) -> tuple[Estimate, Estimate, Estimate, NDArray[np.bool_]]:
    """The statistic in each group and in its rest, the group's part of all, and where there is no rest."""
    own, rest = counted.share(statistic, family.matrix), counted.share(statistic, ~family.matrix)
    everybody = counted.share(statistic, np.ones((1, family.matrix.shape[1])))
    part = _part(own, rest, everybody, weighted=counted.weighted).estimate(z, clopper_pearson)
    shares = own.estimate(z, clopper_pearson), rest.estimate(z, clopper_pearson)
    return *shares, part, (own.mass > 0) & (rest.mass == 0)


def _part(own: Share, rest: Share, everybody: Share, *, weighted: bool) -> Share:
    """Each group's share of everybody, as a statistic that is 1 in the group and 0 in the rest."""
    value = own.mass / np.where(everybody.mass > 0, everybody.mass, 1.0)
    spread = own.squares * (1 - value) ** 2 + rest.squares * value**2 if weighted else None
    return Share(everybody.mass, everybody.squares, value, spread=spread)


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
    """Compare each group's selection rate with that of the group that is selected most often.

    This is the rule of the US Uniform Guidelines on Employee Selection Procedures (29 CFR 1607.4 D): a rate
    below four fifths of the highest is evidence of adverse impact. It differs from demographic parity by
    ratio, which compares with everybody. The values of each feature are compared, and all combinations.

    Which group is the highest is itself uncertain, so the limits come from the quotients of all pairs of
    groups at once.

    Parameters
    ----------
    counted : Tally
    confidence : float
        Of each interval as a whole.

    Returns
    -------
    tuple of Comparison
        All combinations, then each feature; for a single feature only that.
    """
    groups = counted.rates.groups
    return tuple(_four_fifths(what, family, counted, confidence) for what, family in _families(groups))


def _families(groups: Groups) -> Iterator[tuple[str, Members]]:
    if len(groups.features) > 1:
        yield "intersectional", groups.members("intersectional")
    if groups.merged:  # the groups of single features cannot be had from these
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
