"""The exact finish: a linear program on the rows that are still undecided.

Bounds may be broken at a high price. If the rows are too few to meet them, the answer then shows it, where
otherwise there would be none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenhand.solver.dense import DenseRows, collapsed
from evenhand.solver.linear import Method, Program
from evenhand.solver.oracle import Problem, Vector


@dataclass(frozen=True, eq=False)
class Finish:
    """Answer of the linear program.

    Attributes
    ----------
    rows : DenseRows
        The rows that were undecided.
    selection : array
        Their f.
    multipliers : array, shape (J,)
    slack : float
        Total amount by which bounds had to be broken.
    """

    rows: DenseRows
    selection: Vector
    multipliers: Vector
    slack: float


def finish(
    rows: DenseRows,
    problem: Problem,
    *,
    price: float = 0.0,
    method: Method = "simplex",
    tolerance: float | None = None,
) -> Finish | None:
    """Solve for the selection of the undecided rows.

    Parameters
    ----------
    rows : DenseRows
        The undecided rows; their `base` holds the sums of the decided ones.
    problem : Problem
    price : float, default=0.0
        Cost of breaking a bound by the largest effect that a row of mean weight has on it.
    method : {"simplex", "ipm"}, default="simplex"
        Algorithm of HiGHS.
    tolerance : float, default=None
        Solve to nearly all digits instead, without breaking any bound; see
        :meth:`evenhand.solver.linear.Program.refined`.

    Returns
    -------
    Finish or None
        None if HiGHS did not end with an optimum.
    """
    # Equal rows are one variable: they are treated alike.
    P, mass, kind = collapsed(rows.matrix, rows.weights_of(slice(None)))
    # In units of the mean mass, each bound divided by its largest entry: entries are then of size 1. A
    # scalar weighs as much as all rows together: its variable runs further instead.
    weightless = (mass == 0)[kind]
    heavy = P[:, P.shape[1] - problem.scalars :].any(axis=1)
    unit = float(mass[~heavy].mean()) if not heavy.all() else 1.0
    mass /= unit
    most = np.where(heavy, mass, 1.0)
    mass /= most
    matrix = (P @ problem.A.T) * mass[:, None]
    largest = np.abs(matrix).max(axis=0, initial=0.0)
    factors = 1.0 / np.where(largest > 0, largest, 1.0)
    rest = problem.A @ rows.base
    lower, upper = ((bound - rest) * factors / unit for bound in (problem.lo, problem.hi))
    cost = -(P @ problem.gain) * mass
    program = Program(cost, matrix * factors, lower, upper, len(problem.lo), price, most)
    answer = program.solve(method) if tolerance is None else program.refined(tolerance)
    if answer is None:
        return None
    multipliers, selection = problem.allowed(answer.duals * factors), answer.values[kind]
    if weightless.any():  # no variable says anything of them
        by_sign = rows.scores(problem.direction(multipliers)) > 0
        selection = np.where(weightless, by_sign, selection)
    return Finish(rows, selection, multipliers, float((answer.slack / factors).sum() * unit))
