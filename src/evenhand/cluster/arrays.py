"""Dask arrays of posteriors, scores and weights: checked, and cut into partitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self
from uuid import uuid4

import dask
import dask.array as da
import numpy as np
from dask.core import flatten
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph
from numpy.typing import NDArray

from evenhand.data.labels import read_weights
from evenhand.exceptions import InputError
from evenhand.posteriors.posteriors import Posteriors

__all__ = ["Block", "RowArrays", "aligned"]

Block = tuple[NDArray[Any], ...]
"""Rows of a partition: the arrays of a layout, in its order.

Dask knows the size of a tuple of arrays, so it keeps tasks where the rows are.
"""


@dataclass(frozen=True)
class _Column:
    """What an array of each partition should be.

    Attributes
    ----------
    name : str
    row_shape : tuple of int, default=()
    """

    name: str
    row_shape: tuple[int, ...] = ()

    def read(self, given: Any, rows: int, number: int) -> NDArray[Any]:
        """Check the array of a partition."""
        array, shape = np.asarray(given), (rows, *self.row_shape)
        if array.shape != shape:
            raise InputError(
                f"{self.name} of partition {number} should have shape {shape}, but has {array.shape}."
            )
        integers = self.name in ("codes", "strata")
        if array.dtype.kind not in ("iu" if integers else "biuf"):
            wanted = "integers" if integers else "numbers"
            raise InputError(
                f"{self.name} of partition {number} should be {wanted}, but is of type {array.dtype}."
            )
        if integers or array.dtype == np.float64 or (array.dtype == np.float32 and not self.is_weight):
            return array
        return array.astype(np.float64)

    @property
    def is_weight(self) -> bool:
        return self.name == "sample_weight"


@dataclass(frozen=True, eq=False)
class RowArrays:
    """Dask arrays with the same chunks of rows.

    Attributes
    ----------
    columns : tuple of _Column
    arrays : tuple of dask arrays
    """

    columns: tuple[_Column, ...]
    arrays: tuple[da.Array, ...]

    @classmethod
    def read(cls, posteriors: Posteriors, sample_weight: Any) -> Self:
        """Check what is known before anything is computed."""
        given: Any = posteriors.arrays  # of Dask
        columns = [_Column(name, array.shape[1:]) for name, array in given.items()]
        arrays = [array.rechunk({1: -1, 2: -1}) if array.ndim > 1 else array for array in given.values()]
        rows: da.Array = arrays[0]
        if sample_weight is not None:
            columns.append(_Column("sample_weight"))
            arrays.append(_weights(sample_weight, rows))
        alike = [aligned(array, rows, column.name) for array, column in zip(arrays, columns, strict=True)]
        return cls(tuple(columns), tuple(alike))

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
            make(self.columns, size, number, *given)
            for number, (size, given) in enumerate(zip(self.sizes, arrays, strict=True))
        ]

    def mapped(self, function: Callable[[Block], Any], sizes: Sequence[int]) -> da.Array:
        """One number per row, given the number of rows of each partition."""
        # Not concatenated from arrays: that leaves out empty chunks, and the posteriors may have some.
        name, shared = f"row-values-{uuid4().hex}", dask.delayed(function, pure=False, traverse=False)
        keys = zip(*(flatten(array.__dask_keys__()) for array in self.arrays), strict=True)
        layer = {
            (name, number): (_values, shared.key, self.columns, size, number, *given)
            for number, (size, given) in enumerate(zip(sizes, keys, strict=True))
        }
        graph = HighLevelGraph.from_collections(name, layer, dependencies=[shared, *self.arrays])
        return da.Array(graph, name, chunks=(tuple(sizes),), dtype=np.float64)


def _weights(sample_weight: Any, rows: da.Array) -> da.Array:
    if isinstance(sample_weight, da.Array):
        if sample_weight.ndim != 1:
            raise InputError(f"sample_weight should be one column, but has shape {sample_weight.shape}.")
        return sample_weight
    if math.isnan(rows.shape[0]):
        raise InputError(
            "chunk sizes are unknown, so sample_weight should be a dask array with the same chunks; or call "
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


def _block(columns: Sequence[_Column], size: float, number: int, *given: Any) -> Block:
    """The arrays of a partition, if they are what Dask was told that they are."""
    rows = len(given[0]) if math.isnan(size) else int(size)
    return tuple(column.read(array, rows, number) for column, array in zip(columns, given, strict=True))


def _values(
    function: Callable[[Block], Any], columns: Sequence[_Column], size: int, number: int, *given: Any
) -> Any:
    return function(_block(columns, size, number, *given))
