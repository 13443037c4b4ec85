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
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenhand.auditing.distances import smallest_of_pairs
from evenhand.auditing.export import plain
from evenhand.auditing.figure_tables import TablesWithNotes, lines_of, write_csv
from evenhand.auditing.group_rates import Terms, refuse_uncounted
from evenhand.auditing.tally import Tally
from evenhand.data.checks import check_number
from evenhand.data.tables import Library, make_table
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
_ADDED = "not required by the law"
_JUSTIFICATION = "rates of so few people are too uncertain to compare others with"
_INTERVALS = {f"{name} ({_ADDED})": name for name in ("rate_low", "rate_high", "ratio_low", "ratio_high")}
"""Columns of intervals, and the attributes that they hold."""


@dataclass(frozen=True)
class Category:
    """One line of a table.

    Attributes
    ----------
    group : GroupName
        The category: one value of each feature of the table.
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

    @property
    def name(self) -> str:
        """The values of the category."""
        return ", ".join(map(show, self.group.values))


@dataclass(frozen=True)
class CategoryTable:
    """The table of one feature, or of the intersections of all.

    Attributes
    ----------
    features : tuple of str
    categories : tuple of Category
    unknown : int
        People whose category is unknown, who are in no line.
    """

    features: tuple[str, ...]
    categories: tuple[Category, ...]
    unknown: int

    @property
    def title(self) -> str:
        """The features of the table."""
        return " x ".join(map(show, self.features))


@dataclass(frozen=True, eq=False)
class ImpactRatios(TablesWithNotes):
    """Bias-audit tables of New York City's Local Law 144; made by ``Audit.impact_ratios``.

    ``print`` shows them, ``to_csv`` and ``to_frame`` have them as one table, and
    :func:`evenhand.write_report` makes them a section of a page.

    Attributes
    ----------
    tables : tuple of CategoryTable
        One for each feature and, of several, one for their intersections.
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

    _headline = "Impact ratios by the rules of New York City's Local Law 144 (6 RCNY 5-301)"
    tables: tuple[CategoryTable, ...]
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

    @property
    def count_name(self) -> str:
        """The name of the column with the number of people who count towards the rate."""
        return "selected" if self.median is None else "above median"

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
            f"{table.title}: {table.unknown:,} of {self.people:,} people have an unknown category and are "
            "not in the table."
            for table in self.tables
        ]
        for table in self.tables:
            small = [f"{one.group} ({100 * one.share:.2g} %)" for one in table.categories if one.left_out]
            if small:
                found.append(
                    f"{table.title}: left out of the ratios, with less than {100 * self.min_share:g} % of "
                    f"the data: {'; '.join(small)}. Justification: {_JUSTIFICATION}."
                )
        return [*found, INDEPENDENCE, f"* {100 * self.confidence:g}% {ADDITION}."]

    def __repr__(self) -> str:
        by = ", ".join(table.title for table in self.tables)
        return f"<ImpactRatios of {self.people:,} people by {by}>"

    def blocks(self) -> Iterator[list[list[str]]]:
        """The tables as text, each with its headings first; a star marks what the law does not ask for."""
        columns = {
            "applicants": ("applicants", ","),
            self.count_name: ("selected", ","),
            self.rate_name: ("rate", ".3f"),
            "impact ratio": ("ratio", ".3f"),
            "interval of rate*": ("rate_low rate_high", "limits"),
            "of ratio*": ("ratio_low ratio_high", "limits"),
        }
        for table in self.tables:
            head, *lines = lines_of(table.title, columns, [(one.name, one) for one in table.categories])
            for one, line in zip(table.categories, lines, strict=True):
                if one.left_out:
                    line[head.index("impact ratio")] = "left out"
            yield [head, *lines]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python objects, ready for JSON; undefined numbers are None."""
        settings = {name: value for name, value in vars(self).items() if name not in ("tables", "library")}
        tables: list[dict[str, Any]] = plain(self.tables)
        for table in tables:
            table["categories"] = [{"category": one.pop("group"), **one} for one in table["categories"]]
        about = {"rule": "6 RCNY 5-301", "rate": self.rate_name, **settings}
        return {**about, "tables": tables, "notes": self.notes()}

    def to_frame(self, *, backend: Library | None = None) -> Any:
        """All tables as one, with a line for people whose category is unknown.

        Numbers of people are integers; how many of unknown category were selected is missing. Names of the
        columns of intervals say that the law does not require them.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default=None
            The library of the table. None stands for that of the tables that were audited, or else pandas
            or polars, whichever is installed.

        Returns
        -------
        table
        """
        return make_table(
            self._records(),
            numbers=(self.rate_name, "impact ratio", *_INTERVALS),
            counts=("applicants", self.count_name),
            library=backend or self.library,
        )

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """All tables as CSV, with date and source of the data in every line.

        Undefined numbers are empty. Text that a spreadsheet would take for a formula gets an apostrophe.

        Parameters
        ----------
        path : path, default=None
            File to write, completely or not at all.

        Returns
        -------
        str
            The text.
        """
        dated = ({**record, "date": self.date, "source": self.source} for record in self._records())
        return write_csv(dated, path)

    def _records(self) -> Iterator[dict[str, Any]]:
        for table in self.tables:
            for one in table.categories:
                yield {
                    "table": table.title,
                    "category": one.name,
                    "applicants": one.applicants,
                    self.count_name: one.selected,
                    self.rate_name: one.rate,
                    "impact ratio": one.ratio,
                    "note": f"left out: below {100 * self.min_share:g} %" if one.left_out else None,
                    **{column: getattr(one, name) for column, name in _INTERVALS.items()},
                }
            unknown = {"table": table.title, "category": "(unknown)", "applicants": table.unknown}
            undefined = {self.count_name: None, self.rate_name: math.nan, "impact ratio": math.nan}
            limits = dict.fromkeys(_INTERVALS, math.nan)
            yield {**unknown, **undefined, "note": "not in the calculations", **limits}


@dataclass(frozen=True)
class CategoryCounts:
    """Numbers of people by category, for one table.

    Attributes
    ----------
    features : tuple of str
    people : dict
        By the values of each category: the number of people in it, and of those who were selected.
    unknown : int
        People who are in none, because a value is missing.
    """

    features: tuple[str, ...]
    people: Mapping[Key, tuple[int, int]]
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
    features = counted.groups.features
    tables = [(feature,) for feature in features]
    return tuple(_count(counted, table) for table in (tables if len(features) == 1 else [*tables, features]))


def _count(counted: Tally, features: tuple[str, ...]) -> CategoryCounts:
    groups = counted.groups
    places = [groups.features.index(feature) for feature in features]
    numbers = np.concatenate([counted.sums, counted.excluded], axis=2)[0, :2].sum(axis=2).T
    people: dict[Key, NDArray[np.float64]] = {}
    unknown = 0.0
    for key, own in zip((*groups.keys, *groups.excluded), numbers, strict=True):
        category = tuple(key[place] for place in places)
        if None in category:
            unknown += own[0]
        else:
            people[category] = people.get(category, 0.0) + own
    levels = [groups.levels(feature) for feature in features]

    def rank(category: Key) -> tuple[int, ...]:
        """In the order of the groups; values that only incomplete rows have come last."""
        pairs = zip(levels, category, strict=True)
        return tuple(own.index(value) if value in own else len(own) for own, value in pairs)

    ordered = sorted(people, key=rank)
    counts = {category: (round(people[category][0]), round(people[category][1])) for category in ordered}
    return CategoryCounts(features, counts, round(unknown))


def impact_ratios(
    audit: Audit, *, date: str | datetime.date | None, source: str | None, min_share: float
) -> ImpactRatios:
    """The tables of an audit; see :meth:`~evenhand.auditing.result.Audit.impact_ratios`."""
    terms, counts = audit.terms, audit.categories
    _check(terms, date, source, min_share)
    if not counts:
        raise InputError("impact ratios need the group of every person, and a Proxy has probabilities.")
    return ImpactRatios(
        tuple(_table(one, terms.confidence, float(min_share)) for one in counts),
        people=sum(rows for rows, _ in counts[0].people.values()) + counts[0].unknown,
        confidence=terms.confidence,
        min_share=float(min_share),
        median=terms.threshold if terms.above_median else None,
        date=None if date is None else str(date),
        source=source,
        library=audit.library,
    )


def _check(terms: Terms, date: Any, source: Any, min_share: Any) -> None:
    """Raise an InputError about audits whose people cannot be counted, and about wrong parameters."""
    refuse_uncounted(terms, "impact ratios")
    if terms.pooled:
        raise InputError("impact ratios: min_size pools small categories; audit without it.")
    for name, value, kinds in (("date", date, str | datetime.date), ("source", source, str)):
        if value is not None and not isinstance(value, kinds):
            raise InputError(f"{name} must be text, got {type(value).__name__}.")
    check_number("min_share", min_share, 0, SMALLEST_SHARE)


def _table(counts: CategoryCounts, confidence: float, min_share: float) -> CategoryTable:
    rows, selected = np.array(list(counts.people.values()), np.float64).T
    share, rate = rows / rows.sum(), selected / rows
    kept = share >= min_share
    names = tuple(GroupName(counts.features, key) for key in counts.people)
    ratio, ratio_low, ratio_high = (np.full(len(rows), np.nan) for _ in range(3))
    if kept.any() and rate[kept].max() > 0:
        ratio[kept] = rate[kept] / rate[kept].max()
        # Limits of each rate over the highest, as of the four-fifths rule.
        z = critical_value(confidence, math.comb(int(kept.sum()), 2))
        rates = clopper_pearson(rate[kept], rows[kept], z)
        own = [name for name, there in zip(names, kept, strict=True) if there]
        limits = smallest_of_pairs(own, rates, rates, "ratio")
        ratio_low[kept], ratio_high[kept] = limits.low, limits.high
    rates = wilson(rate, rows, critical_value(confidence))
    columns = (rate, share, ~kept, ratio, rates.low, rates.high, ratio_low, ratio_high)
    numbers = zip(*(column.tolist() for column in columns), strict=True)
    people = zip(names, counts.people.values(), numbers, strict=True)
    categories = tuple(Category(name, *counted, *rest) for name, counted, rest in people)
    return CategoryTable(counts.features, categories, counts.unknown)
