"""An audit as rows of tables, and as plain Python objects for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Literal

from evenhand.auditing.comparison import Comparison
from evenhand.auditing.exclusion import Excluded, range_notes
from evenhand.auditing.group_rates import Finding, Pooled, Rate, Terms
from evenhand.auditing.text import group_name
from evenhand.display.text import show
from evenhand.fairness.groups import GroupName

__all__ = ["COLUMNS", "NUMBERS", "Rows", "audit_dict", "audit_rows"]

Rows = Literal["groups", "comparisons", "distances", "strata", "excluded"]
NUMBERS = ("value", "low", "high", "tolerance")
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
        **asdict(terms),
        "features": list(terms.features),
        "pooled": [_pooled_dict(pooled) for pooled in terms.pooled],
        "groups": [_finding_dict(group, terms) for group in groups],
        "comparisons": [_comparison_dict(found) for found in comparisons],
        "excluded": _excluded_dict(excluded, comparisons),
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
            yield {
                "groups": group.kind,
                "group": group_name(group.group),
                **who,
                "quantity": quantity,
                "value": rate.value,
                "low": rate.low,
                "high": rate.high,
                "note": "left out" if found is None else None,
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
    found: dict[str, Any] = {
        "groups": group.kind,
        "group": _group_dict(group.group),
        "rows": "left out" if group.rows is None else _number(group.rows),
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
