"""Results that are tables of figures with notes below: as text, in a notebook, as tables, CSV and JSON."""

from __future__ import annotations

import csv
import html
import io
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any, ClassVar, NamedTuple

from evenhand._atomic import written_at_once
from evenhand.auditing.comparison import estimate, group_name
from evenhand.data.checks import check_choice
from evenhand.data.tables import Library, make_table
from evenhand.display.notebook import aligned, html_table
from evenhand.display.text import show
from evenhand.groups.groups import GroupName

WIDTH = 100
"""The most characters of a line of text."""
_FORMULA = re.compile(r"[=+\-@\t\r\n]")
"""Start of text that a spreadsheet may take for a formula."""


class Block(NamedTuple):
    """A table as text, whose first `text` columns are aligned to the left; a heading above, notes below.

    Its first line has the headings of the columns, unless `headed` is False.
    """

    lines: list[list[str]]
    text: int = 1
    heading: str = ""
    notes: Sequence[str] = ()
    headed: bool = True

    def __str__(self) -> str:
        lines = [*aligned(self.lines, text=range(self.text)), *self.notes]
        return "\n".join([self.heading, *lines] if self.heading else lines)

    def html(self) -> str:
        """The same in a notebook."""
        head, *rows = self.lines if self.headed else [[""] * len(self.lines[0]), *self.lines]
        return html_table(head, rows, most=None, caption=self.heading) + _paragraphs(*self.notes)


class TablesWithNotes:
    """Shows the tables of `blocks` between `_headline` and `notes`."""

    _headline = ""

    def blocks(self) -> Iterator[Block]:
        """The tables as text."""
        raise NotImplementedError

    def notes(self) -> list[str]:
        """How the figures are made."""
        return []

    def __str__(self) -> str:
        notes = [line for note in self.notes() for line in wrap(note, WIDTH, subsequent_indent="  ")]
        return "\n\n".join(filter(None, [self._headline, *map(str, self.blocks()), "\n".join(notes)]))

    def _repr_html_(self) -> str:
        tables = "".join(block.html() for block in self.blocks())
        return _paragraphs(self._headline) + tables + _paragraphs(*self.notes())


def _paragraphs(*texts: str) -> str:
    return "".join(f"<p>{html.escape(show(line))}</p>" for text in texts for line in text.splitlines())


