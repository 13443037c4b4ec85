"""Rows on the workers of a Dask cluster, as partitions of the solver."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar

import dask.array as da
from dask.sizeof import sizeof
from distributed import Future

from evenhand.cluster.arrays import Block, by_rows, row_arrays, row_blocks, row_shapes, values
from evenhand.cluster.client import connected, current_client, finish, gather, gather_once, unchanged
from evenhand.exceptions import InputError
from evenhand.posteriors.posteriors import AnyPosteriors, read_posteriors
from evenhand.solver.oracle import Vector
from evenhand.solver.partitions import row_count
from evenhand.solver.threads import one_thread
from evenhand.sources.layout import Columns, Layout

T = TypeVar("T")

_TOGETHER = 1 << 24
"""Bytes of small partitions that one task takes: a task costs a millisecond, reading this many about ten."""
_TRAVELLING = 1 << 23
"""Bytes of rows that are taken at a time: a hundred thousand rows of four groups."""
_SMALL = 10_000
"""Bytes of arguments that are sent with every task; larger ones are sent once to each worker."""


class DaskPartitions:
    """Rows of dask arrays, kept on the workers as long as this object lives.

    A partition is a task of the arrays' own graph, so Dask computes it again if its worker is lost.

    Parameters
    ----------
    posteriors : dask array, shape (n, M, 2), or GroupedScores or StratifiedPosteriors of dask arrays
    sample_weight : dask array or array, shape (n,), default=None
    optimize_graph : bool, default=True
        False where Dask has optimised the graph already: doing so again could give a key another task.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> client = Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0")
    >>> rows = DaskPartitions(da.full((10, 2, 2), 0.25, chunks=(5, 2, 2)))
    >>> rows.map(lambda part: part.n_rows)
    [5, 5]
    >>> del rows
    >>> client.close()
    """

    def __init__(
        self,
        posteriors: AnyPosteriors | da.Array,
        sample_weight: Any = None,
        *,
        optimize_graph: bool = True,
    ) -> None:
        posteriors = read_posteriors(posteriors)
        if not posteriors.lazy:
            raise InputError(f"posteriors must be Dask arrays, got {posteriors!r}.")
        self.layout = Layout(
            posteriors.sizes[1],
            known=posteriors.codes is not None,
            weighted=sample_weight is not None,
            n_strata=posteriors.sizes[0] if "strata" in posteriors.arrays else None,
        )
        self.n_groups = self.layout.compared
        self.known = self.layout.known
        self.weighted = self.layout.weighted
        self.most = max(_TRAVELLING // (16 * self.n_groups), 1)
        self._client = current_client()
        self._arrays = row_arrays(posteriors, sample_weight)
        with connected(self._client):
            self._futures: list[Future] = self._client.compute(
                row_blocks(self._arrays, optimize_graph=optimize_graph)
            )
        finish(self._client, self._futures)

    def map(self, function: Callable[..., T], *arguments: Any, each: Sequence[Any] | None = None) -> list[T]:
        """Apply a function to every partition."""
        with connected(self._client):
            together = self._together()
            call: Any = self._call(function, arguments)
            if sizeof(arguments) > _SMALL:
                # Not scattered: what was scattered to a worker is lost with it.
                call = self._client.submit(unchanged, call, pure=False)
            tasks = self._client.map(
                _call_each,
                [call] * len(together),
                [[self._futures[k] for k in numbers] for numbers in together],
                [[() if each is None else (each[k],) for k in numbers] for numbers in together],
                pure=False,  # every call has keys of its own
            )
        found = gather_once(self._client, tasks)
        results = {
            k: one
            for numbers, all_of in zip(together, found, strict=True)
            for k, one in zip(numbers, all_of, strict=True)
        }
        return [results[k] for k in range(len(self._futures))]

    def partitions(self) -> DaskPartitions:
        """The rows as partitions of the solver."""
        return self

    def blocks(self) -> Iterator[Columns]:
        """The arrays, brought here one partition after the other."""
        for future in self._futures:
            [block] = gather(self._client, [future])
            yield dict(zip(self.layout.kinds, block, strict=True))

    def lazy(self, function: Callable[..., Vector], *arguments: Any) -> da.Array:
        """One number per row, as a dask array on the graph of the rows.

        It does not keep the rows on the workers.
        """
        answer = partial(values, self._call(function, arguments), row_shapes(self._arrays))
        return by_rows(answer, list(self._arrays.values()), sizes=self._sizes)

    @cached_property
    def _sizes(self) -> list[int]:
        sizes = next(iter(self._arrays.values())).chunks[0]
        return self.map(row_count) if any(map(math.isnan, sizes)) else [int(size) for size in sizes]

    @cached_property
    def _bytes(self) -> dict[Any, int]:
        """Sizes of the partitions by key, as the scheduler knows them: asked once, not on every pass."""
        sizes: dict[Any, int] = self._client.nbytes([future.key for future in self._futures], summary=False)
        return sizes

    def _call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> _Call:
        return _Call(function, arguments, self.layout)

    def _together(self) -> list[list[int]]:
        """Numbers of the partitions that each task takes: small ones of the same worker together."""
        where, sizes = self._client.who_has(self._futures), self._bytes
        tasks: list[list[int]] = []
        last: dict[str, tuple[list[int], int]] = {}
        for k, future in enumerate(self._futures):
            workers, size = where.get(future.key), sizes.get(future.key, _TOGETHER)
            worker = workers[0] if workers else f"lost {k}"
            numbers, total = last.get(worker, ([], _TOGETHER))
            if total + size > _TOGETHER:
                numbers, total = [], 0
                tasks.append(numbers)
            numbers.append(k)
            last[worker] = numbers, total + size
        return tasks


@dataclass(frozen=True, eq=False)
class _Call:
    """A function of a partition with its arguments: one object, into which Dask does not look."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    layout: Layout

    def __call__(self, block: Block, *further: Any) -> Any:
        with one_thread("blas"):  # workers have as many threads as they may use
            part = self.layout.part(dict(zip(self.layout.kinds, block, strict=True)))
            return self.function(part, *self.arguments, *further)


def _call_each(call: _Call, blocks: Sequence[Block], each: Sequence[tuple[Any, ...]]) -> list[Any]:
    return [call(block, *further) for block, further in zip(blocks, each, strict=True)]
