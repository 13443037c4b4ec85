"""A Dask table or array with its labels, groups and weights: read, checked and counted where it is."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any, TypeVar

import dask
import dask.array as da
import dask.dataframe as dd
import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from dask.delayed import Delayed
from distributed import Future

from evenhand.cluster.client import connected, current_client, gather, gather_once, sent
from evenhand.cluster.dask_partitions import DaskPartitions, aligned
from evenhand.cluster.schema import Schema
from evenhand.data.batched_table import BatchedTable
from evenhand.data.columns import as_column, factorize, object_column
from evenhand.data.features import Columns as Where
from evenhand.data.features import columns_of, sensitive_columns
from evenhand.data.labels import factorize_labels
from evenhand.exceptions import InputError
from evenhand.groups.proxy import Proxy
from evenhand.groups.sensitive import observed_combinations
from evenhand.solver.threads import one_thread
from evenhand.sources.layout import Columns, Kept, Layout
from evenhand.sources.row_source import (
    Counts,
    Fill,
    Own,
    Place,
    Rows,
    RowSource,
    Scorer,
    check_roles,
    weight_column,
)

T = TypeVar("T")

_BLOCK = 1 << 24
"""Bytes of posteriors that are kept together, whatever the partitions of X: sums over other blocks would be
rounded differently, and where two optima are equally good, the other could be found."""
_BESIDE = ("y", "sensitive_features", "sample_weight")


class OnCluster(RowSource):
    """A Dask table or array, whose rows stay on the workers.

    Rows are numbered from the first partition to the last: a number does not depend on the partitions.

    Parameters
    ----------
    X : Dask DataFrame or array
    y, sample_weight : str, Dask Series, or array where X is one
    sensitive_features : Dask DataFrame or Series, array where X is one, or None
    where : names, positions, function, Proxy or None
        Sensitive columns of X, as named in the constructor of a classifier.
    controls : sequence of str, default=()
        Control features that a requirement names.
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        where: Any,
        sample_weight: Any = None,
        *,
        sensitive_features: Any = None,
        controls: Sequence[str] = (),
    ) -> None:
        self.client = current_client()
        X = as_rows(X)
        given = dict(zip(_BESIDE, (y, sensitive_features, sample_weight), strict=True))
        reader = _reader(X, given, where, controls)
        beside = [alongside(given[name], X, name) for name in reader.beside]
        self.pieces = list(zip(*map(_as_pieces, (X, *beside)), strict=True))
        count = dask.delayed(_count, pure=False, traverse=False)
        with connected(self.client):
            counts = self.client.compute([count(reader, *piece) for piece in enumerate(self.pieces)])
        self.counted: list[_Count] = gather_once(self.client, counts)
        self.sizes = tuple(count.rows for count in self.counted)
        if not sum(self.sizes):
            raise InputError("X has no rows: all its partitions are empty.")
        self.reader = replace(
            reader, schema=reader.schema.with_categories([count.categories for count in self.counted])
        )
        self.sensitive = self.counted[0].sensitive
        self.label = "y" if reader.target is None else f"y ({reader.target!r})"
        self._drawn: list[Future] = []

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(self.sizes)

    def counts(self) -> Counts:
        """All combinations of sensitive features, control features and labels."""
        found: Counter[tuple[Any, ...]] = Counter()
        for number, count in enumerate(self.counted):
            if count.sensitive != self.sensitive:
                raise InputError(
                    f"sensitive features are {', '.join(map(repr, count.sensitive))} in partition {number}, "
                    f"and {', '.join(map(repr, self.sensitive))} in the first."
                )
            found.update(count.combinations)
        *columns, labels = map(object_column, zip(*found, strict=True))
        first = len(self.sensitive)
        sensitive = dict(zip(self.sensitive, columns[:first], strict=True))
        controls = dict(zip(self.reader.controls, columns[first:], strict=True))
        return Counts(sensitive, controls, labels, np.array(list(found.values()), np.int64))

    @property
    def places(self) -> list[Place]:
        """Number, first row and size of each partition."""
        firsts = accumulate(self.sizes, initial=0)
        return [Place(*place) for place in zip(range(len(self.sizes)), firsts, self.sizes, strict=False)]

    def tasks(
        self, function: Callable[..., Any], *shared: Any, each: Iterable[Any] | None = None
    ) -> list[Delayed]:
        """``function(rows, *shared)`` of every partition, to be computed; with `each`, one more argument."""
        # Keys of its own for every call: fits do not disturb each other.
        call = dask.delayed(_call, pure=False, traverse=False)
        reader = dask.delayed(self.reader, pure=False, traverse=False)
        further = [()] * len(self.sizes) if each is None else [(one,) for one in each]
        return [
            call(function, reader, place, given, *shared, *more)
            for place, given, more in zip(self.places, self.pieces, further, strict=True)
        ]

    def map(self, function: Callable[..., T], *shared: Any, what: str) -> list[T]:  # noqa: ARG002
        """``function(rows, *shared)`` of every partition."""
        with connected(self.client):
            self._drawn = self.client.compute(self.tasks(function, *shared))
        return gather(self.client, self._drawn)

    def fold_runner(self, examples: Callable[[Sequence[Any]], Any]) -> Callable[[Sequence[Any]], list[Any]]:
        """Folds are fitted on the workers, which join the same rows: these are not lost with a worker."""
        with connected(self.client):
            joined = self.client.submit(examples, self._drawn, pure=False)

        def run(folds: Sequence[Any]) -> list[Any]:
            fits = [sent(self.client, fold) for fold in folds]
            tasks = [self.client.submit(operator.call, fit, joined, pure=False) for fit in fits]
            return gather_once(self.client, tasks)

        return run

    @contextmanager
    def store(self, layout: Layout) -> Iterator[Fill]:
        """Posteriors stay on the workers."""
        yield partial(self._fill, layout)

    def _fill(self, layout: Layout, score: Scorer, own: Own) -> Kept:
        """Score all rows where they are."""
        client, places = self.client, self.places
        # The model is sent once, and to each partition what it needs for its own rows.
        each = [sent(client, own(place)) for place in places]
        blocks = self.tasks(_score, sent(client, score), each=each)
        cut = dask.delayed(operator.getitem, pure=False)
        rows = max(_BLOCK // (16 * layout.compared), 1)

        def column(name: str) -> da.Array:
            kind, shape = layout.kinds[name]
            parts = [
                da.from_delayed(cut(block, name), (place.size, *shape), dtype=kind)
                for block, place in zip(blocks, places, strict=True)
            ]
            return da.concatenate(parts).rechunk({0: rows})

        found = {name: column(name) for name in layout.kinds}
        return DaskPartitions(layout.posteriors(found), found.get("weights"), optimize_graph=False)


def _score(rows: Rows, score: Callable[[Rows, Any], Columns], own: Any) -> Columns:
    with one_thread("blas"):
        return score(rows, own)


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
        Sensitive columns of X; None also where they are known by proxies.
    controls : tuple of str
        Control features, which are columns of X.
    beside : tuple of str
        What is passed beside X, in order.
    """

    schema: Schema
    target: str | None
    weight: str | None
    where: Where | None
    controls: tuple[str, ...]
    beside: tuple[str, ...]

    def read(self, number: int, X: Any, *further: Any) -> tuple[Any, ...]:
        """X, y, sensitive features by name, weights and control features by name of a partition.

        Parameters
        ----------
        number : int
        X, *further
            Its pieces.
        """
        given: dict[str, Any] = dict(zip(self.beside, further, strict=True))
        X = self.schema.read(number, X)
        for name, piece in given.items():
            if len(piece) != len(X):
                raise InputError(
                    f"{name} has {len(piece):,} rows in partition {number}, where X has {len(X):,}."
                )
        y = given["y"] if self.target is None else X[self.target]
        weights = given.get("sample_weight") if self.weight is None else X[self.weight]
        controls = {name: X[name] for name in self.controls}
        own = [name for name in (self.target, self.weight) if name is not None]
        X = X.drop(columns=own) if own else X
        passed = given.get("sensitive_features", {})
        sensitive = sensitive_columns(X, self.where, passed)
        return X, y, sensitive, weights, controls


def _call(function: Callable[..., Any], reader: Reader, place: Place, pieces: Any, *shared: Any) -> Any:
    X, y, sensitive, weights, _ = reader.read(place.number, *pieces)
    if len(X) != place.size:
        raise InputError(
            f"partition {place.number} had {place.size:,} rows when they were counted, and now has "
            f"{len(X):,}."
        )
    numbers = np.arange(place.first, place.first + place.size)
    columns = {name: np.asarray(as_column(column, what=name)) for name, column in sensitive.items()}
    if weights is not None:
        weights = weight_column(nw.from_native(pd.Series(np.ravel(weights)), series_only=True), place.first)
    return function(Rows(numbers, X, np.ravel(np.asarray(y)), columns, weights), *shared)


def as_rows(X: Any) -> Any:
    """X, if it is a Dask DataFrame or array, whose rows are in one piece."""
    if isinstance(X, dd.DataFrame):
        if not len(X.columns):
            raise InputError("X has no columns.")
        return X
    if not isinstance(X, da.Array):
        raise InputError(f"X must be a Dask DataFrame or array, got {type(X).__name__}.")
    if X.ndim != 2:
        raise InputError(f"X must have two dimensions, got shape {X.shape}.")
    return X.rechunk({1: -1})


def alongside(given: Any, X: Any, name: str) -> Any:
    """What belongs to the rows of X, partition by partition."""
    named = isinstance(X, dd.DataFrame)
    if not isinstance(given, dd.DataFrame | dd.Series if named else da.Array):
        column = ", or a column of X" if named and name != "sensitive_features" else ""
        kinds = f"Dask Series or DataFrame{column}, as X is a DataFrame" if named else "Dask array, as X is"
        raise InputError(f"{name} must be a {kinds}, got {type(given).__name__}.")
    if not named:
        given = aligned(given, X, name)
        return given.rechunk({1: -1}) if given.ndim == 2 else given
    own, other = X.divisions, given.divisions
    if len(own) != len(other) or (own != other and None not in (own[0], other[0])):
        how = f"{len(other) - 1:,} partitions" if len(own) != len(other) else "other divisions"
        raise InputError(
            f"{name} has {how}, where X has {len(own) - 1:,} partitions: repartition one like the other, or "
            "take both from one table."
        )
    return given


def _reader(X: Any, given: Mapping[str, Any], where: Any, controls: Sequence[str]) -> Reader:
    y, sample_weight = given["y"], given["sample_weight"]
    if y is None:
        raise InputError("this classifier requires y to be passed, but the target y is None.")
    target = weight = None
    names: list[str] = []
    table = BatchedTable(X, tuple(X.columns)) if isinstance(X, dd.DataFrame) else None
    if table is not None:
        target = table.require(y, "the label") if isinstance(y, str) else None
        weight = table.require(sample_weight, "sample weights") if isinstance(sample_weight, str) else None
    where = None if isinstance(where, Proxy) else where
    if where is not None and not callable(where):
        example = X._meta if isinstance(X, dd.DataFrame) else np.empty((0, X.shape[1]))
        names = list(columns_of(example, where))  # refuses columns that do not exist
        check_roles(target, weight, names)
    own = {"y": target, "sensitive_features": None, "sample_weight": weight}
    beside = [name for name in _BESIDE if given[name] is not None and own[name] is None]
    columns = tuple(X.columns) if table is not None else ()
    there = tuple(name for name in controls if name not in names and name in columns)
    return Reader(Schema.of(X), target, weight, where, there, tuple(beside))


def _as_pieces(collection: Any) -> list[Delayed]:
    """Partitions of a table, or blocks of rows of an array."""
    return list(np.ravel(np.array(collection.to_delayed(), dtype=object)))


@dataclass(frozen=True, eq=False)
class _Count:
    """What a partition holds.

    Attributes
    ----------
    rows : int
    combinations : dict
        Rows with each combination of sensitive values, control features and label.
    sensitive : tuple of str
        Names of the sensitive features.
    categories : dict
        Categories of its categorical columns.
    """

    rows: int
    combinations: Mapping[tuple[Any, ...], int]
    sensitive: tuple[str, ...]
    categories: Mapping[str, Any]


def _count(reader: Reader, number: int, pieces: Sequence[Any]) -> _Count:
    _, y, sensitive, _, controls = reader.read(number, *pieces)
    factors = [factorize(column, what=f"sensitive feature {name!r}") for name, column in sensitive.items()]
    factors += [factorize(column, what=f"control feature {name!r}") for name, column in controls.items()]
    labels = factorize_labels(y, "y")
    combinations: dict[tuple[Any, ...], int] = {}
    if len(y):
        keys, counts, _ = observed_combinations([*factors, labels])
        combinations = dict(zip(keys, counts.tolist(), strict=True))
    return _Count(len(y), combinations, tuple(sensitive), reader.schema.categories(pieces[0]))
