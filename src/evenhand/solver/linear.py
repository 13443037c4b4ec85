"""Linear programs by HiGHS: with bounds that may be broken at a price, or refined beyond its tolerances."""

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
_ROUNDS = 4  # of refinement: each gains several digits, and float64 has 16
_ITERATIONS = 20  # of the simplex, for each variable and bound; more are cycles
_EQUILIBRATIONS = 4  # alternating over bounds and variables, after which powers of two hardly change
_LAST_DIGITS = 1e-13  # left open by refinement; see docs/decisions.md
_MAGNIFY = 2.0**40  # per round at most: HiGHS meets bounds to 1e-10, so no more digits can be gained
_LOWER, _UPPER = highspy.HighsBasisStatus.kLower, highspy.HighsBasisStatus.kUpper
# Where HiGHS is not sure of an optimum its answer is refined all the same: residuals are measured here.
_USABLE = (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kUnknown)


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

    @property
    def largest(self) -> Vector:
        """Largest value of each variable."""
        return np.ones(len(self.cost)) if self.most is None else self.most

    def solve(self, method: Method = "simplex") -> Answer | None:
        """Solve by an algorithm of HiGHS; None if it did not end with an optimum."""
        (k, R), J, most = self.matrix.shape, self.elastic, self.largest
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

    def refined(self, tolerance: float = 1e-9) -> Answer | None:
        """Solve to nearly all digits, without breaking any bound; None if HiGHS found no optimum.

        HiGHS meets bounds to about 1e-10, which is too coarse where multipliers are large or where entries
        differ by many orders of magnitude. So its residuals are magnified and given to it as a program of
        their own, whose answer is scaled back and added. Each round gains several digits (Gleixner, Steffy
        and Wolter, "Iterative refinement for linear programming", 2016).

        Parameters
        ----------
        tolerance : float, default=1e-9
            Tolerance of HiGHS in each round. A larger one makes the first round easier and leaves more to
            the others.

        Returns
        -------
        Answer or None

        Examples
        --------
        >>> import numpy as np
        >>> cost, upper = np.array([-1.0, -1e-9]), np.array([1 + 1e-12])
        >>> x = Program(cost, np.ones((2, 1)), np.zeros(1), upper, elastic=0, price=0.0).refined().values
        >>> bool(x[0] == 1.0 and abs(x[1] - 1e-12) < 1e-15)
        True
        """
        (k, R), most = self.matrix.shape, self.largest
        sizes = np.abs(np.column_stack([self.matrix, self.cost]))
        columns, rows = np.ones(k), np.ones(R + 1)
        for _ in range(_EQUILIBRATIONS):  # by powers of two, which change no digit
            rows *= _power((sizes * columns[:, None] * rows).max(axis=0, initial=0.0))
            columns *= _power((sizes * columns[:, None] * rows).max(axis=1, initial=0.0))
        rows, unit = rows[:-1], float(rows[-1])
        # With a variable for the value of each bound, bounds are equations, whose multipliers have any sign.
        cost = np.concatenate([self.cost * columns * unit, np.zeros(R)])
        matrix = np.vstack([self.matrix * columns[:, None] * rows, -np.eye(R)])
        lower = np.concatenate([np.zeros(k), self.lower * rows])
        upper = np.concatenate([most / columns, self.upper * rows])
        options: dict[str, float | str] = {
            "threads": 1,
            "random_seed": 0,
            "solver": "simplex",
            "simplex_scale_strategy": 0,  # scaled here already
            "presolve": "off",  # each round starts from the vertex of the last one
            "small_matrix_value": 1e-12,
            "time_limit": 60.0,
            "simplex_iteration_limit": _ITERATIONS * (k + 2 * R),  # it may cycle
            "primal_feasibility_tolerance": tolerance,
            "dual_feasibility_tolerance": tolerance,
        }
        x, y, magnify, magnify_dual = np.zeros(k + R), np.zeros(R), 1.0, 1.0
        best, smallest = None, np.inf
        highs = loaded(cost, matrix, (lower, upper), (y, y), options)
        for _ in range(_ROUNDS):
            highs.run()
            solution = highs.getSolution()
            if highs.getModelStatus() not in _USABLE or not (solution.value_valid and solution.dual_valid):
                break
            x, y = x + np.array(solution.col_value) / magnify, y + np.array(solution.row_dual) / magnify_dual
            left, reduced = -(x @ matrix), cost - matrix @ y
            status = highs.getBasis().col_status
            at_lower, at_upper = (np.array([each == end for each in status]) for end in (_LOWER, _UPPER))
            broken = float(np.concatenate([lower - x, x - upper, np.abs(left)]).max())
            # Only at the upper end may a reduced cost be negative, only at the lower end positive.
            signs = np.maximum(np.where(at_upper, 0.0, -reduced), np.where(at_lower, 0.0, reduced))
            wrong = float(np.where(lower == upper, 0.0, signs).max(initial=0.0))
            if max(broken, wrong) < smallest:
                smallest = max(broken, wrong)
                best = np.where(at_upper, upper, np.where(at_lower, lower, x)), y
            magnify = min(float(_power(broken)), magnify * _MAGNIFY)
            magnify_dual = min(float(_power(wrong)), magnify_dual * _MAGNIFY)
            numbers = np.arange(k + R, dtype=np.int32)
            highs.changeColsBounds(k + R, numbers, magnify * (lower - x), magnify * (upper - x))
            highs.changeColsCost(k + R, numbers, magnify_dual * reduced)
            for j, value in enumerate(magnify * left):
                highs.changeRowBounds(j, value, value)
        if best is None:
            return None
        values = snapped(np.clip(best[0][:k] * columns / most, 0.0, 1.0), _LAST_DIGITS)
        return Answer(values, best[1] * rows / unit, np.zeros(self.elastic))


def _power(size: NDArray[np.float64] | float) -> Vector:
    """Powers of two that bring numbers to size 1, and 1 for those that are 0."""
    exponent = np.where(size > 0, np.frexp(size)[1], 0)
    return np.asarray(np.ldexp(1.0, -exponent))


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
