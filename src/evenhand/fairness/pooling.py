"""Names of groups, and rare groups put together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.display.text import show
from evenhand.inputs.columns import Level

__all__ = ["POOLED", "GroupName", "Key", "pooling_told", "put_together", "shared", "without_rare_values"]

Key = tuple[Level, ...]
_MOST_TOLD = 5


class _Pooled:
    """Stands in a key for the values of rare groups that were put together."""

    def __str__(self) -> str:
        return "(pooled)"

    def __repr__(self) -> str:
        return "POOLED"

    def __reduce__(self) -> str:
        return "POOLED"


POOLED = _Pooled()


@dataclass(frozen=True)
class GroupName:
    """Which rows a group holds: the features that define it and their values.

    Examples
    --------
    >>> str(GroupName(("sex", "race"), ("Female", None)))
    'sex=Female, race=(missing)'
    """

    features: tuple[str, ...]
    values: Key

    def __str__(self) -> str:
        pairs = zip(self.features, self.values, strict=True)
        return ", ".join(f"{show(feature)}={show(value)}" for feature, value in pairs)


def shared(keys: Iterable[Key]) -> Key:
    """Keep the values that keys share, with `POOLED` for the others."""
    return tuple(values[0] if len(set(values)) == 1 else POOLED for values in zip(*keys, strict=True))


def without_rare_values(keys: Sequence[Key], counts: NDArray[np.int64], min_size: int) -> list[Key]:
    """Write `POOLED` for the rare values of each feature; one rare value alone is left as it is."""
    columns = []
    for values in zip(*keys, strict=True):
        rows: Counter[Level] = Counter()
        for value, count in zip(values, counts.tolist(), strict=True):
            rows[value] += count
        rare = {value for value, count in rows.items() if count < min_size}
        columns.append([POOLED if value in rare and len(rare) > 1 else value for value in values])
    return list(zip(*columns, strict=True))


def put_together(
    new: Sequence[Key], counts: NDArray[np.int64], codes: NDArray[np.int32]
) -> tuple[list[Key], NDArray[np.int64], NDArray[np.int32]]:
    """Give the rows of each key the key that takes its place; pooled keys come last."""
    order = [*(key for key in new if POOLED not in key), *new]
    places = {key: place for place, key in enumerate(dict.fromkeys(order))}
    table = np.array([places[key] for key in new], np.int32)
    totals = np.zeros(len(places), np.int64)
    np.add.at(totals, table, counts)
    return list(places), totals, table[codes]


def pooling_told(into: GroupName, parts: Sequence[tuple[GroupName, int | None]]) -> str:
    """Say what was put into a pooled group; numbers of rows that are None are left out.

    Examples
    --------
    >>> race = [(GroupName(("race",), (value,)), rows) for value, rows in (("C", 10), ("D", 12))]
    >>> pooling_told(GroupName(("race",), (POOLED,)), race)
    '2 values into race=(pooled): race=C (10 rows); race=D (12 rows).'
    """
    what = "combinations" if len(into.features) > 1 else "values"
    listed = [
        str(name) if rows is None else f"{name} ({rows:,} row{'s' if rows != 1 else ''})"
        for name, rows in parts[:_MOST_TOLD]
    ]
    if len(parts) > _MOST_TOLD:
        listed.append(f"and {len(parts) - _MOST_TOLD:,} more")
    return f"{len(parts):,} {what} into {into}: {'; '.join(listed)}."
