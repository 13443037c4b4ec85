"""Dask arrays of posteriors, scores and weights: checked, and cut into partitions."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

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


@dataclass(frozen=True, eq=False)
class RowArrays:
    """Dask arrays with the same chunks of rows.

    Attributes
    ----------
    shapes : dict
        Shape of a row of each array, by name.
    arrays : tuple of dask arrays
    """

    shapes: Mapping[str, tuple[int, ...]]
    arrays: tuple[da.Array, ...]

    @classmethod
    def read(cls, posteriors: Posteriors, sample_weight: Any) -> Self:
        """Check what is known before anything is computed."""
        given: Any = posteriors.arrays  # of Dask
        arrays = {
            name: array.rechunk({1: -1, 2: -1}) if array.ndim > 1 else array for name, array in given.items()
        }
        rows: da.Array = next(iter(arrays.values()))
        if sample_weight is not None:
            arrays["sample_weight"] = _weights(sample_weight, rows)
        alike = tuple(aligned(array, rows, name) for name, array in arrays.items())
        return cls({name: array.shape[1:] for name, array in arrays.items()}, alike)

    @property
    def sizes(self) -> tuple[float, ...]:
        """Rows of each partition; NaN where it is unknown."""
        return tuple(self.arrays[0].chunks[0])

    def blocks(self, *, optimize_graph: bool = True) -> list[Delayed]:
        """Each partition as a :data:`Block`."""
        # Keys of its own for every call: what one solve releases, another may still need.
        make = dask.delayed(_block, pure=False, traverse=False)
        arrays = zip(
            *(array.to_delayed(optimize_graph=optimize_graph).ravel() for array in self.arrays), strict=True
        )
        return [
            make(self.shapes, size, number, *given)
            for number, (size, given) in enumerate(zip(self.sizes, arrays, strict=True))
        ]

    def mapped(self, function: Callable[[Block], Any], sizes: Sequence[int]) -> da.Array:
        """One number per row, given the number of rows of each partition."""
        return by_rows(partial(_values, function, self.shapes), self.arrays, sizes=sizes)


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


def _values(function: Callable[[Block], Any], shapes: Mapping[str, tuple[int, ...]], *given: Any) -> Any:
    """What a function makes of the arrays of a partition, which :func:`_block` has compared before."""
    return function(_block(shapes, math.nan, 0, *given))
