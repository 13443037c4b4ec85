"""A table in files, read a batch of rows at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from evenhand.exceptions import EvenhandError, InputError, reason
from evenhand.inputs.columns import check_names, is_missing

__all__ = ["BATCH_ROWS", "BatchedTable", "is_lazy", "row_uniforms"]

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
    >>> table.combinations(["sex"])
    ({'sex': ['F', 'M']}, array([2, 1]))
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
        try:
            names = source.schema.names if _is_dataset(source) else source.collect_schema().names()
        except Exception as error:
            raise _unreadable(error) from error
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
            close = get_close_matches(name, self.names, n=1)
            listed = ", ".join(map(repr, self.names[:8])) + (", ..." if len(self.names) > 8 else "")
            hint = f"Did you mean {close[0]!r}?" if close else f"It has {listed}."
            raise InputError(f"X has no column {name!r}, which should hold {what}. {hint}")
        return name

    def split(self, share: float, seed: int) -> tuple[BatchedTable, BatchedTable]:
        """Two tables of disjoint rows, drawn at random by the number of a row; the second has the share."""
        if self.share is not None:
            raise InputError("the table is split already.")
        return replace(self, share=(share, 1.0, seed)), replace(self, share=(0.0, share, seed))

    def batches(self, columns: Sequence[str] | None = None, *, rows: int = BATCH_ROWS) -> Iterator[Any]:
        """Read the table.

        Parameters
        ----------
        columns : sequence of str, default=None
            By default all.
        rows : int
            Rows per batch, at most.

        Yields
        ------
        polars.DataFrame or pyarrow.Table
            Without empty ones.
        """
        first = 0
        try:
            for batch in self._read(list(self.names if columns is None else columns), rows):
                kept = batch
                if self.share is not None:
                    low, high, seed = self.share
                    u = row_uniforms(np.arange(first, first + len(batch)), seed)
                    kept = _take(batch, np.flatnonzero((u >= low) & (u < high)))
                first += len(batch)
                if len(kept):
                    yield kept
        except (EvenhandError, GeneratorExit, MemoryError):
            raise
        except Exception as error:  # of polars and pyarrow, which have no base class in common
            raise _unreadable(error) from error

    def _read(self, columns: list[str], rows: int) -> Iterator[Any]:
        if _is_dataset(self.source):
            import pyarrow as pa  # noqa: PLC0415  (only where a dataset of it is read)

            for batch in self.source.to_batches(columns=columns, batch_size=rows, batch_readahead=2):
                yield pa.Table.from_batches([batch])
        else:
            chosen = self.source.select(columns)
            for batch in chosen.collect_batches(chunk_size=rows, maintain_order=True):
                # polars takes the size of a batch as a hint.
                yield from (batch[k : k + rows] for k in range(0, len(batch), rows))

    def count_rows(self) -> int:
        """Number of rows."""
        if self.share is not None:
            return sum(map(len, self.batches(self.names[:1])))
        if _is_dataset(self.source):
            return int(self.source.count_rows())
        try:
            return int(nw.from_native(self.source).select(nw.len()).collect().item())
        except Exception as error:
            raise _unreadable(error) from error

    def combinations(self, columns: Sequence[str]) -> tuple[dict[str, list[Any]], NDArray[np.int64]]:
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
                raise InputError(
                    f"{', '.join(map(repr, columns))} have more than {_MOST_COMBINATIONS:,} combinations of "
                    "values. Put the values of sensitive features into a few bins first."
                )
        if not found:
            raise InputError("X has no rows.")
        table = {name: [key[k] for key in found] for k, name in enumerate(columns)}
        return table, np.array(list(found.values()), np.int64)


_MOST_COMBINATIONS = 100_000


def is_lazy(X: Any) -> bool:
    """Whether X is a table that is read in batches: of polars, lazy, or a dataset of pyarrow.

    Examples
    --------
    >>> import polars as pl
    >>> is_lazy(pl.LazyFrame()), is_lazy(pl.DataFrame())
    (True, False)
    """
    return isinstance(X, BatchedTable) or nw.dependencies.is_polars_lazyframe(X) or _is_dataset(X)


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


def _take(batch: Any, rows: NDArray[np.intp]) -> Any:
    return nw.from_native(batch, eager_only=True)[rows, :].to_native()


def _unreadable(error: Exception) -> InputError:
    return InputError(f"X cannot be read: {reason(error)}")
