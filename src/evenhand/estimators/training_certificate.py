"""The certificate of a trained classifier: what it attains, and how much of the rest is the learner's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenhand.fairness.rates import CellRates
from evenhand.optimum.problem import FairnessProblem
from evenhand.solver.certificate import Certificate, small

__all__ = ["TrainingCertificate", "risk_of", "violation_of"]


@dataclass(frozen=True)
class TrainingCertificate(Certificate):
    """The risk that a trained classifier attains, and a bound that no fair one goes below.

    The bound holds for every classifier if the posteriors are right. A trained classifier has a larger risk
    for up to three reasons: it is a single one where a mixture would be better, training was stopped, or the
    learner cannot express the optimum.

    Attributes
    ----------
    objective : float
        Estimated risk of the classifier.
    bound : float
        No classifier that satisfies the requirement has a smaller risk under the posteriors.
    violation : float
        How far the worst constraint is broken, by estimated rates.
    mixture : float or None
        Estimated risk of the best mixture of the classifiers that were trained; None if there is none, and
        with a promise, for which the classifier is stricter than was asked.
    remaining : float
        By how much one more classifier could have improved that mixture, judged by the last one trained;
        infinite if that is not known.

    Examples
    --------
    >>> print(TrainingCertificate(0.12, 0.10, 0.0, mixture=0.112, remaining=0.003))
    risk 0.120000, and no fair classifier is below 0.100000 if the posteriors are right. Of the gap of
    0.020000, a mixture would save 0.008000 and more training would save at most 0.003000; the remaining
    0.009000 are the learner's.
    """

    mixture: float | None = None
    remaining: float = 0.0

    @classmethod
    def of(
        cls,
        problem: FairnessProblem,
        rates: CellRates,
        *,
        bound: float,
        mixture: CellRates | None = None,
        remaining: float = 0.0,
    ) -> TrainingCertificate:
        """The certificate of a classifier with estimated rates, and of the mixture beside it."""
        return cls(
            risk_of(problem, rates),
            bound,
            violation_of(problem, rates),
            mixture=None if mixture is None else risk_of(problem, mixture),
            remaining=remaining,
        )

    @property
    def learner_share(self) -> float:
        """The part of the gap that neither a mixture nor more training would close; 0 if none is known."""
        best = self.objective if self.mixture is None else min(self.objective, self.mixture)
        return max(0.0, best - self.remaining - self.bound)

    def __str__(self) -> str:
        text = (
            f"risk {self.objective:.6f}, and no fair classifier is below {self.bound:.6f} if the posteriors "
            "are right."
        )
        if self.violation > 1e-12:
            text += f" The requirement is violated by {small(self.violation)}."
        if self.gap <= 0:
            return text
        parts = []
        single = 0.0 if self.mixture is None else max(0.0, self.objective - self.mixture)
        if single > 0:
            parts.append(f"a mixture would save {min(single, self.gap):.6f}")
        rest = self.gap - min(single, self.gap)
        more = 0.0 if np.isinf(self.remaining) else min(self.remaining, rest)
        if more > 0:
            parts.append(f"more training would save at most {more:.6f}")
        if rest > 0 and np.isinf(self.remaining):
            saved = f" {parts[0]}, and" if parts else ""
            return f"{text} Of the gap of {self.gap:.6f},{saved} it is not known how much is the learner's."
        told = (
            f" {' and '.join(parts)}; the remaining {self.learner_share:.6f} are"
            if parts
            else " all of it is"
        )
        return f"{text} Of the gap of {self.gap:.6f},{told} the learner's."


def risk_of(problem: FairnessProblem, rates: CellRates) -> float:
    """Risk by estimated rates."""
    program, selected = problem.program, rates.selected.ravel()
    return problem.unit * (program.constant - float(program.gain[: len(selected)] @ selected))


def violation_of(problem: FairnessProblem, rates: CellRates) -> float:
    """Largest violation of a linear constraint by estimated rates; 0 if there is none."""
    linear = problem.linear_constraints
    values = linear.values(rates.rates)
    return float(np.nanmax(np.fmax(linear.lo - values, values - linear.hi), initial=0.0))
