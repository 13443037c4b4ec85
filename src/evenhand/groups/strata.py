"""Strata: the people with the same values of the control features, among whom groups are compared.

A cell of stratified groups is a combination of sensitive values in one stratum, so the strata of some of the
control features, or of a sensitive feature, are unions of cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.data.checks import check_rows
from evenhand.data.columns import named_columns
from evenhand.display.text import first_of
from evenhand.exceptions import GroupError, InputError
from evenhand.groups.groups import GroupName, Groups, Members, Mode
from evenhand.groups.sensitive import (
    are_numbers,
    observed_combinations,
    read_columns,
    refuse_missing,
)

Places = NDArray[np.intp]
Counts = NDArray[np.int64]

_MOST_NUMBERS = 50
"""A control feature with more distinct numbers than this is taken for a measurement."""


@dataclass(frozen=True, eq=False)
class Stratum:
    """People with the same values of some control features.

    Attributes
    ----------
    name : GroupName
        The control features and their values.
    cells : array of bool, shape (L * M,)
        Which cells are in the stratum.
    family : Members
        The groups that are compared: those with rows in it.
    empty : tuple of GroupName
        Groups without any.
    """

    name: GroupName
    cells: NDArray[np.bool_]
    family: Members
    empty: tuple[GroupName, ...]


def nothing_to_compare(names: Sequence[GroupName]) -> bool:
    """Whether no two of these groups are of the same features."""
    return max(Counter(name.features for name in names).values(), default=0) < 2


def check_controls(where: str, given: Any) -> None:
    """Raise an InputError unless `given` is a list of different names."""
    proper = isinstance(given, Sequence) and not isinstance(given, str | bytes) and len(given) > 0
    if not proper or not all(isinstance(name, str) for name in given):
        raise InputError(f"{where}: given must be a list of names of control features, got {given!r}.")
    if len(set(given)) < len(given):
        raise InputError(f"{where}: given names a control feature twice: {given!r}.")


def read_strata(control_features: Any, row_counts: Counts | None = None) -> tuple[Groups, NDArray[np.int32]]:
    """Strata of a table of control features, and the stratum of each row.

    Parameters
    ----------
    control_features : table, mapping, array or sequence
        One column per control feature. Missing values are refused, and so are more than 50 different numbers
        in a column.
    row_counts : array of int, default=None
        Rows that each row stands for; None stands for one.

    Returns
    -------
    strata : Groups
    codes : array of int32

    Examples
    --------
    >>> strata, codes = read_strata({"level": ["senior", "junior", "senior"]})
    >>> strata.keys, codes.tolist()
    ((('junior',), ('senior',)), [1, 0, 1])
    """
    columns = read_columns(control_features, kind="control")
    refuse_missing(columns, row_counts, kind="control")
    for name, (levels, _) in columns.items():
        if len(levels) > _MOST_NUMBERS and are_numbers(levels):
            raise GroupError(
                f"control feature {name!r} has {len(levels):,} different numbers, which leaves few people to "
                "compare in each stratum. Band them first, such as incomes into thirds; if they are codes, "
                "pass them as text."
            )
    keys, counts, codes = observed_combinations(list(columns.values()), row_counts)
    return Groups(tuple(columns), tuple(keys), counts), codes


def stratify(
    groups: Groups, codes: NDArray[np.int32], control_features: Any, *, row_counts: Counts | None = None
) -> tuple[Groups, NDArray[np.int32]]:
    """Groups within the strata of the same rows, and the cell of each row.

    Parameters
    ----------
    groups : Groups
    codes : array of int32
        The group of each row.
    control_features : table, mapping, array or sequence
    row_counts : array of int, default=None
        Rows that each row stands for; None stands for one.

    Returns
    -------
    groups : Groups
    codes : array of int32
    """
    strata, own = read_strata(control_features, row_counts)
    refuse_shared_names(strata.features, groups.features)
    check_rows({"sensitive_features": codes, "control_features": own})
    return groups_in_strata(groups, codes, strata, own, row_counts=row_counts)


def encode_strata(strata: Groups, control_features: Any) -> NDArray[np.int32]:
    """The stratum of each row of new data.

    Parameters
    ----------
    strata : Groups
    control_features : table or mapping
        The same features.

    Returns
    -------
    array of int32
        Codes. A stratum that was not seen is an error or, under ``unseen="pooled"``, has the code -1.
    """
    columns = named_columns(control_features, what="control_features", default_name="control_feature")
    return strata.encode({name: columns[name] for name in strata.features}, kind="control")


def needed_controls(
    control_features: Any, controls: Sequence[str], features: Sequence[str]
) -> dict[str, Any]:
    """The control features that a requirement names and that are not sensitive features.

    Parameters
    ----------
    control_features : table, mapping, array or sequence
    controls : sequence of str
        Names in the requirement.
    features : sequence of str
        The sensitive features.

    Returns
    -------
    dict
        Columns by name.
    """
    given = named_columns(control_features, what="control_features", default_name="control_feature")
    refuse_shared_names(tuple(given), features)
    for name in controls:
        if name not in given and name not in features:
            raise _unknown_control(name, tuple(given))
    return {name: column for name, column in given.items() if name in controls}


def _unknown_control(name: str, controls: Sequence[str]) -> GroupError:
    have = f"there are {', '.join(map(repr, controls))}" if controls else "there are none"
    return GroupError(
        f"given names {name!r}, which is neither a control feature ({have}) nor a sensitive feature."
    )


def groups_in_strata(
    groups: Groups,
    codes: NDArray[np.int32],
    strata: Groups,
    stratum_codes: NDArray[np.int32],
    *,
    row_counts: Counts | None = None,
) -> tuple[Groups, NDArray[np.int32]]:
    """Groups within strata with their row counts, from the group and the stratum of each row."""
    M, known = len(groups), codes >= 0
    cells = np.where(known, stratum_codes * np.int64(M) + codes, -1)
    counts = np.zeros(M * len(strata), np.int64)
    np.add.at(counts, cells[known], 1 if row_counts is None else row_counts[known])
    return groups.within(strata, counts), cells.astype(np.int32)


def refuse_shared_names(controls: Sequence[str], features: Sequence[str]) -> None:
    """Raise a GroupError if a control feature has the name of a sensitive feature."""
    for name in controls:
        if name in features:
            raise GroupError(
                f"{name!r} is already a sensitive feature: name it in given=, and drop it from "
                "control_features."
            )


def find_strata(groups: Groups, controls: Sequence[str], mode: Mode) -> Iterator[Stratum]:
    """Iterate over the strata of some control features.

    Parameters
    ----------
    groups : Groups
        Within strata; a control feature may also be one of their own.
    controls : sequence of str
    mode : {"intersectional", "independent"}
        Which groups are compared.

    Yields
    ------
    Stratum

    Examples
    --------
    >>> groups = Groups.product({"sex": ["F", "M"]}).within(Groups.product({"level": ["1", "2"]}))
    >>> for stratum in find_strata(groups, ["level"], "intersectional"):
    ...     print(stratum.name, stratum.cells.astype(int))
    level=1 [1 1 0 0]
    level=2 [0 0 1 1]
    """
    codes, names = _strata_of_cells(groups, controls)
    everywhere = groups.members(mode)
    own = [k for k, name in enumerate(everywhere.names) if not set(name.features) <= set(controls)]
    short = [_without(name, controls) for name in everywhere.names]
    counted = groups.counts > 0 if groups.counts.any() else np.ones(len(groups), np.bool_)
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(names) + 1))
    for k, name in enumerate(names):
        inside = order[bounds[k] : bounds[k + 1]]
        cells = np.zeros(len(groups), np.bool_)
        cells[inside] = True
        possible = [g for g in own if everywhere.matrix[g, inside].any()]
        there = [g for g in possible if (everywhere.matrix[g, inside] & counted[inside]).any()]
        yield Stratum(
            name,
            cells,
            Members(tuple(short[g] for g in there), everywhere.matrix[there]),
            tuple(short[g] for g in possible if g not in there),
        )


def _without(name: GroupName, controls: Sequence[str]) -> GroupName:
    """The name of a group without the features that are the same in a whole stratum."""
    kept = [k for k, feature in enumerate(name.features) if feature not in controls]
    return GroupName(tuple(name.features[k] for k in kept), tuple(name.values[k] for k in kept))


def count_strata(groups: Groups, controls: Sequence[str]) -> int:
    """Number of strata of some control features."""
    return len(_strata_of_cells(groups, controls)[1])


def vacuous_strata(groups: Groups, controls: Sequence[str], mode: Mode) -> str:
    """A sentence about strata with nothing to compare; empty if there are none."""
    alone = [
        part.name for part in find_strata(groups, controls, mode) if nothing_to_compare(part.family.names)
    ]
    if not alone:
        return ""
    total = count_strata(groups, controls)
    where = f"{len(alone):,} of {total:,} strata ({first_of(alone)})"
    return f"there are no two groups to compare in {where}, so nothing is required there."


def _strata_of_cells(groups: Groups, controls: Sequence[str]) -> tuple[Places, tuple[GroupName, ...]]:
    """The stratum of each cell, and the names of the strata, in the order of their values."""
    strata = groups.strata
    known = (*(() if strata is None else strata.features), *groups.features)
    for name in controls:
        if name not in known:
            raise _unknown_control(name, () if strata is None else strata.features)
    if strata is not None:
        keys = tuple(name.values for name in groups.cell_names)
        groups = replace(groups, features=known, keys=keys, strata=None)
    places, codes = np.unique(groups.level_codes(controls), axis=0, return_inverse=True)
    levels = [groups.levels(name) for name in controls]
    names = tuple(
        GroupName(tuple(controls), tuple(part[k] for part, k in zip(levels, place, strict=True)))
        for place in places.tolist()
    )
    return codes.ravel(), names
