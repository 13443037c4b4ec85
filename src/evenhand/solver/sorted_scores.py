"""Scores sorted within each group, with running totals: sums between two scores by bisection."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.solver.oracle import ROUNDING, Vector

_MARGIN = 1e-11
"""Between an edge and the scores beside it: more than last bits can move a score rounded to 12 digits."""


class SortedScores:
    """Scores in order, one group after the other.

    A position counts through all groups. A range of positions is a pair (first, last + 1).

    Parameters
    ----------
    eta : array, shape (n,)
        Scores in [0, 1].
    codes : array of int, shape (n,)
        Group of each row.
    n_groups : int
    weights : array, shape (n,), or None
        Weights that sum to 1; None is 1/n each.

    Examples
    --------
    >>> import numpy as np
    >>> scores = SortedScores(np.array([0.8, 0.2, 0.5]), np.array([0, 0, 1]), 2, None)
    >>> scores.span(0), scores.best_threshold(0, np.array([-0.5, 0.5, -0.5, 0.5]))
    ((0, 2), (1, 2))
    """

    def __init__(
        self, eta: NDArray[Any], codes: NDArray[np.integer[Any]], n_groups: int, weights: Vector | None
    ) -> None:
        self.n_groups = n_groups
        self._ends = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=n_groups))])
        narrow = codes.astype(np.min_scalar_type(max(n_groups - 1, 0)), copy=False)
        by_group = np.argsort(narrow, kind="stable")
        self._sorted = eta[by_group].astype(np.float64, copy=False)
        weight: Any = 1 / len(eta)
        if weights is not None:
            weight = weights[by_group]
        for m in range(n_groups):
            part = slice(*self.span(m))
            if weights is None:
                self._sorted[part] = np.sort(self._sorted[part])
            else:
                order = np.argsort(self._sorted[part], kind="stable")
                self._sorted[part] = self._sorted[part][order]
                weight[part] = weight[part][order]
        # Running totals of w, w eta, w eta^2 within each group, with a 0 in front: group m begins at
        # `start + m`. A small group would lose digits behind a large one in a single total.
        self._totals = np.zeros((3, len(eta) + n_groups))
        term = np.broadcast_to(weight, self._sorted.shape)
        for power in range(3):
            for m in range(n_groups):
                start, end = self.span(m)
                np.cumsum(term[start:end], out=self._totals[power, start + m + 1 : end + m + 1])
            term = term * self._sorted

    def span(self, m: int) -> tuple[int, int]:
        """Range of positions of a group."""
        return int(self._ends[m]), int(self._ends[m + 1])

    def moments(self, m: int, low: Any, high: Any) -> Any:
        """Sum of w, w eta and w eta^2 over a range of a group."""
        return self._totals[:, high + m] - self._totals[:, low + m]

    def sums_between(self, m: int, positions: tuple[int, int]) -> Vector:
        """Sum of w p over a range of a group, in the two columns of the group."""
        w0, w1, _ = self.moments(m, *positions)
        return np.array([w0 - w1, w1])

    def ramp(self, m: int, a: float, b: float, width: float) -> tuple[int, int, slice]:
        """Range of a group with |a + b eta| < width, and the range where a + b eta is above that."""
        start, end = self.span(m)
        if b == 0.0:
            inside = abs(a) < width
            return start, end if inside else start, slice(start, end) if a >= width else slice(end, end)
        scores = self._sorted[start:end]
        edges = sorted(((-width - a) / b, (width - a) / b))
        low, high = (start + int(k) for k in np.searchsorted(scores, edges))
        return low, high, slice(high, end) if b > 0 else slice(start, low)

    def best_threshold(self, m: int, v: Vector) -> tuple[int, int]:
        """Range of a group with h > 0."""
        start, end = self.span(m)
        a, b = v[2 * m], v[2 * m + 1] - v[2 * m]
        if b == 0.0:
            return (start, end) if a > 0 else (end, end)
        side: Literal["left", "right"] = "right" if b > 0 else "left"
        cut = start + int(np.searchsorted(self._sorted[start:end], -a / b, side=side))
        low, high = (cut, end) if b > 0 else (start, cut)
        return (low, high) if low < high else (end, end)

    def before_ties(self, m: int, position: int) -> int:
        """First position in a group with the same score as the given one."""
        start, end = self.span(m)
        if position >= end:
            return end
        return start + int(np.searchsorted(self._sorted[start:end], self._sorted[position]))

    def cuts(self, m: int) -> NDArray[np.intp]:
        """Positions of a group at which a new score begins, and its end."""
        start, end = self.span(m)
        new = np.diff(self._sorted[start:end], prepend=-np.inf) > 0
        return np.append(start + np.flatnonzero(new), end)

    def gap(self, m: int, position: int) -> tuple[float, float]:
        """The score before a position of a group and the one at it; infinite where there is none."""
        start, end = self.span(m)
        below = float(self._lowest_and_highest[1][position - 1]) if position > start else -np.inf
        return below, float(self._lowest_and_highest[0][position]) if position < end else np.inf

    @property
    def _lowest_and_highest(self) -> tuple[Vector, Vector]:
        """The lowest and the highest score that each position stands for."""
        return self._sorted, self._sorted


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
