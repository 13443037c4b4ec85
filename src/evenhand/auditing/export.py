"""An audit as rows of tables, and as plain Python objects for JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from evenhand.auditing.comparison import group_name
from evenhand.auditing.group_rates import Finding, Rate, Terms
from evenhand.data.checks import check_choice
from evenhand.data.tables import Library, make_table
from evenhand.display.text import show
from evenhand.groups.groups import GroupName

if TYPE_CHECKING:
    from evenhand.auditing.result import Audit

Rows = Literal["groups", "comparisons", "distances", "strata"]
_NUMBERS = ("value", "low", "high", "tolerance")
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "comparisons": (
        *("notion", "measure", "groups", "value", "low", "high", "statistic", "group", "reference"),
        *("tolerance", "verdict", "against", "given", "stratum"),
    ),
    "distances": ("notion", "measure", "groups", "statistic", "group", "value", "low", "high", "stratum"),
    "strata": (
        *("notion", "measure", "groups", "given", "stratum"),
        *("value", "low", "high", "statistic", "group"),
    ),
}
_TAKEN = ("groups", "group", "quantity", "value", "low", "high", "note")


def _values(group: GroupName) -> dict[str, Any]:
    """The values of a group as JSON can hold them: text, if they are not numbers."""

    def kept(value: Any) -> bool:
        return value is None or (isinstance(value, str | int | float) and plain(value) is not None)

    pairs = zip(group.features, group.values, strict=True)
    return {feature: value if kept(value) else show(value) for feature, value in pairs}


def plain(value: Any, name: Callable[[GroupName], Any] = _values) -> Any:
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


def audit_dict(audit: Audit, name: Callable[[GroupName], Any] = _values) -> dict[str, Any]:
    """Everything as plain Python objects; see :meth:`evenhand.auditing.result.Audit.to_dict`."""
    parts = {"groups": audit.groups, "comparisons": audit.comparisons, "excluded": audit.excluded}
    found: dict[str, Any] = plain({**vars(audit.terms), **parts}, name)
    return found


def audit_table(audit: Audit, what: Rows, library: Library | None) -> Any:
    """A table of results; see :meth:`evenhand.auditing.result.Audit.to_frame`."""
    check_choice("what", what, ("groups", *_COLUMNS))
    if what == "groups":
        return make_table(_group_rows(audit), numbers=_NUMBERS, library=library)
    every, rows = audit.comparisons, []
    if what == "comparisons":
        rows = [_row(what, found) for found in every]
    elif what == "distances":
        rows = [_row(what, part, found) for found in every for part in found.distances]
    else:
        for found in every:
            for part in filter(None, (found.aggregate, *found.strata)):
                row = _row(what, replace(part, given=found.given))
                rows.append(row | {"stratum": row["stratum"] or "all together"})
    return make_table(rows, _COLUMNS[what], numbers=_NUMBERS, library=library)


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


def _row(what: str, *sources: Any) -> dict[str, Any]:
    """Attributes as cells of a table, each of the first source that has it."""
    return {
        name: _cell(name, next(getattr(one, name) for one in sources if hasattr(one, name)))
        for name in _COLUMNS[what]
    }


def _cell(name: str, value: Any) -> Any:
    if isinstance(value, GroupName):
        return group_name(value)
    if isinstance(value, tuple):
        return ", ".join(value) or None
    return math.nan if value is None and name in _NUMBERS else value
