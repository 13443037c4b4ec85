"""An audit as rows of tables, and as plain Python objects for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal

from evenhand.auditing.audit_text import group_name
from evenhand.auditing.comparison import Comparison
from evenhand.auditing.exclusion import Excluded, range_notes
from evenhand.auditing.group_rates import Finding, Pooled, Rate, Terms
from evenhand.display.text import show
from evenhand.groups.groups import GroupName

__all__ = ["COLUMNS", "NUMBERS", "Rows", "audit_dict", "audit_rows"]

Rows = Literal["groups", "comparisons", "distances", "strata", "excluded"]
NUMBERS = ("value", "low", "high", "tolerance")
_COMPARISON = (
    *("notion", "measure", "groups", "value", "low", "high", "statistic"),
    *("group", "reference", "tolerance", "verdict", "against"),
)
_DISTANCE = ("notion", "measure", "groups", "statistic", "group", "value", "low", "high", "stratum")
_STRATUM = ("notion", "measure", "groups", "given", "stratum", "value", "low", "high", "statistic", "group")
_EXCLUDED = ("quantity", "measure", "groups", "group", "value", "low", "high", "tolerance", "settled")
COLUMNS = {
    "groups": (),
    "comparisons": (),
    "distances": _DISTANCE,
    "strata": _STRATUM,
    "excluded": _EXCLUDED,
}
"""Columns of tables that may be empty."""
_TAKEN = ("groups", "group", "quantity", "value", "low", "high", "note")


def audit_dict(
    terms: Terms,
    groups: tuple[Finding, ...],
    comparisons: tuple[Comparison, ...],
    excluded: Excluded | None,
) -> dict[str, Any]:
    """Everything as plain Python objects; see :meth:`evenhand.auditing.result.Audit.to_dict`."""
    return {
        **_fields(terms),
        "pooled": [_pooled_dict(pooled) for pooled in terms.pooled],
        "groups": [_finding_dict(group, terms) for group in groups],
        "comparisons": _plain(comparisons),
        "excluded": excluded and {**_fields(excluded), "notes": range_notes(comparisons, excluded)},
    }


def audit_rows(
    what: Rows,
    terms: Terms,
    groups: tuple[Finding, ...],
    comparisons: tuple[Comparison, ...],
    excluded: Excluded | None,
) -> Iterator[dict[str, Any]]:
    """Rows of a table; see :meth:`evenhand.auditing.result.Audit.to_frame`."""
    if what == "groups":
        return _group_rows(terms, groups)
    if what == "comparisons":
        return map(_comparison_row, comparisons)
    if what == "distances":
        return _distance_rows(comparisons)
    return _stratum_rows(comparisons) if what == "strata" else _excluded_rows(excluded)


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
            rate = found or Rate(math.nan, math.nan, math.nan)
            about = {"groups": group.kind, "group": group_name(group.group), **who, "quantity": quantity}
            yield {**about, **vars(rate), "note": "left out" if found is None else None}


def _comparison_row(found: Comparison) -> dict[str, Any]:
    return {
        **{name: getattr(found, name) for name in _COMPARISON},
        "group": None if found.group is None else group_name(found.group),
        "reference": None if found.reference is None else str(found.reference),
        "tolerance": math.nan if found.tolerance is None else found.tolerance,
        "given": ", ".join(found.given) or None,
        "stratum": None if found.stratum is None else str(found.stratum),
    }


def _stratum_rows(comparisons: tuple[Comparison, ...]) -> Iterator[dict[str, Any]]:
    for found in comparisons:
        given = ", ".join(found.given)
        for part in (*([found.aggregate] if found.aggregate else ()), *found.strata):
            row = _comparison_row(part)
            where = row["stratum"] or "all together"
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


def _finding_dict(group: Finding, terms: Terms) -> dict[str, Any]:
    def rates(of: Mapping[str, Rate]) -> dict[str, Any]:
        return {name: _plain(of.get(name)) for name in terms.rates}

    found = {"groups": group.kind, **_fields(group, "kind", "change"), "rates": rates(group.rates)}
    if group.rows is None:
        found["rows"] = "left out"
    if terms.compared:
        change = group.change
        found["change"] = None if change is None else {**_fields(change), "rates": rates(change.rates)}
    return found


def _pooled_dict(pooled: Pooled) -> dict[str, Any]:
    rows = pooled.rows or (None,) * len(pooled.members)
    members = zip(pooled.members, rows, strict=True)
    return {
        "group": _plain(pooled.group),
        "members": [{"group": _plain(name), "rows": count} for name, count in members],
    }


def _comparison_dict(found: Comparison) -> dict[str, Any]:
    """A comparison, without what it would say of strata if it has none."""
    none = [] if found.given else ["given", "stratum"]
    none += [] if found.strata else ["strata", "vacuous", "empty", "aggregate"]
    return {**_fields(found, *none), "distances": [_fields(part, "stratum") for part in found.distances]}


def _fields(value: Any, *left_out: str) -> dict[str, Any]:
    names = [field.name for field in fields(value) if field.name not in left_out]
    return {name: _plain(getattr(value, name)) for name in names}


def _plain(value: Any) -> Any:
    """A result as JSON can hold it, which has neither NaN nor infinity: these are None."""
    if isinstance(value, GroupName):
        return {name: _level(level) for name, level in zip(value.features, value.values, strict=True)}
    if isinstance(value, Comparison):
        return _comparison_dict(value)
    if is_dataclass(value):
        return _fields(value)
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _level(value: Any) -> Any:
    """A sensitive value that JSON can hold, or its text."""
    if isinstance(value, float) and not math.isfinite(value):
        return show(value)
    return value if value is None or isinstance(value, str | int | float) else show(value)
