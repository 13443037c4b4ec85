"""Requirements that no classifier satisfies: which constraints are in conflict, and what would work.

Every built-in notion is satisfied by deciding 1 with probability one half for everybody, so only user-defined
notions can conflict.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenhand.exceptions import InfeasibleError
from evenhand.fairness.constraints import LinearConstraints
from evenhand.fairness.groups import Groups
from evenhand.fairness.requirement import Constraint
from evenhand.solver.conflict import find_conflict
from evenhand.solver.oracle import Oracle
from evenhand.solver.problem import Problem

__all__ = ["refuse_infeasible"]

_BISECTIONS = 16  # a tolerance to 2^-16: better than the four digits that are shown
_SHOWN = 6  # of the constraints in conflict: a message that can be read


def refuse_infeasible(
    oracle: Oracle,
    problem: Problem,
    constraint: Constraint,
    *,
    linear: LinearConstraints,
    masses: NDArray[np.float64],
    groups: Groups,
    advise: bool = True,
) -> None:
    """Raise an InfeasibleError if it is proven that no selection meets the bounds.

    Parameters
    ----------
    oracle : Oracle
    problem : Problem
        The requirement as bounds on sums over rows.
    constraint : Constraint
    linear : LinearConstraints
        The same bounds, with names.
    masses : array, shape (M, 2)
    groups : Groups
    advise : bool, default=True
        Whether the error says what would work.
    """
    found = find_conflict(oracle, problem, masses.ravel())
    if not found.proven:
        return
    conflict = tuple(name for name, weight in zip(linear.names, found.multipliers, strict=True) if weight)
    listed = "; ".join(str(name) for name in conflict[:_SHOWN])
    more = f" and {len(conflict) - _SHOWN} more" if len(conflict) > _SHOWN else ""
    if not advise:
        raise InfeasibleError(f"no classifier satisfies {constraint}.", conflict=conflict)
    works = _widened(oracle, constraint, problem, masses, groups)
    advice = (
        f"It can be satisfied from {works} on." if works is not None else "No tolerance makes it possible."
    )
    raise InfeasibleError(
        f"no classifier satisfies {constraint}: these cannot hold together: {listed}{more}. {advice}",
        conflict=conflict,
        works=works,
    )


def _widened(
    oracle: Oracle, constraint: Constraint, problem: Problem, masses: NDArray[np.float64], groups: Groups
) -> Constraint | None:
    """Widen all tolerances together, just as far as needed; None if even the widest are not enough."""

    def possible(share: float) -> bool:
        A, lo, hi = constraint.relaxed(share).linear(masses, groups).in_sums(masses)
        wider = Problem(problem.gain, A, lo, hi, scalars=problem.scalars)
        return find_conflict(oracle, wider, masses.ravel()).possible

    if not possible(1.0):
        return None
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if possible(middle) else (middle, high)
    return constraint.relaxed(min(1.0, high + 0.5**_BISECTIONS))  # not exactly on the edge
