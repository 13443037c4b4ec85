"""Linear programs beyond the tolerances of a solver, by iterative refinement.

HiGHS meets bounds to about 1e-10, which is too coarse where multipliers are large or where entries differ by
many orders of magnitude. So its residuals are computed exactly, magnified and given to HiGHS as a program of
their own, whose answer is scaled back and added. Each round gains several digits (Gleixner, Steffy and
Wolter, "Iterative refinement for linear programming", 2016). Variables and multipliers are kept as sums of
several numbers, and residuals are rounded only once, at the end.
"""

from __future__ import annotations

import math

import highspy
import numpy as np
from numpy.typing import NDArray

from evenhand.solver.dense import exact_sum
from evenhand.solver.linear import loaded
from evenhand.solver.oracle import Vector

_ROUNDS = 8  # each gains several digits, and float64 has 16
_ITERATIONS = 20  # of the simplex, for each variable and bound; more are cycles
_EXACT = 1e-20  # residual that changes no digit of a number above 1e-4
_MAGNIFY = 2.0**40  # per round at most: HiGHS meets bounds to 1e-10, so no more digits can be gained
_EQUILIBRATIONS = 4  # alternating over bounds and variables, after which powers of two hardly change
_SPLIT = 2.0**27 + 1  # Dekker's constant for the 53 digits of float64
_LOWER, _UPPER = highspy.HighsBasisStatus.kLower, highspy.HighsBasisStatus.kUpper
# Where HiGHS is not sure of an optimum its answer is refined all the same: residuals are measured here.
_USABLE = (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kUnknown)
_OPTIONS: dict[str, float | str] = {
    "threads": 1,
    "random_seed": 0,
    "solver": "simplex",
    "simplex_scale_strategy": 0,  # scaled here already
    "presolve": "off",  # each round starts from the vertex of the last one
    "small_matrix_value": 1e-12,
    "time_limit": 60.0,
}


def refine(
    cost: Vector,
    matrix: NDArray[np.float64],
    lower: Vector,
    upper: Vector,
    tolerance: float = 1e-9,
) -> tuple[Vector, Vector] | None:
    """Minimise <cost, x> subject to lower <= x^T matrix <= upper and 0 <= x <= 1, to nearly all digits.

    Parameters
    ----------
    cost : array, shape (k,)
    matrix : array, shape (k, R)
    lower, upper : arrays, shape (R,)
    tolerance : float, default=1e-9
        Tolerance of HiGHS in each round. A larger one makes the first round easier and leaves more to the
        others.

    Returns
    -------
    tuple of (x, multipliers), or None
        None if HiGHS found no optimum.

    Examples
    --------
    >>> import numpy as np
    >>> x, duals = refine(np.array([-1.0, -1e-9]), np.ones((2, 1)), np.zeros(1), np.array([1 + 1e-13]))
    >>> bool(x[0] == 1.0 and abs(x[1] - 1e-13) < 1e-15)
    True
    """
    k, R = matrix.shape
    sizes = np.abs(np.column_stack([matrix, cost]))
    columns, rows = np.ones(k), np.ones(R + 1)
    for _ in range(_EQUILIBRATIONS):  # by powers of two, which change no digit
        rows *= _power((sizes * columns[:, None] * rows).max(axis=0, initial=0.0))
        columns *= _power((sizes * columns[:, None] * rows).max(axis=1, initial=0.0))
    rows, unit = rows[:-1], float(rows[-1])
    # With a variable for the value of each bound, all bounds are equations, whose multipliers have any sign.
    found = _solve_equations(
        np.concatenate([cost * columns * unit, np.zeros(R)]),
        np.vstack([matrix * columns[:, None] * rows, -np.eye(R)]),
        np.concatenate([np.zeros(k), lower * rows]),
        np.concatenate([1 / columns, upper * rows]),
        tolerance,
    )
    if found is None:
        return None
    x, multipliers = found
    return np.clip(x[:k] * columns, 0.0, 1.0), multipliers * rows / unit


