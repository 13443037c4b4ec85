"""The exact finish: a linear program on the rows that are still undecided.

Bounds may be broken at a high price, so that a set of rows too small to meet them gives an answer that
shows it, instead of none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.solver.dense import DenseRows
from evenhand.solver.linear import Method, Program
from evenhand.solver.oracle import Vector
from evenhand.solver.problem import Problem

__all__ = ["Finish", "finish"]


@dataclass(frozen=True, eq=False)
class Finish:
    """Answer of the linear program.

    Attributes
    ----------
    index : array of int
        The rows that were undecided.
    selection : array
        Their f.
    multipliers : array, shape (J,)
    slack : float
        By how much bounds had to be broken, in all.
    """

    index: NDArray[np.intp]
    selection: Vector
    multipliers: Vector
    slack: float


def finish(rows: DenseRows, problem: Problem, *, price: float, method: Method = "simplex") -> Finish | None:
    """Solve for the selection of the undecided rows.

    Parameters
    ----------
    rows : DenseRows
        The undecided rows; their `base` holds the sums of the decided ones.
    problem : Problem
    price : float
        Cost of breaking a bound by the largest effect that a row of mean weight has on it.
    method : {"simplex", "ipm"}
        Algorithm of HiGHS.

    Returns
    -------
    Finish or None
        None if HiGHS did not end with an optimum.
    """
    # Rows that are alike are one variable, so that they are treated alike.
    P, kind = np.unique(rows.matrix, axis=0, return_inverse=True)
    mass = np.bincount(kind, rows.weights_of(slice(None)), len(P)).astype(np.float64)
    # In units of the mean mass, and each bound divided by its largest entry, so that entries are of size 1.
    unit = float(mass.mean())
    mass /= unit
    matrix = (P @ problem.A.T) * mass[:, None]
    largest = np.abs(matrix).max(axis=0, initial=0.0)
    scale = 1.0 / np.where(largest > 0, largest, 1.0)
    rest = problem.A @ rows.base
    answer = Program(
        cost=-(P @ problem.gain) * mass,
        matrix=matrix * scale,
        lower=(problem.lo - rest) * scale / unit,
        upper=(problem.hi - rest) * scale / unit,
        elastic=len(problem.lo),
        price=price,
    ).solve(method)
    if answer is None:
        return None
    slack = float((answer.slack / scale).sum() * unit)
    return Finish(rows.index, answer.values[kind], answer.duals * scale, slack)
