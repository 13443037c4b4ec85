"""Sensitive columns read into the combinations of values that occur."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.data.checks import check_rows
from evenhand.data.columns import (
    Level,
    TooManyLevels,
    blocks,
    count_rows,
    factorize,
    named_columns,
)
from evenhand.exceptions import GroupError, ManyGroupsWarning, warn_user
from evenhand.groups.names import Key

Factors = tuple[tuple[Level, ...], NDArray[np.int32]]
"""The distinct values of a column, and each row's position among them; -1 where it is missing."""

Kind = Literal["sensitive", "control"]
_REMEDIES = {
    "sensitive": "Fill them in, or pass missing='exclude' or missing='category'.",
    "control": "Drop these rows, or fill in a value that stands for a stratum of its own.",
}
MAX_LEVELS = 200
"""A sensitive feature with more distinct values is refused."""
_MANY_NUMBERS = 20
"""A feature with more distinct numbers than this is taken for a measurement, not for codes of groups."""
_TABLE_SIZE = 1 << 20
"""Up to here combinations are counted in a table of all of them; beyond, the codes are sorted."""


def read_columns(
    features: Any, *, max_levels: int | None = None, kind: Kind = "sensitive"
) -> dict[str, Factors]:
    """The values of each feature, sorted; more than `max_levels` of them are refused."""
    what = f"{kind}_features"
    columns = named_columns(features, what=what, default_name=f"{kind}_feature")
    if not columns:
        raise GroupError(f"{what} has no columns.")
    check_rows({what: columns})
    limit = np.iinfo(np.int32).max if max_levels is None else max_levels
    try:
        return {
            name: factorize(column, what=f"{kind} feature {name!r}", limit=limit)
            for name, column in columns.items()
        }
    except TooManyLevels as error:
        raise GroupError(f"{error} Put the values into a few bins first.") from None


def read_levels(features: Any) -> dict[str, Factors]:
    """The values of each sensitive feature, for groups to be made from; many numbers are warned of."""
    columns = read_columns(features, max_levels=MAX_LEVELS)
    for name, (levels, _) in columns.items():
        if len(levels) > _MANY_NUMBERS and are_numbers(levels):
            warn_user(
                f"sensitive feature {name!r} has {len(levels)} different numbers, each a group of its own. "
                "Band them first, such as ages into '18-29', '30-49' and '50+'.",
                ManyGroupsWarning,
            )
    return columns


def are_numbers(levels: Sequence[Level]) -> bool:
    """Whether all values are numbers."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in levels)


def refuse_missing(
    columns: Mapping[str, Factors],
    counts: NDArray[np.int64] | None = None,
    *,
    kind: Kind = "sensitive",
    remedy: str = "",
) -> None:
    """Raise a GroupError if a value is missing; `counts` are the rows that entries stand for."""
    for name, (_, codes) in columns.items():
        missing, n_rows = count_rows(codes < 0, counts)
        if missing:
            where = f"{kind} feature {name!r} is missing in {missing:,} of {n_rows:,} rows."
            raise GroupError(f"{where} {remedy or _REMEDIES[kind]}")


def observed_combinations(
    columns: Sequence[Factors], row_counts: NDArray[np.int64] | None = None
) -> tuple[list[Key], NDArray[np.int64], NDArray[np.int32]]:
    """The combinations that occur, in lexicographic order, their row counts and each row's position.

    Each row stands for one, or for as many as `row_counts` says. Missing values come last, as None. Features
    are joined one at a time and only combinations that occur are kept, so memory stays small with many
    features.
    """
    keys: list[Key] = [()]
    joint: NDArray[Any] = np.zeros(1, np.int32)
    for column in columns:
        levels, codes = _with_missing_level(column)
        size = len(keys) * len(levels)
        combined = joint * (np.int32 if size < 2**31 else np.int64)(len(levels)) + codes
        if size <= _TABLE_SIZE:
            # In blocks, because bincount copies its input to another dtype.
            totals = np.zeros(size, np.int64)
            for rows in blocks(len(combined)):
                totals += np.bincount(combined[rows], minlength=size)
            present = np.flatnonzero(totals)
            counts = totals[present]
            table = np.full(size, -1, np.int32)
            table[present] = np.arange(len(present))
            joint = table[combined]
        else:
            present, inverse, counts = np.unique(combined, return_inverse=True, return_counts=True)
            joint = inverse.astype(np.int32)
        keys = [(*keys[p // len(levels)], levels[p % len(levels)]) for p in present.tolist()]
    if row_counts is not None:
        counts = np.zeros(len(keys), np.int64)
        np.add.at(counts, joint, row_counts)
    return keys, counts, joint


def _with_missing_level(column: Factors) -> Factors:
    """The column with None as its last value, if values are missing."""
    levels, codes = column
    if not (codes < 0).any():
        return column
    return (*levels, None), np.where(codes < 0, np.int32(len(levels)), codes)
