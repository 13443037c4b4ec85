"""Rows with h = 0, decided by a second score instead of one by one.

Where the multipliers make h = 0 for many rows, many selections are optimal, and a vertex of the linear
program picks rows that have nothing in common. Of all optimal selections, the one with the largest sum of a
second score c is again a function of the row: 1 where c + <V, p> is positive, with V = A^T mu for multipliers
mu. It leaves no more rows open than there are bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evenhand.solver.certificate import certify
from evenhand.solver.dense import DenseRows, collapsed, is_tie
from evenhand.solver.oracle import Problem, Vector

if TYPE_CHECKING:
    from evenhand.solver.optimize import Accepted, Optimum

Score = Callable[[NDArray[np.float64]], Vector]
"""The second score of rows, from their columns without those of scalars."""

PRECISION = 1e-6
"""Gap of the second problem: it decides between equal optima, and need not be small."""
_LAST_DIGITS = 1e-14
"""Violation that sums over rows leave open."""


def break_ties(
    problem: Problem, found: Optimum, accepted: Accepted, solve: Callable[..., Optimum | None]
) -> Optimum:
    """Decide rows with h = 0 by the optimum that has the largest sum of a score.

    Parameters
    ----------
    problem : Problem
    found : Optimum
        Any optimum of it.
    accepted : Accepted
        With the score of rows, if there is one.
    solve : function
        :func:`~evenhand.solver.optimize.optimize`.

    Returns
    -------
    Optimum
        The same one if fewer than two different rows have h = 0, or if no other was proven.
    """
    score = accepted.score
    if score is None or found.finish is None or found.retotal is None:
        return found
    rows, weights = found.finish.rows.matrix, found.finish.rows.weights_of(slice(None))
    D, v = rows.shape[1] - problem.scalars, problem.direction(found.multipliers)
    tied = np.flatnonzero(is_tie(rows @ v, rows, v) & ~rows[:, D:].any(axis=1))
    matrix, mass, kind = collapsed(rows[tied][:, :D], weights[tied])
    if np.count_nonzero(mass) < 2:
        return found
    base = found.totals.sums[:D] - (weights[tied] * found.finish.selection[tied]) @ rows[tied][:, :D]
    scored = DenseRows(np.column_stack([matrix, score(matrix)]), mass, base=np.append(base, 0.0))
    second = second_problem(problem, found, found.multipliers != 0)
    exact = max(_LAST_DIGITS, second_feasibility(found, accepted))
    chosen = solve(scored, second, type(accepted)(PRECISION, exact))
    if chosen is None:
        return found
    selection = found.finish.selection.copy()
    selection[tied] = chosen.totals.selection[kind]
    totals = found.retotal(selection)
    certificate = certify(problem, found.multipliers, totals)
    if not accepted.proven(certificate):
        return found
    return replace(
        found,
        totals=totals,
        certificate=certificate,
        finish=replace(found.finish, selection=selection),
        tie_multipliers=chosen.multipliers,
    )


def second_problem(problem: Problem, found: Optimum, held: NDArray[np.bool_]) -> Problem:
    """Maximise the sum of a score, in one more column, over all optima of a problem.

    They have the same multipliers: bounds with one, which are held, are met as they are now, and scalars
    stay.

    Parameters
    ----------
    problem : Problem
    found : Optimum
        Any optimum of it.
    held : array of bool, shape (J,)

    Returns
    -------
    Problem
    """
    D, sums = problem.A.shape[1] - problem.scalars, found.totals.sums
    at, fixed = problem.A @ sums, problem.A[:, D:] @ sums[D:]
    return Problem(
        gain=np.append(np.zeros(D), 1.0),
        A=np.column_stack([problem.A[:, :D], np.zeros(len(at))]),
        lo=np.where(held, at, np.minimum(problem.lo, at)) - fixed,
        hi=np.where(held, at, np.maximum(problem.hi, at)) - fixed,
    )


def second_feasibility(found: Optimum, accepted: Accepted) -> float:
    """Largest violation of the second problem: what a violation adds to the gap is its multiplier."""
    price = max(1.0, float(np.abs(found.multipliers).sum()))
    return min(accepted.feasibility, accepted.tol / price)
