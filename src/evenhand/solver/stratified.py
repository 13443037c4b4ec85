"""Rows in strata: a row has numbers in the columns of its own stratum, and nothing in the others.

Only these numbers are stored and multiplied, so fifty strata cost little more than one. Strata that no bound
joins are problems of their own: they are solved one after the other, and what they find is put together and
proven on all rows, as any other solution is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from evenhand.solver.dense import DenseRows, Index, as_float64, collapsed
from evenhand.solver.finish import Finish
from evenhand.solver.optimize import Accepted, Optimum, optimize
from evenhand.solver.oracle import ROUNDING, Oracle, Problem, Totals, Vector
from evenhand.solver.scalars import RowsWithScalars, totals_of
from evenhand.solver.threads import one_thread

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


def optimize_in_strata(oracle: Oracle, problem: Problem, accepted: Accepted) -> Optimum | None:
    """Solve a problem to a proven gap: stratum by stratum where rows are in strata that no bound joins.

    Parameters
    ----------
    oracle, problem, accepted
        See :func:`evenhand.solver.optimize.optimize`.

    Returns
    -------
    Optimum or None
    """
    inner = oracle.inner if isinstance(oracle, RowsWithScalars) else oracle
    if isinstance(inner, StratifiedRows):
        parts = list(_parts(inner, problem))
        if len(parts) > 1:
            with one_thread("blas"):
                found = _optimize_parts(oracle, inner, problem, accepted, parts)
            if found is not None:
                return found
    return optimize(oracle, problem, accepted)


_Numbers = NDArray[np.intp]
_Part = tuple[_Numbers, _Numbers, _Numbers]
"""Strata that bounds join, with these bounds and their scalars."""


def _parts(rows: StratifiedRows, problem: Problem) -> Iterator[_Part]:
    """The smallest sets of strata that no bound joins with others."""
    A, L, D = problem.A, rows.n_strata, rows.n_columns
    touched = (A[:, :D].reshape(len(A), L, rows.width) != 0).any(axis=2)
    # Bounds, strata and scalars are the nodes of a graph: a bound is joined with what it contains.
    links = coo_array(np.hstack([touched, A[:, D:] != 0]))
    size = len(A) + links.shape[1]
    graph = coo_array((links.data, (links.row, links.col + len(A))), shape=(size, size))
    _, label = connected_components(graph, directed=False)
    bounds, strata, scalars = np.split(label, [len(A), len(A) + L])
    full = rows.ends[1:] > rows.ends[:-1]
    for one in np.unique(strata[full]):
        own = np.flatnonzero((strata == one) & full)
        yield own, np.flatnonzero(bounds == one), np.flatnonzero(scalars == one)


def _optimize_parts(
    oracle: Oracle, rows: StratifiedRows, problem: Problem, accepted: Accepted, parts: list[_Part]
) -> Optimum | None:
    """Solve one part after the other; None if one cannot be, or they prove nothing together.

    `rows` are those of the oracle without scalars.
    """
    multipliers, of_ties = np.zeros((2, len(problem.lo)))
    selection = np.zeros(rows.n_rows)
    scalars = np.zeros(problem.scalars)
    for strata, bounds, own_scalars in parts:
        own, index, share = rows.of_strata(strata)
        if not share:
            continue
        # Sums over the rows of the part, whose weight is now 1, have to be multiplied by its share.
        columns = (strata[:, None] * rows.width + np.arange(rows.width)).ravel()
        K, behind = len(own_scalars), rows.n_columns + own_scalars
        A = problem.A[bounds]
        smaller = Problem(
            gain=problem.gain[np.append(columns, behind)],
            A=np.hstack([share * A[:, columns], A[:, behind]]),
            lo=problem.lo[bounds],
            hi=problem.hi[bounds],
            scalars=K,
        )
        found = optimize(RowsWithScalars(own, K) if K else own, smaller, accepted)
        if found is None:
            return None
        multipliers[bounds] = share * found.multipliers
        if found.tie_multipliers is not None:
            of_ties[bounds] = share * found.tie_multipliers
        selection[index] = found.totals.selection
        scalars[own_scalars] = found.totals.sums[len(columns) :]
    v = problem.direction(multipliers)
    together = Optimum.of(problem, multipliers, totals_of(oracle, v, selection, scalars))
    if not accepted.proven(together.certificate):
        return None
    # The rows that the sign of h does not decide.
    v = v[: rows.n_columns]
    h, terms = rows.scores(v), rows.scores(np.abs(v))
    index = np.flatnonzero((np.abs(h) <= ROUNDING * np.maximum(1.0, terms)) | (selection != (h > 0)))
    undecided = Finish(
        DenseRows(rows.take(index), rows.weights_of(index)), selection[index], multipliers, 0.0
    )
    return replace(together, finish=undecided, tie_multipliers=of_ties if of_ties.any() else None)
