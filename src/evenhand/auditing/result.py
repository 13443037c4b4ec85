"""The result of an audit, to print, turn into a table or save as JSON."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from evenhand.auditing.comparison import FOUR_FIFTHS, Comparison
from evenhand.auditing.group_rates import Finding, Pooled, Rate, Terms
from evenhand.auditing.text import asks, estimate, group_name, page
from evenhand.charts.inline import inline_svg
from evenhand.display.notebook import MOST_ROWS, html_table
from evenhand.display.text import show
from evenhand.fairness.groups import GroupName
from evenhand.inputs.checks import check_choice
from evenhand.inputs.tables import Library, make_table

__all__ = ["Audit"]

_NUMBERS = ("value", "low", "high", "tolerance")
_DISTANCE = ("notion", "measure", "groups", "statistic", "group", "value", "low", "high")
_TAKEN = ("groups", "group", "quantity", "value", "low", "high", "note")


@dataclass(frozen=True, eq=False)
class Audit:
    """Result of :func:`evenhand.audit`: rates and disparities of the groups. ``print`` shows it.

    Attributes
    ----------
    terms : Terms
        The settings: features, confidence, which inputs were passed, what is left out.
    groups : tuple of Finding
        All rows, each value of each feature, each combination of values. Combinations that never occur come
        last, with no rows.
    comparisons : tuple of Comparison
        The disparity between groups by each notion, rates and their bounds, and the four-fifths rule.
    library : {"pandas", "polars", "pyarrow"}, default=None
        The library of the tables that were audited.
    """

    terms: Terms
    groups: tuple[Finding, ...]
    comparisons: tuple[Comparison, ...]
    library: Library | None = None

    def __getitem__(self, notion: str) -> Comparison:
        """The first comparison by the notion, or of the bounded rate, of this name."""
        for found in self.comparisons:
            if found.notion == notion:
                return found
        known = ", ".join(repr(name) for name in dict.fromkeys(part.notion for part in self.comparisons))
        raise KeyError(f"no comparison by {notion!r} in this audit; there are {known}")

    def __repr__(self) -> str:
        everyone, first = self.groups[0], self.comparisons[0]
        rows = "rows" if everyone.rows is None else f"{everyone.rows:,.0f} rows"
        colon = ":" if first.against == "bound" else ""
        found = f"{asks(first)}{colon} {estimate(first.value, first.low, first.high)}"
        verdict = "" if first.tolerance is None else f", {first.verdict}"
        return f"<Audit of {rows} by {', '.join(map(show, self.terms.features))}: {found}{verdict}>"

    def _repr_html_(self) -> str:
        """Comparisons, rates of each group, and a chart of the rates."""
        compared = [
            (
                asks(found),
                estimate(found.value, found.low, found.high),
                "" if found.group is None else group_name(found.group),
                "" if found.tolerance is None or found.notion == FOUR_FIFTHS else found.verdict,
            )
            for found in self.comparisons
        ]
        names = self.terms.rates
        rates = [
            (
                group_name(group.group),
                "left out" if group.rows is None else f"{group.rows:,.0f}",
                *(
                    "left out"
                    if (rate := group.rates.get(name)) is None
                    else estimate(rate.value, rate.low, rate.high)
                    for name in names
                ),
            )
            for group in self.groups
        ]
        return (
            html_table(["disparity", "value", "worst group", "verdict"], compared)
            + html_table(["group", "rows", *names], rates)
            + inline_svg(self._chart)
        )

    def _chart(self) -> Any:
        from evenhand.charts import rates_chart  # noqa: PLC0415  (needs an extra)

        records = [
            {"group": group_name(group.group), "quantity": name, **asdict(rate)}
            for group in self.groups
            for name, rate in group.rates.items()
        ]
        return rates_chart(records, confidence=self.terms.confidence, max_groups=MOST_ROWS)

    def __str__(self) -> str:
        return page(self.terms, self.groups, self.comparisons)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python objects, ready for JSON. Undefined or suppressed values are None.

        Returns
        -------
        dict
            ``features``, ``confidence``, ``labelled``, ``weighted``, ``compared``, ``min_count``,
            ``absent_not_listed``, ``pooled``, ``merged``, ``randomised``,
            ``threshold``, ``proxy``, ``groups`` and ``comparisons``.
        """
        return {
            **asdict(self.terms),
            "features": list(self.terms.features),
            "pooled": [_pooled_dict(pooled) for pooled in self.terms.pooled],
            "groups": [_finding_dict(group, self.terms) for group in self.groups],
            "comparisons": [_comparison_dict(found) for found in self.comparisons],
        }

    def to_html(self, path: str | os.PathLike[str], *, title: str = "Audit") -> Path:
        """Write an HTML page that needs no network; see :func:`evenhand.write_report`.

        Parameters
        ----------
        path : path
        title : str, default="Audit"

        Returns
        -------
        Path
        """
        from evenhand import write_report  # noqa: PLC0415  (the report builds on audits)

        return write_report(path, self, title=title)

    def to_frame(
        self,
        what: Literal["groups", "comparisons", "distances"] = "groups",
        *,
        backend: Library | None = None,
    ) -> Any:
        """Results as a tidy table.

        Parameters
        ----------
        what : {"groups", "comparisons", "distances"}, default="groups"
            One row per group and quantity, per comparison, or per comparison and group.
        backend : {"pandas", "polars", "pyarrow"}, default=None
            The library of the table. None stands for that of the tables that were audited, or else pandas
            or polars, whichever is installed.

        Returns
        -------
        table

        Examples
        --------
        >>> from evenhand import audit
        >>> found = audit(None, [1, 0, 1, 1], {"sex": ["F", "F", "M", "M"]})
        >>> print(found.to_frame(backend="pandas").head(3)[["group", "quantity", "value"]].to_string())
              group        quantity  value
        0  everyone            rows   4.00
        1  everyone        selected   3.00
        2  everyone  selection rate   0.75
        """
        check_choice("what", what, ("groups", "comparisons", "distances"))
        if what == "groups":
            rows = _group_rows(self.terms, self.groups)
        elif what == "comparisons":
            rows = (_comparison_row(found) for found in self.comparisons)
        else:
            rows = _distance_rows(self.comparisons)
        return make_table(
            rows, _DISTANCE if what == "distances" else (), numbers=_NUMBERS, library=backend or self.library
        )


