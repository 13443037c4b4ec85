"""Pooling of rare groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.data.columns import Level
from evenhand.display.text import first_of
from evenhand.groups.names import POOLED, GroupName, Key, with_rows


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


@dataclass(frozen=True)
class Pooled:
    """A group of rare groups.

    Attributes
    ----------
    group : GroupName
        The pooled group.
    parts : tuple of (GroupName, int or None)
        The groups in it, and their numbers of rows; None if small counts are left out.

    Examples
    --------
    >>> race = tuple((GroupName(("race",), (value,)), rows) for value, rows in (("C", 10), ("D", 12)))
    >>> print(Pooled(GroupName(("race",), (POOLED,)), race))
    2 values into race=(pooled): race=C (10 rows); race=D (12 rows).
    """

    group: GroupName
    parts: tuple[tuple[GroupName, int | None], ...]

    def __str__(self) -> str:
        what = "combinations" if len(self.group.features) > 1 else "values"
        listed = first_of(with_rows(*part) for part in self.parts)
        return f"{len(self.parts):,} {what} into {self.group}: {listed}."

    def without_counts(self) -> Pooled:
        """The same without numbers of rows."""
        return Pooled(self.group, tuple((name, None) for name, _ in self.parts))
