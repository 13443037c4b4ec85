"""A Dask table or array with its labels, groups and weights: read, checked and counted where it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from dask.delayed import Delayed
from distributed import Client

from evenhand.dask.arrays import aligned
from evenhand.dask.cluster import computed
from evenhand.dask.schema import Schema
from evenhand.estimators.access import check_one_source
from evenhand.estimators.base import FairClassifier
from evenhand.estimators.large_table import (
    Batch,
    Counted,
    check_large_settings,
    check_roles,
    count_cells,
    weight_column,
)
from evenhand.exceptions import InputError
from evenhand.fairness.sensitive import observed_combinations
from evenhand.inputs.batched_table import BatchedTable
from evenhand.inputs.columns import (
    TooManyLevels,
    as_column,
    factorize,
    is_missing,
    named_columns,
    object_column,
)
from evenhand.inputs.features import Columns, columns_of
from evenhand.inputs.labels import MAX_CLASSES, refuse_continuous

__all__ = ["DaskTable", "alongside", "as_pieces", "as_rows", "read_dask_table"]

_BESIDE = ("y", "sensitive_features", "sample_weight")


@dataclass(frozen=True, eq=False)
class DaskTable:
    """Rows on a cluster, of which labels and groups have been counted.

    Rows are numbered from the first partition to the last, so that a number does not depend on the
    partitions.

    Attributes
    ----------
    client : distributed.Client
    pieces : list of tuples of Delayed
        Of each partition: X, and what was passed beside it.
    reader : Reader
    sizes : tuple of int
        Rows of each partition.
    counted : Counted
    """

    client: Client
    pieces: Sequence[tuple[Delayed, ...]]
    reader: Reader
    sizes: tuple[int, ...]
    counted: Counted

    @property
    def weighted(self) -> bool:
        """Whether rows have weights."""
        return self.reader.weight is not None or "sample_weight" in self.reader.beside

    @property
    def places(self) -> list[Place]:
        """Number, first row and size of each partition."""
        firsts = accumulate(self.sizes, initial=0)
        return [Place(*place) for place in zip(range(len(self.sizes)), firsts, self.sizes, strict=False)]

    def tasks(
        self, function: Callable[..., Any], *shared: Any, each: Iterable[Any] | None = None
    ) -> list[Delayed]:
        """``function(batch, *shared)`` of every partition, to be computed; with `each`, one more argument."""
        # Keys of its own for every call, so that fits do not disturb each other.
        call = dask.delayed(_call, pure=False, traverse=False)
        read = dask.delayed(ReadBatch(self.reader, self.counted), pure=False, traverse=False)
        further = [()] * len(self.sizes) if each is None else [(one,) for one in each]
        return [
            call(function, read, place, given, *shared, *more)
            for place, given, more in zip(self.places, self.pieces, further, strict=True)
        ]


@dataclass(frozen=True)
class Place:
    """Number of a partition, number of its first row, and how many it has."""

    number: int
    first: int
    size: int


@dataclass(frozen=True, eq=False)
class Reader:
    """What the pieces of a partition are.

    Attributes
    ----------
    schema : Schema
        Of X.
    target, weight : str or None
        Columns of X; None if they are not columns of it.
    where : names, positions, function or None
        Sensitive columns of X.
    beside : tuple of str
        What is passed beside X, in order.
    """

    schema: Schema
    target: str | None
    weight: str | None
    where: Columns | None
    beside: tuple[str, ...]

    def read(self, number: int, X: Any, *further: Any, features: bool = True) -> tuple[Any, ...]:
        """X, y, sensitive features by name, and weights of a partition.

        Parameters
        ----------
        number : int
        X, *further
            Its pieces.
        features : bool, default=True
            Whether all features are there, or only the columns that are counted.
        """
        given: dict[str, Any] = dict(zip(self.beside, further, strict=True))
        X = self.schema.read(number, X, whole=features)
        for name, piece in given.items():
            if len(piece) != len(X):
                raise InputError(
                    f"{name} has {len(piece):,} rows in partition {number}, where X has {len(X):,}."
                )
        y = given["y"] if self.target is None else X[self.target]
        weights = given.get("sample_weight") if self.weight is None else X[self.weight]
        own = [name for name in (self.target, self.weight) if name is not None]
        X = X.drop(columns=own) if own and features else X
        if self.where is not None:
            sensitive = columns_of(X, self.where)
        else:
            sensitive = named_columns(
                given["sensitive_features"], what="sensitive_features", default_name="sensitive_feature"
            )
        return X, y, sensitive, weights


@dataclass(frozen=True, eq=False)
class ReadBatch:
    """Pieces of a partition as a batch of the whole table."""

    reader: Reader
    counted: Counted

    def __call__(self, place: Place, pieces: Sequence[Any]) -> Batch:
        """The rows, with labels and groups."""
        X, y, sensitive, weights = self.reader.read(place.number, *pieces)
        if len(X) != place.size:
            raise InputError(
                f"partition {place.number} had {place.size:,} rows when they were counted, and now has "
                f"{len(X):,}."
            )
        numbers = np.arange(place.first, place.first + place.size)
        columns = {name: np.asarray(as_column(column, what=name)) for name, column in sensitive.items()}
        if not place.size:
            none = np.empty(0, np.int32)
            return Batch(numbers, X, self.counted.classes[none], none.astype(np.bool_), none, None, columns)
        positive = self.counted.positive(y, "y")
        if weights is not None:
            weights = weight_column(
                nw.from_native(pd.Series(np.ravel(weights)), series_only=True), place.first
            )
        return Batch(
            numbers,
            X,
            self.counted.classes[positive.astype(np.intp)],
            positive,
            self.counted.groups.encode(columns),
            weights,
            columns,
        )


def _call(function: Callable[..., Any], read: ReadBatch, place: Place, pieces: Any, *shared: Any) -> Any:
    return function(read(place, pieces), *shared)


def read_dask_table(
    classifier: FairClassifier, X: Any, y: Any, sensitive_features: Any, sample_weight: Any, *, client: Client
) -> DaskTable:
    """Check what can be known at once, then count labels and groups in one pass.

    Parameters
    ----------
    classifier : FairClassifier
    X : Dask DataFrame or array
    y, sample_weight : str, Dask Series or array
    sensitive_features : Dask DataFrame, Series, array, or None
    client : distributed.Client

    Returns
    -------
    DaskTable
    """
    check_large_settings(classifier)
    X = as_rows(X)
    reader = _reader(classifier, X, y, sensitive_features, sample_weight)
    given = dict(zip(_BESIDE, (y, sensitive_features, sample_weight), strict=True))
    beside = [alongside(given[name], X, name) for name in reader.beside]
    counts = _count_partitions(client, X, beside, reader)
    sizes = tuple(count.rows for count in counts)
    if not sum(sizes):
        raise InputError("X has no rows: all its partitions are empty.")
    reader = replace(reader, schema=reader.schema.with_categories([count.categories for count in counts]))
    found: Counter[tuple[Any, ...]] = Counter()
    for count in counts:
        found.update(count.combinations)
    columns = list(zip(*found, strict=True))
    names = list(counts[0].ordered)
    for number, count in enumerate(counts):
        if list(count.ordered) != names:
            raise InputError(
                f"sensitive features are {', '.join(map(repr, count.ordered))} in partition {number}, and "
                f"{', '.join(map(repr, names))} in the first."
            )
    sensitive = {
        name: _column(values, [count.ordered[name] for count in counts])
        for name, values in zip(names, columns, strict=False)
    }
    counted = count_cells(
        classifier,
        sensitive,
        object_column(columns[-1]),
        np.array(list(found.values()), np.int64),
        what="y" if reader.target is None else f"y ({reader.target!r})",
    )
    return DaskTable(client, _pieces(X, beside), reader, sizes, counted)


def as_rows(X: Any) -> Any:
    """X, if it is a Dask DataFrame or array, whose rows are in one piece."""
    if isinstance(X, dd.DataFrame):
        if not len(X.columns):
            raise InputError("X has no columns.")
        return X
    if not isinstance(X, da.Array):
        raise InputError(
            f"X should be a Dask DataFrame or a Dask array, but is of type {type(X).__name__}; in memory, "
            "use FairPostprocessor, or to_local() of a fitted classifier."
        )
    if X.ndim != 2:
        raise InputError(f"X should have two dimensions, but has shape {X.shape}.")
    return X.rechunk({1: -1})


def alongside(given: Any, X: Any, name: str) -> Any:
    """What belongs to the rows of X, partition by partition."""
    if isinstance(given, da.Array):
        if isinstance(X, da.Array):
            given = aligned(given, X, name)
        given = given.rechunk({1: -1}) if given.ndim == 2 else given
    elif not isinstance(given, dd.DataFrame | dd.Series):
        or_name = isinstance(X, dd.DataFrame) and name != "sensitive_features"
        raise InputError(
            f"{name} should be a Dask Series, DataFrame or array{', or a column of X' if or_name else ''}, "
            f"but is of type {type(given).__name__}."
        )
    own, other = _divisions(X), _divisions(given)
    if len(own) != len(other) or (own != other and None not in (own[0], other[0])):
        how = f"{len(other) - 1:,} partitions" if len(own) != len(other) else "other divisions"
        raise InputError(
            f"{name} has {how}, where X has {len(own) - 1:,} partitions: repartition one like the other, or "
            "take both from one table."
        )
    return given


def _divisions(collection: Any) -> tuple[Any, ...]:
    if isinstance(collection, da.Array):
        return (None,) * (int(collection.numblocks[0]) + 1)
    return tuple(collection.divisions)


def _reader(
    classifier: FairClassifier, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
) -> Reader:
    where = classifier.sensitive_features
    check_one_source(sensitive_features, where)
    if y is None:
        raise InputError("this classifier requires y to be passed, but the target y is None.")
    target = weight = None
    if isinstance(X, dd.DataFrame):
        table = BatchedTable(X, tuple(X.columns))
        target = table.require(y, "the label") if isinstance(y, str) else None
        weight = table.require(sample_weight, "sample weights") if isinstance(sample_weight, str) else None
    if where is not None and not callable(where):
        example = X._meta if isinstance(X, dd.DataFrame) else np.empty((0, X.shape[1]))
        names = list(columns_of(example, where))  # refuses columns that do not exist
        check_roles(target, weight, names)
    beside = [
        name
        for name, given, own in zip(
            _BESIDE, (y, sensitive_features, sample_weight), (target, None, weight), strict=True
        )
        if given is not None and own is None
    ]
    return Reader(Schema.of(X), target, weight, where, tuple(beside))


def _pieces(X: Any, beside: Sequence[Any]) -> list[tuple[Delayed, ...]]:
    return list(zip(*map(as_pieces, (X, *beside)), strict=True))


def as_pieces(collection: Any) -> list[Delayed]:
    """Partitions of a table, or blocks of rows of an array."""
    return list(np.ravel(np.array(collection.to_delayed(), dtype=object)))


@dataclass(frozen=True, eq=False)
class _Count:
    """What a partition holds.

    Attributes
    ----------
    rows : int
    combinations : dict
        Rows with each combination of sensitive values and label.
    ordered : dict
        Sensitive features, with the categories of those that are ordered.
    categories : dict
        Categories of its categorical columns.
    """

    rows: int
    combinations: Mapping[tuple[Any, ...], int]
    ordered: Mapping[str, Any]
    categories: Mapping[str, Any]


def _count_partitions(client: Client, X: Any, beside: Sequence[Any], reader: Reader) -> list[_Count]:
    """Count every partition, reading no more columns than that takes."""

    def counted(X: Any, *, features: bool) -> list[_Count]:
        count = dask.delayed(_count, pure=False, traverse=False)
        pieces = enumerate(_pieces(X, beside))
        return computed(client, [count(reader, number, features, *given) for number, given in pieces])

    if isinstance(X, da.Array) or callable(reader.where):
        return counted(X, features=True)
    where = [reader.where] if isinstance(reader.where, str | int) else list(reader.where or ())
    used = {*where, reader.target, reader.weight, *reader.schema.categorical}
    needed = [name for name in X.columns if name in used] or [X.columns[0]]
    try:
        return counted(X[needed], features=False)
    except (AttributeError, LookupError, TypeError):
        # Of a partition that is no such table, which Dask does not name.
        return counted(X, features=True)


def _count(reader: Reader, number: int, features: bool, X: Any, *further: Any) -> _Count:
    X, y, sensitive, _ = reader.read(number, X, *further, features=features)
    factors = [factorize(column, what=f"sensitive feature {name!r}") for name, column in sensitive.items()]
    try:
        labels = factorize(y, what="y", limit=MAX_CLASSES)
    except TooManyLevels as error:
        refuse_continuous(error)
    combinations: dict[tuple[Any, ...], int] = {}
    if len(X):
        keys, counts, _ = observed_combinations([*factors, labels])
        combinations = dict(zip(keys, counts.tolist(), strict=True))
    ordered = {name: _ordered(column) for name, column in sensitive.items()}
    return _Count(len(X), combinations, ordered, reader.schema.categories(X))


def _ordered(column: Any) -> Any:
    """Categories of a column of ordered ones; None for any other."""
    native = nw.to_native(column, pass_through=True)
    kind = getattr(native, "dtype", None)
    return kind.categories.tolist() if isinstance(kind, pd.CategoricalDtype) and kind.ordered else None


def _column(values: Sequence[Any], ordered: Sequence[Any]) -> Any:
    """Values of a sensitive feature, in the order of its categories if all partitions have one."""
    known = [categories for categories in ordered if categories is not None]
    if len(known) < len(ordered) or not known:
        return object_column(values)
    categories = max(known, key=len)
    if any(not is_missing(value) and value not in categories for value in values):
        return object_column(values)
    return pd.Series(pd.Categorical(values, categories=categories, ordered=True))
