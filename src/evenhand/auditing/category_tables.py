"""The tables of New York City's Local Law 144, to print, turn into a table or save as CSV or JSON."""

from __future__ import annotations

import csv
import html
import io
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

from evenhand._atomic import written_at_once
from evenhand.auditing.audit_text import aligned
from evenhand.data.tables import Library, make_table
from evenhand.display.notebook import html_table
from evenhand.display.text import show
from evenhand.groups.groups import GroupName

__all__ = ["Category", "CategoryTable", "ImpactRatios"]

INDEPENDENCE = (
    "Local Law 144 asks for a bias audit by an independent auditor. These tables contain the calculations of "
    "such an audit and do not replace it."
)
ADDITION = "intervals are an addition that the law does not ask for"
_ADDED = "not required by the law"
_JUSTIFICATION = "rates of so few people are too uncertain to compare others with"
_WIDTH = 100
_FORMULA = re.compile(r"[=+\-@\t\r\n]")
"""Start of text that a spreadsheet may take for a formula."""
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
class ImpactRatios:
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
        """What the rates are."""
        return "selection rate" if self.median is None else "scoring rate"

    @property
    def count_name(self) -> str:
        """What is counted of the applicants."""
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
        found += [text for table in self.tables for text in self._left_out(table)]
        return [*found, INDEPENDENCE, f"* {100 * self.confidence:g}% {ADDITION}."]

    def _left_out(self, table: CategoryTable) -> Iterator[str]:
        small = [one for one in table.categories if one.left_out]
        if small:
            names = "; ".join(f"{one.group} ({100 * one.share:.2g} %)" for one in small)
            yield (
                f"{table.title}: left out of the ratios, being less than {100 * self.min_share:g} % of the "
                f"data: {names}. Justification: {_JUSTIFICATION}."
            )

    def __str__(self) -> str:
        blocks = ["Impact ratios by the rules of New York City's Local Law 144 (6 RCNY 5-301)"]
        blocks += ["\n".join(aligned([self.headings(table), *self.lines(table)])) for table in self.tables]
        notes = [line for note in self.notes() for line in wrap(note, _WIDTH, subsequent_indent="  ")]
        return "\n\n".join([*blocks, "\n".join(notes)])

    def __repr__(self) -> str:
        by = ", ".join(table.title for table in self.tables)
        return f"<ImpactRatios of {self.people:,} people by {by}>"

    def _repr_html_(self) -> str:
        """The tables and their notes."""
        tables = "".join(
            html_table(self.headings(table), self.lines(table), most=None) for table in self.tables
        )
        return tables + "".join(f"<p>{html.escape(show(note))}</p>" for note in self.notes())

    def headings(self, table: CategoryTable) -> list[str]:
        """Names of the columns of a table; a star marks what the law does not ask for."""
        columns = [table.title, "applicants", self.count_name, self.rate_name, "impact ratio"]
        return [*columns, "interval of rate*", "of ratio*"]

    def lines(self, table: CategoryTable) -> list[list[str]]:
        """The cells of a table as text."""
        return [
            [
                ", ".join(map(show, one.group.values)),
                f"{one.applicants:,}",
                f"{one.selected:,}",
                _rate(one.rate),
                "left out" if one.left_out else _rate(one.ratio),
                _limits(one.rate_low, one.rate_high),
                _limits(one.ratio_low, one.ratio_high),
            ]
            for one in table.categories
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python objects, ready for JSON; undefined numbers are None."""
        return {
            "rule": "6 RCNY 5-301",
            "people": self.people,
            "rate": self.rate_name,
            **{name: getattr(self, name) for name in ("median", "min_share", "confidence", "date", "source")},
            "tables": [
                {
                    "features": list(table.features),
                    "unknown": table.unknown,
                    "categories": [_category_dict(one) for one in table.categories],
                }
                for table in self.tables
            ],
            "notes": self.notes(),
        }

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
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for k, record in enumerate(self._records()):
            dated = {**record, "date": self.date, "source": self.source}
            if k == 0:
                writer.writerow(map(_cell, dated))
            writer.writerow(map(_cell, dated.values()))
        if path is not None:
            with written_at_once(Path(path)) as unfinished:
                unfinished.write_text(text.getvalue(), encoding="utf-8", newline="")
        return text.getvalue()

    def _records(self) -> Iterator[dict[str, Any]]:
        for table in self.tables:
            for one in table.categories:
                yield {
                    "table": table.title,
                    "category": ", ".join(map(show, one.group.values)),
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


def _category_dict(one: Category) -> dict[str, Any]:
    pairs = zip(one.group.features, one.group.values, strict=True)
    category = {name: value if isinstance(value, str | int) else show(value) for name, value in pairs}
    numbers = {name: value for name, value in vars(one).items() if name != "group"}
    return {"category": category, **{name: _defined(value) for name, value in numbers.items()}}


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value


def _rate(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{value:.3f}"


def _limits(low: float, high: float) -> str:
    return "" if math.isnan(low) or math.isnan(high) else f"[{low:.3f}, {high:.3f}]"


def _cell(value: Any) -> Any:
    """A cell of a CSV file."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value