class FigureTables(TablesWithNotes):
    """A dataclass with tables among its fields, whose rows are dataclasses.

    Types of columns are those of the fields: numbers of people, numbers, flags, and text or groups.
    """

    _tables: ClassVar[Mapping[str, Any]]
    """Of each table, the field that holds it, and the class of its rows."""
    library: Library | None

    def _columns(self, what: str) -> dict[str, Any]:
        """The columns of a table, and their types as written."""
        check_choice("what", what, tuple(self._tables))
        return {field.name: field.type for field in fields(self._tables[what][1])}

    def records(self, what: str = "groups") -> list[dict[str, Any]]:
        """The rows of a table; see :meth:`to_frame`."""
        names = self._columns(what)
        rows = getattr(self, self._tables[what][0])
        return [{name: cell(getattr(one, name)) for name in names} for one in rows]

    def to_frame(self, what: str | None = None, *, backend: Library | None = None) -> Any:
        """Results as a table.

        Parameters
        ----------
        what : str, default=None
            By default the first table: one row per group, or per model; of an audit of decisions, per group
            and quantity. Such an audit also has "comparisons", "distances", one row per comparison and group,
            and "strata", per comparison and stratum, with that of all rows together. Scores have "cut-offs",
            one row per group and cut-off; "calibration", per group and bin; and "roc", per point of a ROC
            curve. Alternatives have "groups", per model and group, and "bound".
        backend : {"pandas", "polars", "pyarrow"}, default=None
            The library of the table. None stands for that of the tables that were audited, or else pandas
            or polars, whichever is installed.

        Returns
        -------
        table
        """
        what = what or next(iter(self._tables))
        columns = self._columns(what)
        numbers, counts, flags = (
            [name for name, kind in columns.items() if kind.startswith(prefix)]
            for prefix in ("float", "int", "bool")
        )
        library = backend or self.library
        rows = self.records(what)
        return make_table(rows, columns, numbers=numbers, counts=counts, flags=flags, library=library)

    def to_csv(self, path: str | os.PathLike[str] | None = None, what: str = "groups") -> str:
        """A table as CSV, which is also written to `path`, completely or not at all.

        Undefined numbers are empty; text that looks like a formula gets an apostrophe.
        """
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(map(_escaped, self._columns(what)))
        writer.writerows(map(_escaped, record.values()) for record in self.records(what))
        if path is not None:
            with written_at_once(Path(path)) as unfinished:
                unfinished.write_text(text.getvalue(), encoding="utf-8", newline="")
        return text.getvalue()

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python objects, ready for JSON; undefined and infinite numbers are None."""
        left_out = {"library", *(field for field, _ in self._tables.values())}
        settings = {name: value for name, value in vars(self).items() if name not in left_out}
        tables = {what: self.records(what) for what in self._tables}
        found: dict[str, Any] = plain({**settings, **tables, "notes": self.notes()})
        return found


def values_by_feature(group: GroupName) -> dict[str, Any]:
    """The values of a group as JSON can hold them: text, if they are not numbers."""

    def kept(value: Any) -> bool:
        return value is None or (isinstance(value, str | int | float) and plain(value) is not None)

    pairs = zip(group.features, group.values, strict=True)
    return {feature: value if kept(value) else show(value) for feature, value in pairs}


def plain(value: Any, name: Callable[[GroupName], Any] = values_by_feature) -> Any:
    """A result as JSON can hold it, which has neither NaN nor infinity: these are None."""
    if isinstance(value, GroupName):
        return name(value)
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name), name) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [plain(part, name) for part in value]
    if isinstance(value, Mapping):
        return {str(key): plain(part, name) for key, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def lines_of(
    title: str, columns: Mapping[str, tuple[str, str]], rows: Iterable[tuple[str, Any]]
) -> list[list[str]]:
    """A table of text: for each heading the attribute that it shows, and its format as in :func:`figure`."""
    return [
        [title, *columns],
        *([show(name), *(_text(one, part, form) for part, form in columns.values())] for name, one in rows),
    ]


def values_of(group: GroupName) -> str:
    """The values of a group, in a table that names its features."""
    return ", ".join(map(show, group.values))


def _text(one: Any, names: str, form: str) -> str:
    return show(getattr(one, names)) if form == "text" else figure(one, names, form)


def figure(one: Any, names: str, form: str) -> str:
    """An attribute as text: a number, a p-value ("p"), a flag, one with limits ("interval"), or "limits".

    For an interval, `names` are the three attributes, separated by spaces; for limits, the last two.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> one = SimpleNamespace(p=1e-9, r=0.5, low=0.25, high=math.nan, flag=None)
    >>> figure(one, "p", "p"), figure(one, "r low high", "interval"), figure(one, "flag", "flag")
    ('<0.0001', '0.500 [undefined]', 'undefined')
    """
    value, *limits = (getattr(one, name) for name in names.split())
    if form == "limits":
        return "" if math.isnan(value + limits[0]) else f"[{value:.3f}, {limits[0]:.3f}]"
    if value is None or math.isnan(value):
        return "undefined"
    if form == "interval":
        return f"{value:.3f} [undefined]" if any(map(math.isnan, limits)) else estimate(value, *limits)
    if form == "flag":
        return "yes" if value else "no"
    if form == "p":
        return "<0.0001" if value < 1e-4 else f"{value:.4f}"
    return format(value, form)


def cell(value: Any) -> Any:
    """A value in a table: groups by their names, several names as one text."""
    if isinstance(value, tuple):
        return ", ".join(value) or None
    return group_name(value) if isinstance(value, GroupName) else value


def _escaped(value: Any) -> Any:
    """A cell of a CSV file."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value
