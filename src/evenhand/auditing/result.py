"""The result of an audit, to print, turn into a table or save as JSON."""

from __future__ import annotations

import datetime
import html
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from evenhand.auditing.comparison import FOUR_FIFTHS, Comparison
from evenhand.auditing.exclusion import Excluded, range_notes
from evenhand.auditing.group_rates import Finding, Pooled, Rate, Terms
from evenhand.auditing.impact_ratios import SMALLEST_SHARE, CategoryCounts, ImpactRatios, impact_ratios
from evenhand.auditing.strata import tallies
from evenhand.auditing.tally import Tally
from evenhand.auditing.text import asks, estimate, group_name, page, range_cells
from evenhand.charts.inline import inline_svg
from evenhand.display.notebook import MOST_ROWS, html_table
from evenhand.display.text import show
from evenhand.fairness.groups import GroupName
from evenhand.inputs.checks import check_choice
from evenhand.inputs.tables import Library, make_table

__all__ = ["Audit", "StratumAudits"]

_NUMBERS = ("value", "low", "high", "tolerance")
_DISTANCE = ("notion", "measure", "groups", "statistic", "group", "value", "low", "high", "stratum")
_STRATUM = ("notion", "measure", "groups", "given", "stratum", "value", "low", "high", "statistic", "group")
_EXCLUDED = ("quantity", "measure", "groups", "group", "value", "low", "high", "tolerance", "settled")
_COLUMNS = {
    "groups": (),
    "comparisons": (),
    "distances": _DISTANCE,
    "strata": _STRATUM,
    "excluded": _EXCLUDED,
}
"""Columns of tables that may be empty."""
_MOST_NAMES = 5
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
    excluded : Excluded or None
        Rows that lack a sensitive value and were left out, if there are any.
    categories : tuple of CategoryCounts
        Numbers of people for `impact_ratios`.
    strata : StratumAudits or None
        The audit of each stratum, if control features were given.
    """

    terms: Terms
    groups: tuple[Finding, ...]
    comparisons: tuple[Comparison, ...]
    library: Library | None = None
    excluded: Excluded | None = None
    categories: tuple[CategoryCounts, ...] = ()
    strata: StratumAudits | None = None

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
        left_out = "" if self.excluded is None else f"<p>{html.escape(str(self.excluded))}</p>"
        return (
            left_out
            + html_table(["disparity", "value", "worst group", "verdict"], compared)
            + html_table(["group", "rows", *names], rates)
            + self._excluded_html()
            + inline_svg(self._chart)
        )

    def _excluded_html(self) -> str:
        """How far requirements depend on excluded rows."""
        ranges = [] if self.excluded is None else self.excluded.comparisons
        rows = [
            (f"{found.notion}, {found.groups}", *range_cells(found))
            for found in ranges
            if found.tolerance is not None
        ]
        headings = ["disparity", "without excluded rows", "with them, best to worst", "tolerance"]
        notes = "".join(
            f"<p>{html.escape(note)}</p>" for note in range_notes(self.comparisons, self.excluded)
        )
        return (html_table(headings, rows) if rows else "") + notes

    def _chart(self) -> Any:
        from evenhand.charts import rates_chart  # noqa: PLC0415  (needs an extra)

        records = [
            {"group": group_name(group.group), "quantity": name, **asdict(rate)}
            for group in self.groups
            for name, rate in group.rates.items()
        ]
        return rates_chart(records, confidence=self.terms.confidence, max_groups=MOST_ROWS)

    def __str__(self) -> str:
        return page(self.terms, self.groups, self.comparisons, self.excluded)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python objects, ready for JSON. Undefined or suppressed values are None.

        Returns
        -------
        dict
            ``features``, ``confidence``, ``labelled``, ``weighted``, ``compared``, ``min_count``,
            ``absent_not_listed``, ``pooled``, ``merged``, ``randomised``,
            ``threshold``, ``above_median``, ``proxy``, ``groups``, ``comparisons`` and ``excluded``.
            Comparisons have their ``strata``, and the ``aggregate``, if control features were given.
        """
        return {
            **asdict(self.terms),
            "features": list(self.terms.features),
            "pooled": [_pooled_dict(pooled) for pooled in self.terms.pooled],
            "groups": [_finding_dict(group, self.terms) for group in self.groups],
            "comparisons": [_comparison_dict(found) for found in self.comparisons],
            "excluded": _excluded_dict(self.excluded, self.comparisons),
        }

    def impact_ratios(
        self,
        *,
        date: str | datetime.date | None = None,
        source: str | None = None,
        min_share: float = SMALLEST_SHARE,
    ) -> ImpactRatios:
        """The bias-audit tables of New York City's Local Law 144 (6 RCNY 5-301).

        For each sensitive feature and, if there are several, for their intersections: number of applicants,
        number selected, selection rate, and impact ratio, which is the rate divided by the highest one. The
        law asks for sex, race/ethnicity and their intersections, and for an independent auditor. For
        scores, audited with ``threshold="median"``, the scoring rate replaces the selection rate: it is the
        share strictly above the median of all rows.

        People who lack a value (``missing="exclude"`` or ``"own_group"``) are counted as unknown in the
        tables that need it, and are in the others. Intervals are added that the law does not ask for.

        Parameters
        ----------
        date, source : str, default=None
            Date and source of the data, for the summary. A date may be a ``datetime.date``.
        min_share : float, default=0.02
            Categories with a smaller share of the people in a table are left out of its ratios; their numbers
            and rates are shown. The highest rate is that among the categories that are not left out. At most
            0.02; 0 leaves none out.

        Returns
        -------
        ImpactRatios

        Examples
        --------
        >>> from evenhand import audit
        >>> decisions = [1] * 30 + [0] * 30 + [1] * 20 + [0] * 60
        >>> found = audit(None, decisions, {"sex": ["M"] * 60 + ["F"] * 80})
        >>> [table] = found.impact_ratios(date="2026", source="applications").tables
        >>> [(str(one.group), one.applicants, one.selected, one.ratio) for one in table.categories]
        [('sex=F', 80, 20, 0.5), ('sex=M', 60, 30, 1.0)]
        """
        return impact_ratios(
            self.categories,
            self.terms,
            date=date,
            source=source,
            min_share=min_share,
            library=self.library,
        )

    def to_html(
        self,
        path: str | os.PathLike[str],
        *,
        title: str = "Audit",
        impact_ratios: ImpactRatios | None = None,
    ) -> Path:
        """Write an HTML page that needs no network; see :func:`evenhand.write_report`.

        Parameters
        ----------
        path : path
        title : str, default="Audit"
        impact_ratios : ImpactRatios, default=None
            For a section with the tables of Local Law 144.

        Returns
        -------
        Path
        """
        from evenhand import write_report  # noqa: PLC0415  (the report builds on audits)

        return write_report(path, self, title=title, impact_ratios=impact_ratios)

    def to_frame(
        self,
        what: Literal["groups", "comparisons", "distances", "strata", "excluded"] = "groups",
        *,
        backend: Library | None = None,
    ) -> Any:
        """Results as a tidy table.

        Parameters
        ----------
        what : {"groups", "comparisons", "distances", "strata", "excluded"}, default="groups"
            One row per group and quantity; per comparison; per comparison and group; or per comparison and
            stratum, with that of all rows together. Or the range of each rate and each comparison if excluded
            rows are counted in.
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
        check_choice("what", what, tuple(_COLUMNS))
        if what == "groups":
            rows = _group_rows(self.terms, self.groups)
        elif what == "comparisons":
            rows = (_comparison_row(found) for found in self.comparisons)
        elif what == "distances":
            rows = _distance_rows(self.comparisons)
        elif what == "strata":
            rows = _stratum_rows(self.comparisons)
        else:
            rows = _excluded_rows(self.excluded)
        return make_table(rows, _COLUMNS[what], numbers=_NUMBERS, library=backend or self.library)


class StratumAudits(Mapping[str, Audit]):
    """The audit of each stratum, by its name; made when it is asked for.

    Parameters
    ----------
    counted : Tally
        Of groups within strata.
    audit : function
        The audit of the rows of one stratum, from their sums.

    Examples
    --------
    >>> from evenhand import audit
    >>> found = audit(
    ...     None,
    ...     [1, 0, 1, 1],
    ...     {"sex": ["F", "M", "F", "M"]},
    ...     control_features={"level": ["1", "1", "2", "2"]},
    ... )
    >>> list(found.strata)
    ['level=1', 'level=2']
    >>> found.strata["level=1"].groups[0].rows
    2.0
    """

    def __init__(self, counted: Tally, audit: Callable[[Tally], Audit]) -> None:
        strata = counted.rates.groups.strata
        controls = () if strata is None else strata.features
        self._parts = {str(part.name): part for part in tallies(counted, controls)}
        self._audit = audit

    def __getitem__(self, stratum: str) -> Audit:
        if str(stratum) not in self._parts:
            some = ", ".join(map(repr, list(self._parts)[:_MOST_NAMES]))
            raise KeyError(f"no stratum {str(stratum)!r} in this audit; there are {some}")
        return self._audit(self._parts[str(stratum)].counted)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __repr__(self) -> str:
        return f"<StratumAudits of {len(self):,} strata>"


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
        "given": ", ".join(found.given) or None,
        "stratum": None if found.stratum is None else str(found.stratum),
    }


def _stratum_rows(comparisons: tuple[Comparison, ...]) -> Iterator[dict[str, Any]]:
    for found in comparisons:
        given = ", ".join(found.given)
        for part in (*([found.aggregate] if found.aggregate else ()), *found.strata):
            row = _comparison_row(part)
            where = str(part.stratum) if part.stratum is not None else "all together"
            yield {name: row[name] for name in _STRATUM} | {"given": given, "stratum": where}


def _distance_rows(comparisons: tuple[Comparison, ...]) -> Iterator[dict[str, Any]]:
    for found in comparisons:
        for part in found.distances:
            where = (found.notion, found.measure, found.groups, part.statistic, group_name(part.group))
            stratum = None if part.stratum is None else str(part.stratum)
            yield dict(zip(_DISTANCE, (*where, part.value, part.low, part.high, stratum), strict=True))


def _excluded_rows(excluded: Excluded | None) -> Iterator[dict[str, Any]]:
    for rate in () if excluded is None else excluded.rates:
        name, limits = group_name(rate.group), (rate.value, rate.low, rate.high)
        yield dict(zip(_EXCLUDED, (rate.rate, None, None, name, *limits, math.nan, None), strict=True))
    for found in () if excluded is None else excluded.comparisons:
        low, high = sorted((found.best, found.worst))
        tolerance = math.nan if found.tolerance is None else found.tolerance
        about = (found.notion, found.measure, found.groups, None)
        yield dict(zip(_EXCLUDED, (*about, found.value, low, high, tolerance, found.settled), strict=True))


def _excluded_dict(excluded: Excluded | None, comparisons: tuple[Comparison, ...]) -> dict[str, Any] | None:
    if excluded is None:
        return None
    return {
        "rows": excluded.rows,
        "of_rows": excluded.of_rows,
        "by_feature": None if excluded.by_feature is None else dict(excluded.by_feature),
        "rates": [
            {"group": _group_dict(one.group), "rate": one.rate, **_limits(one)} for one in excluded.rates
        ],
        "comparisons": [
            {
                **asdict(one),
                **{name: _number(getattr(one, name)) for name in ("value", "best", "worst")},
            }
            for one in excluded.comparisons
        ],
        "new_groups": excluded.new_groups,
        "notes": range_notes(comparisons, excluded),
    }


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
        **_strata_dict(found),
        "undefined": [_group_dict(group) for group in found.undefined],
        "distances": [
            {"statistic": part.statistic, "group": _group_dict(part.group), **_limits(part)}
            for part in found.distances
        ],
    }


def _strata_dict(found: Comparison) -> dict[str, Any]:
    """What a comparison says of strata; nothing if it has none."""
    shown: dict[str, Any] = {}
    if found.given:
        shown |= {"given": list(found.given), "stratum": _group_dict(found.stratum)}
    if found.strata:
        shown |= {
            "strata": [_comparison_dict(part) for part in found.strata],
            "vacuous": [_group_dict(name) for name in found.vacuous],
            "empty": [_group_dict(name) for name in found.empty],
            "aggregate": None if found.aggregate is None else _comparison_dict(found.aggregate),
        }
    return shown


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
