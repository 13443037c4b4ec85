"""Disparities within strata: each stratum compared on its own, and all of them together.

The rows of a stratum are counted like any others, so a stratum is compared by the same code as all rows. The
intervals of the strata hold simultaneously (Bonferroni), and the interval of the worst stratum is made from
them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from evenhand.auditing.comparison import Comparison, compare, judged
from evenhand.auditing.tally import Tally
from evenhand.groups.groups import GroupName, Groups
from evenhand.groups.strata import Stratum, find_strata, nothing_to_compare
from evenhand.requirements.notions import Notion


def tallies(counted: Tally, controls: Sequence[str]) -> Iterator[tuple[Stratum, Tally]]:
    """Iterate over the strata of some control features.

    Parameters
    ----------
    counted : Tally
        Of groups within strata.
    controls : sequence of str

    Yields
    ------
    stratum : Stratum
    inside : Tally
        Of the groups that have rows in it.
    """
    for stratum in find_strata(counted.groups, controls, "intersectional"):
        if not counted.rows[stratum.cells].any():
            continue  # all of its rows are excluded
        yield stratum, _among(counted, stratum.name, stratum.cells)


def compare_in_strata(notion: Notion, counted: Tally, confidence: float, *, judge: bool = True) -> Comparison:
    """Compare groups within each stratum, and find the worst.

    Parameters
    ----------
    notion : Notion
        With control features.
    counted : Tally
        Of groups within strata.
    confidence : float
        Of the interval of the worst stratum.
    judge : bool, default=True
        Whether to compare with the notion's tolerance; otherwise there is no verdict.

    Returns
    -------
    Comparison
        With those of the strata, and that of all rows together.
    """
    plain = notion.within(None)
    every = list(tallies(counted, notion.controls))
    several = [pair for pair in every if not nothing_to_compare(pair[1].groups.members(notion.groups).names)]
    parts = several or every[:1]
    each = 1 - (1 - confidence) / len(parts)
    strata = tuple(
        replace(compare(plain, inside, each, judge=judge), stratum=part.name, given=notion.controls)
        for part, inside in parts
    )
    most = max if notion.compares_by == "difference" else min
    known = [part for part in strata if not math.isnan(part.value)]
    low, high = most(part.low for part in strata), most(part.high for part in strata)
    return replace(
        most(known, key=lambda part: part.value) if known else strata[0],
        low=low,
        high=high,
        verdict=judged(notion.compares_by, notion.tolerance, low, high) if judge else None,
        undefined=tuple(_inside(name, part.stratum) for part in strata for name in part.undefined),
        distances=tuple(replace(one, stratum=part.stratum) for part in strata for one in part.distances),
        strata=strata,
        vacuous=tuple(pair[0].name for pair in every if pair not in several),
        empty=tuple(_inside(name, part.name) for part, _ in every for name in part.empty),
        aggregate=compare(plain, counted, confidence, judge=False),
    )


def _inside(group: GroupName, stratum: GroupName | None) -> GroupName:
    """A group named together with its stratum."""
    if stratum is None:
        return group
    return GroupName((*stratum.features, *group.features), (*stratum.values, *group.values))


def _among(counted: Tally, name: GroupName, cells: NDArray[np.bool_]) -> Tally:
    """The sums over some of the cells, by group; groups without rows are left out."""
    M = len(counted.groups.combinations)
    by_stratum = counted.sums.reshape(*counted.sums.shape[:2], -1, M, 2)
    sums = (by_stratum * cells.reshape(-1, M, 1)).sum(axis=2)
    rows = sums[0, 0].sum(axis=1)
    kept = np.flatnonzero(rows > 0)
    groups = _kept_groups(counted.groups, name, kept, rows[kept])
    return replace(counted, groups=groups, sums=sums[:, :, kept], excluded=counted.excluded[:, :, :0])


def _kept_groups(
    groups: Groups, name: GroupName, kept: NDArray[np.intp], counts: NDArray[np.float64]
) -> Groups:
    """Some of the groups, without sensitive features that are the same in the whole stratum."""
    places = [k for k, feature in enumerate(groups.features) if feature not in name.features]
    places = places or list(range(len(groups.features)))
    fixed = dict(zip(name.features, name.values, strict=True))
    own = {k: fixed[feature] for k, feature in enumerate(groups.features) if k not in places}
    return replace(
        groups,
        features=tuple(groups.features[k] for k in places),
        keys=tuple(tuple(groups.combinations[m][k] for k in places) for m in kept),
        counts=counts.astype(np.int64),
        pooled={
            tuple(key[k] for k in places): count
            for key, count in groups.pooled.items()
            if all(key[k] == value for k, value in own.items())
        },
        excluded={},
        strata=None,
    )
