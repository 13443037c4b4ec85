"""Small linear programs by HiGHS, with bounds that may be broken at a price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import highspy
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from evenhand.solver.oracle import Vector

Method = Literal["simplex", "ipm"]
METHODS: tuple[Method, ...] = ("simplex", "ipm")
_OPTIONS = {
    "threads": 1,
    "random_seed": 0,
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
}
_BASIC = highspy.HighsBasisStatus.kBasic
_SLIGHT = 1e-5  # far above the tolerances of HiGHS: a vertex that moves more was ill-conditioned
_LARGEST = 3_000  # equations of a vertex that least squares solve in seconds
_ROUNDING = 1e-10
"""Distance of a probability from 0 and 1 that the tolerances of HiGHS leave open."""


@dataclass(frozen=True, eq=False)
class Answer:
    """Values of the variables as shares of their largest, multipliers, and how far each bound is broken."""

    values: Vector
    duals: Vector
    slack: Vector


@dataclass(frozen=True, eq=False)
class Program:
    """Minimise <cost, x> subject to lower <= x^T matrix <= upper and 0 <= x <= most.

    Attributes
    ----------
    cost : array, shape (k,)
    matrix : array, or sparse array by rows, shape (k, R)
        With entries of size about 1, because the tolerances of HiGHS are absolute.
    lower, upper : arrays, shape (R,)
    elastic : int
        Number of bounds, from the first on, that may be broken.
    price : float
        Cost of breaking one of them by 1.
    most : array, shape (k,), default=None
        By default 1.
    """

    cost: Vector
    matrix: NDArray[np.float64] | Any
    lower: Vector
    upper: Vector
    elastic: int
    price: float
    most: Vector | None = None

    def solve(self, method: Method = "simplex") -> Answer | None:
        """Solve by an algorithm of HiGHS; None if it did not end with an optimum."""
        (k, R), J = self.matrix.shape, self.elastic
        most = np.ones(k) if self.most is None else self.most
        slacks = np.kron(np.eye(J, R), [[1.0], [-1.0]])  # one that adds to a bound, and one that subtracts
        highs = loaded(
            np.concatenate([self.cost, np.full(2 * J, self.price)]),
            np.vstack([self.matrix, slacks])
            if isinstance(self.matrix, np.ndarray)
            else csr_array(vstack([self.matrix, csr_array(slacks)])),
            (np.zeros(k + 2 * J), np.concatenate([most, np.full(2 * J, np.inf)])),
            (self.lower, self.upper),
            {**_OPTIONS, "solver": method},
        )
        highs.run()
        if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        solution, basis = highs.getSolution(), highs.getBasis()
        x, y = np.array(solution.col_value), np.array(solution.row_dual)
        inner = np.flatnonzero([status == _BASIC for status in basis.col_status])
        tight = np.flatnonzero([status != _BASIC for status in basis.row_status])
        values, slack = x[:k], x[k:].reshape(J, 2).sum(axis=1)
        if len(inner) == len(tight) <= _LARGEST and inner.max(initial=-1) < k:
            self._polish(values, y, inner, tight)
        return Answer(snapped(values / most), y, slack)

    def _polish(self, x: Vector, y: Vector, inner: NDArray[np.intp], tight: NDArray[np.intp]) -> None:
        """Solve the equations of the vertex, which HiGHS meets only up to its tolerances.

        Basic variables have a reduced cost of 0, and nonbasic bounds hold exactly.
        """
        at = x @ self.matrix
        held = np.where(np.abs(at - self.lower) < np.abs(at - self.upper), self.lower, self.upper)
        core = self.matrix[np.ix_(inner, tight)]
        core = core if isinstance(core, np.ndarray) else core.toarray()
        reduced = (self.matrix[inner] @ y) - self.cost[inner]
        # Least squares, because redundant bounds make the equations singular.
        better_x = x[inner] + np.linalg.lstsq(core.T, (held - at)[tight])[0]
        better_y = y[tight] - np.linalg.lstsq(core, reduced)[0]
        moves = np.concatenate([better_x - x[inner], better_y - y[tight]])
        if np.abs(moves).max(initial=0.0) < _SLIGHT:
            x[inner], y[tight] = better_x, better_y


def loaded(
    cost: Vector,
    matrix: NDArray[np.float64] | Any,
    of_variables: tuple[Vector, Vector],
    of_bounds: tuple[Vector, Vector],
    options: Mapping[str, float | str],
) -> highspy.Highs:
    """HiGHS with a program that it is to minimise.

    Parameters
    ----------
    cost : array, shape (k,)
    matrix : array, or sparse array by rows, shape (k, R)
    of_variables, of_bounds : pairs of arrays, shape (k,) and (R,)
        Lowest and highest values.
    options : mapping
    """
    k, R = matrix.shape
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = k, R
    lp.sense_ = highspy.ObjSense.kMinimize
    lp.col_cost_, (lp.col_lower_, lp.col_upper_) = cost, of_variables
    lp.row_lower_, lp.row_upper_ = of_bounds
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    if isinstance(matrix, np.ndarray):
        lp.a_matrix_.start_ = (np.arange(k + 1) * R).astype(np.int32)
        lp.a_matrix_.index_ = np.tile(np.arange(R), k).astype(np.int32)
        lp.a_matrix_.value_ = matrix.ravel()
    else:
        lp.a_matrix_.start_, lp.a_matrix_.index_ = matrix.indptr, matrix.indices
        lp.a_matrix_.value_ = matrix.data
    highs = highspy.Highs()  # type: ignore[no-untyped-call]
    highs.silent()
    for option, value in options.items():
        highs.setOptionValue(option, value)
    highs.passModel(lp)
    return highs


def snapped(values: Vector, rounding: float = _ROUNDING) -> Vector:
    """Probabilities that are 0 or 1 up to rounding, as 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> snapped(np.array([-1e-17, 3e-13, 0.25, 1 - 3e-13]))
    array([0.  , 0.  , 0.25, 1.  ])
    """
    return np.where(values < rounding, 0.0, np.where(values > 1 - rounding, 1.0, values))
