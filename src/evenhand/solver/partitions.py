"""Rows in partitions, and where functions of a partition are computed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from evenhand.solver.dense import DenseRows
from evenhand.solver.oracle import Vector

T = TypeVar("T")

_MOST_ROWS = 1 << 20
_MOST_BYTES = 1 << 28
"""Of rows that are taken at a time: a million rows of sixteen groups, which save passes over all rows."""

Part = DenseRows
"""The rows of one partition, whose weights need not sum to 1."""


@runtime_checkable
class Partitions(Protocol):
    """Rows in partitions that stay where they are: functions go there, and what they return comes back."""

    n_groups: int
    """M: rows have 2 M numbers."""

    known: bool
    """Whether the group of each row is known: a partition then holds scores, not posteriors."""

    weighted: bool
    """Whether rows have weights of their own."""

    most: int
    """How many rows may be taken at a time."""

    def map(self, function: Callable[..., T], *arguments: Any, each: Sequence[Any] | None = None) -> list[T]:
        """``function(part, *arguments)`` for every partition, in order; with `each`, one more argument each.

        A function must depend on nothing else, because a lost partition is computed again.
        """

    def lazy(self, function: Callable[..., Vector], *arguments: Any) -> Any:
        """One number per row, left where the rows are."""


@dataclass(eq=False)
class ThreadedPartitions:
    """Partitions that threads of this process load one at a time, for example from a file.

    Parameters
    ----------
    load : function
        The rows of a partition, by its number.
    count : int
        Number of partitions.
    n_groups : int
    known, weighted : bool, default=False
    threads : int, default=None
        By default one per core that this process may use.

    Examples
    --------
    >>> import numpy as np
    >>> P = np.random.default_rng(0).dirichlet(np.ones(4), 10)
    >>> parts = ThreadedPartitions(lambda k: DenseRows(P[5 * k : 5 * k + 5], None), 2, 2)
    >>> parts.map(lambda part: part.n_rows)
    [5, 5]
    """

    load: Callable[[int], Part]
    count: int
    n_groups: int
    known: bool = False
    weighted: bool = False
    threads: int | None = None
    most: int = field(init=False)
    _sizes: dict[int, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.most = max(min(_MOST_BYTES // (16 * self.n_groups), _MOST_ROWS), 1)

    def map(self, function: Callable[..., T], *arguments: Any, each: Sequence[Any] | None = None) -> list[T]:
        """Apply a function to every partition."""

        def one(k: int) -> T:
            part = self.load(k)
            self._sizes[k] = part.n_rows
            return function(part, *arguments, *(() if each is None else (each[k],)))

        usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        pool = ThreadPoolExecutor(min(self.threads or usable, max(1, self.count)))
        try:
            return list(pool.map(one, range(self.count)))
        finally:
            pool.shutdown(cancel_futures=True)  # after Ctrl-C nothing further is begun

    @property
    def n_rows(self) -> int:
        """Number of rows; partitions are loaded for it only if they never were."""
        if len(self._sizes) < self.count:
            self.map(row_count)
        return sum(self._sizes.values())

    def lazy(self, function: Callable[..., Vector], *arguments: Any) -> RowValues:
        """One number per row, computed when asked for."""
        return RowValues(self, function, arguments)


@dataclass(frozen=True, eq=False)
class RowValues:
    """One number per row, computed partition by partition when asked for.

    Attributes
    ----------
    partitions : ThreadedPartitions
    function, arguments
        What gives the numbers of a partition.
    """

    partitions: ThreadedPartitions
    function: Callable[..., Vector]
    arguments: tuple[Any, ...]

    def parts(self) -> Iterator[Vector]:
        """The numbers of one partition after the other."""
        for k in range(self.partitions.count):
            yield self.function(self.partitions.load(k), *self.arguments)

    def __len__(self) -> int:
        return self.partitions.n_rows

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """All numbers in memory."""
        if copy is False:
            raise ValueError("the numbers have to be computed, so a copy cannot be avoided.")
        return np.concatenate([np.empty(0), *self.parts()]).astype(dtype or np.float64, copy=False)


def row_count(part: Part) -> int:
    """Number of rows of a partition."""
    return part.n_rows
