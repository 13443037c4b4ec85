"""The master program of column generation: the best mixture of given selections.

A column is a selection, known by its sums s_t = sum of w_i f_i p_i. Weights x_t that sum to 1 mix columns:

    minimise    constant - sum of x_t <gain, s_t> + price * (how far bounds are broken)
    subject to  lo <= A sum of x_t s_t <= hi,  x in the simplex.

Its multipliers say what a new column has to be good at: one with a larger <gain + A^T lambda, s> than every
column so far improves the mixture, and if none has, the mixture is the best there is at this price.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.solver.linear import METHODS, Program
from evenhand.solver.oracle import Problem, Vector


@dataclass(frozen=True, eq=False)
class Mixed:
    """The best mixture of columns.

    Attributes
    ----------
    weights : array, shape (T,)
        They sum to 1; at most one more than there are bounds are positive.
    multipliers : array, shape (J,)
        Of the bounds, positive on a lower one and negative on an upper one.
    best : array, shape (G,)
        The largest <gain + A^T lambda, s> of a column of each group: what a new one has to exceed.
    sums : array, shape (D,)
        Of the mixture, without scalars.
    violation : float
        How far the worst bound is broken.
    scalars : array, shape (K,)
    """

    weights: Vector
    multipliers: Vector
    best: Vector
    sums: Vector
    violation: float
    scalars: Vector

    def gain(self, problem: Problem, sums: Vector) -> float:
        """By how much a mixture with a new column could be better at most; not positive if by nothing."""
        direction = problem.direction(self.multipliers)[: len(sums)]
        return float(direction @ sums) - float(self.best.sum())


def mix_columns(
    problem: Problem, columns: NDArray[np.float64], price: float, owners: NDArray[np.intp] | None = None
) -> Mixed:
    """Find the best mixture of columns.

    Parameters
    ----------
    problem : Problem
    columns : array, shape (T, D)
        Sums of each column, without scalars.
    price : float
        Cost of breaking a bound by 1.
    owners : array of int, shape (T,), optional
        In order, the group that each column belongs to, of those from 0 on: the weights of each group sum to
        1. By default there is one group.

    Returns
    -------
    Mixed

    Examples
    --------
    >>> import numpy as np
    >>> problem = Problem(gain=np.array([1.0]), A=np.array([[1.0]]), lo=np.array([0.0]), hi=np.array([0.25]))
    >>> mix_columns(problem, np.array([[0.0], [1.0]]), price=5.0).weights
    array([0.75, 0.25])
    """
    (T, D), J, K = columns.shape, len(problem.A), problem.scalars
    owners = np.zeros(T, np.intp) if owners is None else owners
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    G = len(starts)
    values = columns @ problem.A[:, :D].T
    matrix = np.zeros((T + K, J + G))
    matrix[:T, :J], matrix[T:, :J] = values, problem.A[:, D:].T
    matrix[np.arange(T), J + owners] = 1.0
    cost = np.concatenate([-(columns @ problem.gain[:D]), np.zeros(K)])
    lower, upper = (np.concatenate([bound, np.ones(G)]) for bound in (problem.lo, problem.hi))
    program = Program(cost, matrix, lower, upper, J, price)
    answer = next((found for found in map(program.solve, METHODS) if found is not None), None)
    if answer is None:
        raise ArithmeticError("HiGHS did not solve the master program.")
    weights = answer.values[:T] / np.add.reduceat(answer.values[:T], starts)[owners]
    multipliers = problem.allowed(answer.duals[:J])
    reach = columns @ problem.direction(multipliers)[:D]
    at = weights @ values + answer.values[T:] @ problem.A[:, D:].T
    broken = np.maximum(problem.lo - at, at - problem.hi).max(initial=0.0)
    best = np.maximum.reduceat(reach, starts)
    return Mixed(weights, multipliers, best, weights @ columns, float(broken), answer.values[T:])
