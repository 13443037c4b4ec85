"""Disparities within strata: each stratum compared on its own, and all of them together.

The rows of a stratum are counted like any others, so a stratum is compared by the same code as all rows. The
intervals of the strata hold simultaneously (Bonferroni), and the interval of the worst stratum is made from
them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evenhand.auditing.comparison import Comparison, compare, judged
from evenhand.auditing.tally import DecisionChanges, Tally
from evenhand.groups.groups import GroupName, Groups
from evenhand.groups.strata import find_strata, nothing_to_compare
from evenhand.requirements.notions import Notion

__all__ = ["StratumTally", "compare_in_strata", "tallies"]


@dataclass(frozen=True, eq=False)
class StratumTally:
    """The sums over the cells of one stratum.

    Attributes
    ----------
    name : GroupName
        The control features and their values.
    counted : Tally
        Of the groups that have rows in the stratum.
    empty : tuple of GroupName
        The groups that have none.
    """

    name: GroupName
    counted: Tally
    empty: tuple[GroupName, ...]


def tallies(counted: Tally, controls: Sequence[str]) -> Iterator[StratumTally]:
    """Iterate over the strata of some control features.

    Parameters
    ----------
    counted : Tally
        Of groups within strata.
    controls : sequence of str

    Yields
    ------
    StratumTally
    """
    for stratum in find_strata(counted.rates.groups, controls, "intersectional"):
        if not counted.rows[stratum.cells].any():
            continue  # all of its rows are excluded
        yield StratumTally(stratum.name, _among(counted, stratum.name, stratum.cells), stratum.empty)


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
    plain = copy(notion)
    plain.given = None
    every = list(tallies(counted, notion.controls))
    several = [
        part
        for part in every
        if not nothing_to_compare(part.counted.rates.groups.members(notion.groups).names)
    ]
    parts = several or every[:1]
    each = 1 - (1 - confidence) / len(parts)
    strata = tuple(
        replace(compare(plain, part.counted, each, judge=judge), stratum=part.name, given=notion.controls)
        for part in parts
    )
    worst = _worst(strata)
    by_difference = notion.compares_by == "difference"
    low, high = (
        (max if by_difference else min)(getattr(part, end) for part in strata) for end in ("low", "high")
    )
    return replace(
        worst,
        low=low,
        high=high,
        verdict=judged(notion.compares_by, notion.tolerance, low, high) if judge else None,
        undefined=tuple(_inside(name, part.stratum) for part in strata for name in part.undefined),
        distances=tuple(replace(one, stratum=part.stratum) for part in strata for one in part.distances),
        strata=strata,
        vacuous=tuple(part.name for part in every if part not in several),
        empty=tuple(_inside(name, part.name) for part in every for name in part.empty),
        aggregate=compare(plain, counted, confidence, judge=False),
    )


def _worst(strata: Sequence[Comparison]) -> Comparison:
    known = [part for part in strata if not math.isnan(part.value)]
    if not known:
        return strata[0]
    return (max if known[0].measure == "difference" else min)(known, key=lambda part: part.value)


def _inside(group: GroupName, stratum: GroupName | None) -> GroupName:
    """A group named together with its stratum."""
    if stratum is None:
        return group
    return GroupName((*stratum.features, *group.features), (*stratum.values, *group.values))


def _among(counted: Tally, name: GroupName, cells: NDArray[np.bool_]) -> Tally:
    """The sums over some of the cells, by group; groups without rows are left out."""
    groups = counted.rates.groups
    M = len(groups.combinations)
    inside = cells.reshape(-1, M, 1)

    def added(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((sums.reshape(-1, M, 2) * inside).sum(axis=0))

    rows = added(counted.rows)
    kept = np.flatnonzero(rows.sum(axis=1) > 0)

    def of(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        return added(sums)[kept]

    def changes(found: DecisionChanges | None) -> DecisionChanges | None:
        return None if found is None else DecisionChanges(of(found.before), of(found.after), of(found.up))

    return replace(
        counted,
        rates=replace(
            counted.rates,
            groups=_kept_groups(groups, name, kept, rows),
            mass=of(counted.rates.mass),
            selected=of(counted.rates.selected),
        ),
        squares=of(counted.squares),
        rows=rows[kept],
        selected=of(counted.selected),
        changes=changes(counted.changes),
        change_counts=changes(counted.change_counts),
        squares_selected=None if counted.squares_selected is None else of(counted.squares_selected),
        change_squares=changes(counted.change_squares),
        excluded=None,
    )


def _kept_groups(
    groups: Groups, name: GroupName, kept: NDArray[np.intp], rows: NDArray[np.float64]
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
        counts=rows[kept].sum(axis=1).astype(np.int64),
        pooled={
            tuple(key[k] for k in places): count
            for key, count in groups.pooled.items()
            if all(key[k] == value for k, value in own.items())
        },
        excluded={},
        strata=None,
    )
