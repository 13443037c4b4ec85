"""Sensitive columns into groups.

A group is one combination of sensitive values that occurs in the data, keyed by the tuple of those
values. The combinations are the finest partition; the groups of a single feature are unions of them,
so intersectional and independent requirements are the same mathematics.

Rare groups can be pooled, in each family by itself: rare combinations into one, and rare values of a feature
into one. The groups of a single feature are made from all of their rows, whatever their combinations are
pooled into.
"""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.exceptions import GroupError, ManyGroupsWarning, PooledGroupsWarning, UnseenGroupWarning
from evenhand.fairness.pooling import (
    POOLED,
    GroupName,
    Key,
    pooling_told,
    put_together,
    shared,
    without_rare_values,
)
from evenhand.inputs.checks import check_choice
from evenhand.inputs.columns import (
    Level,
    TooManyLevels,
    blocks,
    factorize,
    level_order,
    named_columns,
    ordered_categories,
)
from evenhand.inputs.labels import check_rows

__all__ = ["POOLED", "GroupName", "Groups", "Members", "Mode"]

Mode = Literal["intersectional", "independent"]
Factors = tuple[tuple[Level, ...], NDArray[np.int32]]
_MANY_NUMBERS = 20
"""Numbers of a feature from which on they are taken for a measurement rather than for codes of groups."""
_TABLE_SIZE = 1 << 20
_MAX_MEMBERS = 1 << 26


