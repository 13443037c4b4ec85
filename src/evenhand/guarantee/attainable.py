"""The strictest requirement that can be guaranteed where the one that was asked for cannot.

Requirements get less strict along one path, which is fixed before any row is seen: first the tolerances of
all notions grow together, up to where they require nothing; then the bounds do. A classifier that meets one
of them meets all that follow, so what is found is a confidence limit: the chance that the first requirement
that it violates passes a test at level alpha is at most alpha.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_

from evenhand.requirements.requirement import LOOSEST, Constraint, Requirement

_STEPS = 1000
"""From the requirement to none."""
_UNIT = 1000
"""Tolerances and bounds are rounded to three digits, to the less strict side."""
_ROUNDING = 1e-9


def attainable(
    constraint: Constraint, holds: Callable[[Constraint], bool], *, resolved: Constraint | None = None
) -> Constraint | None:
    """The strictest requirement on the path from the given one to none that holds.

    Parameters
    ----------
    constraint : Constraint
    holds : function
        Whether a requirement holds; if it does, so do all that are less strict.
    resolved : Constraint, default=None
        The same requirement with the rates of its references, which `holds` is asked about.

    Returns
    -------
    Constraint or None
        None if nothing holds.

    Examples
    --------
    >>> from evenhand import DemographicParity, RateBound
    >>> attainable(DemographicParity(difference=0.02), lambda one: one.difference >= 0.0465)
    DemographicParity(difference=0.047)
    >>> both = DemographicParity(ratio=0.9) & RateBound("selection rate", at_most=0.3)
    >>> attainable(both, lambda one: all(notion.ratio < 0.62 for notion in one.notions))
    DemographicParity(ratio=0.619) & RateBound('selection rate', at_most=0.3)
    >>> attainable(both, lambda one: not one.notions and one.at_most > 0.4)
    RateBound('selection rate', at_most=0.401)
    """
    asked = constraint if resolved is None else resolved
    notions, bounds = bool(constraint.notions), bool(constraint.bounds)
    stages = [kind for kind, some in (("notions", notions), ("bounds", bounds)) if some]
    low, high = 0, len(stages) * _STEPS
    while high - low > 1:
        middle = (low + high) // 2
        relaxed = _relaxed(asked, stages, middle)
        low, high = (low, middle) if relaxed is not None and holds(relaxed) else (middle, high)
    return _relaxed(constraint, stages, high)


def more_rows(constraint: Constraint, found: Constraint | None) -> float:
    """By how much rows have to grow until a requirement is attainable, where a weaker one is now.

    Distances from parity, or from the strictest bounds, shrink with the root of the number of rows, because
    they are errors of the fit and of the test.

    Parameters
    ----------
    constraint : Constraint
    found : Constraint or None
        From :func:`attainable`.

    Returns
    -------
    float
        Infinite if `found` lacks a part of the requirement.

    Examples
    --------
    >>> from evenhand import DemographicParity
    >>> round(more_rows(DemographicParity(difference=0.02), DemographicParity(difference=0.06)), 6)
    9.0
    """
    weaker = () if found is None else (*found.notions, *found.bounds)
    asked = (*constraint.notions, *constraint.bounds)
    if len(weaker) < len(asked):
        return math.inf
    grown: list[float] = [
        (now - best) / (then - best)
        for part, other in zip(asked, weaker, strict=True)
        for then, now, best in zip(
            *(one.numbers.values() for one in (part, other, part.tightened(1.0))), strict=True
        )
    ]
    return max(grown) ** 2


def _relaxed(constraint: Constraint, stages: Sequence[str], step: int) -> Constraint | None:
    """The requirement after so many steps of the path; None if nothing is left of it."""
    parts: list[Requirement] = []
    for stage, kind in enumerate(stages):
        share = min(max(step / _STEPS - stage, 0.0), 1.0)
        for part in getattr(constraint, kind):
            parts += _rounded(part.relaxed(share)) if share else [part]
    return reduce(and_, parts) if parts else None


def _rounded(part: Requirement) -> list[Requirement]:
    """A requirement rounded to the less strict side; none if it requires nothing."""
    for name, value in part.numbers.items():
        up = LOOSEST[name] == 1
        rounded = math.ceil(value * _UNIT - _ROUNDING) if up else math.floor(value * _UNIT + _ROUNDING)
        setattr(part, name, rounded / _UNIT)
    return [] if all(value == LOOSEST[name] for name, value in part.numbers.items()) else [part]
