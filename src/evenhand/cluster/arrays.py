"""Dask arrays of posteriors, scores and weights: checked, and cut into partitions."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed
from numpy.typing import NDArray

from evenhand.data.labels import read_weights
from evenhand.exceptions import InputError
from evenhand.posteriors.posteriors import Posteriors

Block = tuple[NDArray[Any], ...]
"""Rows of a partition: the arrays of a layout, in its order.

Dask knows the size of a tuple of arrays, so it keeps tasks where the rows are.
"""


def row_arrays(posteriors: Posteriors, sample_weight: Any) -> dict[str, da.Array]:
    """Arrays with the same chunks of rows; what is known before anything is computed is checked."""
    given: Any = posteriors.arrays  # of Dask
    arrays = {
        name: array.rechunk({1: -1, 2: -1}) if array.ndim > 1 else array for name, array in given.items()
    }
    rows: da.Array = next(iter(arrays.values()))
    if sample_weight is not None:
        arrays["sample_weight"] = _weights(sample_weight, rows)
    return {name: aligned(array, rows, name) for name, array in arrays.items()}


def row_blocks(arrays: Mapping[str, da.Array], *, optimize_graph: bool = True) -> list[Delayed]:
    """Each partition as a :data:`Block`."""
    # Keys of its own for every call: what one solve releases, another may still need.
    make, shapes = dask.delayed(_block, pure=False, traverse=False), row_shapes(arrays)
    delayed = (array.to_delayed(optimize_graph=optimize_graph).ravel() for array in arrays.values())
    sizes = next(iter(arrays.values())).chunks[0]
    return [
        make(shapes, size, number, *given)
        for number, (size, given) in enumerate(zip(sizes, zip(*delayed, strict=True), strict=True))
    ]


def row_shapes(arrays: Mapping[str, da.Array]) -> dict[str, tuple[int, ...]]:
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


def _weights(sample_weight: Any, rows: da.Array) -> da.Array:
    if isinstance(sample_weight, da.Array):
        if sample_weight.ndim != 1:
            raise InputError(f"sample_weight must be one column, got shape {sample_weight.shape}.")
        return sample_weight
    if math.isnan(rows.shape[0]):
        raise InputError(
            "chunk sizes are unknown: pass sample_weight as a Dask array with the same chunks, or call "
            "compute_chunk_sizes() first."
        )
    return da.from_array(read_weights(sample_weight, rows.shape[0]), chunks=(rows.chunks[0],))


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


def values(function: Callable[[Block], Any], shapes: Mapping[str, tuple[int, ...]], *given: Any) -> Any:
    """What a function makes of the arrays of a partition, which :func:`_block` has compared before."""
    return function(_block(shapes, math.nan, 0, *given))
