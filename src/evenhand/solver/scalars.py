"""Free scalars: numbers from 0 to 1 that bounds contain besides sums over rows.

"All rates within d of each other" is l <= q_g <= l + d for some l. Such an l is the selection of one more
row, which has weight 1, a column of its own, and nothing in the others. Such a row is always taken, and never
decided by the sign of h: it has the weight of all rows together, and a wrong one is far from the optimum,
however small its h.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.solver.dense import DenseRows
from evenhand.solver.oracle import Direct, Oracle, Problem, Smoothed, Totals, Vector


class RowsWithScalars:
    """An oracle with one more row and column for each scalar, behind its own.

    Parameters
    ----------
    inner : Oracle
    scalars : int
        Number of scalars.

    Examples
    --------
    >>> import numpy as np
    >>> rows = RowsWithScalars(DenseRows(np.array([[0.2, 0.8], [0.7, 0.3]]), None), 1)
    >>> rows.totals(np.array([-0.5, 0.5, 1.0])).sums
    array([0.1, 0.4, 1. ])
    """

    def __init__(self, inner: Oracle, scalars: int) -> None:
        self.inner = inner
        self.scalars = scalars
        self.most = inner.most

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.inner.n_rows + self.scalars

    @property
    def n_columns(self) -> int:
        """Length of a row."""
        return self.inner.n_columns + self.scalars

    def smooth(self, v: Vector, width: float) -> Smoothed:
        """Sum over all rows, smoothed within `width` of the boundary."""
        D = self.inner.n_columns
        found, h = self.inner.smooth(v[:D], width), v[D:]
        z = np.clip((h + width) / (2 * width), 0.0, 1.0)
        inside = (z > 0) & (z < 1)
        hessian = np.zeros((self.n_columns, self.n_columns))
        hessian[:D, :D] = found.hessian
        np.fill_diagonal(hessian[D:, D:], inside / (2 * width))
        value = found.value + float(np.where(inside, width * z**2, z * h).sum())
        return Smoothed(value, np.concatenate([found.sums, z]), hessian)

    def sample(self, count: int) -> DenseRows:
        """Take about `count` rows, and the scalars."""
        return self._extended(self.inner.sample(count))

    def near(self, v: Vector, count: int) -> DenseRows:
        """Take the `count` rows with the smallest |h|, and the scalars."""
        return self._extended(self.inner.near(v[: self.inner.n_columns], count))

    def _extended(self, rows: DenseRows) -> DenseRows:
        n, K = rows.n_rows, self.scalars
        matrix = np.zeros((n + K, self.n_columns))
        matrix[:n, : self.inner.n_columns] = rows.matrix
        matrix[n:, self.inner.n_columns :] = np.eye(K)
        return DenseRows(
            matrix,
            np.concatenate([rows.weights_of(slice(None)), np.ones(K)]),
            base=np.concatenate([rows.base, np.zeros(K)]),
            index=np.concatenate([rows.index, self.inner.n_rows + np.arange(K)]),
            always=K,
        )

    def totals(self, v: Vector, given: DenseRows | None = None, values: Vector | None = None) -> Totals:
        """Sum over all rows without smoothing, with the selection of some rows given."""
        D = self.inner.n_columns
        scalars = (v[D:] > 0).astype(np.float64)
        if given is None or values is None:
            return self.joined(self.inner.totals(v[:D]), v, scalars)
        rows, ordinary = without_scalars(given, D)
        chosen = given.matrix[~ordinary][:, D:].argmax(axis=1)
        scalars[chosen] = values[~ordinary]
        return self.joined(self.inner.totals(v[:D], rows, values[ordinary]), v, scalars)

    def joined(self, found: Totals, v: Vector, scalars: Vector) -> Totals:
        """Sums over the rows with the selection of each scalar behind them."""
        positive = float(np.maximum(v[self.inner.n_columns :], 0.0).sum())
        sums = np.concatenate([found.sums, scalars])
        return replace(found, positive_part=found.positive_part + positive, sums=sums)

    def direct(self, problem: Problem) -> Direct | None:
        """Solve the problem by the structure of the rows."""
        found = self.inner.direct(problem)
        if found is None:
            return None
        v = problem.direction(found.multipliers)
        return replace(found, totals=self.joined(found.totals, v, found.scalars))

    def distinct(self) -> tuple[Oracle, NDArray[np.intp]] | None:
        """Each distinct row of the inner ones once, and which of them each row is."""
        found = self.inner.distinct()
        return None if found is None else (RowsWithScalars(found[0], self.scalars), found[1])


def totals_of(oracle: Any, v: Vector, selection: Vector, scalars: Vector) -> Totals:
    """Sum over rows in memory, with the selection of every row given, and the scalars.

    Parameters
    ----------
    oracle : DenseRows, or RowsWithScalars of such
    v : array, shape (D,)
    selection : array, shape (n,)
    scalars : array, shape (K,)

    Returns
    -------
    Totals
    """
    if not isinstance(oracle, RowsWithScalars):
        return oracle.totals(v, oracle, selection)  # type: ignore[no-any-return]
    inner = oracle.inner
    return oracle.joined(totals_of(inner, v[: inner.n_columns], selection, scalars), v, scalars)


def without_scalars(rows: DenseRows, n_columns: int) -> tuple[DenseRows, NDArray[np.bool_]]:
    """The rows that are not scalars, with their own columns; and which of all rows they are.

    Parameters
    ----------
    rows : DenseRows
    n_columns : int
        Number of columns that are not those of scalars.

    Returns
    -------
    DenseRows, array of bool
    """
    matrix = rows.matrix
    ordinary = np.logical_not(matrix[:, n_columns:].any(axis=1))
    kept = DenseRows(
        matrix[ordinary][:, :n_columns], rows.weights_of(slice(None))[ordinary], index=rows.index[ordinary]
    )
    return kept, ordinary
