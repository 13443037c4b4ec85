"""How far each group's statistic is from its reference: all rows, or the group with the highest rate.

Exact limits of the shares are combined by the method of variance estimates recovery; see
:mod:`evenhand.guarantee.intervals`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

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
from evenhand.requirements.measurement import Against, Measure
from evenhand.requirements.statistic import Statistic

__all__ = ["distances", "smallest_of_pairs"]


def distances(
    statistics: tuple[Statistic, ...],
    counted: Tally,
    family: Members,
    *,
    measure: Measure,
    against: Against,
    confidence: float,
) -> list[Estimate]:
    """Distances of all groups, for each statistic, with limits that hold simultaneously.

    Parameters
    ----------
    statistics : tuple of Statistic
    counted : Tally
    family : Members
        The groups.
    measure : {"difference", "ratio"}
    against : {"population", "groups"}
    confidence : float
        Of all limits together.

    Returns
    -------
    list of Estimate
        See :class:`evenhand.auditing.comparison.Distance`.
    """
    by_difference = measure == "difference"
    if against == "groups":
        number, make = _pairs, _below_highest if by_difference else _over_highest
    else:
        number, make = _splits, _differences if by_difference else _ratios
    z = critical_value(confidence, sum(number(part, counted, family) for part in statistics))
    return [make(part, counted, family, z) for part in statistics]


def _splits(statistic: Statistic, counted: Tally, family: Members) -> int:
    """Number of distinct splits of the rows into a group and the rest; women and men are one split."""
    known = (np.array(statistic.mask) * counted.rates.mass).sum(axis=1) > 0
    groups = family.matrix[:, known]
    groups = groups[groups.any(axis=1)]
    with_first = np.where(groups[:, :1], groups, ~groups)  # a group and its complement are one split
    return len({row.tobytes() for row in np.packbits(with_first, axis=1)})


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


def _pairs(statistic: Statistic, counted: Tally, family: Members) -> int:
    """Number of pairs of groups that are compared: those of the same features."""
    known = counted.share(statistic, family.matrix).mass > 0
    sizes = Counter(name.features for name, there in zip(family.names, known, strict=True) if there)
    return sum(size * (size - 1) // 2 for size in sizes.values())


def _below_highest(statistic: Statistic, counted: Tally, family: Members, z: float) -> Estimate:
    """Each group minus the highest: the smallest of its differences from the others, and from itself."""
    rates = counted.share(statistic, family.matrix).estimate(z, clopper_pearson)
    return smallest_of_pairs(family.names, rates, rates, by=difference, itself=0.0)


def _over_highest(statistic: Statistic, counted: Tally, family: Members, z: float) -> Estimate:
    """Each group over the highest: the smallest of its quotients by the others, and by itself."""
    rates = counted.share(statistic, family.matrix).estimate(z, clopper_pearson)
    return smallest_of_pairs(family.names, rates, rates, by=quotient, itself=1.0)


def smallest_of_pairs(
    names: Sequence[GroupName],
    lower: Estimate,
    upper: Estimate,
    *,
    by: Callable[[Estimate, Estimate], Estimate],
    itself: float,
) -> Estimate:
    """Each group compared with the others of the same features: the smallest value, and its limits.

    Parameters
    ----------
    names : sequence of GroupName
    lower, upper : Estimate
        The lowest and the highest rate that each group can have, NaN where it has none; the same if rates are
        known.
    by : callable
        The difference or the quotient of two rates.
    itself : float
        That of a group and itself.

    Returns
    -------
    Estimate
    """
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
