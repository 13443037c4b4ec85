"""Tests of a requirement on counts of decisions, one for each group and statistic.

A group is compared with the population, with every other group, or with given numbers. Hits in a group are a
binomial count. Tests of a bound are exact and those of two groups conservative at any number of rows; those
against the population compute binomial probabilities at eleven points (``noninferiority``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from evenhand.groups.groups import Members
from evenhand.groups.strata import find_strata
from evenhand.guarantee.noninferiority import (
    ROUNDING,
    Count,
    bound_p_value,
    p_value,
    pair_p_value,
)
from evenhand.requirements.bounds import Bound, bounded_groups
from evenhand.requirements.constraints import ConstraintName
from evenhand.requirements.notions import Notion
from evenhand.requirements.rates import CellRates
from evenhand.requirements.requirement import Constraint
from evenhand.requirements.statistic import SelectedShare, Statistic

__all__ = ["GroupTest", "run_tests"]

_POWER = 0.8
_MOST_SEARCHED = 5_000


@dataclass(frozen=True)
class GroupTest:
    """The test of one group on the held-out rows.

    Attributes
    ----------
    name : ConstraintName
        Notion, statistic and group.
    n, others : int
        Rows of the group that the statistic looks at (of a precision, those that are selected), and of those
        that it is compared with; 0 where the bound is a number.
    value, rest : float
        The statistic in the group and among those; NaN where the bound is a number.
    p_value : float
        Largest probability of counts at least as good as these if the requirement is violated.
    passed : bool
    needed : int or None
        Approximate number of held-out rows of the group at which the test passes four times out of five, if
        the true statistics are as observed; a lower bound if they violate the requirement. Fewer where ranks
        of them are enough (``ranks``). None if the test passed, the group has no rows, or no number would do.
    against : str, default="all others"
        What the group is compared with: all others, the group that is hardest to tell apart, or numbers.
    """

    name: ConstraintName
    n: int
    others: int
    value: float
    rest: float
    p_value: float
    passed: bool
    needed: int | None
    against: str = "all others"


def run_tests(
    constraint: Constraint, rates: CellRates, level: float, *, all_rows: CellRates | None = None
) -> tuple[GroupTest, ...]:
    """Tests of a requirement, one for each group and statistic.

    Parameters
    ----------
    constraint : Constraint
        With the rates of its references (:func:`evenhand.requirements.bounds.with_reference`).
    rates : CellRates
        Counts of deterministic decisions, without weights.
    level : float
        Largest accepted probability of a wrong pass.
    all_rows : CellRates, default=None
        Counts of all independent rows, those that the classifier was fitted to included. Its masses alone are
        used, for each group's part of the population, which no classifier changes. By default `rates`.

    Returns
    -------
    tuple of GroupTest
        The requirement is passed if every `p_value` is at most `level`.
    """
    found: list[GroupTest] = []
    everyone = rates if all_rows is None else all_rows
    for part in constraint.requirements:
        if isinstance(part, Bound):
            found += _against_numbers(part, rates, level)
        elif isinstance(part, Notion):
            for statistic in part.statistics:
                if not part.controls:
                    found += _of_groups(
                        part, statistic, rates, everyone, rates.groups.members(part.groups), level=level
                    )
                    continue
                for stratum in find_strata(rates.groups, part.controls, part.groups):
                    inside, all_inside = (counts.among(stratum.cells) for counts in (rates, everyone))
                    for one in _of_groups(part, statistic, inside, all_inside, stratum.family, level=level):
                        found.append(replace(one, name=replace(one.name, stratum=stratum.name)))
    return tuple(found)


def _of_groups(
    notion: Notion,
    statistic: Statistic,
    rates: CellRates,
    all_rows: CellRates,
    family: Members,
    *,
    level: float,
) -> Iterator[GroupTest]:
    """One test for each group: against the population, or against the other groups."""
    if notion.against == "groups":
        yield from _against_groups(notion, statistic, rates, family, level)
        return
    counts = [
        _counts(statistic, one, who) for one in (rates, all_rows) for who in (family.matrix, ~family.matrix)
    ]
    for name, own, others, (_, size), (_, rest) in zip(family.names, *counts, strict=True):
        # Of no rows, nothing is known.
        p = _p_value(own, others, notion, level, (size, rest)) if own[1] else 1.0
        constraint = ConstraintName(notion.label, statistic.name, name)
        yield _compared(notion, constraint, own, others, p=p, level=level)


def _against_groups(
    notion: Notion, statistic: Statistic, rates: CellRates, family: Members, level: float
) -> Iterator[GroupTest]:
    """One test for each group: that of the pair with the largest p-value.

    Every pair must pass, so that nothing needs a correction. Pairs with a group without rows are left to
    that group, which cannot pass.
    """
    counts = _counts(statistic, rates, family.matrix)
    known: dict[tuple[int, int], float] = {}
    for k, (name, own) in enumerate(zip(family.names, counts, strict=True)):
        constraint = ConstraintName(notion.label, statistic.name, name)
        peers = [j for j, other in enumerate(family.names) if other.features == name.features and j != k]
        if not own[1]:
            yield _compared(notion, constraint, own, (0, 0), p=1.0, level=level)
            continue
        worst, p = None, 0.0  # the only group is like all others
        for j in peers:
            pair = min(j, k), max(j, k)
            if counts[j][1]:
                known[pair] = known[pair] if pair in known else _p_value(own, counts[j], notion, level)
                if worst is None or known[pair] > p:
                    worst, p = j, known[pair]
        others = (0, 0) if worst is None else counts[worst]
        against = "no other group" if worst is None else str(family.names[worst])
        yield _compared(notion, constraint, own, others, p=p, level=level, against=against)


def _compared(
    notion: Notion,
    name: ConstraintName,
    own: Count,
    others: Count,
    *,
    p: float,
    level: float,
    against: str = "all others",
) -> GroupTest:
    passed = p <= level
    return GroupTest(
        name,
        own[1],
        others[1],
        _share(own),
        _share(others),
        p,
        passed,
        None if passed or not own[1] else _needed(own, others, notion, level),
        against,
    )


def _against_numbers(bound: Bound, rates: CellRates, level: float) -> Iterator[GroupTest]:
    """Tests of at least and at most; a group has to pass both."""
    family = bounded_groups(rates.groups, bound.groups)
    counts = _counts(bound.rate_statistic, rates, family.matrix)
    for name, own, *ends in zip(family.names, counts, *bound.limits(rates.groups), strict=True):
        least, most = (None if math.isnan(end) else float(end) for end in ends)
        if least is None and most is None:
            continue  # the reference has no such rate
        p = bound_p_value(own, at_least=least, at_most=most)
        numbers = (("at least", least), ("at most", most))
        yield GroupTest(
            ConstraintName(bound.label, bound.label, name),
            own[1],
            0,
            _share(own),
            math.nan,
            p,
            p <= level,
            None if p <= level or not own[1] else _needed_for(own, least, most, level),
            " and ".join(f"{word} {end:.4g}" for word, end in numbers if end is not None),
        )


def _counts(
    statistic: Statistic | SelectedShare, rates: CellRates, members: NDArray[np.bool_]
) -> list[Count]:
    """Hits and rows of each group; of a share of the selected, selected rows."""
    if isinstance(statistic, SelectedShare):
        hits, rows = (np.array(statistic.hits) * rates.selected).sum(axis=1), rates.selected.sum(axis=1)
    else:
        mask, intercept, slope = map(np.array, (statistic.mask, statistic.intercept, statistic.slope))
        hits = (mask * (intercept * rates.mass + slope * rates.selected)).sum(axis=1)
        rows = (mask * rates.mass).sum(axis=1)
    return [(round(float(who @ hits)), round(float(who @ rows))) for who in members]


def _share(count: Count) -> float:
    return count[0] / count[1] if count[1] else math.nan


def _p_value(
    own: Count, others: Count, notion: Notion, level: float, sizes: tuple[int, int] | None = None
) -> float:
    tolerance, measure = notion.tolerance, notion.compares_by
    if notion.against == "groups":
        return pair_p_value(own, others, tolerance=tolerance, measure=measure, level=level)
    return p_value(own, others, tolerance=tolerance, measure=measure, level=level, sizes=sizes)


def _needed(own: Count, others: Count, notion: Notion, level: float) -> int | None:
    """Rows of a group at which the test would pass four times out of five, by the normal approximation.

    The test has to pass on both sides of the tolerance; all other groups grow in proportion.
    """
    pair = notion.against == "groups"
    (q, rest), part = (k / n for k, n in (own, others)), 0.0 if pair else own[1] / (own[1] + others[1])
    overall, wide = part * q + (1 - part) * rest, notion.tolerance
    if notion.compares_by == "difference":
        margins, full = [wide - (1 - part) * (rest - q), wide - (1 - part) * (q - rest)], wide
    elif pair:
        margins, full = [q - wide * rest, rest - wide * q], (1 - wide) * max(q, rest)
    else:
        margins = [q - wide * overall, (1 - q) - wide * (1 - overall)]
        full = (1 - wide) * min(overall, 1 - overall)
    if full <= ROUNDING:
        return None  # a ratio of two rates that are 0, or of two that are 1
    margin = min(margins) if min(margins) > 0 else full  # then it is a lower bound
    both = max(margins) < 2 * margin
    quantiles = ndtri(1 - level) + ndtri((1 + _POWER) / 2 if both else _POWER)
    smooth = [(k + 1) / (n + 2) for k, n in (own, others)]
    spread = [share * (1 - share) for share in smooth]
    variance = (1 - part) ** 2 * (spread[0] + spread[1] * own[1] / others[1])
    rough = max(own[1] + 1, math.ceil(variance * (quantiles / margin) ** 2))
    if min(margins) <= 0:
        return rough

    # The approximation fails where nothing varies because all or none are selected.
    def passes(n: int) -> bool:
        return _p_value(_grown(own, own, n), _grown(others, own, n), notion, level) <= level

    return max(rough, _smallest(own[1], passes))


def _needed_for(own: Count, least: float | None, most: float | None, level: float) -> int | None:
    """The same for bounds; the margin is the distance from them."""
    (k, n), found = own, own[1] + 1
    inside = True
    # At least a share of hits is at most a share of misses.
    for hits, limit in ((n - k, None if least is None else 1 - least), (k, most)):
        if limit is None:
            continue
        if limit <= 0:
            return None  # an exception is always possible
        margin = limit - hits / n
        if margin <= 0:  # a lower bound: as many as pass if all of them are as they should be
            inside = False
            found = max(found, math.ceil(math.log(level) / math.log1p(-limit)) if limit < 1 else 1)
            continue
        shares = limit, (hits + 1) / (n + 2)
        z = ndtri(1 - level), ndtri(_POWER)
        spread = sum(size * math.sqrt(share * (1 - share)) for size, share in zip(z, shares, strict=True))
        found = max(found, math.ceil((spread / margin) ** 2))

    def passes(size: int) -> bool:
        return bound_p_value(_grown(own, own, size), at_least=least, at_most=most) <= level

    return max(found, _smallest(n, passes)) if inside else found


def _grown(count: Count, own: Count, n: int) -> Count:
    """A count as it would be if the group had n rows."""
    return round(count[0] * n / own[1]), round(count[1] * n / own[1])


def _smallest(n: int, passes: Callable[[int], bool]) -> int:
    """Smallest number of rows at which a test passes, from n on.

    The normal approximation is good beyond a few thousand rows, where the search ends.
    """
    low = high = n
    while not passes(high):
        low, high = high, 2 * high
        if high > _MOST_SEARCHED:
            return low
    while high - low > max(1, high // 50):
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high
