"""Rows on the workers of a Dask cluster, as partitions of the solver."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed
from dask.sizeof import sizeof
from distributed import Future
from numpy.typing import NDArray

from evenhand.cluster.client import connected, current_client, finish, gather, gather_once, unchanged
from evenhand.exceptions import InputError
from evenhand.posteriors.posteriors import AnyPosteriors, Posteriors, read_posteriors
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

Block = tuple[NDArray[Any], ...]
"""Rows of a partition: the arrays of a layout, in its order.

Dask knows the size of a tuple of arrays, so it keeps tasks where the rows are.
"""


class DaskPartitions:
    """Rows of dask arrays, kept on the workers as long as this object lives.

    A partition is a task of the arrays' own graph, so Dask computes it again if its worker is lost.

    Parameters
    ----------
    posteriors : dask array, shape (n, M, 2), or GroupedScores or StratifiedPosteriors of dask arrays
    sample_weight : dask array, shape (n,), default=None
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
        self._arrays = _row_arrays(posteriors, sample_weight)
        with connected(self._client):
            self._futures: list[Future] = self._client.compute(
                _row_blocks(self._arrays, optimize_graph=optimize_graph)
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
        answer = partial(_values, self._call(function, arguments), _row_shapes(self._arrays))
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


def _row_arrays(posteriors: Posteriors, sample_weight: Any) -> dict[str, da.Array]:
    """Arrays with the same chunks of rows; what is known before anything is computed is checked."""
    given: Any = posteriors.arrays  # of Dask
    arrays = {
        name: array.rechunk({1: -1, 2: -1}) if array.ndim > 1 else array for name, array in given.items()
    }
    rows: da.Array = next(iter(arrays.values()))
    if sample_weight is not None:
        if not isinstance(sample_weight, da.Array) or sample_weight.ndim != 1:
            raise InputError("sample_weight must be one column, a Dask array as posteriors are.")
        arrays["sample_weight"] = sample_weight
    return {name: aligned(array, rows, name) for name, array in arrays.items()}


def _row_blocks(arrays: Mapping[str, da.Array], *, optimize_graph: bool = True) -> list[Delayed]:
    """Each partition as a :data:`Block`."""
    # Keys of its own for every call: what one solve releases, another may still need.
    make, shapes = dask.delayed(_block, pure=False, traverse=False), _row_shapes(arrays)
    delayed = (array.to_delayed(optimize_graph=optimize_graph).ravel() for array in arrays.values())
    sizes = next(iter(arrays.values())).chunks[0]
    return [
        make(shapes, size, number, *given)
        for number, (size, given) in enumerate(zip(sizes, zip(*delayed, strict=True), strict=True))
    ]


def _row_shapes(arrays: Mapping[str, da.Array]) -> dict[str, tuple[int, ...]]:
    """Shape of a row of each array."""
    return {name: array.shape[1:] for name, array in arrays.items()}


def by_rows(
    ask: Callable[..., Any],
    arrays: Sequence[da.Array],
    *,
    kind: Any = np.float64,
    width: int | None = None,
    sizes: Sequence[int] | None = None,
) -> da.Array:
    """What a function answers about each row, from the blocks of arrays: one number, or `width` of them."""
    axes = "i" if width is None else "iz"
    return da.blockwise(
        operator.call,
        axes,
        *(dask.delayed(ask, pure=False, traverse=False), None),  # one object, into which Dask does not look
        *(part for array in arrays for part in (array, "ijk"[: array.ndim])),
        concatenate=True,
        align_arrays=False,  # chunks of rows have been aligned, and may be of unknown size
        new_axes=None if width is None else {"z": width},
        adjust_chunks=None if sizes is None else {"i": tuple(sizes)},
        dtype=kind,
        meta=np.empty((0,) * len(axes), kind),
    )


def aligned(array: da.Array, rows: da.Array, name: str) -> da.Array:
    """The array with the chunks of the rows."""
    if array.chunks[0] == rows.chunks[0]:
        return array
    if math.isnan(array.shape[0]) or math.isnan(rows.shape[0]):  # compared on the workers
        if array.numblocks[0] == rows.numblocks[0]:
            return array
        raise InputError(
            f"{name} has {array.numblocks[0]:,} chunks instead of {rows.numblocks[0]:,}, and chunk sizes are "
            "unknown; call compute_chunk_sizes() first."
        )
    if array.shape[0] != rows.shape[0]:
        raise InputError(f"{name} has {array.shape[0]:,} rows instead of {rows.shape[0]:,}.")
    return array.rechunk({0: rows.chunks[0]})


def _block(shapes: Mapping[str, tuple[int, ...]], size: float, number: int, *given: Any) -> Block:
    """The arrays of a partition, compared with what Dask knows of them."""
    rows = len(given[0]) if math.isnan(size) else int(size)
    named = zip(shapes.items(), given, strict=True)
    return tuple(_checked(name, np.asarray(array), (rows, *shape), number) for (name, shape), array in named)


def _checked(name: str, array: NDArray[Any], shape: tuple[int, ...], number: int) -> NDArray[Any]:
    """An array of a partition, as integers or floats."""
    if array.shape != shape:
        raise InputError(f"{name} of partition {number} must have shape {shape}, got {array.shape}.")
    integers = name in ("codes", "strata")
    if array.dtype.kind not in ("iu" if integers else "biuf"):
        wanted = "integers" if integers else "numbers"
        raise InputError(f"{name} of partition {number} must be {wanted}, got type {array.dtype}.")
    short = array.dtype == np.float32 and name != "sample_weight"
    return array if integers or short else array.astype(np.float64, copy=False)


def _values(function: Callable[[Block], Any], shapes: Mapping[str, tuple[int, ...]], *given: Any) -> Any:
    """What a function makes of the arrays of a partition, which :func:`_block` has compared before."""
    return function(_block(shapes, math.nan, 0, *given))
