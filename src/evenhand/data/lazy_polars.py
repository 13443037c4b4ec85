"""Lazy tables of polars, read without keeping all rows, by whatever version is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def streamed(lazy: Any) -> Any:
    """The rows of a lazy table, computed piece by piece.

    Parameters
    ----------
    lazy : polars.LazyFrame, or one of narwhals

    Returns
    -------
    DataFrame

    Examples
    --------
    >>> import polars as pl
    >>> streamed(pl.LazyFrame({"a": [1, 2]}).select(pl.len())).item()
    2
    """
    try:
        return lazy.collect(engine="streaming")
    except (TypeError, ValueError):  # before polars 1.23
        return lazy.collect()


def in_order(lazy: Any, rows: int) -> Iterator[Any]:
    """A lazy table, a number of rows at a time and in their order.

    Parameters
    ----------
    lazy : polars.LazyFrame
    rows : int
        Of each piece but the last; newer versions may return smaller ones.

    Yields
    ------
    DataFrame

    Examples
    --------
    >>> import polars as pl
    >>> [piece["a"].to_list() for piece in in_order(pl.LazyFrame({"a": [1, 2, 3]}), 2)]
    [[1, 2], [3]]
    """
    if hasattr(lazy, "collect_batches"):
        yield from lazy.collect_batches(chunk_size=rows, maintain_order=True)
        return
    start, piece = 0, lazy.head(rows).collect()  # before polars 1.34, where skipping costs time in CSV files
    while len(piece):
        yield piece
        start += len(piece)
        piece = lazy.slice(start, rows).collect()
