"""The tables of New York City's Local Law 144: selection or scoring rates of categories, and impact ratios.

The rule is 6 RCNY 5-300 and 5-301. A table for each sensitive feature, and one for their intersections, has
the number of applicants, the number selected, the selection rate, and the impact ratio: the rate divided by
that of the category with the highest. For scores, the scoring rate replaces the selection rate: it is the
share of people with a score above the median of all. People whose category is unknown are counted and left
out, and so may be categories of less than 2 % of the data, whose counts and rates are still shown.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from evenhand.auditing.category_tables import Category, CategoryTable, ImpactRatios
from evenhand.auditing.distances import smallest_of_pairs
from evenhand.auditing.group_rates import Terms
from evenhand.auditing.tally import Tally
from evenhand.data.tables import Library
from evenhand.exceptions import InputError
from evenhand.groups.groups import GroupName, Groups
from evenhand.groups.names import Key
from evenhand.guarantee.intervals import clopper_pearson, critical_value, quotient, wilson

__all__ = ["SMALLEST_SHARE", "CategoryCounts", "count_categories", "impact_ratios"]

SMALLEST_SHARE = 0.02
"""Categories below this share of the data may be left out: 6 RCNY 5-301 (d)."""


@dataclass(frozen=True)
class CategoryCounts:
    """Numbers of people by category, for one table.

    Attributes
    ----------
    features : tuple of str
    keys : tuple of tuples
        The values of each category.
    rows, selected : tuple of int
        People in it, and those of them who were selected.
    unknown : int
        People who are in none, because a value is missing.
    """

    features: tuple[str, ...]
    keys: tuple[Key, ...]
    rows: tuple[int, ...]
    selected: tuple[int, ...]
    unknown: int


def count_categories(counted: Tally) -> tuple[CategoryCounts, ...]:
    """Numbers of people by category: of each feature and, of several, of their intersections.

    Someone who has sex but not race counts in the table of sex.

    Parameters
    ----------
    counted : Tally

    Returns
    -------
    tuple of CategoryCounts
    """
    groups = counted.rates.groups
    keys = list(groups.keys)
    parts = [(counted.rows, counted.selected)]
    if counted.excluded is not None:
        keys += counted.excluded.keys
        parts.append((counted.excluded.rows, counted.excluded.selected))
    rows, selected = (np.concatenate([part[k].sum(axis=1) for part in parts]).tolist() for k in (0, 1))
    features = groups.features
    tables: list[tuple[int, ...]] = [(k,) for k in range(len(features))]
    if len(features) > 1:
        tables.append(tuple(range(len(features))))
    found = []
    for places in tables:
        people: dict[Key, list[float]] = {}
        unknown = 0.0
        for key, n, chosen in zip(keys, rows, selected, strict=True):
            own = tuple(key[place] for place in places)
            if None in own:
                unknown += n
                continue
            sums = people.setdefault(own, [0.0, 0.0])
            sums[0] += n
            sums[1] += chosen
        order = _in_order(groups, places, people)
        found.append(
            CategoryCounts(
                tuple(features[place] for place in places),
                tuple(order),
                tuple(round(people[key][0]) for key in order),
                tuple(round(people[key][1]) for key in order),
                round(unknown),
            )
        )
    return tuple(found)


def _in_order(groups: Groups, places: Sequence[int], people: dict[Key, list[float]]) -> list[Key]:
    """Categories in the order of the groups; values that only incomplete rows have come last."""
    levels = [groups.levels(groups.features[place]) for place in places]

    def rank(key: Key) -> tuple[int, ...]:
        return tuple(
            own.index(value) if value in own else len(own) for own, value in zip(levels, key, strict=True)
        )

    return sorted(people, key=rank)


def impact_ratios(
    counts: Sequence[CategoryCounts],
    terms: Terms,
    *,
    date: str | datetime.date | None = None,
    source: str | None = None,
    min_share: float = SMALLEST_SHARE,
    library: Library | None = None,
) -> ImpactRatios:
    """The tables, from numbers of people; see :meth:`~evenhand.auditing.result.Audit.impact_ratios`."""
    _check(terms, date, source, min_share)
    first = counts[0]
    return ImpactRatios(
        tuple(_table(one, terms.confidence, float(min_share)) for one in counts),
        sum(first.rows) + first.unknown,
        terms.confidence,
        float(min_share),
        terms.threshold if terms.above_median else None,
        None if date is None else str(date),
        source,
        library,
    )


def _check(terms: Terms, date: Any, source: Any, min_share: Any) -> None:
    """Raise an InputError about audits whose people cannot be counted, and about wrong parameters."""
    what = "impact ratios are about numbers of people"
    if terms.min_count:
        raise InputError(f"{what} in every category, but min_count hides small ones: audit without it.")
    if terms.pooled:
        raise InputError(f"{what} in every category, but min_size pools small ones: audit without it.")
    if terms.weighted:
        raise InputError(f"{what}, which have no weights: audit without sample_weight.")
    if terms.randomised:
        raise InputError(
            f"{what} who were selected, but predictions are between 0 and 1: pass decisions or, for scores, "
            "threshold='median' for scoring rates."
        )
    for name, value in (("date", date), ("source", source)):
        kinds = (str, datetime.date) if name == "date" else (str,)
        if value is not None and not isinstance(value, kinds):
            raise InputError(f"{name} should be text, but is of type {type(value).__name__}.")
    proper = isinstance(min_share, Real) and not isinstance(min_share, bool)
    if not proper or not 0 <= float(min_share) <= SMALLEST_SHARE:
        raise InputError(
            f"min_share should be from 0 to {SMALLEST_SHARE}, but is {min_share!r}: the rule lets an auditor "
            "leave out categories of less than 2 % of the data only."
        )


def _table(counts: CategoryCounts, confidence: float, min_share: float) -> CategoryTable:
    rows, selected = np.array(counts.rows, np.float64), np.array(counts.selected, np.float64)
    share, rate = rows / rows.sum(), selected / rows
    kept = share >= min_share
    names = tuple(GroupName(counts.features, key) for key in counts.keys)
    ratio, ratio_low, ratio_high = (np.full(len(rows), np.nan) for _ in range(3))
    if kept.any() and rate[kept].max() > 0:
        ratio[kept] = rate[kept] / rate[kept].max()
        # Limits of each rate over the highest, as of the four-fifths rule.
        z = critical_value(confidence, math.comb(int(kept.sum()), 2))
        rates = clopper_pearson(rate[kept], rows[kept], z)
        own = [name for name, there in zip(names, kept, strict=True) if there]
        limits = smallest_of_pairs(own, rates, rates, by=quotient, itself=1.0)
        ratio_low[kept], ratio_high[kept] = limits.low, limits.high
    rates = wilson(rate, rows, critical_value(confidence))
    columns = (rate, share, ~kept, ratio, rates.low, rates.high, ratio_low, ratio_high)
    numbers = zip(*(column.tolist() for column in columns), strict=True)
    people = zip(names, counts.rows, counts.selected, numbers, strict=True)
    categories = tuple(Category(name, n, chosen, *rest) for name, n, chosen, rest in people)
    return CategoryTable(counts.features, categories, counts.unknown)
