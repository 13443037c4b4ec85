"""The tables of New York City's Local Law 144: selection or scoring rates of categories, and impact ratios.

The rule is 6 RCNY 5-300 and 5-301. A table for each sensitive feature, and one for their intersections, has
the number of applicants, the number selected, the selection rate, and the impact ratio: the rate divided by
that of the category with the highest. For scores, the scoring rate replaces the selection rate: it is the
share of people with a score above the median of all. People whose category is unknown are counted and left
out, and so may be categories of less than 2 % of the data, whose counts and rates are still shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from evenhand.auditing.distances import smallest_of_pairs
from evenhand.auditing.figure_tables import Block, FigureTables, lines_of, values_of
from evenhand.auditing.group_rates import refuse_uncounted
from evenhand.auditing.tally import Tally
from evenhand.data.checks import check_number
from evenhand.data.tables import Library
from evenhand.display.text import show
from evenhand.exceptions import InputError
from evenhand.groups.groups import GroupName
from evenhand.groups.names import Key
from evenhand.guarantee.intervals import clopper_pearson, critical_value, wilson

if TYPE_CHECKING:
    from evenhand.auditing.result import Audit

SMALLEST_SHARE = 0.02
"""Categories below this share of the data may be left out: 6 RCNY 5-301 (d)."""


INDEPENDENCE = (
    "Local Law 144 asks for a bias audit by an independent auditor. These tables contain the calculations of "
    "such an audit and do not replace it."
)
ADDITION = "intervals are an addition that the law does not ask for"
_JUSTIFICATION = "rates of so few people are too uncertain to compare others with"


@dataclass(frozen=True)
class Category:
    """One line of a table.

    Attributes
    ----------
    table : str
        The features of the table.
    group : GroupName
        The category: one value of each of them.
    applicants, selected : int
        Numbers of people: all, and those who were selected or, of scores, have one above the median.
    rate : float
        Selection rate or scoring rate.
    share : float
        Of the category among the people whose category is known.
    left_out : bool
        Whether it is left out of the ratios, because its share is below `min_share`.
    ratio : float
        Impact ratio; NaN if the category is left out, or if nobody was selected.
    rate_low, rate_high, ratio_low, ratio_high : float
        Intervals, which the law does not ask for: Wilson's for each rate; for ratios, limits that hold
        simultaneously for all pairs of categories.
    """

    table: str
    group: GroupName
    applicants: int
    selected: int
    rate: float
    share: float
    left_out: bool
    ratio: float
    rate_low: float
    rate_high: float
    ratio_low: float
    ratio_high: float


@dataclass(frozen=True, eq=False)
class ImpactRatios(FigureTables):
    """Bias-audit tables of New York City's Local Law 144; made by ``Audit.impact_ratios``.

    ``print`` shows them, ``to_csv`` and ``to_frame`` have them as one table, with a line for people whose
    category is unknown, and :func:`evenhand.write_report` makes them a section of a page.

    Attributes
    ----------
    categories : tuple of Category
        The lines of a table for each feature and, of several, one for their intersections.
    unknown : dict
        For each table, the number of people whose category is unknown, who are in no line.
    people : int
        Number of all people in the data.
    confidence : float
        Of the intervals.
    min_share : float
        Smaller categories are left out of the ratios.
    median : float or None
        Of the scores, if rates are scoring rates.
    date, source : str or None
        Of the data, as given.
    library : {"pandas", "polars", "pyarrow"} or None
        Of the tables that were audited.
    """

    _tables: ClassVar = {"groups": ("categories", Category)}
    _headline = "Impact ratios by the rules of New York City's Local Law 144 (6 RCNY 5-301)"
    categories: tuple[Category, ...]
    unknown: dict[str, int]
    people: int
    confidence: float
    min_share: float
    median: float | None
    date: str | None
    source: str | None
    library: Library | None = None

    @property
    def rate_name(self) -> str:
        """The name of the rates."""
        return "selection rate" if self.median is None else "scoring rate"

    def notes(self) -> list[str]:
        """Sentences that belong to the tables: data, definition, what is left out and why, independence."""
        found = [
            f"Date of the data: {self.date or 'not given'}. Source: {self.source or 'not given'}.",
            f"{self.people:,} people. The impact ratio is the {self.rate_name} of a category divided by the "
            "highest rate among the categories that are not left out.",
        ]
        if self.median is not None:
            found.append(
                f"The scoring rate is the share of people with a score above {self.median:g}, the median of "
                "all; a score that equals it is not above."
            )
        found += [
            f"{title}: {unknown:,} of {self.people:,} people have an unknown category and are not in the "
            "table."
            for title, unknown in self.unknown.items()
        ]
        for title in self.unknown:
            small = [f"{one.group} ({100 * one.share:.2g} %)" for one in self._of(title) if one.left_out]
            if small:
                found.append(
                    f"{title}: left out of the ratios, with less than {100 * self.min_share:g} % of "
                    f"the data: {'; '.join(small)}. Justification: {_JUSTIFICATION}."
                )
        return [*found, INDEPENDENCE, f"* {100 * self.confidence:g}% {ADDITION}."]

    def __repr__(self) -> str:
        return f"<ImpactRatios of {self.people:,} people by {', '.join(self.unknown)}>"

    def records(self, what: str = "groups") -> list[dict[str, Any]]:
        """The lines of all tables, each with a line for the people whose category is unknown."""
        lines = super().records(what)
        for title, unknown in self.unknown.items():
            line = {"table": title, "group": "(unknown)", "applicants": unknown}
            lines.append(dict.fromkeys(self._columns(what)) | line)
        return sorted(lines, key=lambda line: [*self.unknown].index(line["table"]))

    def _of(self, title: str) -> list[Category]:
        """The lines of a table."""
        return [one for one in self.categories if one.table == title]

    def blocks(self) -> Iterator[Block]:
        """The tables as text; a star marks what the law does not ask for."""
        columns = {
            "applicants": ("applicants", ","),
            "selected" if self.median is None else "above median": ("selected", ","),
            self.rate_name: ("rate", ".3f"),
            "impact ratio": ("ratio", ".3f"),
            "interval of rate*": ("rate_low rate_high", "limits"),
            "of ratio*": ("ratio_low ratio_high", "limits"),
        }
        for title in self.unknown:
            own = self._of(title)
            head, *lines = lines_of(title, columns, [(values_of(one.group), one) for one in own])
            for one, line in zip(own, lines, strict=True):
                if one.left_out:
                    line[head.index("impact ratio")] = "left out"
            yield Block([head, *lines])


def impact_ratios(audit: Audit, *, date: object, source: object, min_share: float) -> ImpactRatios:
    """The tables of an audit; see :meth:`~evenhand.auditing.result.Audit.impact_ratios`."""
    terms, counted = audit.terms, audit.counted
    refuse_uncounted(terms, "impact ratios")
    if terms.pooled:
        raise InputError("impact ratios: min_size pools small categories; audit without it.")
    check_number("min_share", min_share, 0, SMALLEST_SHARE)
    if counted is None:
        raise InputError("impact ratios need the group of every person, and a Proxy has probabilities.")
    unknown, categories = {}, list[Category]()
    for features in dict.fromkeys([*((feature,) for feature in terms.features), terms.features]):
        title = " x ".join(map(show, features))
        unknown[title], lines = _table(counted, features, terms.confidence, float(min_share))
        categories += (Category(title, *line) for line in lines)
    return ImpactRatios(
        tuple(categories),
        unknown,
        people=round(counted.rows.sum()) + counted.groups.excluded_rows,
        confidence=terms.confidence,
        min_share=float(min_share),
        median=terms.threshold if terms.above_median else None,
        date=None if date is None else str(date),
        source=None if source is None else str(source),
        library=audit.library,
    )


def _table(
    counted: Tally, features: tuple[str, ...], confidence: float, min_share: float
) -> tuple[int, Iterator[tuple[Any, ...]]]:
    """People whose category is unknown, and the lines. Who has sex but not race is in the table of sex."""
    groups = counted.groups
    places = [groups.features.index(feature) for feature in features]
    numbers = np.concatenate([counted.sums, counted.excluded], axis=2)[0, :2].sum(axis=2).T
    people: dict[Key, NDArray[np.float64]] = {}
    unknown = 0
    for key, own in zip((*groups.keys, *groups.excluded), numbers, strict=True):
        category = tuple(key[place] for place in places)
        if None in category:
            unknown += round(own[0])
        else:
            people[category] = people.get(category, 0.0) + own
    order = [[*groups.levels(name), *{key[k] for key in people}] for k, name in enumerate(features)]
    keys = sorted(people, key=lambda key: [own.index(value) for own, value in zip(order, key, strict=True)])
    names = [GroupName(features, key) for key in keys]
    rows, selected = np.array([people[key] for key in keys]).round().T
    share, rate = rows / rows.sum(), selected / rows
    kept = share >= min_share
    ratio, ratio_low, ratio_high = (np.full(len(rows), np.nan) for _ in range(3))
    if kept.any() and rate[kept].max() > 0:
        ratio[kept] = rate[kept] / rate[kept].max()
        # Limits of each rate over the highest, as of the four-fifths rule.
        z = critical_value(confidence, math.comb(int(kept.sum()), 2))
        rates = clopper_pearson(rate[kept], rows[kept], z)
        highest = smallest_of_pairs(list(compress(names, kept)), rates, rates, "ratio")
        ratio_low[kept], ratio_high[kept] = highest.low, highest.high
    rates = wilson(rate, rows, critical_value(confidence))
    limits = (rates.low, rates.high, ratio_low, ratio_high)
    columns = (rows.astype(int), selected.astype(int), rate, share, ~kept, ratio, *limits)
    return unknown, zip(names, *(column.tolist() for column in columns), strict=True)
