"""Rows with a known group and one score: all but two entries of p are 0.

Row i has p = 1 - eta_i in column 2 m and eta_i in column 2 m + 1, m being its group. Within a group
h = a + b eta is monotone in eta, so once the scores are sorted every sum is a difference of running totals
of w, w eta and w eta^2, found by bisection, whatever the number of rows.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.solver.dense import DenseRows, Index, spread
from evenhand.solver.oracle import Direct, Smoothed, Totals, Vector
from evenhand.solver.program import Problem
from evenhand.solver.sorted_scores import SortedScores
from evenhand.solver.thresholds import mix_thresholds

_BLOCK = 1 << 16  # rows at a time: a few arrays of half a megabyte stay in the cache


class GroupedRows(DenseRows):
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

    fast, block = True, _BLOCK

    def __init__(
        self, eta: NDArray[Any], codes: NDArray[np.integer[Any]], n_groups: int, weights: Vector | None
    ) -> None:
        self.codes = codes
        self.n_groups = n_groups
        super().__init__(eta, weights)

    @property
    def eta(self) -> NDArray[Any]:
        """Score of each row."""
        return self.rows

    @cached_property
    def _scores(self) -> SortedScores:
        if self.weights is None:
            return SortedScores(self.eta, self.codes, self.n_groups, None)
        weighty = self.weights > 0  # rows of weight 0 are no reason for a threshold
        return SortedScores(self.eta[weighty], self.codes[weighty], self.n_groups, self.weights[weighty])

    @property
    def n_columns(self) -> int:
        """Two for each group."""
        return 2 * self.n_groups

    def masses(self) -> Vector:
        """Sum of w p over all rows."""
        return self.selected(np.ones(self.n_rows))

    def at(self, index: Index) -> tuple[NDArray[np.int64], Vector]:
        """Codes and scores of some rows."""
        return self.codes[index].astype(np.int64, copy=False), self.eta[index].astype(np.float64, copy=False)

    def take(self, index: Index) -> NDArray[np.float64]:
        """Some rows with all their entries, as float64 of shape (k, D)."""
        codes, eta = self.at(index)
        rows, number = np.zeros((len(eta), self.n_columns)), np.arange(len(eta))
        rows[number, 2 * codes] = 1.0 - eta
        rows[number, 2 * codes + 1] = eta
        return rows

    def scores_of(self, index: Index, v: Vector) -> Vector:
        """H of some rows, by the same products as in `DenseRows`: both agree to the last bit."""
        codes, eta = self.at(index)
        return v[0::2][codes] * (1.0 - eta) + v[1::2][codes] * eta

    def summed(self, index: Index, factors: Vector) -> Vector:
        """Sum of some rows, each times a factor."""
        codes, eta = self.at(index)
        sums = np.empty(self.n_columns)
        sums[0::2] = np.bincount(codes, factors * (1.0 - eta), self.n_groups)
        sums[1::2] = np.bincount(codes, factors * eta, self.n_groups)
        return sums

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
        return self._some(spread(self.n_rows, count), self.n_rows / count)

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
