"""The bound: the largest impact ratio of any rule on learned probabilities, at a given performance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.data.features import drop_columns, take_rows
from evenhand.estimators.postprocess import FairPostprocessor
from evenhand.less_discriminatory.candidates import Candidate, Training
from evenhand.less_discriminatory.deciders import Decider, Floats, Rows
from evenhand.optimum.solve import solve
from evenhand.requirements.bounds import RateBound
from evenhand.requirements.notions import DemographicParity
from evenhand.solver.certificate import Certificate

_MARGINS = (0.0, 0.5, 1.0, 2.0, 4.0)
"""Where the curve is computed, in margins."""
_ROOM = 1e-9


@dataclass(frozen=True)
class Point:
    """The largest impact ratio at a loss of accuracy, by the probabilities."""

    margin: float
    impact_ratio: float


@dataclass(frozen=True, eq=False)
class Bound:
    """The bound at several losses of accuracy, and the rule that attains it at the margin.

    Attributes
    ----------
    points : tuple of Point
    certificate : Certificate
        At the margin.
    price : float
        By how much the impact ratio would fall if one more unit of accuracy had to be kept.
    selection : array, shape (n,)
        The share of each row that the rule selects.
    """

    points: tuple[Point, ...]
    certificate: Certificate
    price: float
    selection: Floats


def find_bound(
    training: Training,
    hidden: tuple[Any, ...],
    held_out: NDArray[np.intp],
    own: Decider,
    rows: Rows,
    *,
    rate: float,
    margin: float,
    reference: Mapping[str, Any] | None,
) -> Bound:
    """Learn P(label, group | x) on the training rows, and solve on the held-out ones.

    Parameters
    ----------
    training : Training
    hidden : tuple
        Sensitive columns of X.
    held_out : array of int
    own : Decider
        The incumbent on these rows.
    rows : Rows
        The held-out ones.
    rate : float
        The approval rate.
    margin : float
    reference : mapping or None

    Returns
    -------
    Bound
    """
    free = DemographicParity(difference=1, groups="independent")
    model = training.fitted(Candidate("posteriors", "bound", FairPostprocessor(None, free), hidden))
    posteriors = model._read(take_rows(drop_columns(training.X, hidden), held_out), None)[1]
    w, selected, eta = rows.weights, own.selected(rows.weights, rate), posteriors.label()
    rate = float(np.average(selected, weights=w))
    accuracy = float(np.average(eta * selected + (1 - eta) * (1 - selected), weights=w))
    against: Any = "groups" if reference is None else dict(reference)
    notion, found = DemographicParity(ratio=1, groups="independent", against=against), {}
    for part in _MARGINS:
        floor = RateBound("accuracy", at_least=max(0.0, accuracy - part * margin - _ROOM))
        asked = floor & RateBound("selection rate", at_least=rate, at_most=rate)
        found[part] = solve(posteriors, asked, objective=notion, sample_weight=w, groups=model.compared_)
    best = found[1.0]
    price = sum(value for name, value in best.shadow_prices.items() if name.notion == "accuracy")
    points = tuple(Point(part * margin, 1 - one.certificate.bound) for part, one in found.items())
    return Bound(points, best.certificate, float(price), np.asarray(best.selection))
