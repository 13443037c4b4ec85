"""How far each group's statistic is from all rows, from the group with the highest rate, or a named one.

Exact limits of the shares are combined by the method of variance estimates recovery; see
:mod:`evenhand.guarantee.intervals`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from evenhand.auditing.tally import Share, Tally
from evenhand.groups.groups import GroupName, Members
from evenhand.guarantee.intervals import (
    Estimate,
    clopper_pearson,
    critical_value,
    difference,
    gap,
    quotient,
)
from evenhand.requirements.measurement import Measure
from evenhand.requirements.notions import Notion
from evenhand.requirements.statistic import Statistic


def distances(notion: Notion, counted: Tally, family: Members, confidence: float) -> list[Estimate]:
    """Distances of all groups, for each statistic of a notion, with limits that hold simultaneously.

    Parameters
    ----------
    notion : Notion
    counted : Tally
    family : Members
        The groups.
    confidence : float
        Of all limits together.

    Returns
    -------
    list of Estimate
        See :class:`evenhand.auditing.comparison.Distance`.
    """
    make = _from_highest if notion.against == "groups" else _from_everyone
    if isinstance(notion.against, Mapping):
        make = _from_named
    z = critical_value(confidence, sum(_number(part, notion, counted, family) for part in notion.statistics))
    return [make(part, notion, counted, family, z) for part in notion.statistics]


def _number(statistic: Statistic, notion: Notion, counted: Tally, family: Members) -> int:
    """Number of comparisons of groups that have rows."""
    known = (np.array(statistic.mask) * counted.rates.mass).sum(axis=1) > 0
    groups = family.matrix[:, known]
    there = np.asarray(groups.any(axis=1))
    if notion.against == "groups":  # pairs of groups of the same features
        sizes = Counter(name.features for name, has_rows in zip(family.names, there, strict=True) if has_rows)
        return sum(math.comb(size, 2) for size in sizes.values())
    if isinstance(notion.against, Mapping):  # groups beside a named one
        places = enumerate(notion.places(family))
        return max(1, sum(bool(there[own]) and own != place for own, place in places))
    with_first = np.where(groups[:, :1], groups, ~groups)[there]  # women and men are one split of the rows
    return len({row.tobytes() for row in np.packbits(with_first, axis=1)})


def _from_everyone(
    statistic: Statistic, notion: Notion, counted: Tally, family: Members, z: float
) -> Estimate:
    inside, outside = counted.share(statistic, family.matrix), counted.share(statistic, ~family.matrix)
    everyone = counted.share(statistic, np.ones((1, family.matrix.shape[1])))
    size = _part(inside, outside, everyone, weighted=counted.weighted)
    own, rest, part = (share.estimate(z, clopper_pearson) for share in (inside, outside, size))
    alone = (inside.mass > 0) & (outside.mass == 0)
    if notion.compares_by == "difference":
        found = gap(own, rest, part)
        return Estimate(*(np.where(alone, 0.0, -x) for x in (found.value, found.high, found.low)))
    up, down = quotient(own, rest, part), quotient(own.complement, rest.complement, part)
    pairs = ((up.value, down.value), (up.low, down.low), (up.high, down.high))
    return Estimate(*(np.where(alone, 1.0, np.minimum(np.minimum(*pair), 1.0)) for pair in pairs))


def _part(own: Share, rest: Share, everyone: Share, *, weighted: bool) -> Share:
    """Each group's share of all rows, as a statistic that is 1 in the group and 0 in the rest."""
    value = own.mass / np.where(everyone.mass > 0, everyone.mass, 1.0)
    spread = own.squares * (1 - value) ** 2 + rest.squares * value**2 if weighted else None
    return Share(everyone.mass, everyone.squares, value, spread=spread)


def _from_named(statistic: Statistic, notion: Notion, counted: Tally, family: Members, z: float) -> Estimate:
    rates = counted.share(statistic, family.matrix).estimate(z, clopper_pearson)
    places = notion.places(family)
    named = Estimate(*(end[list(places)] for end in (rates.value, rates.low, rates.high)))
    by, itself = (difference, 0.0) if notion.compares_by == "difference" else (quotient, 1.0)
    found = by(rates, named)
    alone = (np.asarray(places) == np.arange(len(places))) & ~np.isnan(rates.value)
    return Estimate(*(np.where(alone, itself, end) for end in (found.value, found.low, found.high)))


def _from_highest(
    statistic: Statistic, notion: Notion, counted: Tally, family: Members, z: float
) -> Estimate:
    rates = counted.share(statistic, family.matrix).estimate(z, clopper_pearson)
    return smallest_of_pairs(family.names, rates, rates, notion.compares_by)


def smallest_of_pairs(
    names: Sequence[GroupName], lower: Estimate, upper: Estimate, measure: Measure
) -> Estimate:
    """Each group compared with the highest of the same features: the smallest value over all pairs.

    A group is also compared with itself, so a difference is at most 0 and a ratio at most 1.

    Parameters
    ----------
    names : sequence of GroupName
    lower, upper : Estimate
        The lowest and the highest rate that each group can have, NaN where it has none; the same if rates are
        known.
    measure : {"difference", "ratio"}

    Returns
    -------
    Estimate
    """
    by, itself = (difference, 0.0) if measure == "difference" else (quotient, 1.0)
    known = ~np.isnan(lower.value)
    features = [name.features for name in names]
    kinds = np.array([features.index(own) for own in features])
    smallest = np.tile(np.where(known, itself, np.nan), (3, 1))
    for k in np.flatnonzero(known):
        least, most = (Estimate(one.value[k], one.low[k], one.high[k]) for one in (lower, upper))
        low = by(lower, most)
        high = low if lower is upper else by(upper, least)
        rest = known & (kinds == kinds[k])
        rest[k] = False
        limits = np.stack([low.value, low.low, high.high])
        smallest[:, rest] = np.minimum(smallest[:, rest], limits[:, rest])
    return Estimate(*smallest)