@dataclass(frozen=True)
class Members:
    """A family of groups as unions of the finest ones: names, and a 0/1 matrix of shape (groups, M)."""

    names: tuple[GroupName, ...]
    matrix: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups found in the data, and how to find them again in new data.

    Made by :meth:`fit`; immutable.

    Attributes
    ----------
    features : tuple of str
        Names of the sensitive features.
    keys : tuple of tuples
        The sensitive values of each code, sorted; None is a missing value, `POOLED` a pooled one.
    counts : array of int, shape (M,)
        Rows with each code.
    pooled : dict
        Combinations that were put into the pooled group, with their number of rows. They keep codes of their
        own, so that the groups of single features can be made from them, unless they are `merged`.
    missing, unseen : str
        The policies that :meth:`fit` was called with.
    merged : bool
        Whether pooled combinations have one code. There are then no groups of single features.
    ordered : dict
        The categories of features whose values have an order of their own; other values are sorted.

    Examples
    --------
    >>> groups, codes = Groups.fit({"sex": ["F", "M", "F"], "age": ["old", "old", "young"]})
    >>> [str(name) for name in groups.names]
    ['sex=F, age=old', 'sex=F, age=young', 'sex=M, age=old']
    >>> codes
    array([0, 2, 1], dtype=int32)
    >>> list(groups.absent())
    [('M', 'young')]
    """

    features: tuple[str, ...]
    keys: tuple[Key, ...]
    counts: NDArray[np.int64]
    pooled: Mapping[Key, int] = field(default_factory=dict)
    missing: Literal["error", "own_group"] = "error"
    unseen: Literal["error", "pooled"] = "error"
    merged: bool = False
    ordered: Mapping[str, tuple[Level, ...]] = field(default_factory=dict)

    @classmethod
    def fit(
        cls,
        sensitive_features: Any,
        *,
        missing: Literal["error", "own_group"] = "error",
        unseen: Literal["error", "pooled"] = "error",
        min_size: int = 0,
        max_levels: int = 200,
        single_features: bool = True,
    ) -> tuple[Groups, NDArray[np.int32]]:
        """Find the groups of a table of sensitive features.

        Parameters
        ----------
        sensitive_features : table, mapping, array or sequence
            One column per sensitive feature, of any dtype.
        missing : {"error", "own_group"}
            Whether a missing value is refused or counts as a value of its own.
        unseen : {"error", "pooled"}
            What :meth:`encode` does with a combination that does not occur here.
        min_size : int
            Combinations with fewer rows are put together into one group, and so are the values of a
            feature that have fewer; a warning tells which, and `pooled` records them. Where all pooled
            combinations share a feature's value the pooled group keeps it. One rare group alone is left as
            it is.
        max_levels : int
            A column with more distinct values is refused.
        single_features : bool, default=True
            Whether groups of single features are compared. If not, pooled combinations are merged into
            one code, which leaves fewer groups to learn.

        Returns
        -------
        groups : Groups
        codes : array of int32
            The group of each row.
        """
        check_choice("missing", missing, ("error", "own_group"))
        check_choice("unseen", unseen, ("error", "pooled"))
        columns, ordered = _in_own_order(sensitive_features, max_levels)
        levels = {name: column[0] for name, column in columns.items()}
        if missing == "error":
            _refuse_missing(columns)
        codes_by_feature = []
        for name, (values, codes) in columns.items():
            if (codes < 0).any():
                levels[name] = (*values, None)
                codes = np.where(codes < 0, np.int32(len(values)), codes)  # noqa: PLW2901
            codes_by_feature.append(codes)
        keys, counts, codes = _observed(list(levels.values()), codes_by_feature)
        pooled = {keys[k]: int(counts[k]) for k in np.flatnonzero(counts < min_size)}
        if len(pooled) < 2:  # a rare group alone has nothing to be pooled with
            return cls(tuple(columns), tuple(keys), counts, {}, missing, unseen, ordered=ordered), codes
        merged = not single_features and len(columns) > 1
        if merged:
            into = shared(pooled)
            new = [into if key in pooled else key for key in keys]
        else:
            new = without_rare_values(keys, counts, min_size)
        keys, counts, codes = put_together(new, counts, codes)
        groups = cls(tuple(columns), tuple(keys), counts, pooled, missing, unseen, merged, ordered)
        told = " ".join(pooling_told(*group) for group in groups.pooled_groups)
        warnings.warn(f"groups of fewer than {min_size:,} rows are pooled. {told}", PooledGroupsWarning, 2)
        return groups, codes

    @classmethod
    def product(cls, levels: Mapping[str, Iterable[Level]]) -> Groups:
        """Make the groups of all combinations of given values, with no rows counted.

        Examples
        --------
        >>> Groups.product({"sex": ["F", "M"], "old": [False, True]}).keys
        (('F', False), ('F', True), ('M', False), ('M', True))
        """
        keys = tuple(itertools.product(*levels.values()))
        return cls(tuple(levels), keys, np.zeros(len(keys), np.int64))

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def names(self) -> tuple[GroupName, ...]:
        """The name of each group, in the order of the codes."""
        return tuple(GroupName(self.features, key) for key in self.keys)

    def levels(self, feature: str) -> tuple[Level, ...]:
        """The values of one feature that occur: sorted, or in their own order, then missing, then pooled."""
        if feature not in self.features:
            known = ", ".join(map(repr, self.features))
            raise GroupError(f"no sensitive feature {feature!r}; there are {known}.")
        place = self.features.index(feature)
        values = list(dict.fromkeys(key[place] for key in self.keys))
        ordinary = [value for value in values if value is not None and value is not POOLED]
        special = [value for value in (None, POOLED) if any(value is other for other in values)]
        if feature in self.ordered:
            return (*(value for value in self.ordered[feature] if value in ordinary), *special)
        return (*(ordinary[k] for k in level_order(ordinary)), *special)

    def absent(self) -> Iterator[Key]:
        """Iterate over the combinations of occurring values that no row has."""
        present = [*(key for key in self.keys if POOLED not in key), *self.pooled]
        values = [dict.fromkeys(column) for column in zip(*present, strict=True)]
        seen = set(present)
        return (key for key in itertools.product(*values) if key not in seen)

    @property
    def pooled_groups(self) -> tuple[tuple[GroupName, tuple[tuple[GroupName, int], ...]], ...]:
        """Each pooled group, with what was put into it and the number of rows of that."""
        found = []
        if self.pooled and len(self.features) > 1:
            parts = tuple((GroupName(self.features, key), rows) for key, rows in self.pooled.items())
            found.append((GroupName(self.features, shared(self.pooled)), parts))
        for place, feature in enumerate(self.features if not self.merged else ()):
            rows: Counter[Level] = Counter()
            for key, count in self.pooled.items():
                rows[key[place]] += count
            there = {key[place] for key in self.keys}
            rare = tuple((GroupName((feature,), (v,)), n) for v, n in rows.items() if v not in there)
            if rare:
                found.append((GroupName((feature,), (POOLED,)), rare))
        return tuple(found)

    def size(self, mode: Mode) -> int:
        """Give the number of groups that a requirement compares."""
        if mode == "independent":
            return sum(len(self.levels(name)) for name in self.features)
        inside = sum(map(self._is_pooled, self.keys))
        return len(self) - inside + bool(inside)

    def is_one_group(self, mode: Mode) -> bool:
        """Say whether there is nothing to compare: all rows are in one group, or in one pooled group."""
        return len(self) == 1 or (mode == "intersectional" and self.size(mode) == 1)

    def _is_pooled(self, key: Key) -> bool:
        return key in self.pooled or any(value is POOLED for value in key)

    def members(self, mode: Mode = "intersectional") -> Members:
        """Give the groups that a requirement compares.

        Parameters
        ----------
        mode : {"intersectional", "independent"}
            One group per combination of values, or one per value of each feature.

        Returns
        -------
        Members

        Examples
        --------
        >>> groups = Groups.product({"sex": ["F", "M"], "old": [False, True]})
        >>> family = groups.members("independent")
        >>> [str(name) for name in family.names]
        ['sex=F', 'sex=M', 'old=False', 'old=True']
        >>> family.matrix.astype(int)
        array([[1, 1, 0, 0],
               [0, 0, 1, 1],
               [1, 0, 1, 0],
               [0, 1, 0, 1]])
        """
        check_choice("groups", mode, ("intersectional", "independent"))
        count = self.size(mode)
        if count * len(self) > _MAX_MEMBERS:
            raise GroupError(
                f"{count:,} groups over {len(self):,} combinations are too many to compare. "
                "Pool rare groups (min_size or min_group_size), or use groups='independent'."
            )
        if mode == "intersectional":
            return self._combinations()
        if self.merged:
            raise GroupError(
                "rare combinations were merged, and the groups of single features cannot be had from them. "
                "Make the groups with single_features=True."
            )
        names, rows = [], []
        for place, feature in enumerate(self.features):
            for level in self.levels(feature):
                names.append(GroupName((feature,), (level,)))
                rows.append([key[place] is level or key[place] == level for key in self.keys])
        return Members(tuple(names), np.array(rows, dtype=np.bool_))

    def _combinations(self) -> Members:
        matrix = np.eye(len(self), dtype=np.bool_)
        inside = np.array([self._is_pooled(key) for key in self.keys], dtype=np.bool_)
        if inside.sum() < 2:
            return Members(self.names, matrix)
        names = [name for name, pooled in zip(self.names, inside, strict=True) if not pooled]
        names.append(GroupName(self.features, shared(self.pooled)))
        return Members(tuple(names), np.vstack([matrix[~inside], inside]))

    def encode(self, sensitive_features: Any) -> NDArray[np.int32]:
        """Find the group of each row of new data.

        Parameters
        ----------
        sensitive_features : table, mapping, array or sequence
            The same features as in :meth:`fit`; columns of a table are matched by name.

        Returns
        -------
        array of int32
            Codes; an unseen combination is an error or, under ``unseen="pooled"``, the code of the
            pooled group, -1 if there is none that fits.
        """
        columns = self._matched(_read_columns(sensitive_features, max_levels=None))
        if self.missing == "error":
            _refuse_missing(dict(zip(self.features, columns, strict=True)))
        codes_by_feature = [np.where(codes < 0, np.int32(len(levels)), codes) for levels, codes in columns]
        levels_by_feature = [(*levels, None) for levels, _ in columns]
        keys, counts, codes = _observed(levels_by_feature, codes_by_feature)
        known = {*self.keys, *self.pooled}
        strange = [k for k, key in enumerate(keys) if key not in known]
        if strange and self.unseen == "error":
            raise GroupError(self._unseen_message([keys[k] for k in strange], counts[strange]))
        hint = self._type_hint([keys[k] for k in strange])
        if hint:
            warnings.warn(
                f"groups of {int(counts[strange].sum()):,} rows were not there at fit. {hint}",
                UnseenGroupWarning,
                stacklevel=2,
            )
        return np.array(self._places(keys), np.int32)[codes]

    def _places(self, keys: Iterable[Key]) -> list[int]:
        """Find the code of each combination: its own, or that of a pooled one which contradicts no value."""
        places = {key: place for place, key in enumerate(self.keys)}
        if self.merged:
            pool = shared(self.pooled)

            def fits(key: Key) -> bool:
                return all(own is POOLED or own == value for own, value in zip(pool, key, strict=True))

            return [places.get(key, places[pool] if fits(key) else -1) for key in keys]
        # A value that is rare, or new, stands with the pooled values of its feature.
        levels = [set(column) for column in zip(*self.keys, strict=True)]

        def pooled(key: Key) -> Key:
            return tuple(value if value in own else POOLED for value, own in zip(key, levels, strict=True))

        return [places.get(pooled(key), -1) for key in keys]

    def _matched(self, columns: Mapping[str, Factors]) -> Sequence[Factors]:
        if set(columns) == set(self.features):
            return [columns[name] for name in self.features]
        named = not all(name.startswith("sensitive_feature") for name in columns)
        if len(columns) != len(self.features) or named:
            raise GroupError(
                f"sensitive features are {', '.join(map(repr, columns))}, "
                f"but the groups were made from {', '.join(map(repr, self.features))}."
            )
        return list(columns.values())

    def _unseen_message(self, keys: Sequence[Key], counts: NDArray[np.int64]) -> str:
        shown = "; ".join(
            f"{GroupName(self.features, key)} ({count:,} rows)"
            for key, count in zip(keys[:5], counts, strict=False)
        )
        more = f" and {len(keys) - 5} more" if len(keys) > 5 else ""
        message = f"{len(keys)} groups in {int(counts.sum()):,} rows were not there at fit: {shown}{more}."
        hint = self._type_hint(keys) or "Check the spelling, or make the groups with unseen='pooled'."
        return f"{message} {hint}"

    def _type_hint(self, keys: Sequence[Key]) -> str:
        """Explain that values differ from those of fit by their type only; empty if they do not."""
        for place, feature in enumerate(self.features):
            known = {key[place] for key in (*self.keys, *self.pooled)}
            written = {_written(value): value for value in known}
            for new in dict.fromkeys(key[place] for key in keys):
                if new not in known and _written(new) in written:
                    old = written[_written(new)]
                    return (
                        f"{feature!r} was {old!r} of type {type(old).__name__} "
                        f"and is now {new!r} of type {type(new).__name__}: convert the column."
                    )
        return ""


def _written(value: Level) -> str:
    """How a value looks, whatever its type."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _refuse_missing(columns: Mapping[str, Factors]) -> None:
    for name, (_, codes) in columns.items():
        absent = int(np.count_nonzero(codes < 0))
        if absent:
            raise GroupError(
                f"sensitive feature {name!r} is missing in {absent:,} of {len(codes):,} rows. "
                "Fill them in, drop them, or make the groups with missing='own_group'."
            )


