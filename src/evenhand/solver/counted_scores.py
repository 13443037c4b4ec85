"""Scores with a known group, counted: one by one where it matters, and in intervals elsewhere.

The optimum is a mixture of thresholds in each group, and only the scores next to where h is 0 must be known
one by one. All others are known by the sums over an interval of scores. So intervals of each group are
counted first, their optimum found as if an interval were one score, and those in which h changes its sign
are counted more finely, until there are none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.solver.oracle import ROUNDING, Vector

if TYPE_CHECKING:
    from evenhand.solver.grouped import GroupedRows

Interval = tuple[int, float, float]
"""Scores of a group, from a lower end up to, but without, an upper one."""
Found = list[tuple[bool, NDArray[np.float64]]]
"""What rows have in some intervals: whether scores are listed one by one; each or its interval's lower end,
with sums of w and w eta, shape (3, k)."""

WHOLE = 0.0, 2.0
"""The interval of all scores. Ends are multiples of powers of 2, so that none is rounded."""
FEW_ROWS = 20_000
"""In an interval, for their scores to be listed."""
_FINER = 2048  # intervals that one is cut into
_BESIDE = 1e-9  # a score on the boundary misses the computed place of h = 0 by rounding errors
_MARGIN = 1e-11
"""Between an edge and the scores beside it: more than last bits can move a score rounded to 12 digits."""


class CountedScores:
    """Scores of a group in order: single scores, and intervals that stand for the scores in them.

    A position is a place in this order. A range of positions is a pair (first, last + 1).

    Parameters
    ----------
    table : array, shape (k, 4)
        Of each score or interval both ends, which are the same for a score, and the sums of w and w eta.

    Attributes
    ----------
    above : array, shape (k + 1, 2)
        Sum of w p from each position on, in the two columns of the group.

    Examples
    --------
    >>> scores = CountedScores(np.array([[0.8, 0.8, 0.5, 0.4], [0.2, 0.2, 0.5, 0.1]]))
    >>> scores.best_threshold(np.array([-0.5, 0.5]))
    (1, 2)
    """

    def __init__(self, table: NDArray[np.float64]) -> None:
        table = table[table[:, 2] > 0]  # rows of weight 0 are no reason for a threshold
        self.table = table[np.argsort(table[:, 0])]
        self.low, high, weight, weight_eta = self.table.T
        self.single = self.low == high
        self.last = np.where(self.single, high, np.nextafter(high, 0.0))
        self.mean = np.clip(weight_eta / weight, self.low, self.last)
        totals = np.zeros((len(table) + 1, 2))
        np.cumsum(np.column_stack([weight - weight_eta, weight_eta]), axis=0, out=totals[1:])
        self.above = totals[-1] - totals

    def __len__(self) -> int:
        return len(self.low)

    def sums_between(self, positions: tuple[int, int]) -> Vector:
        """Sum of w p over a range, in the two columns of the group."""
        return np.asarray(self.above[positions[0]] - self.above[positions[1]])

    def best_threshold(self, v: Vector) -> tuple[int, int]:
        """Range with h > 0."""
        end, (a, slope) = len(self), (v[0], v[1] - v[0])
        if slope == 0.0:
            return (0, end) if a > 0 else (end, end)
        side: Literal["left", "right"] = "right" if slope > 0 else "left"
        cut = int(np.searchsorted(self.mean, -a / slope, side=side))
        low, high = (cut, end) if slope > 0 else (0, cut)
        return (low, high) if low < high else (end, end)

    def gap(self, position: int) -> tuple[float, float]:
        """The score before a position and the one at it; infinite where there is none."""
        below = float(self.last[position - 1]) if position > 0 else -np.inf
        return below, float(self.low[position]) if position < len(self) else np.inf

    def unclear(self, v: Vector, edges: Vector, chances: Vector) -> NDArray[np.intp]:
        """Places of intervals whose scores are not decided alike: by h, or because they alone are random."""
        root = root_of(v)
        crossed = (self.low - _BESIDE <= root) & (root <= self.last + _BESIDE)
        part = np.searchsorted(edges, self.low)
        alone = np.bincount(part, minlength=len(chances))[part] == 1
        random = (chances[part] > 0) & (chances[part] < 1)
        return np.flatnonzero((crossed | (alone & random)) & ~self.single)


def count_scores(part: GroupedRows, asked: Sequence[Interval], few: int) -> Found:
    """The scores of some rows in some intervals.

    Parameters
    ----------
    part : GroupedRows
    asked : sequence of Interval
    few : int
        Number of rows up to which scores are listed; beyond it only if all are the same.
    """
    found = []
    for m, low, high in asked:
        own = part.rows_of(m)
        if (low, high) != WHOLE:  # numbers of float64: scores of float32 are not compared as such
            eta = part.eta[own]
            own = own[(eta >= np.float64(low)) & (eta < np.float64(high))]
        eta, weights = part.eta[own].astype(np.float64, copy=False), part.weights_of(own)
        listed = len(own) <= few or eta.min() == eta.max()
        if listed:
            scores, which = np.unique(eta, return_inverse=True)
        else:
            scale = _FINER / (high - low)
            which = (eta * scale).astype(np.int64) - int(low * scale)
            scores = low + np.arange(_FINER) / scale
        sums = (np.bincount(which, by, len(scores)) for by in (weights, weights * eta))
        found.append((bool(listed), np.array([scores, *sums])))
    return found


def merged(parts: Sequence[Found], shares: Sequence[float], asked: Sequence[Interval]) -> list[Any]:
    """What all rows have in some intervals, as tables of :class:`CountedScores`."""
    tables = []
    for (_, low, high), found in zip(asked, zip(*parts, strict=True), strict=True):
        listed = all(own for own, _ in found)
        factors = (np.array([[1.0], [share], [share]]) for share in shares)
        keys, *sums = np.hstack([by * own for by, (_, own) in zip(factors, found, strict=True)])
        width = 0.0 if listed else (high - low) / _FINER
        keys, which = np.unique(np.floor(keys / width) * width if width else keys, return_inverse=True)
        tables.append(np.column_stack([keys, keys + width, *(np.bincount(which, by) for by in sums)]))
    return tables


def root_of(v: Vector) -> float:
    """The score at which h is 0; NaN where h is the same for all scores, up to rounding."""
    slope = float(v[1] - v[0])
    return float(-v[0] / slope) if abs(slope) > ROUNDING * max(1.0, float(np.abs(v).max())) else np.nan


def edge_between(below: float, above: float, v: Vector, nearest: float | None = None) -> float:
    """A score from `below` up to, but without, `above`.

    New rows may have scores between the two, and the sign of h should decide them: it is where h is 0, or the
    middle. With `nearest`, one of the two, it is as near to that one as rounding allows.
    """
    margin = min(_MARGIN, (above - below) / 2)
    edge = root_of(v) if nearest is None else nearest
    if np.isnan(edge):
        edge = (below + above) / 2
    edge = min(max(edge, below + margin), above - margin)
    return float(edge if below <= edge < above else below)
