"""What to expect on new rows, and the margin that brings it to the tolerance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from evenhand.estimators.settings import Margin
from evenhand.estimators.training_data import TrainingData
from evenhand.exceptions import CertificateError, InfeasibleError
from evenhand.guarantee.forecast import Forecast
from evenhand.guarantee.margins import with_margin
from evenhand.optimum.problem import FairnessProblem
from evenhand.optimum.solution import Solution
from evenhand.requirements.rates import CellRates
from evenhand.requirements.requirement import Constraint

_MOST = 4.0
"""Standard errors beyond which a margin is not looked for: it is exact parity then, or hardly wider."""
_STEPS = 7
_NEGLIGIBLE = 1e-3
"""Of a forecast beyond the tolerance: the error of its simulation."""


def forecast(constraint: Constraint, data: TrainingData, rates: CellRates) -> Forecast:
    """What to expect on new rows of decisions with some rates.

    Parameters
    ----------
    constraint : Constraint
        The requirement, with the rates of its references if it has any.
    data : TrainingData
        Rows that were learned from.
    rates : CellRates
        As claimed.

    Returns
    -------
    Forecast
    """
    return Forecast(constraint, rates, _rows_seen(data), known=data.access.knows(data.groups))


def _rows_seen(data: TrainingData) -> NDArray[np.float64]:
    """Rows of each cell, shape (M, 2); with weights, as many as have the same variance (Kish)."""
    examples, shape = data.examples, (len(data.compared), 2)
    counted = examples.codes >= 0
    cells = examples.compared_cells[counted]
    weights = np.ones(len(cells)) if examples.weights is None else examples.weights[counted]
    sums, squares = (np.bincount(cells, by, 2 * shape[0]).reshape(shape) for by in (weights, weights**2))
    return np.divide(sums**2, squares, out=np.zeros(shape), where=squares > 0)


def solve_with_margin(
    problem: FairnessProblem,
    asked: Constraint,
    margin: Margin,
    expect: Callable[[CellRates], Forecast],
) -> tuple[Solution, Forecast]:
    """The optimum under a requirement with a margin for each group, and its forecast.

    Parameters
    ----------
    problem : FairnessProblem
    asked : Constraint
        Its requirement, as the user wrote it.
    margin : float or "forecast"
    expect : function
        The forecast of some rates.

    Returns
    -------
    Solution, Forecast
    """
    plain = problem.solve()
    before = expect(plain.rates)
    if margin == 0 or (margin == "forecast" and _kept(before)):
        return plain, before

    def at(errors: float) -> tuple[Solution, Forecast]:
        rates = CellRates(problem.groups, before.worth, before.worth * np.nan_to_num(plain.rates.rates))
        internal = with_margin(asked, rates, float(before.worth.sum()), errors, resolved=problem.constraint)
        found = problem.under(internal).solve(start=plain, advise=margin != "forecast")
        cost = found.certificate.objective - plain.certificate.objective
        return found, replace(expect(found.rates), margin=errors, cost=cost, internal=internal)

    return at(margin) if margin != "forecast" else _smallest(at, otherwise=(plain, before))


def _smallest(
    at: Callable[[float], tuple[Solution, Forecast]], otherwise: tuple[Solution, Forecast]
) -> tuple[Solution, Forecast]:
    """With the smallest margin whose forecast keeps the tolerance; by bisection, as margins cost accuracy.

    If none does, with the largest that can be satisfied.
    """
    low, high, best, kept = 0.0, _MOST, otherwise, False
    for _ in range(_STEPS):
        middle = (low + high) / 2
        try:
            found = at(middle)
        except (
            InfeasibleError,
            CertificateError,
        ):  # bounds can contradict each other where they are tightened
            high = middle
            continue
        if _kept(found[1]):
            high, best, kept = middle, found, True
        else:
            low = middle
            best = best if kept else found
    return best


def _kept(found: Forecast) -> bool:
    return not any(one.excess > _NEGLIGIBLE for one in found.expected)
