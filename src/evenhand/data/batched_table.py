"""A table in files, read a batch of rows at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from evenhand.data.checks import near_columns
from evenhand.data.columns import check_names, is_missing, object_column
from evenhand.exceptions import EvenhandError, InputError, reason

BATCH_ROWS = 1 << 18
"""Rows of a batch: with a hundred columns of numbers, 200 MB."""


@dataclass(frozen=True, eq=False)
class BatchedTable:
    """A lazy table whose rows are read in batches, always in the same order.

    Attributes
    ----------
    source : polars.LazyFrame or pyarrow.dataset.Dataset
    names : tuple of str
        Its columns.
    share : tuple of (float, float, int), default=None
        Only the rows whose uniform number, by a seed, is within bounds: low, high, seed.

    Examples
    --------
    >>> import polars as pl
    >>> table = BatchedTable.of(pl.LazyFrame({"x": [1, 2, 3], "sex": ["F", "M", "F"]}))
    >>> [len(batch) for batch in table.batches(rows=2)]
    [2, 1]
    >>> values, rows = table.combinations(["sex"])
    >>> sorted(zip(values["sex"], rows.tolist(), strict=True))
    [('F', 2), ('M', 1)]
    """

    source: Any
    names: tuple[str, ...]
    share: tuple[float, float, int] | None = None

    @classmethod
    def of(cls, source: Any) -> BatchedTable:
        """Wrap a lazy table.

        Parameters
        ----------
        source : polars.LazyFrame, pyarrow.dataset.Dataset or BatchedTable

        Returns
        -------
        BatchedTable
        """
        if isinstance(source, BatchedTable):
            return source
        with _reading(source):
            names = source.schema.names if _is_dataset(source) else source.collect_schema().names()
        check_names(names, "X")
        if not names:
            raise InputError("X has no columns.")
        return cls(source, tuple(names))

    def require(self, name: Any, what: str) -> str:
        """The name of a column, which must exist.

        Parameters
        ----------
        name : str
        what : str
            What the column holds, for messages.

        Returns
        -------
        str
        """
        if not isinstance(name, str):
            raise InputError(
                f"X is a lazy table; call .collect() on it first, or name the column of X that holds {what}, "
                f"which is of type {type(name).__name__} here."
            )
        if name not in self.names:
            hint = near_columns(name, self.names)
            raise InputError(f"X has no column {name!r}, which should hold {what}. {hint}")
        return name

    def select(self, names: Sequence[str]) -> BatchedTable:
        """The same rows with some columns, in an order."""
        return replace(self, names=tuple(names))

    def split(self, share: float, seed: int) -> tuple[BatchedTable, BatchedTable]:
        """Two tables of disjoint rows, drawn at random by the number of a row; the second has the share."""
        if self.share is not None:
            raise InputError("the table is split already.")
        return replace(self, share=(share, 1.0, seed)), replace(self, share=(0.0, share, seed))

    def batches(self, columns: Sequence[str] | None = None, *, rows: int | None = None) -> Iterator[Any]:
        """Read the table.

        Parameters
        ----------
        columns : sequence of str, default=None
            By default all.
        rows : int, default=None
            Rows per batch, before any are left out by `share`; by default `BATCH_ROWS`.

        Yields
        ------
        polars.DataFrame or pyarrow.Table
            Without empty ones.
        """
        first = 0
        with _reading(self.source):
            pieces = self._read(list(self.names if columns is None else columns), rows or BATCH_ROWS)
            for batch in _of_size(pieces, rows or BATCH_ROWS):
                kept = batch
                if self.share is not None:
                    low, high, seed = self.share
                    u = row_uniforms(np.arange(first, first + len(batch)), seed)
                    chosen = np.flatnonzero((u >= low) & (u < high))
                    kept = nw.from_native(batch, eager_only=True)[chosen, :].to_native()
                first += len(batch)
                if len(kept):
                    yield kept

    def _read(self, columns: list[str], rows: int) -> Iterator[Any]:
        if _is_dataset(self.source):
            import pyarrow as pa  # noqa: PLC0415  (only where a dataset of it is read)

            for batch in self.source.to_batches(columns=columns, batch_size=rows, batch_readahead=2):
                yield pa.Table.from_batches([batch])
        else:
            yield from _in_order(self.source.select(columns), rows)

    def count_rows(self) -> int:
        """Number of rows."""
        if self.share is not None:
            return sum(map(len, self.batches(self.names[:1])))
        with _reading(self.source):
            if _is_dataset(self.source):
                return int(self.source.count_rows())
            return int(nw.from_native(self.source).select(nw.len()).collect().item())

    def combinations(self, columns: Sequence[str]) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
        """The combinations of values that occur, and the number of rows of each.

        Parameters
        ----------
        columns : sequence of str

        Returns
        -------
        dict, array of int
            Values by column, one entry per combination; None where one is missing.
        """
        found: Counter[tuple[Any, ...]] = Counter()
        for batch in self.batches(columns):
            counted = nw.from_native(batch, eager_only=True).group_by(*columns).agg(nw.len().alias("rows"))
            values = [counted.get_column(name).to_list() for name in columns]
            for *key, rows in zip(*values, counted.get_column("rows").to_list(), strict=True):
                found[tuple(None if is_missing(value) else value for value in key)] += rows
            if len(found) > _MOST_COMBINATIONS:
                distinct = [len({key[k] for key in found}) for k in range(len(columns))]
                most = columns[int(np.argmax(distinct))]
                raise InputError(
                    f"{', '.join(map(repr, columns))} have more than {_MOST_COMBINATIONS:,} combinations of "
                    f"values, and {most!r} alone has {max(distinct):,}: a label has two values, and those of "
                    "sensitive features belong into a few bins."
                )
        if not found:
            raise InputError("X has no rows.")
        table = {name: object_column([key[k] for key in found]) for k, name in enumerate(columns)}
        return table, np.array(list(found.values()), np.int64)


_MOST_COMBINATIONS = 100_000


def _in_order(lazy: Any, rows: int) -> Iterator[Any]:
    """A lazy table of polars, a number of rows at a time and in their order."""
    if hasattr(lazy, "collect_batches"):
        yield from lazy.collect_batches(chunk_size=rows, maintain_order=True)
        return
    start, piece = 0, lazy.head(rows).collect()  # before polars 1.34, where skipping costs time in CSV files
    while len(piece):
        yield piece
        start += len(piece)
        piece = lazy.slice(start, rows).collect()


def _of_size(pieces: Iterable[Any], rows: int) -> Iterator[Any]:
    """Pieces as batches of a number of rows.

    A library takes the size of a batch as a hint, and what it gives may depend on its threads and on the
    files. Small batches would take long to be scored.
    """
    held: list[nw.DataFrame[Any]] = []
    missing = rows
    for piece in pieces:
        frame = nw.from_native(piece, eager_only=True)
        while len(frame) >= missing:
            yield nw.concat([*held, frame[:missing]]).to_native()
            frame, held, missing = frame[missing:], [], rows
        if len(frame):
            held.append(frame)
            missing -= len(frame)
    if held:
        yield nw.concat(held).to_native()


def is_lazy(X: Any) -> bool:
    """Whether X is a table that is read in batches: of polars, lazy, or a dataset of pyarrow.

    Examples
    --------
    >>> import polars as pl
    >>> is_lazy(pl.LazyFrame()), is_lazy(pl.DataFrame())
    (True, False)
    """
    return isinstance(X, BatchedTable) or nw.dependencies.is_polars_lazyframe(X) or _is_dataset(X)


def is_dask(X: Any) -> bool:
    """Whether X is a table or array of Dask; importing it to find out would take a second."""
    return hasattr(X, "__dask_graph__") and not isinstance(X, BatchedTable)


def row_uniforms(rows: NDArray[np.integer[Any]], seed: int) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1), one per row number, by a hash: the same whatever else is drawn.

    Examples
    --------
    >>> import numpy as np
    >>> both = row_uniforms(np.arange(1000), 7)
    >>> bool((both[500:] == row_uniforms(np.arange(500, 1000), 7)).all()), round(float(both.mean()), 1)
    (True, 0.5)
    """
    x = rows.astype(np.uint64) + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % 2**64)
    # The finaliser of SplitMix64: every bit of the number changes about half of the bits.
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return (x >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _is_dataset(X: Any) -> bool:
    return type(X).__module__.startswith("pyarrow._dataset") and hasattr(X, "to_batches")


@contextmanager
def _reading(source: Any) -> Iterator[None]:
    """Errors of polars and pyarrow, which have no base class in common, as one of X."""
    try:
        yield
    except (EvenhandError, MemoryError):
        raise
    except Exception as error:
        raise InputError(f"X cannot be read: {reason(error)}{_other_types(source)}") from error


def _other_types(source: Any) -> str:
    """Which file of a dataset has a column of another type, after an error of pyarrow that names none.

    Errors of polars name the column.
    """
    if not _is_dataset(source) or not hasattr(source, "files"):
        return ""
    for fragment in source.get_fragments():
        try:
            own = {field.name: field.type for field in fragment.physical_schema}
        except Exception as error:  # the file itself cannot be read
            return f" (in {fragment.path}: {reason(error)})"
        for field in source.schema:
            if own.get(field.name, field.type) != field.type:
                return (
                    f" ({field.name!r} is {own[field.name]} in {fragment.path}, and {field.type} in others)"
                )
    return ""
