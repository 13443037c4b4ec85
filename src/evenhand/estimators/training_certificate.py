"""The certificate of a trained classifier: what it attains under the posteriors, and what no other would."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.optimum.problem import FairnessProblem, multipliers_of
from evenhand.optimum.solution import Solution
from evenhand.requirements.rates import CellRates
from evenhand.solver.certificate import Certificate, small

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TrainingCertificate(Certificate):
    """The risk of a trained classifier under the posteriors, and bounds that none goes below under them.

    Everything is by the same definition, so that it is proven: the posteriors of the rows of `fit`, and the
    decisions of the classifier, or of classifiers trained alike that have not seen the row. What it attains
    on new rows is estimated by labels and groups instead, in ``achieved_``.

    Attributes
    ----------
    objective : float
        Risk of the classifier under the posteriors.
    bound : float
        No classifier that satisfies the requirement has a smaller risk under the posteriors.
    violation : float
        How far the worst constraint is broken under the posteriors.
    relaxed : float, default=None
        No classifier that breaks each constraint by as much at most has a smaller risk under the posteriors;
        `bound` if it breaks none.

    Examples
    --------
    >>> print(TrainingCertificate(0.12, 0.10, 0.0, relaxed=0.10))
    Under the posteriors the risk is 0.120000, and no classifier that satisfies the requirement is below
    0.100000: no other learner, mixture or longer training would save more than 0.020000.
    """

    relaxed: float = np.nan

    @classmethod
    def of(cls, problem: FairnessProblem, optimum: Solution, selected: Floats) -> TrainingCertificate:
        """The certificate of a classifier, from the mass of each cell that it selects under the posteriors.

        With multipliers lambda, breaking constraints by v saves at most sum of |lambda| v.
        """
        linear, rates = problem.linear_constraints, CellRates(problem.groups, problem.masses, selected)
        values = linear.values(rates.rates)
        broken = np.nan_to_num(np.fmax(0.0, np.fmax(linear.lo - values, values - linear.hi)))
        worth = float(np.abs(multipliers_of(optimum.multipliers, linear)) @ broken)
        bound = optimum.certificate.bound
        return cls(risk_of(problem, rates), bound, float(broken.max(initial=0.0)), relaxed=bound - worth)

    @property
    def gap(self) -> float:
        """The most by which another classifier that breaks no constraint further could be better."""
        return self.objective - self.relaxed

    def __str__(self) -> str:
        text = (
            f"Under the posteriors the risk is {self.objective:.6f}, and no classifier that satisfies the "
            f"requirement is below {self.bound:.6f}"
        )
        if self.violation > 1e-12:
            text += (
                f"; this one violates it by {small(self.violation)} under them, and none that violates it no "
                f"further is below {self.relaxed:.6f}"
            )
        saved = max(0.0, self.gap)  # of rounding
        return f"{text}: no other learner, mixture or longer training would save more than {saved:.6f}."


def risk_of(problem: FairnessProblem, rates: CellRates) -> float:
    """Risk by estimated rates."""
    program, selected = problem.program, rates.selected.ravel()
    return problem.unit * (program.constant - float(program.gain[: len(selected)] @ selected))


def violation_of(problem: FairnessProblem, rates: CellRates) -> float:
    """Largest violation of a linear constraint by estimated rates; 0 if there is none."""
    linear = problem.linear_constraints
    values = linear.values(rates.rates)
    return float(np.nanmax(np.fmax(linear.lo - values, values - linear.hi), initial=0.0))
