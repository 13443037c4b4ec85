"""Rows with a known group and one score: all but two entries of p are 0.

Row i has p = 1 - eta_i in column 2 m and eta_i in column 2 m + 1, m being its group. Within a group
h = a + b eta is monotone in eta, so the optimum is a mixture of thresholds (``thresholds.py``).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.solver.counted_scores import FEW_ROWS, Interval, count_scores, merged
from evenhand.solver.dense import DenseRows, Index
from evenhand.solver.oracle import Direct, Problem, Totals, Vector
from evenhand.solver.thresholds import Steps, solve_by_thresholds

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

    block = _BLOCK

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

    @property
    def n_columns(self) -> int:
        """Two for each group."""
        return 2 * self.n_groups

    @cached_property
    def _in_order(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows in the order of their groups, and where each group begins."""
        codes = self.codes.astype(np.min_scalar_type(self.n_groups))  # small integers are sorted by counting
        order = np.argsort(codes, kind="stable")
        return order, np.searchsorted(codes[order], np.arange(self.n_groups + 1))

    def rows_of(self, group: int) -> NDArray[np.intp]:
        """The rows of a group, in their order."""
        order, first = self._in_order
        return order[first[group] : first[group + 1]]

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

    def direct(self, problem: Problem) -> Direct | None:
        """Solve the problem by mixing thresholds in each group."""

        def count(asked: list[Interval]) -> list[Any]:
            return merged([count_scores(self, asked, FEW_ROWS)], [1.0], asked)

        return solve_by_thresholds(problem, self.n_groups, count, self.by_steps)

    def by_steps(self, v: Vector, steps: Steps) -> Totals:
        """Sums with the selection by steps."""
        # Ties do no harm: the steps decide them.
        selection = steps.selection(self.eta, self.codes)
        return Totals(self.positive_part(v, self.scores(v)), self.selected(selection), selection, ties=0)

    def distinct(self) -> None:
        """Nothing to gain: sums are found by bisection whether scores repeat or not."""
