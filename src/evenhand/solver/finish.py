"""The exact finish: a linear program on the rows that are still undecided.

Bounds may be broken at a high price. If the rows are too few to meet them, the answer then shows it, where
otherwise there would be none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from evenhand.solver.dense import DenseRows, collapsed
from evenhand.solver.linear import Method, Program, refine, snapped
from evenhand.solver.oracle import Problem, Vector

_LAST_DIGITS = 1e-13  # left open by refinement; see docs/decisions.md


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


def finish(rows: DenseRows, problem: Problem, *, price: float, method: Method = "simplex") -> Finish | None:
    """Solve for the selection of the undecided rows.

    Parameters
    ----------
    rows : DenseRows
        The undecided rows; their `base` holds the sums of the decided ones.
    problem : Problem
    price : float
        Cost of breaking a bound by the largest effect that a row of mean weight has on it.
    method : {"simplex", "ipm"}, default="simplex"
        Algorithm of HiGHS.

    Returns
    -------
    Finish or None
        None if HiGHS did not end with an optimum.
    """
    scaled = _Scaled.of(rows, problem, price)
    answer = scaled.program.solve(method)
    if answer is None:
        return None
    slack = float((answer.slack / scaled.factors).sum() * scaled.unit)
    return scaled.finished(rows, problem, answer.values, answer.duals, slack)


def finish_refined(rows: DenseRows, problem: Problem, tolerance: float) -> Finish | None:
    """Solve for the selection of the undecided rows to nearly all digits, without breaking any bound.

    Parameters
    ----------
    rows : DenseRows
    problem : Problem
    tolerance : float
        See :func:`~evenhand.solver.linear.refine`.

    Returns
    -------
    Finish or None
    """
    scaled = _Scaled.of(rows, problem, 0.0, stretched=False)
    program = scaled.program
    found = refine(program.cost, program.matrix, program.lower, program.upper, tolerance)
    if found is None:
        return None
    return scaled.finished(rows, problem, snapped(found[0], _LAST_DIGITS), found[1], 0.0)


@dataclass(frozen=True, eq=False)
class _Scaled:
    """A linear program in units of about 1; `kind` is the variable of each row.

    `weighty` says which variables have any weight.
    """

    program: Program
    kind: NDArray[np.intp]
    weighty: NDArray[np.bool_]
    unit: float
    factors: Vector

    @classmethod
    def of(cls, rows: DenseRows, problem: Problem, price: float, *, stretched: bool = True) -> Self:
        # Equal rows are one variable: they are treated alike.
        P, mass, kind = collapsed(rows.matrix, rows.weights_of(slice(None)))
        # In units of the mean mass, each bound divided by its largest entry: entries are then of size 1. A
        # scalar weighs as much as all rows together: its variable runs further instead.
        weighty = mass > 0
        heavy = P[:, P.shape[1] - problem.scalars :].any(axis=1)
        unit = float(mass[~heavy].mean()) if not heavy.all() else 1.0
        mass /= unit
        most = None
        if stretched and heavy.any():
            most = np.where(heavy, mass, 1.0)
            mass /= most
        matrix = (P @ problem.A.T) * mass[:, None]
        largest = np.abs(matrix).max(axis=0, initial=0.0)
        factors = 1.0 / np.where(largest > 0, largest, 1.0)
        rest = problem.A @ rows.base
        lower, upper = ((bound - rest) * factors / unit for bound in (problem.lo, problem.hi))
        cost = -(P @ problem.gain) * mass
        program = Program(cost, matrix * factors, lower, upper, len(problem.lo), price, most)
        return cls(program, kind, weighty, unit, factors)

    def finished(
        self, rows: DenseRows, problem: Problem, values: Vector, duals: Vector, slack: float
    ) -> Finish:
        """The selection of the program; by the sign of h where no copy of a row has any weight."""
        multipliers, selection = problem.allowed(duals * self.factors), values[self.kind]
        weightless = ~self.weighty[self.kind]
        if weightless.any():
            by_sign = rows.scores(problem.direction(multipliers)) > 0
            selection = np.where(weightless, by_sign, selection)
        return Finish(rows, selection, multipliers, slack)
