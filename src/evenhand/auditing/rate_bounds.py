"""Rates and their bounds, with an interval for the group that is nearest to missing its bound, and a verdict.

Each group's rate has an exact interval among the rows that the rate looks at: among the selected for
precision. The intervals of the groups hold simultaneously, so the lowest rate is between the smallest lower
and the smallest upper limit, and the highest between the largest ones.
"""

from __future__ import annotations

import math

import numpy as np

from evenhand.auditing.comparison import Comparison, Side, judged, listed
from evenhand.auditing.tally import Tally, rate_change
from evenhand.groups.groups import Members
from evenhand.guarantee.intervals import Estimate, clopper_pearson, critical_value
from evenhand.requirements.bounds import Bound, NoWorse, RateBound, bounded_groups
from evenhand.requirements.statistic import SelectedShare


def compare_with_bound(bound: RateBound | NoWorse, counted: Tally, confidence: float) -> list[Comparison]:
    """Compare a rate with its lower and its upper bound.

    Rates of a reference are taken as given numbers. If they are those of earlier decisions about the same
    rows, the interval is that of the change, for paired data.

    Parameters
    ----------
    bound : RateBound or NoWorse
    counted : Tally
    confidence : float
        Of the intervals of all groups together.

    Returns
    -------
    list of Comparison
        One for each side that is bounded.
    """
    family = bounded_groups(counted.groups, bound.groups)
    share = counted.share(bound.rate_statistic, family.matrix)
    z = critical_value(confidence, int((~np.isnan(share.value)).sum()))
    rates = share.estimate(z, clopper_pearson)
    if isinstance(bound, RateBound):
        bound.measure(counted.rates)  # an error if it needs labels, and there are none
        ends = share.start, share.start + share.width
        asked: list[tuple[Side, float | None]] = [("at least", bound.at_least), ("at most", bound.at_most)]
        return [
            _compared(bound, family, side, float(limit), rates, ends=ends)
            for side, limit in asked
            if limit is not None
        ]
    if counted.earlier is not None and isinstance(bound.than, str):
        bound = bound.against(counted.earlier)
        change = rate_change(counted, bound.rate_statistic, family.matrix, z, clopper_pearson)
        # The earlier rates are taken as given, so the interval is that of the change.
        rates = Estimate(rates.value, rates.value - change.below, rates.value + change.above)
    [measured] = bound.measure(counted.rates)
    side: Side = "at least" if bound.more_is_better else "at most"
    limits = measured.at_least if bound.more_is_better else measured.at_most
    above, ends = rates.moved(-limits, 1.0), (-share.width, share.width)
    return [_compared(bound, family, side, 0.0, above, ends=ends)]


def _compared(
    bound: Bound, family: Members, side: Side, limit: float, rates: Estimate, *, ends: tuple[float, float]
) -> Comparison:
    """The rate nearest to its limit; `ends` are the smallest and the largest that is possible."""
    known = ~np.isnan(rates.value)
    undefined = tuple(name for name, there in zip(family.names, known, strict=True) if not there)
    value, (low, high), place = math.nan, ends, None
    if known.any():
        most, where = (np.nanmin, np.nanargmin) if side == "at least" else (np.nanmax, np.nanargmax)
        value, low, high = (float(most(part)) for part in (rates.value, rates.low, rates.high))
        place = int(where(rates.value))
    holds_if_undefined = isinstance(bound.rate_statistic, SelectedShare)  # nobody is selected
    if undefined and not holds_if_undefined:
        low, high = (ends[0], high) if side == "at least" else (low, ends[1])
    verdict = judged(side, limit, low, high)
    if place is None and holds_if_undefined:
        low, high, verdict = math.nan, math.nan, "satisfied"
    return Comparison(
        notion=bound.label,
        measure=side,
        groups=bound.groups,
        value=value,
        low=low,
        high=high,
        statistic=bound.rate_statistic.name,
        group=None if place is None else family.names[place],
        reference=None,
        tolerance=limit,
        verdict=verdict,
        undefined=undefined,
        distances=tuple(listed(bound.rate_statistic.name, family.names, rates)),
        against="bound" if isinstance(bound, RateBound) else "reference",
    )
