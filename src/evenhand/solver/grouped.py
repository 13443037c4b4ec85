"""Rows with a known group and one score: all but two entries of p are 0.

Row i has p = 1 - eta_i in column 2 m and eta_i in column 2 m + 1, m being its group. Within a group
h = a + b eta is monotone in eta, so once the scores are sorted every sum is a difference of running totals
of w, w eta and w eta^2, found by bisection, whatever the number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.solver.dense import DenseRows, exact_sum, nearest, spread, tie_width
from evenhand.solver.oracle import ALL, ROUNDING, Direct, Smoothed, Totals, Vector
from evenhand.solver.program import Problem
from evenhand.solver.sorted_scores import SortedScores
from evenhand.solver.thresholds import mix_thresholds

__all__ = ["GroupedRows"]

_BLOCK = 1 << 16  # rows at a time: a few arrays of half a megabyte stay in the cache


class GroupedRows:
    """Scores of rows whose group is known.

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
    >>> rows = GroupedRows(np.array([0.2, 0.8]), np.array([0, 1]), 2, None)
    >>> rows.smooth(np.array([-0.5, 0.5, -0.5, 0.5]), 0.1).sums
    array([0. , 0. , 0.1, 0.4])
    """

    fast, most = True, ALL

    def __init__(
        self, eta: NDArray[Any], codes: NDArray[np.integer[Any]], n_groups: int, weights: Vector | None
    ) -> None:
        self.eta = eta
        self.codes = codes
        self.n_groups = n_groups
        self.weights = weights

    @cached_property
    def _scores(self) -> SortedScores:
        if self.weights is None:
            return SortedScores(self.eta, self.codes, self.n_groups, None)
        weighty = self.weights > 0  # rows of weight 0 are no reason for a threshold
        return SortedScores(self.eta[weighty], self.codes[weighty], self.n_groups, self.weights[weighty])

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.eta)

    @property
    def n_columns(self) -> int:
        """Two for each group."""
        return 2 * self.n_groups

    def masses(self) -> Vector:
        """Sum of w p over all rows."""
        return self.selected(np.ones(self.n_rows))

    def scores(self, v: Vector) -> Vector:
        """Compute h of every row."""
        h = np.empty(self.n_rows)
        for where, codes, eta in self.blocks():
            h[where] = _scores(v, codes, eta)
        return h

    def positive_part(self, v: Vector, h: Vector) -> float:  # noqa: ARG002  (as of rows with a base)
        """Sum of w max(0, h)."""
        return math.fsum(
            float(self.weights_of(where) @ np.maximum(h[where], 0.0)) for where, _, _ in self.blocks()
        )

    def selected(self, selection: Vector) -> Vector:
        """Sum of w f p, given the selection f."""
        parts = [
            self._sums(codes, eta, self.weights_of(where) * selection[where])
            for where, codes, eta in self.blocks()
        ]
        return exact_sum([np.zeros(self.n_columns), *parts])

    def ties(self, v: Vector, h: Vector, index: NDArray[np.intp]) -> int:
        """How many rows that are not in `index` have an h of 0 up to rounding."""
        near = np.setdiff1d(np.flatnonzero(np.abs(h) <= tie_width(v)), index)
        terms = _scores(np.abs(v), self.codes[near].astype(np.int64), self.eta[near].astype(np.float64))
        return int(np.count_nonzero(np.abs(h[near]) <= ROUNDING * np.maximum(1.0, terms)))

    def smooth(self, v: Vector, width: float) -> Smoothed:
        """Sum over all rows, smoothed within `width` of the boundary."""
        value = 0.0
        sums = np.zeros(self.n_columns)
        hessian = np.zeros((self.n_columns, self.n_columns))
        for m in range(self.n_groups):
            a, b = v[2 * m], v[2 * m + 1] - v[2 * m]
            low, high, above = self._scores.ramp(m, a, b, width)
            w0, w1, w2 = self._scores.moments(m, low, high)
            u0, u1, _ = self._scores.moments(m, above.start, above.stop)
            # z = alpha + beta eta on the ramp, 1 above it.
            alpha, beta = (a + width) / (2 * width), b / (2 * width)
            chosen, chosen_eta = alpha * w0 + beta * w1 + u0, alpha * w1 + beta * w2 + u1
            sums[2 * m : 2 * m + 2] = chosen - chosen_eta, chosen_eta
            value += a * u0 + b * u1 + width * (alpha**2 * w0 + 2 * alpha * beta * w1 + beta**2 * w2)
            block = np.array([[w0 - 2 * w1 + w2, w1 - w2], [w1 - w2, w2]])
            hessian[2 * m : 2 * m + 2, 2 * m : 2 * m + 2] = block / (2 * width)
        return Smoothed(float(value), sums, hessian)

    def sample(self, count: int) -> DenseRows:
        """Take one row at random from each of `count` equal parts of the rows."""
        count = min(count, self.n_rows)
        index = spread(self.n_rows, count)
        return DenseRows(self.take(index), self.weights_of(index) * (self.n_rows / count))

    def near(self, v: Vector, count: int) -> DenseRows:
        """Take the `count` rows with the smallest |h|, the others being decided by the sign of h."""
        h = self.scores(v)
        index = nearest(h, count)
        h[index] = 0.0
        base = self.selected((h > 0).astype(np.float64))
        return DenseRows(self.take(index), self.weights_of(index), base=base, index=index)

    def totals(self, v: Vector, given: DenseRows | None = None, values: Vector | None = None) -> Totals:
        """Sum over all rows without smoothing, with the selection of some rows given."""
        h = self.scores(v)
        selection = (h > 0).astype(np.float64)
        index = np.empty(0, np.intp) if given is None else given.index
        selection[index] = () if values is None else values
        return Totals(self.positive_part(v, h), self.selected(selection), selection, self.ties(v, h, index))

    def direct(self, problem: Problem) -> Direct | None:
        """Solve the problem by mixing thresholds in each group."""
        mixed = mix_thresholds(self._scores, problem)
        if mixed is None:
            return None
        multipliers, steps, scalars = mixed
        v = problem.direction(multipliers)[: self.n_columns]
        selection = steps.selection(self.eta, self.codes)
        # Ties do no harm: the steps decide them.
        totals = Totals(self.positive_part(v, self.scores(v)), self.selected(selection), selection, 0)
        return Direct(multipliers, totals, steps, scalars)

    def distinct(self) -> None:
        """Nothing to gain: sums are found by bisection whether scores repeat or not."""

    def blocks(self) -> Iterator[tuple[slice, NDArray[np.int64], Vector]]:
        """Blocks of rows in their own order: codes and eta."""
        for start in range(0, self.n_rows, _BLOCK):
            where = slice(start, start + _BLOCK)
            codes = self.codes[where].astype(np.int64, copy=False)
            yield where, codes, self.eta[where].astype(np.float64, copy=False)

    def weights_of(self, index: NDArray[np.intp] | slice) -> Vector:
        """Weights of some rows."""
        if self.weights is not None:
            return self.weights[index]
        return np.full(len(self.eta[index]), 1 / max(1, self.n_rows))

    def take(self, index: NDArray[np.intp]) -> NDArray[np.float64]:
        """Some rows with all their entries, as float64 of shape (k, D)."""
        rows = np.zeros((len(index), self.n_columns))
        columns, eta = 2 * self.codes[index].astype(np.int64), self.eta[index].astype(np.float64)
        rows[np.arange(len(index)), columns] = 1.0 - eta
        rows[np.arange(len(index)), columns + 1] = eta
        return rows

    def _sums(self, codes: NDArray[np.int64], eta: Vector, chosen: Vector) -> Vector:
        """Sum of chosen times p over rows."""
        sums = np.empty(self.n_columns)
        sums[0::2] = np.bincount(codes, chosen * (1.0 - eta), self.n_groups)
        sums[1::2] = np.bincount(codes, chosen * eta, self.n_groups)
        return sums


def _scores(v: Vector, codes: NDArray[np.int64], eta: Vector) -> Vector:
    """Compute h by the same products as in `DenseRows`, so that both agree to the last bit."""
    return v[0::2][codes] * (1.0 - eta) + v[1::2][codes] * eta