def _solve_equations(
    cost: Vector, matrix: NDArray[np.float64], lower: Vector, upper: Vector, tolerance: float
) -> tuple[Vector, Vector] | None:
    """Minimise <cost, x> subject to x^T matrix = 0 and lower <= x <= upper; x and multipliers, or None."""
    n, R = matrix.shape
    columns = np.arange(n, dtype=np.int32)
    x, y = np.zeros((0, n)), np.zeros((0, R))
    magnify, magnify_dual, smallest = 1.0, 1.0, np.inf
    best = None
    options = {
        **_OPTIONS,
        "simplex_iteration_limit": _ITERATIONS * (n + R),  # it may cycle
        "primal_feasibility_tolerance": tolerance,
        "dual_feasibility_tolerance": tolerance,
    }
    of_bounds = np.zeros(R), np.zeros(R)
    highs = loaded(cost, matrix, (lower, upper), of_bounds, options)
    for _ in range(_ROUNDS):
        low, high = exact_sum([lower, *-x]), exact_sum([upper, *-x])
        left = _residual(np.zeros(R), matrix, x)
        reduced = _residual(cost, matrix.T, y)
        if len(x):
            status = highs.getBasis().col_status
            at_lower = np.array([each == _LOWER for each in status])
            at_upper = np.array([each == _UPPER for each in status])
            broken = float(np.concatenate([low, -high, np.abs(left), [0.0]]).max())
            # Only at the upper end may a reduced cost be negative, only at the lower end positive.
            signs = np.maximum(np.where(at_upper, 0.0, -reduced), np.where(at_lower, 0.0, reduced))
            wrong = float(np.where(lower == upper, 0.0, signs).max(initial=0.0))
            if max(broken, wrong) < smallest:
                smallest = max(broken, wrong)
                values = np.where(at_upper, upper, np.where(at_lower, lower, exact_sum(x)))
                best = values, exact_sum(y)
            if smallest <= _EXACT:
                break
            magnify = min(float(_power(broken)), magnify * _MAGNIFY)
            magnify_dual = min(float(_power(wrong)), magnify_dual * _MAGNIFY)
        highs.changeColsBounds(n, columns, magnify * low, magnify * high)
        for j, value in enumerate(magnify * left):
            highs.changeRowBounds(j, value, value)
        highs.changeColsCost(n, columns, magnify_dual * reduced)
        if not _run(highs):
            break
        solution = highs.getSolution()
        x = np.vstack([x, np.array(solution.col_value) / magnify])
        y = np.vstack([y, np.array(solution.row_dual) / magnify_dual])
    return best


def _run(highs: highspy.Highs) -> bool:
    """Run HiGHS from its present basis, or from scratch if that fails; whether there is an answer."""
    for _ in range(2):
        highs.run()
        solution = highs.getSolution()
        if highs.getModelStatus() in _USABLE and solution.value_valid and solution.dual_valid:
            return True
        highs.clearSolver()
    return False


def _power(size: NDArray[np.float64] | float) -> Vector:
    """Powers of two that bring numbers to size 1, and 1 for those that are 0."""
    exponent = np.where(size > 0, np.frexp(size)[1], 0)
    return np.asarray(np.ldexp(1.0, -exponent))


def _residual(base: Vector, matrix: NDArray[np.float64], terms: NDArray[np.float64]) -> Vector:
    """Subtract x^T matrix from base, x being the sum of terms, rounded once."""
    left = np.empty_like(base)
    for j in range(len(base)):
        products = [part.ravel() for part in _product(matrix[:, j], terms)]
        left[j] = math.fsum([base[j], *-products[0], *-products[1]])
    return left


def _product(a: Vector, b: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Products of numbers and their rounding errors (Dekker 1971)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = (_halves(each) for each in (a, b))
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _halves(a: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    scaled = _SPLIT * a
    high = scaled - (scaled - a)
    return high, a - high
