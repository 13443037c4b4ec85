"""Groups beside a named reference: who it is, and how many of each group were selected."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.auditing.tally import Tally
from evenhand.data.checks import near_names
from evenhand.exceptions import GroupError, InputError
from evenhand.groups.groups import POOLED, GroupName, Groups, Members
from evenhand.guarantee.intervals import clopper_pearson, quotient

SMALLEST_REFERENCE = 30
"""Fewest rows of a reference. Every group is compared with it, so its error is in every figure."""


@dataclass(frozen=True, eq=False)
class ReferenceCounts:
    """Rows and selected rows of the groups of some features, by stratum.

    Attributes
    ----------
    groups : tuple of GroupName
    place : int
        The reference among them.
    rows, selected : array, shape (strata, groups)
        Numbers of rows, without weights; one stratum if there are no control features.
    strata : tuple of GroupName
        Empty if there are no control features.
    """

    groups: tuple[GroupName, ...]
    place: int
    rows: NDArray[np.float64]
    selected: NDArray[np.float64]
    strata: tuple[GroupName, ...] = ()

    def numbers(self, group: int) -> dict[str, int]:
        """Rows and selected rows of a group in all strata."""
        return {name: round(getattr(self, name)[:, group].sum()) for name in ("rows", "selected")}


def reference_families(
    groups: Groups, reference: Mapping[str, Any], rows: NDArray[np.float64]
) -> Iterator[tuple[Members, int]]:
    """The groups to compare and the place of the reference among them.

    Each feature that is named is compared by itself; if all of several are named, so are the combinations.

    Parameters
    ----------
    groups : Groups
    reference : mapping
        The value of one or more sensitive features, such as ``{"race": "White", "sex": "Male"}``.
    rows : array, shape (M,)
        Number of rows of each code.

    Yields
    ------
    family : Members
    place : int
    """
    if not isinstance(reference, Mapping) or not reference:
        raise InputError(
            "reference must map sensitive features to values, such as {'race': 'White', 'sex': 'Male'}, got "
            f"{reference!r}."
        )
    for feature, value in reference.items():
        if feature not in groups.features:
            near = near_names(feature, groups.features, "The sensitive features are")
            raise InputError(f"reference: {feature!r} is not a sensitive feature. {near}")
        levels = [level for level in groups.levels(feature) if level is not POOLED]
        if value not in levels:
            near = near_names(value, levels, "Its values are")
            raise GroupError(f"reference: no group has {feature}={value!r}. {near}")
    for feature in (name for name in groups.features if name in reference):
        yield _family(groups.members_of(feature), (reference[feature],), rows)
    if len(reference) == len(groups.features) > 1:
        key = tuple(reference[name] for name in groups.features)
        yield _family(groups.members("intersectional"), key, rows)


def _family(family: Members, key: tuple[Any, ...], rows: NDArray[np.float64]) -> tuple[Members, int]:
    """A family with the place of its reference, which must occur in enough rows."""
    named = GroupName(family.names[0].features, key)
    if named not in family.names:
        others = near_names(named, [str(name) for name in family.names], "The groups are")
        raise GroupError(f"reference: no group is {named}. {others}")
    place = family.names.index(named)
    found = int(rows[family.matrix[place]].sum())
    if found < SMALLEST_REFERENCE:
        raise GroupError(
            f"reference: {named} has {found:,} rows; a reference must have at least {SMALLEST_REFERENCE}. "
            "Name a larger group."
        )
    return family, place


def count_beside(counted: Tally, reference: Mapping[str, Any]) -> tuple[ReferenceCounts, ...]:
    """Counts of the groups of each feature that `reference` names, and of the combinations if it names all.

    Examples
    --------
    >>> from evenhand.auditing.tally import tally
    >>> from evenhand.requirements.rates import read_rows
    >>> counted = tally(read_rows(None, [1, 1, 0] * 20, {"sex": ["M", "M", "F"] * 20}))
    >>> [found] = count_beside(counted, {"sex": "M"})
    >>> str(found.groups[found.place]), found.rows.tolist(), found.selected.tolist()
    ('sex=M', [[20.0, 40.0]], [[0.0, 40.0]])
    """
    groups, strata = counted.groups, counted.groups.strata
    n_strata = 1 if strata is None else len(strata)
    rows, selected = (part.sum(axis=1) for part in (counted.rows, counted.selected))

    def by_stratum(family: Members, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        members = family.matrix.reshape(len(family.names), n_strata, -1)
        return np.asarray((members * numbers.reshape(n_strata, -1)).sum(axis=2).T)

    return tuple(
        ReferenceCounts(
            family.names,
            place,
            by_stratum(family, rows),
            by_stratum(family, selected),
            () if strata is None else strata.names,
        )
        for family, place in reference_families(groups, reference, rows)
    )


def impact_ratio(rate: float, rows: int, base: float, base_rows: int, z: float) -> tuple[float, float, float]:
    """A group's rate divided by that of its reference, and limits; NaN if the reference's is 0.

    Examples
    --------
    >>> [round(part, 3) for part in impact_ratio(0.5, 80, 0.75, 96, z=1.96)]
    [0.667, 0.505, 0.856]
    """
    found = quotient(clopper_pearson(rate, rows, z), clopper_pearson(base, base_rows, z))
    return (float(found.value) if base > 0 else math.nan), float(found.low), float(found.high)
