"""Proof of a solution, recomputed from the rows without any solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from evenhand.solver.oracle import Problem, Totals, Vector

_ROUNDING = 1e-12
"""Rounding error of sums over all rows."""
_AS_PROVEN = 1e-6
"""Difference of the shipped rule from what was proven that rounding of posteriors explains."""


@dataclass(frozen=True)
class Certificate:
    """The objective that a selection attains, and a bound that no feasible selection goes below.

    Attributes
    ----------
    objective : float
        Attained by the selection; for a fair classifier its risk.
    bound : float
        The dual value at the multipliers: no feasible selection has a smaller objective.
    violation : float
        Largest amount by which a bound is broken.
    minimised : str, default="risk"
        What the objective is: the risk, the largest risk of a group (``objective="minimax"``), or the
        distance from a notion.
    shipped_objective, shipped_violation : float or None
        The same of the rule that is shipped, on the same rows; None where no rule was made of the selection.

    Examples
    --------
    >>> round(Certificate(objective=0.25, bound=0.24, violation=0.0).gap, 6)
    0.01
    """

    objective: float
    bound: float
    violation: float
    minimised: str = "risk"
    shipped_objective: float | None = None
    shipped_violation: float | None = None

    @property
    def gap(self) -> float:
        """The most by which another selection could be better."""
        return self.objective - self.bound

    @property
    def shipped_differs(self) -> bool:
        """Whether the rule that is shipped has another objective or violation, beyond rounding."""
        if self.shipped_objective is None or self.shipped_violation is None:
            return False
        apart = abs(self.shipped_objective - self.objective), self.shipped_violation - self.violation
        return max(apart) > _AS_PROVEN * max(1.0, abs(self.objective))

    @property
    def of_rule(self) -> tuple[float, float]:
        """Objective and violation of the rule that is shipped; of the selection, if they are the same."""
        if not self.shipped_differs:
            return self.objective, self.violation
        return cast("tuple[float, float]", (self.shipped_objective, self.shipped_violation))

    def __repr__(self) -> str:
        what = "" if self.minimised == "risk" else f"{self.minimised}: "
        objective, violation = self.of_rule
        shipped = f"; shipped: objective={objective:.6f}, violation {small(violation)}"
        more = shipped if self.shipped_differs else ""
        return (
            f"Certificate({what}objective={self.objective:.6f}, bound={self.bound:.6f}, "
            f"gap {small(self.gap)}, violation {small(self.violation)}{more})"
        )


def small(amount: float) -> str:
    """Text of a gap or a violation; amounts below rounding error read <1e-12.

    Parameters
    ----------
    amount : float

    Returns
    -------
    str

    Examples
    --------
    >>> small(-5.6e-17), small(3.2e-7)
    ('<1e-12', '3.2e-07')
    """
    return "<1e-12" if amount < _ROUNDING else f"{amount:.1e}"


def certify(problem: Problem, multipliers: Vector, totals: Totals) -> Certificate:
    """Evaluate a selection and the bound, from sums over all rows at the multipliers' direction.

    Parameters
    ----------
    problem : Problem
    multipliers : array, shape (J,)
    totals : Totals
        At ``problem.direction(multipliers)``.

    Returns
    -------
    Certificate
    """
    return Certificate(
        problem.objective(totals.sums),
        problem.bound(multipliers, totals.positive_part),
        problem.violation(totals.sums),
    )
