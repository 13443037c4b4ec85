"""Rows in partitions that are elsewhere: in files, or on a cluster.

Functions of one partition at a time travel to the rows, and sums, or some thousands of rows, travel back. A
result is the same whatever the partitions: samples are taken by the number of a row among all rows, and sums
are added in the order of the partitions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.solver.counted_scores import FEW_ROWS, Interval, count_scores, merged
from evenhand.solver.dense import DenseRows, collapsed, exact_sum, spread, tie_width
from evenhand.solver.oracle import Direct, Problem, Smoothed, Totals, Vector
from evenhand.solver.partitions import Part, Partitions
from evenhand.solver.thresholds import Steps, solve_by_thresholds

_AT_LEAST = 20
"""Rows of a sample below the first guess of a distance: they give it to about a quarter."""
_ENOUGH = 1_000
"""Rows of a sample below a distance: they give the number of all rows below it to 3 %, without counting."""
Given = tuple[NDArray[np.float64], Vector]
"""Rows with a selection of their own, and that selection."""


@dataclass(frozen=True, eq=False)
class Sizes:
    """Number of rows of each partition, and the total weight of all rows (their number without weights)."""

    rows: tuple[int, ...]
    weight: float


class PartitionedRows:
    """Rows of several partitions as one oracle.

    Parameters
    ----------
    partitions : Partitions
    sizes : Sizes

    Examples
    --------
    >>> import numpy as np
    >>> from evenhand.solver.partitions import ThreadedPartitions
    >>> P = np.array([[0.2, 0.8], [0.7, 0.3]])
    >>> parts = ThreadedPartitions(lambda k: DenseRows(P[k : k + 1], None), 2, 1)
    >>> PartitionedRows(parts, Sizes((1, 1), 2.0)).smooth(np.array([-0.5, 0.5]), 0.1).sums
    array([0.1, 0.4])
    """

    def __init__(self, partitions: Partitions, sizes: Sizes) -> None:
        self.partitions = partitions
        self.sizes = sizes
        self.most = partitions.most
        self._samples: dict[int, DenseRows] = {}

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(self.sizes.rows)

    @property
    def n_columns(self) -> int:
        """D, the length of a row."""
        return 2 * self.partitions.n_groups

    @property
    def _shares(self) -> list[float]:
        """What turns the sums of a partition into shares of all rows."""
        if self.partitions.weighted:
            return [1 / self.sizes.weight] * len(self.sizes.rows)
        return [rows / self.n_rows for rows in self.sizes.rows]  # without weights its rows have 1 / n each

    def _added(self, parts: Sequence[Vector]) -> Vector:
        return exact_sum([share * part for share, part in zip(self._shares, parts, strict=True)])

    def _total(self, parts: Sequence[float]) -> float:
        return math.fsum(share * part for share, part in zip(self._shares, parts, strict=True))

    def smooth(self, v: Vector, width: float) -> Smoothed:
        """Sum over all rows, smoothed within `width` of the boundary."""
        parts = self.partitions.map(DenseRows.smooth, v, width)
        hessian = sum(
            (share * part.hessian for share, part in zip(self._shares, parts, strict=True)),
            start=np.zeros((self.n_columns, self.n_columns)),
        )
        value = self._total([part.value for part in parts])
        return Smoothed(value, self._added([part.sums for part in parts]), hessian)

    def sample(self, count: int) -> DenseRows:
        """Take one row at random from each of `count` equal parts of the rows."""
        count = min(count, self.n_rows)
        if count not in self._samples:
            index = spread(self.n_rows, count)
            ends = np.cumsum((0, *self.sizes.rows))
            cuts = np.searchsorted(index, ends)
            each = [index[a:b] - end for a, b, end in zip(cuts, cuts[1:], ends, strict=False)]
            found = self.partitions.map(_take, each=each)
            rows, weights = self._joined(found)
            self._samples[count] = DenseRows(rows, weights * (self.n_rows / count))
        return self._samples[count]

    def near(self, v: Vector, count: int) -> DenseRows:
        """Take the `count` rows with the smallest |h|, the others being decided by the sign of h.

        Copies of a row are taken as one.
        """
        # Copies of a row may differ in the last bits of h, and must be taken together.
        found = self.partitions.map(_near, v, self._distance(v, count) + tie_width(v))
        rows, weights = self._joined([(rows, weights) for rows, weights, _ in found])
        rows, weights, _ = collapsed(rows, weights)
        return DenseRows(rows, weights, base=self._added([base for _, _, base in found]))

    def _joined(
        self, found: Sequence[tuple[NDArray[np.float64], Vector]]
    ) -> tuple[NDArray[np.float64], Vector]:
        weights = [share * part for share, (_, part) in zip(self._shares, found, strict=True)]
        return np.concatenate([rows for rows, _ in found]), np.concatenate(weights)

    def _distance(self, v: Vector, count: int) -> float:
        """The |h| up to which there are `count` rows."""
        if count >= self.n_rows:
            return np.inf
        sample = self._samples[max(self._samples)] if self._samples else self.sample(20_000)
        sizes = np.sort(np.abs(sample.scores(v)))
        expected = count / self.n_rows * len(sizes)
        if expected >= _ENOUGH:
            return float(sizes[math.ceil(expected) - 1])
        place = max(_AT_LEAST, math.ceil(2 * expected))
        limit = float(sizes[min(place, len(sizes) - 1)])
        while True:
            found = self.partitions.map(_sizes, v, limit)
            values = np.concatenate([values for values, _ in found])
            counts = np.concatenate([counts for _, counts in found])
            if counts.sum() >= count:
                break
            limit = max(4 * limit, tie_width(v))
        order = np.argsort(values, kind="stable")
        return float(values[order][np.searchsorted(np.cumsum(counts[order]), count)])

    def totals(self, v: Vector, given: DenseRows | None = None, values: Vector | None = None) -> Totals:
        """Sum over all rows without smoothing, with the selection of some rows given."""
        known: Given | None = None
        if given is not None and values is not None:
            rows, first = np.unique(given.matrix, axis=0, return_index=True)
            known = rows, values[first]
        positive, sums, ties = zip(*self.partitions.map(_totals, v, known), strict=True)
        selection = self.partitions.lazy(_selection, v, known)
        return Totals(self._total(positive), self._added(sums), selection, sum(ties))

    def summed(self, function: Callable[..., Vector], *arguments: Any) -> Vector:
        """Sum over all rows of what a function of a partition sums up within it."""
        return self._added(self.partitions.map(function, *arguments))

    def weight_of(self, rows: NDArray[np.float64]) -> Vector:
        """Total weight of the rows that are equal to each of some distinct rows."""
        return self.summed(_weight_of, rows)

    def direct(self, problem: Problem) -> Direct | None:
        """Mix thresholds in each group if groups are known; otherwise rows may be any vectors."""
        if not self.partitions.known:
            return None

        def count(asked: list[Interval]) -> list[Any]:
            found = self.partitions.map(count_scores, asked, FEW_ROWS // len(self.sizes.rows))
            return merged(found, self._shares, asked)

        def by_steps(v: Vector, steps: Steps) -> Totals:
            positive, sums = zip(*self.partitions.map(_by_steps, v, steps), strict=True)
            selection = self.partitions.lazy(_selected_by_steps, steps)
            return Totals(self._total(positive), self._added(sums), selection, 0)

        return solve_by_thresholds(problem, self.partitions.n_groups, count, by_steps)

    def distinct(self) -> None:
        """Nothing to gain: copies are collapsed whenever rows are taken."""


def _take(part: Part, index: NDArray[np.intp]) -> tuple[NDArray[np.float64], Vector]:
    return part.take(index), part.weights_of(index)


def _sizes(part: Part, v: Vector, limit: float) -> tuple[Vector, NDArray[np.intp]]:
    """The distinct |h| up to a limit, and how many rows have each."""
    size = np.abs(part.scores(v))
    return np.unique(size[size <= limit], return_counts=True)


def _near(part: Part, v: Vector, distance: float) -> tuple[NDArray[np.float64], Vector, Vector]:
    """Rows with |h| up to a distance, copies as one, and the sums of the others by the sign of h."""
    h = part.scores(v)
    index = np.flatnonzero(np.abs(h) <= distance)
    rows, weights, _ = collapsed(part.take(index), part.weights_of(index))
    h[index] = 0.0
    return rows, weights, part.selected((h > 0).astype(np.float64))


def _totals(part: Part, v: Vector, given: Given | None) -> tuple[float, Vector, int]:
    h, selection, index = _decided(part, v, given)
    return part.positive_part(v, h), part.selected(selection), part.ties(v, h, index)


def _selection(part: Part, v: Vector, given: Given | None) -> Vector:
    return _decided(part, v, given)[1]


def _by_steps(part: Any, v: Vector, steps: Steps) -> tuple[float, Vector]:
    found = part.by_steps(v, steps)
    return found.positive_part, found.sums


def _selected_by_steps(part: Any, steps: Steps) -> Vector:
    return steps.selection(part.eta, part.codes)


def _decided(part: Part, v: Vector, given: Given | None) -> tuple[Vector, Vector, NDArray[np.intp]]:
    """H, the selection, and the rows whose selection was given.

    Rows are recognised by their numbers: copies are decided alike, whatever their partitions.
    """
    h = part.scores(v)
    selection = (h > 0).astype(np.float64)
    if given is None:
        return h, selection, np.empty(0, np.intp)
    rows, values = given
    # Copies may differ in the last bits of h.
    reach = float(np.abs(rows @ v).max(initial=0.0)) + tie_width(v)
    near = np.flatnonzero(np.abs(h) <= reach)
    place = _find(part.take(near), rows)
    index, place = near[place >= 0], place[place >= 0]
    selection[index] = values[place]
    return h, selection, index


def _weight_of(part: Part, rows: NDArray[np.float64]) -> Vector:
    everything = np.arange(part.n_rows)
    place = _find(part.take(everything), rows)
    index, place = everything[place >= 0], place[place >= 0]
    return np.bincount(place, part.weights_of(index), len(rows)).astype(np.float64)


def _find(rows: NDArray[np.float64], known: NDArray[np.float64]) -> NDArray[np.intp]:
    """Which of some distinct rows each row is equal to; -1 if none."""
    both = np.concatenate([known, rows])
    _, mass, kind = collapsed(both, np.zeros(len(both)))
    place = np.full(len(mass), -1, np.intp)
    place[kind[: len(known)]] = np.arange(len(known))
    return place[kind[len(known) :]]
