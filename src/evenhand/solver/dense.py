"""Rows held in memory as an array."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.solver.oracle import ALL, ROUNDING, Direct, Problem, Smoothed, Totals, Vector

_BLOCK = 1 << 14  # rows at a time: 2 MB at 16 columns, which stay in the cache
_SEED = 2718  # any: the sample must only be the same every time
Index = NDArray[np.intp] | slice


class DenseRows:
    """Rows of an array of shape (n, D) or (n, M, 2), float32 or float64, never copied as a whole.

    A subclass that holds the same numbers in fewer entries overrides how some rows are taken and summed up.

    Parameters
    ----------
    rows : array
        The vectors p.
    weights : array, shape (n,), or None
        Weights that sum to 1, unless `base` stands for the rest; None is 1/n each.
    base : array, shape (D,), optional
        sum of w p over further rows that are selected and not held here.
    index : array of int, optional
        Which rows of another oracle these are, if that matters to it; by default 0 to n - 1.
    always : int, default=0
        Number of rows, the last ones, that are always taken (:mod:`evenhand.solver.scalars`).

    Examples
    --------
    >>> import numpy as np
    >>> rows = DenseRows(np.array([[0.2, 0.8], [0.7, 0.3]]), None)
    >>> rows.smooth(np.array([-0.5, 0.5]), 0.1).sums
    array([0.1, 0.4])
    """

    most, block = ALL, _BLOCK

    def __init__(
        self,
        rows: NDArray[Any],
        weights: Vector | None,
        *,
        base: Vector | None = None,
        index: NDArray[np.intp] | None = None,
        always: int = 0,
    ) -> None:
        self.rows = rows
        self.always = always
        self.weights = weights
        self.base = np.zeros(self.n_columns) if base is None else base
        self._index = index
        self._samples: dict[int, DenseRows] = {}  # only the last one is kept

    @property
    def index(self) -> NDArray[np.intp]:
        """Which rows of another oracle these are."""
        return np.arange(len(self.rows)) if self._index is None else self._index

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.rows)

    @property
    def n_columns(self) -> int:
        """D, the length of a row."""
        return math.prod(self.rows.shape[1:])

    @property
    def matrix(self) -> NDArray[np.float64]:
        """All rows as float64 of shape (n, D). May copy them, so it is meant for few rows."""
        return self.take(slice(None))

    def take(self, index: Index) -> NDArray[np.float64]:
        """Some rows as float64 of shape (k, D)."""
        return as_float64(self.rows[index])

    def scores_of(self, index: Index, v: Vector) -> Vector:
        """H of some rows."""
        return self.take(index) @ v

    def summed(self, index: Index, factors: Vector) -> Vector:
        """Sum of some rows, each times a factor."""
        return factors @ self.take(index)

    def weights_of(self, index: Index) -> Vector:
        """Weights of some rows."""
        if self.weights is not None:
            return self.weights[index]
        return np.full(len(self.rows[index]), 1 / max(1, self.n_rows))

    def blocks(self) -> Iterator[slice]:
        """Blocks of rows, one after the other."""
        for start in range(0, self.n_rows, self.block):
            yield slice(start, start + self.block)

    def local(self, where: slice) -> tuple[NDArray[np.float64], slice]:
        """The rows of a block, and the columns that these have numbers in: all of them."""
        return self.take(where), slice(None)

    def scores(self, v: Vector) -> Vector:
        """Compute h of every row."""
        h = np.empty(self.n_rows)
        for where in self.blocks():
            h[where] = self.scores_of(where, v)
        return h

    def sides(self, v: Vector) -> NDArray[Any]:
        """On which side of the boundary each row is: the sign of h."""
        return np.sign(self.scores(v))

    def apart(self, v: Vector, sides: NDArray[Any]) -> Vector:
        """How far each row is from the boundary; negative where it is not on a given side of it."""
        return np.asarray(sides * self.scores(v))

    def smooth(self, v: Vector, width: float) -> Smoothed:
        """Sum over all rows, smoothed within `width` of the boundary."""
        value = float(v @ self.base)
        sums = self.base.copy()
        hessian = np.zeros((self.n_columns, self.n_columns))
        for where in self.blocks():
            block, columns = self.local(where)
            h = block @ v[columns]
            z = np.clip((h + width) / (2 * width), 0.0, 1.0)
            weights = self.weights_of(where)
            chosen = weights * z
            sums[columns] += chosen @ block
            inside = np.flatnonzero((z > 0) & (z < 1))
            # Above the ramp phi = h = z h; on it phi = width z^2.
            correction = z[inside] * (width * z[inside] - h[inside])
            value += float(chosen @ h) + float(weights[inside] @ correction)
            close = block[inside]
            hessian[columns, columns] += (close * weights[inside, None]).T @ close
        return Smoothed(value, sums, hessian / (2 * width))

    def sample(self, count: int) -> DenseRows:
        """Take one row at random from each of `count` equal parts of the rows."""
        count, ordinary = min(count, self.most), self.n_rows - self.always
        if count >= ordinary:
            return self
        if count not in self._samples:
            chosen = np.concatenate([spread(ordinary, count), np.arange(ordinary, self.n_rows)])
            found = self._some(chosen, ordinary / count, base=self.base)
            if found.weights is not None:
                found.weights[count:] = self.weights_of(chosen[count:])
            self._samples = {count: found}
        return self._samples[count]

    def near(self, v: Vector, count: int) -> DenseRows:
        """Take the `count` rows with the smallest |h|, the others being decided by the sign of h."""
        h = self.scores(v)
        ordinary = self.n_rows - self.always
        chosen = np.concatenate([nearest(h[:ordinary], count), np.arange(ordinary, len(h))])
        h[chosen] = 0.0
        return self._some(chosen, base=self.selected((h > 0).astype(np.float64)), index=self.index[chosen])

    def _some(self, chosen: NDArray[np.intp], factor: float = 1.0, **more: Any) -> DenseRows:
        """Some of the rows, with weights times a factor."""
        return DenseRows(self.take(chosen), factor * self.weights_of(chosen), always=self.always, **more)

    def totals(self, v: Vector, given: DenseRows | None = None, values: Vector | None = None) -> Totals:
        """Sum over all rows without smoothing, with the selection of some rows given."""
        index = np.empty(0, np.intp) if given is None else given.index
        return self._totals(v, index, np.empty(0) if values is None else values)

    def _totals(self, v: Vector, index: NDArray[np.intp], values: Vector) -> Totals:
        h = self.scores(v)
        selection = (h > 0).astype(np.float64)
        selection[index] = values
        return Totals(self.positive_part(v, h), self.selected(selection), selection, self.ties(v, h, index))

    def positive_part(self, v: Vector, h: Vector) -> float:
        """Sum of w max(0, h)."""
        parts = (float(self.weights_of(where) @ np.maximum(h[where], 0.0)) for where in self.blocks())
        return math.fsum([float(v @ self.base), *parts])

    def selected(self, selection: Vector) -> Vector:
        """Sum of w f p, given the selection f."""
        parts = (self.summed(where, self.weights_of(where) * selection[where]) for where in self.blocks())
        return exact_sum([self.base, *parts])

    def ties(self, v: Vector, h: Vector, index: NDArray[np.intp]) -> int:
        """How many rows that are not in `index` have an h of 0 up to rounding."""
        inside = np.abs(h) <= tie_width(v)
        inside[index] = False
        near = np.flatnonzero(inside)
        terms = self.scores_of(near, np.abs(v))
        return int(np.count_nonzero(np.abs(h[near]) <= ROUNDING * np.maximum(1.0, terms)))

    def direct(self, problem: Problem) -> Direct | None:  # noqa: ARG002
        """No structure to use: rows may be any vectors."""
        return None

    def distinct(self) -> tuple[DenseRows, NDArray[np.intp]] | None:
        """Each distinct row once, and which of them each row is."""
        rows, weights, kind = collapsed(self.rows, self.weights_of(slice(None)))
        return DenseRows(rows, weights, base=self.base), kind


def as_float64(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Rows as float64 of shape (n, D)."""
    return rows.reshape(len(rows), math.prod(rows.shape[1:])).astype(np.float64, copy=False)


