"""An audit as rows of tables, and as plain Python objects for JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Literal

from evenhand.auditing.comparison import Comparison, group_name
from evenhand.auditing.group_rates import Finding, Rate, Terms
from evenhand.data.checks import check_choice
from evenhand.data.tables import Library, make_table
from evenhand.display.text import show
from evenhand.groups.groups import GroupName

if TYPE_CHECKING:
    from evenhand.auditing.result import Audit

Rows = Literal["groups", "comparisons", "distances", "strata"]
_NUMBERS = ("value", "low", "high", "tolerance")
_COMPARISON = (
    *("notion", "measure", "groups", "value", "low", "high", "statistic"),
    *("group", "reference", "tolerance", "verdict", "against"),
)
_DISTANCE = ("notion", "measure", "groups", "statistic", "group", "value", "low", "high", "stratum")
_STRATUM = ("notion", "measure", "groups", "given", "stratum", "value", "low", "high", "statistic", "group")
_TAKEN = ("groups", "group", "quantity", "value", "low", "high", "note")


def audit_dict(audit: Audit) -> dict[str, Any]:
    """Everything as plain Python objects; see :meth:`evenhand.auditing.result.Audit.to_dict`."""
    return {
        **_fields(audit.terms),
        "pooled": [
            {"group": plain(one.group), "members": [{"group": plain(n), "rows": k} for n, k in one.parts]}
            for one in audit.terms.pooled
        ],
        "groups": [_finding_dict(group, audit.terms) for group in audit.groups],
        "comparisons": plain(audit.comparisons),
        "excluded": plain(audit.excluded),
    }


def audit_table(audit: Audit, what: Rows, library: Library | None) -> Any:
    """A table of results; see :meth:`evenhand.auditing.result.Audit.to_frame`."""
    check_choice("what", what, tuple(_TABLES))
    rows, columns = _TABLES[what]
    return make_table(rows(audit), columns, numbers=_NUMBERS, library=library)


def _quantities(group: Finding, terms: Terms) -> Iterator[tuple[str, Rate | None]]:
    """Everything that is reported about a group, by name; None if it is suppressed."""

    def exactly(number: float | None) -> Rate | None:
        return None if number is None else Rate(number, math.nan, math.nan)

    yield "rows", exactly(group.rows)
    if terms.labelled:
        yield "positives", exactly(group.positives)
    if not terms.actions:
        yield "selected", exactly(group.selected)
    for name in terms.rates:
        yield name, group.rates.get(name)
    if terms.compared:
        change = group.change
        for part in ("up", "down", "unchanged"):
            yield f"rows {part}", None if change is None else exactly(getattr(change, part))
        for name in terms.rates:
            yield f"change of {name}", None if change is None else change.rates[name]


def _group_rows(audit: Audit) -> Iterator[dict[str, Any]]:
    terms = audit.terms
    columns: dict[str, str] = {}
    for name in terms.features:
        column = show(name)
        while column in (*_TAKEN, *columns.values()):
            column += " (feature)"
        columns[name] = column
    for group in audit.groups:
        values = dict(zip(group.group.features, group.group.values, strict=True))
        who = {columns[name]: show(values[name]) if name in values else None for name in terms.features}
        for quantity, found in _quantities(group, terms):
            rate = found or Rate(math.nan, math.nan, math.nan)
            about = {"groups": group.kind, "group": group_name(group.group), **who, "quantity": quantity}
            yield {**about, **vars(rate), "note": "left out" if found is None else None}


def rates_by_group(audit: Audit) -> Any:
    """Rates of the finest groups; see :meth:`evenhand.auditing.result.Audit.by_group`."""
    rows: list[dict[str, Any]] = []
    quantities: set[str] = set()
    for group in audit.groups:
        if group.kind == audit.groups[-1].kind:
            found = {
                name: math.nan if rate is None else rate.value
                for name, rate in _quantities(group, audit.terms)
            }
            quantities |= found.keys()
            rows.append(
                dict(zip(map(show, group.group.features), map(show, group.group.values), strict=True)) | found
            )
    return make_table(rows, numbers=quantities, library=audit.library)


def _row(names: Iterable[str], *sources: Any) -> dict[str, Any]:
    """Attributes as cells of a table, each of the first source that has it."""
    return {
        name: _cell(name, next(getattr(one, name) for one in sources if hasattr(one, name))) for name in names
    }


def _cell(name: str, value: Any) -> Any:
    if isinstance(value, GroupName):
        return group_name(value)
    if isinstance(value, tuple):
        return ", ".join(value) or None
    return math.nan if value is None and name in _NUMBERS else value


def _comparison_rows(audit: Audit) -> Iterator[dict[str, Any]]:
    return (_row((*_COMPARISON, "given", "stratum"), found) for found in audit.comparisons)


def _stratum_rows(audit: Audit) -> Iterator[dict[str, Any]]:
    for found in audit.comparisons:
        for part in (*([found.aggregate] if found.aggregate else ()), *found.strata):
            where = "all together" if part.stratum is None else str(part.stratum)
            yield _row(_STRATUM, part) | {"given": ", ".join(found.given), "stratum": where}


def _distance_rows(audit: Audit) -> Iterator[dict[str, Any]]:
    return (_row(_DISTANCE, part, found) for found in audit.comparisons for part in found.distances)


_TABLES: Mapping[Rows, tuple[Callable[[Audit], Iterator[dict[str, Any]]], tuple[str, ...]]] = {
    "groups": (_group_rows, ()),
    "comparisons": (_comparison_rows, ()),
    "distances": (_distance_rows, _DISTANCE),
    "strata": (_stratum_rows, _STRATUM),
}
"""The rows of each table, and the columns of those that may be empty."""


def _finding_dict(group: Finding, terms: Terms) -> dict[str, Any]:
    def rates(of: Mapping[str, Rate]) -> dict[str, Any]:
        return {name: plain(of.get(name)) for name in terms.rates}

    found = {"groups": group.kind, **_fields(group, "kind", "change"), "rates": rates(group.rates)}
    if group.rows is None:
        found["rows"] = "left out"
    if terms.compared:
        change = group.change
        found["change"] = None if change is None else {**_fields(change), "rates": rates(change.rates)}
    return found


def _comparison_dict(found: Comparison) -> dict[str, Any]:
    """A comparison, without what it would say of strata if it has none."""
    none = [] if found.given else ["given", "stratum"]
    none += [] if found.strata else ["strata", "vacuous", "empty", "aggregate"]
    return {**_fields(found, *none), "distances": [_fields(part, "stratum") for part in found.distances]}


def _fields(value: Any, *left_out: str) -> dict[str, Any]:
    names = [field.name for field in fields(value) if field.name not in left_out]
    return {name: plain(getattr(value, name)) for name in names}


def plain(value: Any) -> Any:
    """A result as JSON can hold it, which has neither NaN nor infinity: these are None."""
    if isinstance(value, GroupName):
        return {name: _level(level) for name, level in zip(value.features, value.values, strict=True)}
    if isinstance(value, Comparison):
        return _comparison_dict(value)
    if is_dataclass(value):
        return _fields(value)
    if isinstance(value, tuple | list):
        return [plain(part) for part in value]
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _level(value: Any) -> Any:
    """A sensitive value that JSON can hold, or its text."""
    if isinstance(value, float) and not math.isfinite(value):
        return show(value)
    return value if value is None or isinstance(value, str | int | float) else show(value)
