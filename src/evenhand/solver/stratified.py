"""Rows in strata: a row has numbers in the columns of its own stratum, and nothing in the others.

Only these numbers are stored and multiplied, so fifty strata cost little more than one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from evenhand.solver.dense import DenseRows, Index, as_float64, collapsed
from evenhand.solver.oracle import Totals, Vector

_MOST_ENTRIES = 1 << 24
"""Of rows with all their columns that are taken at a time: 128 MB."""


class StratifiedRows(DenseRows):
    """Rows of several strata, sorted by stratum.

    Parameters
    ----------
    rows : array, shape (n, d), float32 or float64
        The numbers of each row in the columns of its stratum.
    weights : array, shape (n,), or None
        See :class:`DenseRows`.
    ends : array of int, shape (L + 1,)
        Rows ``ends[k]`` to ``ends[k + 1]`` are those of stratum k, with columns k d to (k + 1) d.
    base, index
        See :class:`DenseRows`.
    order : array of int, shape (n,), optional
        Where each row was before rows were sorted; selections are then returned in that order.

    Examples
    --------
    >>> import numpy as np
    >>> rows = StratifiedRows.sorted(np.array([[0.2, 0.8], [0.7, 0.3]]), np.array([1, 0]), 2, None)
    >>> rows.totals(np.array([-0.5, 0.5, -0.5, 0.5])).sums
    array([0. , 0. , 0.1, 0.4])
    """

    def __init__(
        self,
        rows: NDArray[Any],
        weights: Vector | None,
        ends: NDArray[np.intp],
        *,
        base: Vector | None = None,
        index: NDArray[np.intp] | None = None,
        order: NDArray[np.intp] | None = None,
    ) -> None:
        self.ends = ends
        self.order = order
        super().__init__(rows, weights, base=base, index=index)
        self.most = max(1, _MOST_ENTRIES // self.n_columns)

    @classmethod
    def sorted(
        cls, rows: NDArray[Any], strata: NDArray[np.integer[Any]], n_strata: int, weights: Vector | None
    ) -> Self:
        """Rows in any order, with the number of the stratum of each."""
        # Numpy sorts integers of 16 bits by radix, which is five times as fast.
        narrow = np.uint16 if n_strata < 1 << 16 else np.int64
        order = np.argsort(strata.astype(narrow), kind="stable")
        ends = np.searchsorted(strata[order], np.arange(n_strata + 1))
        flat = rows.reshape(len(rows), math.prod(rows.shape[1:]))[order]
        return cls(flat, None if weights is None else weights[order], ends, order=order)

    @property
    def width(self) -> int:
        """Number of columns of one stratum."""
        return int(self.rows.shape[1])

    @property
    def n_strata(self) -> int:
        """L, the number of strata."""
        return len(self.ends) - 1

    @property
    def n_columns(self) -> int:
        """D, the length of a row: L d."""
        return self.n_strata * self.width

    def take(self, index: Index) -> NDArray[np.float64]:
        """Some rows with all their columns, as float64 of shape (k, D)."""
        index = np.arange(self.n_rows)[index]
        out = np.zeros((len(index), self.n_strata, self.width))
        out[np.arange(len(index)), self.strata_of(index)] = self.rows[index]
        return out.reshape(len(index), self.n_columns)

    def strata_of(self, index: NDArray[np.intp]) -> NDArray[np.intp]:
        """The stratum of each of some rows."""
        return np.searchsorted(self.ends, index, side="right") - 1

    def blocks(self) -> Iterator[slice]:
        """Blocks of rows of one stratum."""
        for start, end in pairwise(self.ends.tolist()):
            for first in range(start, end, self.block):
                yield slice(first, min(first + self.block, end))

    def local(self, where: slice) -> tuple[NDArray[np.float64], slice]:
        """The rows of a block, and the columns of their stratum."""
        first = int(np.searchsorted(self.ends, where.start, side="right") - 1) * self.width
        return as_float64(self.rows[where]), slice(first, first + self.width)

    def scores_of(self, index: Index, v: Vector) -> Vector:
        """H of some rows."""
        if not isinstance(index, slice):
            return super().scores_of(index, v)
        block, columns = self.local(index)
        return block @ v[columns]

    def summed(self, index: Index, factors: Vector) -> Vector:
        """Sum of the rows of a block, each times a factor."""
        block, columns = self.local(cast("slice", index))
        sums = np.zeros(self.n_columns)
        sums[columns] = factors @ block
        return sums

    def of_strata(self, strata: NDArray[np.intp]) -> tuple[DenseRows, NDArray[np.intp], float]:
        """The rows of some strata alone, which of these they are, and their weight, now 1."""
        ranges = [np.arange(self.ends[k], self.ends[k + 1]) for k in strata.tolist()]
        index = np.concatenate(ranges)
        weights = self.weights_of(index)
        share = math.fsum(weights.tolist())
        own = None if self.weights is None else weights / (share or 1.0)
        # One stratum is a slice, which is not copied.
        rows = self.rows[index[0] : index[-1] + 1] if len(strata) == 1 and len(index) else self.rows[index]
        if len(strata) == 1:
            return DenseRows(rows, own), index, share
        return StratifiedRows(rows, own, np.cumsum([0, *map(len, ranges)])), index, share

    def _some(self, chosen: NDArray[np.intp], factor: float = 1.0, **more: Any) -> StratifiedRows:
        ends = np.searchsorted(chosen, self.ends)
        return StratifiedRows(as_float64(self.rows[chosen]), factor * self.weights_of(chosen), ends, **more)

    def _totals(self, v: Vector, index: NDArray[np.intp], values: Vector) -> Totals:
        found = super()._totals(v, index, values)
        if self.order is None:
            return found
        given = np.empty(self.n_rows)
        given[self.order] = found.selection
        return replace(found, selection=given)

    def distinct(self) -> tuple[StratifiedRows, NDArray[np.intp]]:
        """Each distinct row once, and which of them each row is."""
        strata = self.strata_of(np.arange(self.n_rows))
        rows, weights, kind = collapsed(np.column_stack([strata, self.rows]), self.weights_of(slice(None)))
        own = StratifiedRows.sorted(rows[:, 1:], rows[:, 0].astype(np.intp), self.n_strata, weights)
        place, own.order, own.base = np.argsort(cast("Any", own.order)), None, self.base
        return own, place[kind]