def collapsed(rows: NDArray[Any], weights: Vector) -> tuple[NDArray[Any], Vector, NDArray[np.intp]]:
    """Each distinct row once, with the weight of its copies; and which of them each row is."""
    flat = as_float64(rows)
    # By hashes, because sorting whole rows takes ten times as long.
    _, first, kind = np.unique(row_hashes(flat), return_index=True, return_inverse=True)
    if not np.array_equal(flat[first[kind]], flat):  # two rows with the same hash
        _, first, kind = np.unique(flat, axis=0, return_index=True, return_inverse=True)
        kind = kind.ravel()  # NumPy 2.0 gives it as a column
    return rows[first], np.bincount(kind, weights, len(first)).astype(np.float64), kind


def row_hashes(rows: NDArray[np.float64]) -> NDArray[np.uint64]:
    """A hash of each row, equal for equal rows."""
    words = (np.ascontiguousarray(rows) + 0.0).view(np.uint64)  # no negative zeros
    mixed = np.zeros(len(rows), np.uint64)
    for column in words.T:
        mixed ^= column
        mixed *= np.uint64(0x9E3779B97F4A7C15)  # odd, so distinct words stay distinct
        mixed ^= mixed >> np.uint64(32)
    return mixed


def tie_width(v: Vector) -> float:
    """Size of h above which no row is on the boundary."""
    return ROUNDING * max(1.0, float(np.abs(v).max(initial=0.0)))


def is_tie(h: Vector, rows: NDArray[np.float64], v: Vector) -> NDArray[np.bool_]:
    """Whether the sign of h means nothing, because h is the difference of much larger terms."""
    return np.abs(h) <= ROUNDING * np.maximum(1.0, rows @ np.abs(v))


def exact_sum(parts: Sequence[Vector] | NDArray[np.float64]) -> Vector:
    """Add vectors without rounding errors between them."""
    return np.array([math.fsum(column) for column in np.array(parts).T])


def spread(n: int, count: int) -> NDArray[np.intp]:
    """Choose `count` of `n` rows, one at random from each of as many parts; the same ones every time."""
    steps = np.arange(count) + np.random.default_rng(_SEED).random(count)
    return (steps * (n / count)).astype(np.intp)


def nearest(h: Vector, count: int) -> NDArray[np.intp]:
    """Rows with the `count` smallest |h|, and those that tie with the last of them."""
    if count >= len(h):
        return np.arange(len(h))
    size = np.abs(h)
    cut = np.partition(size, count - 1)[count - 1]
    return np.flatnonzero(size <= cut)
