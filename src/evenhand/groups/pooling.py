"""Pooling of rare groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from evenhand.data.columns import Level
from evenhand.groups.names import POOLED, GroupName, Key

_MAX_LISTED = 5


def shared_values(keys: Iterable[Key]) -> Key:
    """The values that all keys share, with `POOLED` for the others."""
    return tuple(values[0] if len(set(values)) == 1 else POOLED for values in zip(*keys, strict=True))


def pool_rare_values(keys: Sequence[Key], counts: NDArray[np.int64], min_size: int) -> list[Key]:
    """The keys with `POOLED` for the rare values of each feature; a single rare value is kept."""
    columns = []
    for values in zip(*keys, strict=True):
        rows: Counter[Level] = Counter()
        for value, count in zip(values, counts.tolist(), strict=True):
            rows[value] += count
        rare = {value for value, count in rows.items() if count < min_size}
        columns.append([POOLED if value in rare and len(rare) > 1 else value for value in values])
    return list(zip(*columns, strict=True))


def merge_keys(
    new: Sequence[Key], counts: NDArray[np.int64], codes: NDArray[np.int32]
) -> tuple[list[Key], NDArray[np.int64], NDArray[np.int32]]:
    """Replace each key by its new one and merge those that have become equal; pooled keys come last."""
    order = [*(key for key in new if POOLED not in key), *new]
    places = {key: place for place, key in enumerate(dict.fromkeys(order))}
    table = np.array([places[key] for key in new], np.int32)
    totals = np.zeros(len(places), np.int64)
    np.add.at(totals, table, counts)
    return list(places), totals, table[codes]


def pooling_text(into: GroupName, parts: Sequence[tuple[GroupName, int | None]]) -> str:
    """One sentence on what a pooled group holds; row counts that are None are left out.

    Examples
    --------
    >>> race = [(GroupName(("race",), (value,)), rows) for value, rows in (("C", 10), ("D", 12))]
    >>> pooling_text(GroupName(("race",), (POOLED,)), race)
    '2 values into race=(pooled): race=C (10 rows); race=D (12 rows).'
    """
    what = "combinations" if len(into.features) > 1 else "values"
    listed = [
        str(name) if rows is None else f"{name} ({rows:,} row{'s' if rows != 1 else ''})"
        for name, rows in parts[:_MAX_LISTED]
    ]
    if len(parts) > _MAX_LISTED:
        listed.append(f"and {len(parts) - _MAX_LISTED:,} more")
    return f"{len(parts):,} {what} into {into}: {'; '.join(listed)}."
