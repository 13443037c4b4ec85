"""Rates and their bounds, with an interval for the group that is nearest to missing its bound, and a verdict.

Each group's rate has an exact interval among the rows that the rate looks at: among the selected for
precision. The intervals of the groups hold simultaneously, so the lowest rate is between the smallest lower
and the smallest upper limit, and the highest between the largest ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.auditing.change import rate_changes
from evenhand.auditing.comparison import Comparison, Side, judged, listed
from evenhand.auditing.tally import Tally
from evenhand.groups.groups import Members
from evenhand.guarantee.intervals import Estimate, clopper_pearson, critical_value
from evenhand.requirements.bounds import Bound, NoWorse, RateBound, bounded_groups
from evenhand.requirements.statistic import ACCURACY, ERROR, SelectedShare

__all__ = ["compare_with_bound"]


def compare_with_bound(bound: Bound, counted: Tally, confidence: float) -> list[Comparison]:
    """Compare a rate with what it should be at least, and with what it should be at most.

    Rates of a reference are taken as given numbers. If they are those of earlier decisions about the same
    rows, the interval is that of the change, for paired data.

    Parameters
    ----------
    bound : Bound
    counted : Tally
    confidence : float
        Of the intervals of all groups together.

    Returns
    -------
    list of Comparison
        One for each side that is bounded.
    """
    family = bounded_groups(counted.rates.groups, bound.groups)
    share = counted.share(bound.rate_statistic, family.matrix)
    z = critical_value(confidence, int((~np.isnan(share.value)).sum()))
    earlier = _reference(bound, counted)
    [measured] = (bound if earlier is None else earlier).measure(counted.rates)
    rates = share.estimate(z, clopper_pearson)
    sides: tuple[Side, ...] = ("at least", "at most")
    found = []
    for side, limits in zip(sides, (measured.at_least, measured.at_most), strict=True):
        if not _is_bounded(bound, side, limits):
            continue
        if isinstance(bound, RateBound):
            one = _Bounded(side, float(limits[0]), rates, share.start, share.start + share.width)
        else:
            over = rates if earlier is None else _as_changed(rates, _change(bound, counted, family, z))
            one = _Bounded(side, 0.0, over.moved(-limits, 1.0), -share.width, share.width)
        found.append(_compared(bound, family, one))
    return found


def _reference(bound: Bound, counted: Tally) -> NoWorse | None:
    """The bound with earlier decisions as its reference, if it has none of its own."""
    if isinstance(bound, NoWorse) and isinstance(bound.than, str) and counted.earlier is not None:
        return bound.against(counted.earlier)
    return None


@dataclass(frozen=True, eq=False)
class _Bounded:
    """One side of a bound: the rates, what they should be, and the values that they can have."""

    side: Side
    bound: float
    rates: Estimate
    start: float
    end: float


def _is_bounded(bound: Bound, side: Side, limits: NDArray[np.float64]) -> bool:
    if isinstance(bound, NoWorse):  # also where the rates of the reference are undefined
        return (side == "at least") == bound.more_is_better
    return not np.isnan(limits).all()


def _change(bound: Bound, counted: Tally, family: Members, z: float) -> Estimate:
    """Change of the rate of each group since the earlier decisions."""
    found = rate_changes(counted, family.matrix, z, clopper_pearson)
    if bound.rate_statistic is not ACCURACY:
        return found[bound.rate_statistic.name]
    error = found[ERROR.name]
    return Estimate(-error.value, -error.high, -error.low)


def _as_changed(rates: Estimate, change: Estimate) -> Estimate:
    """Rates whose earlier values are taken as given: their intervals are those of the changes."""
    return Estimate(rates.value, rates.value - change.below, rates.value + change.above)


def _compared(bound: Bound, family: Members, found: _Bounded) -> Comparison:
    rates, known = found.rates, ~np.isnan(found.rates.value)
    undefined = tuple(name for name, there in zip(family.names, known, strict=True) if not there)
    value, low, high, place = math.nan, found.start, found.end, None
    if known.any() and found.side == "at least":
        place = int(np.nanargmin(rates.value))
        value, low, high = (float(np.nanmin(part)) for part in (rates.value, rates.low, rates.high))
    elif known.any():
        place = int(np.nanargmax(rates.value))
        value, low, high = (float(np.nanmax(part)) for part in (rates.value, rates.low, rates.high))
    holds_if_undefined = isinstance(bound.rate_statistic, SelectedShare)  # nobody is selected
    if undefined and not holds_if_undefined:
        low, high = (found.start, high) if found.side == "at least" else (low, found.end)
    verdict = judged(found.side, found.bound, low, high)
    if place is None and holds_if_undefined:
        low, high, verdict = math.nan, math.nan, "satisfied"
    return Comparison(
        notion=bound.label,
        measure=found.side,
        groups=bound.groups,
        value=value,
        low=low,
        high=high,
        statistic=bound.rate_statistic.name,
        group=None if place is None else family.names[place],
        reference=None,
        tolerance=found.bound,
        verdict=verdict,
        undefined=undefined,
        distances=tuple(listed(bound.rate_statistic.name, family.names, rates)),
        against="bound" if isinstance(bound, RateBound) else "reference",
    )