def _in_own_order(
    sensitive_features: Any, max_levels: int
) -> tuple[dict[str, Factors], dict[str, tuple[Level, ...]]]:
    """Columns whose values are sorted, or in the order of their categories if these have one."""
    given = named_columns(sensitive_features, what="sensitive_features", default_name="sensitive_feature")
    columns = _read_columns(given, max_levels=max_levels)
    ordered = {}
    for name, column in given.items():
        categories = ordered_categories(column)
        if categories is not None:
            levels, codes = columns[name]
            own = [value for value in categories if value in levels]
            rank = np.array([*(own.index(value) for value in levels), -1], np.int32)
            columns[name], ordered[name] = (tuple(own), rank[codes]), tuple(own)
        elif len(columns[name][0]) > _MANY_NUMBERS and _are_numbers(columns[name][0]):
            warnings.warn(
                f"sensitive feature {name!r} has {len(columns[name][0])} different numbers, and each of them "
                "is a group by itself. Band them first, such as ages into '18-29', '30-49' and '50+'.",
                ManyGroupsWarning,
                stacklevel=3,
            )
    return columns, ordered


def _are_numbers(levels: Sequence[Level]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in levels)


def _read_columns(sensitive_features: Any, *, max_levels: int | None) -> dict[str, Factors]:
    columns = named_columns(sensitive_features, what="sensitive_features", default_name="sensitive_feature")
    if not columns:
        raise GroupError("sensitive_features has no columns.")
    check_rows({"sensitive_features": columns})
    limit = np.iinfo(np.int32).max if max_levels is None else max_levels
    try:
        return {
            name: factorize(column, what=f"sensitive feature {name!r}", limit=limit)
            for name, column in columns.items()
        }
    except TooManyLevels as error:
        raise GroupError(f"{error} Put the values into a few bins first.") from None


def _observed(
    levels: Sequence[tuple[Level, ...]], codes_by_feature: Sequence[NDArray[np.int32]]
) -> tuple[list[Key], NDArray[np.int64], NDArray[np.int32]]:
    """Find the combinations that occur, in lexicographic order, their row counts and each row's place.

    One feature is joined at a time and only what occurs is carried on, so that many features stay small.
    """
    keys: list[Key] = [()]
    joint: NDArray[Any] = np.zeros(1, np.int32)
    for values, codes in zip(levels, codes_by_feature, strict=True):
        size = len(keys) * len(values)
        combined = joint * (np.int32 if size < 2**31 else np.int64)(len(values)) + codes
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
        keys = [(*keys[p // len(values)], values[p % len(values)]) for p in present.tolist()]
    return keys, counts, joint