def _quantities(group: Finding, terms: Terms) -> Iterator[tuple[str, Rate | None]]:
    """Everything that is reported about a group, by name; None if it is suppressed."""

    def exactly(number: float | None) -> Rate | None:
        return None if number is None else Rate(number, math.nan, math.nan)

    yield "rows", exactly(group.rows)
    if terms.labelled:
        yield "positives", exactly(group.positives)
    yield "selected", exactly(group.selected)
    for name in terms.rates:
        yield name, group.rates.get(name)
    if terms.compared:
        change = group.change
        for part in ("up", "down", "unchanged"):
            yield f"rows {part}", None if change is None else exactly(getattr(change, part))
        for name in terms.rates:
            yield f"change of {name}", None if change is None else change.rates[name]


def _group_rows(terms: Terms, groups: tuple[Finding, ...]) -> Iterator[dict[str, Any]]:
    columns: dict[str, str] = {}
    for name in terms.features:
        column = show(name)
        while column in (*_TAKEN, *columns.values()):
            column += " (feature)"
        columns[name] = column
    for group in groups:
        values = dict(zip(group.group.features, group.group.values, strict=True))
        who = {columns[name]: show(values[name]) if name in values else None for name in terms.features}
        for quantity, found in _quantities(group, terms):
            note = None
            if found is None:
                note = f"<{terms.min_count}" if quantity == "rows" else "left out"
            rate = found or Rate(math.nan, math.nan, math.nan)
            yield {
                "groups": group.kind,
                "group": group_name(group.group),
                **who,
                "quantity": quantity,
                "value": rate.value,
                "low": rate.low,
                "high": rate.high,
                "note": note,
            }


def _comparison_row(found: Comparison) -> dict[str, Any]:
    return {
        "notion": found.notion,
        "measure": found.measure,
        "groups": found.groups,
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "statistic": found.statistic,
        "group": None if found.group is None else group_name(found.group),
        "reference": None if found.reference is None else str(found.reference),
        "tolerance": math.nan if found.tolerance is None else found.tolerance,
        "verdict": found.verdict,
        "against": found.against,
    }


def _distance_rows(comparisons: tuple[Comparison, ...]) -> Iterator[dict[str, Any]]:
    for found in comparisons:
        for part in found.distances:
            where = (found.notion, found.measure, found.groups, part.statistic, group_name(part.group))
            yield dict(zip(_DISTANCE, (*where, part.value, part.low, part.high), strict=True))


def _finding_dict(group: Finding, terms: Terms) -> dict[str, Any]:
    small = f"<{terms.min_count}" if group.rows is None else group.rows
    found: dict[str, Any] = {
        "groups": group.kind,
        "group": _group_dict(group.group),
        "rows": small if isinstance(small, str) else _number(small),
        "positives": _number(group.positives),
        "selected": _number(group.selected),
        "rates": {name: _rate_dict(group.rates.get(name)) for name in terms.rates},
        "suppressed": group.suppressed,
    }
    if terms.compared:
        change = group.change
        found["change"] = change and {
            "up": _number(change.up),
            "down": _number(change.down),
            "unchanged": _number(change.unchanged),
            "rates": {name: _rate_dict(change.rates[name]) for name in terms.rates},
        }
    return found


def _pooled_dict(pooled: Pooled) -> dict[str, Any]:
    rows = pooled.rows or (None,) * len(pooled.members)
    return {
        "group": _group_dict(pooled.group),
        "members": [
            {"group": _group_dict(name), "rows": count}
            for name, count in zip(pooled.members, rows, strict=True)
        ],
    }


def _comparison_dict(found: Comparison) -> dict[str, Any]:
    return {
        "notion": found.notion,
        "measure": found.measure,
        "groups": found.groups,
        **_limits(found),
        "statistic": found.statistic,
        "group": _group_dict(found.group),
        "reference": _group_dict(found.reference),
        "tolerance": found.tolerance,
        "verdict": found.verdict,
        "against": found.against,
        "undefined": [_group_dict(group) for group in found.undefined],
        "distances": [
            {"statistic": part.statistic, "group": _group_dict(part.group), **_limits(part)}
            for part in found.distances
        ],
    }


def _limits(found: Any) -> dict[str, float | None]:
    return {name: _number(getattr(found, name)) for name in ("value", "low", "high")}


def _rate_dict(rate: Rate | None) -> dict[str, float | None] | None:
    return None if rate is None else _limits(rate)


def _number(value: float | None) -> float | None:
    """A finite number, else None, because JSON has neither NaN nor infinity."""
    return None if value is None or not math.isfinite(value) else value


def _group_dict(group: GroupName | None) -> dict[str, Any] | None:
    if group is None:
        return None
    pairs = zip(group.features, group.values, strict=True)
    return {feature: _plain(value) for feature, value in pairs}


def _plain(value: Any) -> Any:
    """A value that JSON can hold, or its text."""
    if isinstance(value, float) and not math.isfinite(value):
        return show(value)
    return value if value is None or isinstance(value, str | int | float) else show(value)
