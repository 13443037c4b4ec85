"""Tests of a requirement on counts of decisions, one for each group and statistic.

A group is compared with the population, with every other group, or with given numbers. Hits in a group are a
binomial count. Tests of a bound are exact and those of two groups conservative at any number of rows; those
against the population compute binomial probabilities at eleven points (``noninferiority``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from evenhand.groups.groups import Members
from evenhand.guarantee.noninferiority import Count, bound_p_value, p_value, pair_p_value
from evenhand.requirements.bounds import Bound, bounded_groups
from evenhand.requirements.constraints import ConstraintName
from evenhand.requirements.notions import Notion
from evenhand.requirements.rates import CellRates
from evenhand.requirements.requirement import Constraint
from evenhand.requirements.statistic import SelectedShare, Statistic


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
                for stratum, cells, family in part.comparisons(rates.groups):
                    inside, all_inside = (counts.among(cells) for counts in (rates, everyone))
                    for one in _of_groups(part, statistic, inside, all_inside, family, level=level):
                        found.append(replace(one, name=replace(one.name, stratum=stratum)))
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
    """One test for each group: against the population, the other groups, or a named group."""
    if notion.against != "population":
        yield from _against_groups(notion, statistic, rates, family, level)
        return
    counts = [
        _counts(statistic, one, who) for one in (rates, all_rows) for who in (family.matrix, ~family.matrix)
    ]
    for name, own, others, (_, size), (_, rest) in zip(family.names, *counts, strict=True):
        constraint = ConstraintName(notion.label, statistic.name, name)
        by, sizes = notion.compares_by, (size, rest)
        p = p_value(own, others, tolerance=notion.tolerance, measure=by, level=level, sizes=sizes)
        yield _compared(constraint, own, others, p=p, level=level)


def _against_groups(
    notion: Notion, statistic: Statistic, rates: CellRates, family: Members, level: float
) -> Iterator[GroupTest]:
    """One test for each group: that of the pair with the largest p-value, or with the named group.

    Every pair must pass, so that nothing needs a correction. Pairs with a group without rows are left to
    that group, which cannot pass.
    """
    counts, places = _counts(statistic, rates, family.matrix), notion.places(family)
    tolerance, by, above = notion.tolerance, notion.compares_by, notion.one_sided

    @cache
    def pair(k: int, j: int) -> float:
        two = counts[k], counts[j]
        return pair_p_value(*two, tolerance=tolerance, measure=by, level=level, one_sided=above)

    for k, (name, own) in enumerate(zip(family.names, counts, strict=True)):
        constraint = ConstraintName(notion.label, statistic.name, name)
        alike = [j for j, other in enumerate(family.names) if other.features == name.features]
        peers = [j for j in (places[k : k + 1] or alike) if j != k]
        if not own[1]:
            yield _compared(constraint, own, (0, 0), p=1.0, level=level)
            continue
        found = [(pair(k, j) if places else pair(min(j, k), max(j, k)), j) for j in peers if counts[j][1]]
        # The only group is like all others.
        p, worst = max(found, key=lambda one: one[0], default=(0.0, None))
        others = (0, 0) if worst is None else counts[worst]
        against = "no other group" if worst is None else str(family.names[worst])
        yield _compared(constraint, own, others, p=p, level=level, against=against)


def _compared(
    name: ConstraintName, own: Count, others: Count, *, p: float, level: float, against: str = "all others"
) -> GroupTest:
    return GroupTest(name, own[1], others[1], _share(own), _share(others), p, p <= level, against)


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
        against = " and ".join(f"{word} {end:.4g}" for word, end in numbers if end is not None)
        constraint = ConstraintName(bound.label, bound.label, name)
        yield _compared(constraint, own, (0, 0), p=p, level=level, against=against)


def _counts(
    statistic: Statistic | SelectedShare, rates: CellRates, members: NDArray[np.bool_]
) -> list[Count]:
    """Hits and rows of each group; of a share of the selected, selected rows."""
    both = zip(*statistic.counts(rates, members), strict=True)
    return [(round(float(hits)), round(float(rows))) for hits, rows in both]


def _share(count: Count) -> float:
    return count[0] / count[1] if count[1] else math.nan
