"""Missing sensitive values that are imputed: what each row knows, and how many rows lack what."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.exceptions import GroupError
from evenhand.groups.groups import POOLED, Groups
from evenhand.groups.sensitive import observed_combinations, read_columns
from evenhand.posteriors.examples import KnownFeatures


@dataclass(frozen=True)
class ImputedRows:
    """How many rows of a fit lack sensitive values, which were imputed.

    Attributes
    ----------
    rows : int
        Rows of the fit.
    imputed : int
        Rows that lack at least one sensitive feature.
    by_feature : dict
        Rows that lack each of them.

    Examples
    --------
    >>> print(ImputedRows(1000, 420, {"sex": 0, "race": 420}))
    420 of 1,000 rows lack sensitive values, which were imputed: race in 420
    """

    rows: int
    imputed: int
    by_feature: Mapping[str, int]

    def __str__(self) -> str:
        if not self.imputed:
            return f"all of {self.rows:,} rows have all sensitive values"
        lacking = ", ".join(f"{name} in {rows:,}" for name, rows in self.by_feature.items() if rows)
        lack = "lacks" if self.imputed == 1 else "lack"
        return (
            f"{self.imputed:,} of {self.rows:,} rows {lack} sensitive values, which were imputed: {lacking}"
        )


def find_known_features(
    groups: Groups, codes: NDArray[Any], columns: Mapping[str, Any], *, tells: int = 0
) -> tuple[KnownFeatures, ImputedRows]:
    """What each row knows of its sensitive features.

    Parameters
    ----------
    groups : Groups
        Of the rows that have all of them.
    codes : array of int
        Group of each row; -1 where a value is missing.
    columns : mapping
        The sensitive features by name.
    tells : int, default=0
        Number of columns of X that tell which of them are known.

    Returns
    -------
    known : KnownFeatures
        The features in the order in which they are learned: those that most rows have come first, and of
        these the ones with the fewest values.
    imputed : ImputedRows
    """
    factors = dict(zip(groups.features, read_columns(columns, max_levels=None).values(), strict=True))
    values = {name: _values(groups, name, codes, *factors[name]) for name in groups.features}
    lacking = {name: int(np.count_nonzero(factors[name][1] < 0)) for name in groups.features}
    order = sorted(groups.features, key=lambda name: (lacking[name], len(groups.levels(name))))
    known = KnownFeatures(groups.level_codes(order), tuple(values[name] for name in order), tells)
    _refuse_unknown_combinations(known, order)
    return known, ImputedRows(len(codes), int(np.count_nonzero(codes < 0)), lacking)


def _values(
    groups: Groups, feature: str, codes: NDArray[Any], levels: Sequence[Any], own: NDArray[np.int32]
) -> NDArray[np.float64]:
    """Values of one feature as 0/1 columns; rows without it are all 0."""
    known, place = groups.levels(feature), groups.features.index(feature)
    pooled = {key[place] for key in groups.pooled}
    table = np.zeros(
        (len(levels) + 1, len(known))
    )  # the last line is that of a missing value, whose code is -1
    unknown = []
    for k, value in enumerate(levels):
        if value in known and not (groups.merged and value in pooled):
            table[k, known.index(value)] = 1
        elif value in pooled and value not in known:
            table[k, known.index(POOLED)] = 1
        elif value not in pooled:
            unknown.append(k)
    found = table[own]
    complete = codes >= 0
    found[complete] = np.eye(len(known))[groups.level_codes([feature])[codes[complete], 0]]
    if unknown:
        rows = int(np.isin(own, unknown).sum())
        raise GroupError(
            f"{feature}={levels[unknown[0]]!r} occurs only in rows that lack another sensitive feature "
            f"({rows:,} rows), and its groups are not known. Merge it with another value, or drop these rows."
        )
    return found


def _refuse_unknown_combinations(known: KnownFeatures, order: Sequence[str]) -> None:
    possible = np.ones((len(known.values[0]), len(known.levels)), np.bool_)
    for values, level in zip(known.values, known.levels.T, strict=True):
        possible &= (values[:, level] > 0) | ~values.any(axis=1, keepdims=True)
    lost = np.flatnonzero(~possible.any(axis=1))
    if len(lost):
        raise GroupError(
            f"{len(lost):,} rows that lack a sensitive feature have a combination of the others "
            f"({', '.join(order)}) that no complete row has, the first at row {lost[0]:,}. Merge rare "
            "values, or drop these rows."
        )


def groups_of_patterns(groups: Groups, columns: Mapping[str, Any], usable: Sequence[str]) -> Groups:
    """The combinations of usable features that occur, each also with any of its values missing.

    Parameters
    ----------
    groups : Groups
    columns : mapping
        The sensitive features by name.
    usable : sequence of str

    Returns
    -------
    Groups
        None in a key is a value that is not known.
    """
    factors = read_columns({name: columns[name] for name in usable}, max_levels=None)
    found, counts, _ = observed_combinations(list(factors.values()))
    rows = dict(zip(found, counts.tolist(), strict=True))
    for key in found:
        for kept in itertools.product((True, False), repeat=len(key)):
            rows.setdefault(tuple(value if keep else None for value, keep in zip(key, kept, strict=True)), 0)
    return Groups(
        tuple(usable),
        tuple(rows),
        np.array(list(rows.values()), np.int64),
        missing="category",
        unseen=groups.unseen,
    )
