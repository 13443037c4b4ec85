"""Scores with a known group in partitions: the optimum from histograms, refined where it matters.

The optimum is a mixture of thresholds in each group, and only the scores next to where h is 0 must be known
one by one. All others are known by the sums over an interval of scores. So a histogram of each group is
counted first, its optimum found as if an interval were one score, and the intervals in which h changes its
sign are counted more finely, until there are none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.solver.dense import DenseRows
from evenhand.solver.grouped import GroupedRows
from evenhand.solver.oracle import ROUNDING, Direct, Totals, Vector
from evenhand.solver.partitioned import PartitionedRows
from evenhand.solver.program import Problem
from evenhand.solver.sorted_scores import SortedScores
from evenhand.solver.thresholds import Steps, mix_thresholds

_FIRST = 1024  # intervals of each group; a power of 2 makes their ends exact
_FINER = 256  # intervals of a finer count
_FEW_ROWS = 20_000  # in an interval, for their scores to be listed
_BESIDE = 1e-9  # a score on the boundary misses the computed place of h = 0 by rounding errors
_ROUNDS = 12  # a limit on time only: six finer counts take an interval down to neighbouring numbers


class UnsortedScores(GroupedRows):
    """Scores of rows whose group is known, summed without sorting them: for one pass, that is faster."""

    fast = False

    smooth = DenseRows.smooth


@dataclass(frozen=True, eq=False)
class _Counted:
    """Scores of one group in order: single scores, and intervals that stand for the scores in them.

    Attributes
    ----------
    low, high : arrays
        Ends of each interval, which holds the lower one; both are the same for a single score.
    weight, weight_eta, rows : arrays
        Sums of w, w eta and 1.
    """

    low: Vector
    high: Vector
    weight: Vector
    weight_eta: Vector
    rows: Vector

    @property
    def score(self) -> Vector:
        """The mean score of each."""
        middle = (self.low + self.high) / 2
        mean = np.divide(self.weight_eta, self.weight, out=middle, where=self.weight > 0)
        return np.clip(mean, self.low, self.last)

    @property
    def last(self) -> Vector:
        """The largest score that each may hold."""
        return np.where(self.exact, self.high, np.nextafter(self.high, 0.0))

    @property
    def exact(self) -> NDArray[np.bool_]:
        return np.asarray(self.low == self.high)

    def replaced(self, place: int, finer: _Counted) -> _Counted:
        """With a finer count of one interval."""
        both = zip(vars(self).values(), vars(finer).values(), strict=True)
        return _Counted(*(np.concatenate([old[:place], new, old[place + 1 :]]) for old, new in both))


class _CountedScores(SortedScores):
    """Scores and intervals of all groups; an edge between two intervals is between all of their scores."""

    def __init__(self, counted: list[_Counted]) -> None:
        codes = np.repeat(np.arange(len(counted)), [len(each.low) for each in counted])
        scores, weights = (
            np.concatenate(parts) for parts in zip(*((c.score, c.weight) for c in counted), strict=True)
        )
        weighty = weights > 0  # rows of weight 0 are no reason for a threshold
        super().__init__(scores[weighty], codes[weighty], len(counted), weights[weighty])
        self._first = np.concatenate([each.low for each in counted])[weighty]
        self._last = np.concatenate([each.last for each in counted])[weighty]

    @property
    def _lowest_and_highest(self) -> tuple[Vector, Vector]:
        return self._first, self._last


class PartitionedScores(PartitionedRows):
    """Scores with a known group, in partitions.

    Examples
    --------
    >>> import numpy as np
    >>> from evenhand.solver.partitioned import Sizes
    >>> from evenhand.solver.partitions import ThreadedPartitions
    >>> eta = np.linspace(0, 1, 100)
    >>> part = UnsortedScores(eta, np.arange(100) % 2, 2, None)
    >>> rows = PartitionedScores(ThreadedPartitions(lambda k: part, 1, 2, known=True), Sizes((100,), 100.0))
    >>> free = Problem(np.array([-0.5, 0.5, -0.5, 0.5]), np.zeros((1, 4)), np.zeros(1), np.zeros(1))
    >>> [edges.round(3).tolist() for edges in rows.direct(free).steps.edges]
    [[0.5], [0.5]]
    """

    def direct(self, problem: Problem) -> Direct | None:
        """Solve the problem by mixing thresholds in each group."""
        counted = self._first_count()
        for _ in range(_ROUNDS):
            mixed = mix_thresholds(_CountedScores(counted), problem)
            if mixed is None:
                return None
            multipliers, steps, scalars = mixed
            v = problem.direction(multipliers)[: self.n_columns]
            open_places = [_crossed(each, v[2 * m : 2 * m + 2]) for m, each in enumerate(counted)]
            if not any(len(places) for places in open_places):
                return Direct(multipliers, self._by_steps(v, steps), steps, scalars)
            counted = self._finer(counted, open_places)
        return None

    def distinct(self) -> None:
        """Nothing to gain: scores are counted whether they repeat or not."""

    def _by_steps(self, v: Vector, steps: Steps) -> Totals:
        parts = self.partitions.map(_step_totals, v, steps)
        positive, sums = zip(*parts, strict=True)
        selection = self.partitions.lazy(_step_selection, steps)
        return Totals(self._total(positive), self._added(sums), selection, 0)

    def _first_count(self) -> list[_Counted]:
        found = self.partitions.map(_histogram)
        sums = np.sum([share * part[:2] for share, part in zip(self._shares, found, strict=True)], axis=0)
        rows = np.sum([part[2] for part in found], axis=0)
        ends = np.arange(_FIRST + 1) / _FIRST
        ends[-1] = np.nextafter(1.0, 2.0)
        return [_in_intervals(ends, sums[0, m], sums[1, m], rows[m]) for m in range(self.partitions.n_groups)]

    def _finer(self, counted: list[_Counted], open_places: list[NDArray[np.intp]]) -> list[_Counted]:
        """Count the intervals at some places of each group anew, by score or by finer intervals."""
        asked = [(m, place) for m, places in enumerate(open_places) for place in places.tolist()]
        intervals = [
            _Interval(m, float(c.low[k]), float(c.high[k]), listed=bool(c.rows[k] <= _FEW_ROWS))
            for m, k, c in ((m, k, counted[m]) for m, k in asked)
        ]
        found = self.partitions.map(_look, intervals)
        finer = list(counted)
        for number, (m, place) in reversed(
            list(enumerate(asked))
        ):  # from the end, because places before it stay
            parts = [part[number] for part in found]
            finer[m] = finer[m].replaced(place, self._merged(parts, intervals[number]))
        return finer

    def _merged(self, parts: list[_Found], interval: _Interval) -> _Counted:
        sums = np.hstack([share * part.sums for share, part in zip(self._shares, parts, strict=True)])
        rows = np.concatenate([part.rows for part in parts])
        scores = np.concatenate([part.scores for part in parts])
        lowest, highest = min(part.lowest for part in parts), max(part.highest for part in parts)
        if interval.listed or lowest == highest:
            values, which = np.unique(
                scores if interval.listed else 0.0 * scores + lowest, return_inverse=True
            )
            return _Counted(values, values, *_by_place(which, [*sums, rows], len(values)))
        ends = interval.ends
        which = np.searchsorted(ends, scores, side="right") - 1
        return _in_intervals(ends, *_by_place(which, [*sums, rows], len(ends) - 1))


@dataclass(frozen=True)
class _Interval:
    """Scores of a group from `low` up to, but without, `high`; whether they are asked for one by one."""

    group: int
    low: float
    high: float
    listed: bool

    @property
    def ends(self) -> Vector:
        """Ends of finer intervals."""
        return np.unique(np.linspace(self.low, self.high, _FINER + 1))  # at the last digits there are fewer


@dataclass(frozen=True, eq=False)
class _Found:
    """What a partition has in an interval.

    Attributes
    ----------
    scores : array, shape (k,)
        The distinct scores, or the lower ends of finer intervals.
    sums : array, shape (2, k)
        Sums of w and w eta.
    rows : array, shape (k,)
    lowest, highest : float
        Of all scores.
    """

    scores: Vector
    sums: NDArray[np.float64]
    rows: Vector
    lowest: float
    highest: float


def _crossed(counted: _Counted, v: Vector) -> NDArray[np.intp]:
    """Place of the interval in which h changes its sign, if there is one."""
    slope = v[1] - v[0]
    if abs(slope) <= ROUNDING:  # h is 0 everywhere, up to rounding, or has one sign
        return np.empty(0, np.intp)
    root = -v[0] / slope
    beside = (counted.low - _BESIDE <= root) & (root <= counted.high + _BESIDE)
    return np.flatnonzero(beside & ~counted.exact)


def _in_intervals(ends: Vector, weight: Vector, weight_eta: Vector, rows: Vector) -> _Counted:
    some = rows > 0
    return _Counted(ends[:-1][some], ends[1:][some], weight[some], weight_eta[some], rows[some])


def _by_place(which: NDArray[np.intp], sums: Sequence[Vector], count: int) -> list[Vector]:
    return [np.bincount(which, each, count).astype(np.float64) for each in sums]


def _histogram(part: UnsortedScores) -> NDArray[np.float64]:
    """Sums of w, w eta and 1 in each group and interval, shape (3, M, intervals)."""
    sums = np.zeros((3, part.n_groups * _FIRST))
    for where in part.blocks():
        codes, eta = part.at(where)
        which = codes * _FIRST + np.minimum((eta * _FIRST).astype(np.int64), _FIRST - 1)
        weights = part.weights_of(where)
        sums += _by_place(which, [weights, weights * eta, np.ones(len(eta))], sums.shape[1])
    return sums.reshape(3, part.n_groups, _FIRST)


def _look(part: UnsortedScores, intervals: list[_Interval]) -> list[_Found]:
    """The scores of a partition in some intervals."""
    found = []
    for asked in intervals:
        low, high = np.array(
            [asked.low, asked.high]
        )  # of float64: scores of float32 are not compared as such
        own = np.flatnonzero((part.codes == asked.group) & (part.eta >= low) & (part.eta < high))
        eta, weights = part.eta[own].astype(np.float64), part.weights_of(own)
        if asked.listed:
            scores, which = np.unique(eta, return_inverse=True)
        else:
            scores = asked.ends[:-1]
            which = np.searchsorted(asked.ends, eta, side="right") - 1
        weight, weight_eta, rows = _by_place(which, [weights, weights * eta, np.ones(len(eta))], len(scores))
        ends = float(eta.min(initial=np.inf)), float(eta.max(initial=-np.inf))
        found.append(_Found(scores, np.stack([weight, weight_eta]), rows, *ends))
    return found


def _step_totals(part: UnsortedScores, v: Vector, steps: Steps) -> tuple[float, Vector]:
    return part.positive_part(v, part.scores(v)), part.selected(_step_selection(part, steps))


def _step_selection(part: UnsortedScores, steps: Steps) -> Vector:
    return steps.selection(part.eta, part.codes)
