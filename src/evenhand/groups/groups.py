"""Groups: the combinations of sensitive values that occur in the data.

Combinations are the finest partition of the rows. The groups of a single feature are unions of them, so
intersectional and independent requirements share the same mathematics.

Rare groups can be pooled: rare combinations among themselves, and the rare values of a feature among
themselves. The groups of a single feature consist of all of its rows, whether or not their combinations are
pooled.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.data.checks import check_choice
from evenhand.data.columns import Level, level_order
from evenhand.display.notebook import ShownAsTable
from evenhand.display.text import show
from evenhand.exceptions import GroupError, PooledGroupsWarning, UnseenGroupWarning, warn_user
from evenhand.groups.names import POOLED, GroupName, Key, UnseenRows
from evenhand.groups.pooling import Pooled, merge_keys, pool_rare_values, shared_values
from evenhand.groups.sensitive import (
    MAX_LEVELS,
    Factors,
    Kind,
    observed_combinations,
    read_columns,
    read_levels,
    refuse_missing,
)

__all__ = ["MAX_LEVELS", "POOLED", "GroupName", "Groups", "Members", "Missing", "Mode"]

Mode = Literal["intersectional", "independent"]
Missing = Literal["error", "category", "exclude", "impute"]
_MISSING = ("error", "category", "exclude", "impute")
_MAX_MEMBERS = 1 << 26
"""Entries of the largest matrix that `Groups.members` makes: 64 MiB."""


@dataclass(frozen=True)
class Members:
    """Groups as unions of combinations: their names, and a boolean matrix of shape (groups, M)."""

    names: tuple[GroupName, ...]
    matrix: NDArray[np.bool_]


@dataclass(frozen=True, eq=False, repr=False)
class Groups(ShownAsTable):
    """The groups of the data, with a code for each combination of sensitive values.

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
        Combinations in the pooled group, with their number of rows. Unless they are `merged` they keep codes
        of their own, from which the groups of single features are made.
    missing, unseen : str
        The policies that :meth:`fit` was called with.
    merged : bool
        Whether pooled combinations share one code. There are then no groups of single features.
    excluded : dict
        What is known of rows that lack a sensitive value and are in no group, under ``missing="exclude"``:
        their values, None where one is missing, with the number of such rows.
    strata : Groups or None
        The strata, if every code stands for a combination in one of them; see :meth:`within`.

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
    missing: Missing = "error"
    unseen: Literal["error", "pooled"] = "error"
    merged: bool = False
    excluded: Mapping[Key, int] = field(default_factory=dict)
    strata: Groups | None = None

    @classmethod
    def fit(
        cls,
        sensitive_features: Any,
        *,
        missing: Missing = "error",
        unseen: Literal["error", "pooled"] = "error",
        min_size: int = 0,
        single_features: bool = True,
        row_counts: NDArray[np.int64] | None = None,
        counted: NDArray[np.bool_] | None = None,
    ) -> tuple[Groups, NDArray[np.int32]]:
        """The groups of a table of sensitive features.

        Parameters
        ----------
        sensitive_features : table, mapping, array or sequence
            One column per sensitive feature, of any dtype, with at most 200 distinct values.
        missing : {"error", "category", "exclude", "impute"}, default="error"
            Whether a missing value is an error, a value of its own, leaves the row out of all groups, or is
            left to be imputed. `excluded` records rows that are left out. Groups to be imputed are those of
            the rows that have all values.
        unseen : {"error", "pooled"}, default="error"
            What :meth:`encode` does with a combination that does not occur here.
        min_size : int, default=0
            Combinations with fewer rows are pooled into one group, and so are the values of a feature that
            have fewer; a warning lists them, and `pooled` records them. The pooled group keeps a feature's
            value that all of its combinations share. A single rare group is not pooled.
        single_features : bool, default=True
            Whether groups of single features are compared. If not, pooled combinations are merged into
            one code, which leaves fewer groups to learn.
        row_counts : array of int, default=None
            Rows that each row of the table stands for; None stands for one.
        counted : array of bool, default=None
            Rows that count towards `min_size`; by default all.

        Returns
        -------
        groups : Groups
        codes : array of int32
            The group of each row; -1 for excluded rows.

        Examples
        --------
        >>> groups, codes = Groups.fit({"sex": ["F", None, "M"]}, missing="exclude")
        >>> codes
        array([ 0, -1,  1], dtype=int32)
        >>> groups.excluded_rows, groups.excluded_by_feature
        (1, {'sex': 1})
        """
        check_choice("missing", missing, _MISSING)
        check_choice("unseen", unseen, ("error", "pooled"))
        columns = read_levels(sensitive_features)
        if missing == "error":
            refuse_missing(columns, row_counts)
        keys, counts, codes = observed_combinations(list(columns.values()), row_counts)
        excluded: dict[Key, int] = {}
        if missing in ("exclude", "impute"):
            keys, counts, codes, lacking = _without_missing(list(columns), keys, counts, codes, missing)
            excluded = lacking if missing == "exclude" else {}
        sizes = counts
        if counted is not None:
            sizes = np.bincount(codes[counted & (codes >= 0)], minlength=len(keys)).astype(np.int64)
        rare = {keys[k]: int(sizes[k]) for k in np.flatnonzero(sizes < min_size)}
        pooled = rare if len(rare) > 1 else {}  # a single rare group has none to be pooled with
        merged = bool(pooled) and not single_features and len(columns) > 1
        if pooled:
            into = shared_values(pooled)
            separate = pool_rare_values(keys, sizes, min_size)
            new = [into if key in pooled else key for key in keys] if merged else separate
            keys, counts, merged_codes = merge_keys(new, counts, np.maximum(codes, 0))
            codes = np.where(codes < 0, np.int32(-1), merged_codes)
        groups = cls(tuple(columns), tuple(keys), counts, pooled, missing, unseen, merged, excluded)
        if pooled:
            listed = " ".join(map(str, groups.pooled_groups))
            warn_user(f"groups of fewer than {min_size:,} rows are pooled. {listed}", PooledGroupsWarning)
        return groups, codes

    @classmethod
    def product(cls, levels: Mapping[str, Iterable[Level]]) -> Groups:
        """The groups of all combinations of given values, with row counts of 0.

        Examples
        --------
        >>> Groups.product({"sex": ["F", "M"], "old": [False, True]}).keys
        (('F', False), ('F', True), ('M', False), ('M', True))
        """
        keys = tuple(itertools.product(*levels.values()))
        return cls(tuple(levels), keys, np.zeros(len(keys), np.int64))

    def within(self, strata: Groups, counts: NDArray[np.int64] | None = None) -> Groups:
        """The same groups with a code for each in every stratum: number of the stratum times M plus code.

        Parameters
        ----------
        strata : Groups
            The strata, as the groups of the control features.
        counts : array of int, shape (L * M,), default=None
            Rows with each code; without it, 0.

        Returns
        -------
        Groups
            Its keys are those of the groups, once for each stratum.

        Examples
        --------
        >>> groups, strata = Groups.product({"sex": ["F", "M"]}), Groups.product({"level": [1, 2, 3]})
        >>> both = groups.within(strata)
        >>> len(both), both.members().matrix.astype(int).tolist()
        (6, [[1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 0, 1]])
        """
        keys = self.keys * len(strata)
        rows = np.zeros(len(keys), np.int64) if counts is None else counts
        return replace(self, keys=keys, counts=rows, strata=strata)

    @property
    def combinations(self) -> tuple[Key, ...]:
        """The sensitive values of each group, whatever the strata."""
        return self.keys if self.strata is None else self.keys[: len(self.keys) // len(self.strata)]

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def names(self) -> tuple[GroupName, ...]:
        """The name of each group, in the order of the codes."""
        return tuple(GroupName(self.features, key) for key in self.keys)

    @property
    def cell_names(self) -> tuple[GroupName, ...]:
        """The name of each code, with the stratum in front if there are strata."""
        if self.strata is None:
            return self.names
        features = (*self.strata.features, *self.features)
        return tuple(
            GroupName(features, (*stratum, *key)) for stratum in self.strata.keys for key in self.combinations
        )

    def _table(self) -> tuple[str, Sequence[str], Iterable[Sequence[object]]]:
        controls = () if self.strata is None else self.strata.features
        rows = [
            (*map(show, name.values), f"{count:,}")
            for name, count in zip(self.cell_names, self.counts.tolist(), strict=True)
        ]
        excluded = self.excluded_rows
        caption = f"{len(self.combinations):,} groups" + (f", {excluded:,} rows in none" if excluded else "")
        return caption, [*controls, *self.features, "rows"], rows

    @property
    def excluded_rows(self) -> int:
        """Number of rows that are in no group because a sensitive value is missing."""
        return sum(self.excluded.values())

    @property
    def excluded_by_feature(self) -> dict[str, int]:
        """How many of these rows lack each feature; a row that lacks several counts in each."""
        return {
            name: sum(rows for key, rows in self.excluded.items() if key[place] is None)
            for place, name in enumerate(self.features)
        }

    def excluded_places(self, sensitive_features: Any) -> NDArray[np.int32]:
        """Which entry of `excluded` each row is; -1 for rows that lack nothing.

        Parameters
        ----------
        sensitive_features : table, mapping, array or sequence
            Those that the groups were made from.

        Returns
        -------
        array of int32
        """
        columns = self._matched(read_columns(sensitive_features))
        keys, _, codes = observed_combinations(columns)
        places = {key: place for place, key in enumerate(self.excluded)}
        return np.array([places.get(key, -1) for key in keys], np.int32)[codes]

    def levels(self, feature: str) -> tuple[Level, ...]:
        """The values of one feature that occur, sorted; then missing, then pooled."""
        if feature not in self.features:
            known = ", ".join(map(repr, self.features))
            raise GroupError(f"no sensitive feature {feature!r}; there are {known}.")
        place = self.features.index(feature)
        values = list(dict.fromkeys(key[place] for key in self.keys))
        ordinary = [value for value in values if value is not None and value is not POOLED]
        special = [value for value in (None, POOLED) if any(value is other for other in values)]
        return (*(ordinary[k] for k in level_order(ordinary)), *special)

    def level_codes(self, features: Iterable[str]) -> NDArray[np.intp]:
        """Position of the value of each feature among its levels, shape (M, features).

        Examples
        --------
        >>> groups = Groups.product({"sex": ["F", "M"], "old": [False, True]})
        >>> groups.level_codes(["sex"]).T
        array([[0, 0, 1, 1]])
        """
        columns = []
        for feature in features:
            place, levels = self.features.index(feature), self.levels(feature)
            columns.append([levels.index(key[place]) for key in self.keys])
        return np.array(columns, np.intp).reshape(len(columns), len(self)).T

    def absent(self) -> Iterator[Key]:
        """Iterate over combinations of occurring values that no row has."""
        present = [*(key for key in self.keys if POOLED not in key), *self.pooled]
        values = [dict.fromkeys(column) for column in zip(*present, strict=True)]
        seen = set(present)
        return (key for key in itertools.product(*values) if key not in seen)

    @property
    def pooled_groups(self) -> tuple[Pooled, ...]:
        """Each pooled group, with the groups in it and their row counts."""
        found = []
        if self.pooled and len(self.features) > 1:
            parts = tuple((GroupName(self.features, key), rows) for key, rows in self.pooled.items())
            found.append(Pooled(GroupName(self.features, shared_values(self.pooled)), parts))
        for place, feature in enumerate(self.features if not self.merged else ()):
            rows: Counter[Level] = Counter()
            for key, count in self.pooled.items():
                rows[key[place]] += count
            there = {key[place] for key in self.keys}
            rare = tuple((GroupName((feature,), (v,)), n) for v, n in rows.items() if v not in there)
            if rare:
                found.append(Pooled(GroupName((feature,), (POOLED,)), rare))
        return tuple(found)

    def size(self, mode: Mode) -> int:
        """The number of groups that a requirement compares."""
        if mode == "independent":
            return sum(len(self.levels(name)) for name in self.features)
        inside = sum(map(self._is_pooled, self.combinations))
        return len(self.combinations) - inside + bool(inside)

    def is_one_group(self, mode: Mode) -> bool:
        """Whether there is nothing to compare: all rows are in one group, pooled or not."""
        return len(self.combinations) == 1 or (mode == "intersectional" and self.size(mode) == 1)

    def _is_pooled(self, key: Key) -> bool:
        return key in self.pooled or any(value is POOLED for value in key)

    def members(self, mode: Mode = "intersectional") -> Members:
        """The groups that a requirement compares.

        Parameters
        ----------
        mode : {"intersectional", "independent"}, default="intersectional"
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
                "Pool rare groups with min_size, or use groups='independent'."
            )
        if mode == "intersectional":
            return self._combinations()
        if self.merged:
            raise GroupError(
                "rare combinations were merged, so the groups of single features are not known. "
                "Make the groups with Groups.fit(..., single_features=True)."
            )
        parts = [self.members_of(feature) for feature in self.features]
        names = tuple(name for part in parts for name in part.names)
        return Members(names, np.concatenate([part.matrix for part in parts]))

    def members_of(self, feature: str) -> Members:
        """The groups of a single feature."""
        place, levels = self.features.index(feature), self.levels(feature)
        rows = [[key[place] is level or key[place] == level for key in self.keys] for level in levels]
        return Members(tuple(GroupName((feature,), (one,)) for one in levels), np.array(rows, np.bool_))

    def _combinations(self) -> Members:
        keys = self.combinations
        matrix = np.tile(np.eye(len(keys), dtype=np.bool_), len(self) // len(keys))
        names = [GroupName(self.features, key) for key in keys]
        inside = np.array([self._is_pooled(key) for key in keys], dtype=np.bool_)
        if inside.sum() < 2:
            return Members(tuple(names), matrix)
        names = [name for name, pooled in zip(names, inside, strict=True) if not pooled]
        names.append(GroupName(self.features, shared_values(self.pooled)))
        return Members(tuple(names), np.vstack([matrix[~inside], matrix[inside].any(axis=0)]))

    def encode(self, sensitive_features: Any, *, kind: Kind = "sensitive") -> NDArray[np.int32]:
        """The group of each row of new data.

        Parameters
        ----------
        sensitive_features : table, mapping, array or sequence
            The same features as in :meth:`fit`; columns of a table are matched by name.
        kind : {"sensitive", "control"}, default="sensitive"
            "control" if these groups are strata.

        Returns
        -------
        array of int32
            Codes; an unseen combination is an error or, under ``unseen="pooled"``, has the code of the
            pooled group, or -1 if no pooled group fits. Rows that lack a value under ``missing="exclude"``
            or "impute" have the code -1.
        """
        columns = self._matched(read_columns(sensitive_features, kind=kind))
        if self.missing == "error":
            refuse_missing(dict(zip(self.features, columns, strict=True)), kind=kind)
        keys, counts, codes = observed_combinations(columns)
        known = {*self.keys, *self.pooled}
        left_out = [self.missing in ("exclude", "impute") and None in key for key in keys]
        new = {
            key: int(rows)
            for key, rows, out in zip(keys, counts, left_out, strict=True)
            if key not in known and not out
        }
        if new:
            what = {"sensitive": "groups", "control": "strata"}[kind]
            unseen = UnseenRows(what, self.features, known, new, len(codes))
            if self.unseen == "error":
                raise GroupError(
                    unseen.error(f"Check the spelling, or make the {what} with unseen='pooled'.")
                )
            told = f": {unseen.listed}. No requirement was fitted for them" if kind == "control" else ""
            if told or unseen.type_hint:
                warn_user(f"{unseen}{told}. {unseen.type_hint}".rstrip(), UnseenGroupWarning)
        places = np.array(self._places(keys), np.int32)
        return np.where(left_out, np.int32(-1), places)[codes]

    def _places(self, keys: Iterable[Key]) -> list[int]:
        """The code of each combination: its own, or that of a pooled one with the same other values."""
        places = {key: place for place, key in enumerate(self.keys)}
        if self.merged:
            pool = shared_values(self.pooled)

            def fits(key: Key) -> bool:
                return all(own is POOLED or own == value for own, value in zip(pool, key, strict=True))

            return [places.get(key, places[pool] if fits(key) else -1) for key in keys]
        # A rare or new value counts as one of the pooled values of its feature.
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


def _without_missing(
    features: list[str], keys: list[Key], counts: NDArray[np.int64], codes: NDArray[np.int32], policy: str
) -> tuple[list[Key], NDArray[np.int64], NDArray[np.int32], dict[Key, int]]:
    """Combinations without missing values, and the number of rows of the others, whose code is -1."""
    whole = np.array([None not in key for key in keys], np.bool_)
    excluded = {key: int(rows) for key, rows, kept in zip(keys, counts, whole, strict=True) if not kept}
    if not whole.any():
        raise GroupError(
            f"every row lacks a value of {' or '.join(map(repr, features))}, so missing={policy!r} leaves no "
            "group. Fill values in, pass fewer sensitive features, or pass missing='category'."
        )
    renumbered = np.where(whole, np.cumsum(whole) - 1, -1).astype(np.int32)
    return [key for key in keys if None not in key], counts[whole], renumbered[codes], excluded
