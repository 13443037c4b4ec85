"""What a report says, as plain values: the page is only one way to show it."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

import numpy as np

from evenhand.auditing.audited import Audit
from evenhand.auditing.findings import Finding
from evenhand.classifier import FairClassifier
from evenhand.curve import Frontier, Point
from evenhand.inprocess import FairInprocessor
from evenhand.postprocess import FairPostprocessor
from evenhand.rule import Rule

__all__ = ["contents", "rule_records"]

_SMALL = 30
_PACKAGES = ("evenhand", "scikit-learn", "numpy")
_MOST_GROUPS = 200


def contents(
    audit: Audit,
    *,
    before: Audit | None = None,
    model: FairClassifier | None = None,
    frontier: Frontier | None = None,
    title: str,
    data: str,
) -> dict[str, Any]:
    """Put a report together.

    Parameters
    ----------
    audit : Audit
        Of the decisions that the report is about, on rows that nothing was learned from.
    before : Audit, optional
        Of the decisions that they replace, on the same rows.
    model : FairPostprocessor or FairInprocessor, optional
        Fitted; without it the report is about foreign predictions.
    frontier : Frontier, optional
    title : str
    data : str
        A sentence on the rows.

    Returns
    -------
    dict
        Values that JSON can hold.
    """
    found = audit.to_dict()
    groups = [_flat(group, one) for group, one in zip(audit.groups, found["groups"], strict=True)]
    earlier = None if before is None else before.to_dict()
    return {
        "title": title,
        "data": data,
        "date": datetime.date.today().isoformat(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}},
        "confidence": audit.terms.confidence,
        "rows": audit.groups[0].rows,
        "features": list(audit.terms.features),
        "groups": groups[:_MOST_GROUPS],
        "groups_left_out": max(0, len(groups) - _MOST_GROUPS),
        "earlier": None if earlier is None else [_named(one) for one in earlier["groups"]][:_MOST_GROUPS],
        "comparisons": [_comparison(one) for one in found["comparisons"]],
        "model": None if model is None else _model(model),
        "frontier": None if frontier is None else _frontier(frontier),
        "caveats": list(_caveats(audit, model)),
    }


def _named(group: Mapping[str, Any]) -> dict[str, Any]:
    name = ", ".join(f"{feature}={value}" for feature, value in (group["group"] or {}).items())
    return {**group, "name": name or "everyone"}


def _flat(finding: Finding, group: Mapping[str, Any]) -> dict[str, Any]:
    return {**_named(group), "small": finding.rows is not None and finding.rows < _SMALL}


def _comparison(found: Mapping[str, Any]) -> dict[str, Any]:
    group = found["group"]
    name = None if group is None else ", ".join(f"{feature}={value}" for feature, value in group.items())
    return {**{key: value for key, value in found.items() if key != "distances"}, "group": name}


def _model(model: FairClassifier) -> dict[str, Any]:
    certificate = model.certificate_ if isinstance(model, FairPostprocessor | FairInprocessor) else None
    promise = getattr(model, "promise_", None)
    shown: dict[str, Any] = {
        "method": "post-processing" if isinstance(model, FairPostprocessor) else "in-processing",
        "asked": [
            {
                "notion": notion.label,
                "measure": notion.compares_by,
                "tolerance": notion.tolerance,
                "groups": notion.groups,
            }
            for notion in model.constraint.notions
        ],
        "aware": model.aware if isinstance(model.aware, bool) else ", ".join(model.aware),
        "promise": None if promise is None else {"holds": promise.holds, "text": str(promise)},
        "proof": None
        if certificate is None
        else {
            "risk": certificate.objective,
            "bound": certificate.bound,
            "gap": certificate.gap,
            "violation": certificate.violation,
        },
        "prices": [],
        "rule": None,
    }
    if isinstance(model, FairPostprocessor):
        shown["prices"] = [
            {"row": str(name), "price": 0.02 * abs(price)} for name, price in model.shadow_prices_.items()
        ]
        shown["rule"] = rule_records(
            model.rule_, [str(name) for name in model.groups_.names], model.aware is True
        )
    return shown


def rule_records(rule: Rule, names: list[str], aware: bool) -> dict[str, Any]:
    """Give the thresholds of a rule that knows the group, or the table W of one that does not."""
    table = np.asarray(rule.table, dtype=np.float64)
    if not aware:
        weights = [
            {"group": name, "label": label, "weight": float(table[m, label])}
            for m, name in enumerate(names)
            for label in (0, 1)
        ]
        return {"kind": "weights", "weights": weights}
    slope = table[:, 1] - table[:, 0]
    thresholds = np.where(slope > 0, -table[:, 0] / np.where(slope > 0, slope, 1.0), np.nan)
    return {
        "kind": "thresholds",
        "thresholds": [
            {"group": name, "threshold": None if np.isnan(value) else float(np.clip(value, 0, 1))}
            for name, value in zip(names, thresholds, strict=True)
        ],
    }


def _frontier(frontier: Frontier) -> dict[str, Any]:
    aware = {point.curve: None for point in frontier.points}
    points = [
        {**record, "groups": list(_rates(point, frontier.confidence)), "rule": _rule(point)}
        for point, record in zip((*frontier.points, *frontier.others), frontier.records(), strict=True)
    ]
    return {
        "notion": frontier.points[0].comparison.notion,
        "measure": frontier.measure,
        "confidence": frontier.confidence,
        "rows": frontier.n_rows,
        "complete": frontier.complete,
        "curves": list(aware),
        "points": points,
        "prices": frontier.price_records(),
    }


def _rates(point: Point, confidence: float) -> Iterator[dict[str, Any]]:
    for finding in point.groups(confidence)[:_MOST_GROUPS]:
        yield {
            "name": str(finding.group) or "everyone",
            "rows": finding.rows,
            "rates": {
                name: {key: _known(getattr(rate, key)) for key in ("value", "low", "high")}
                for name, rate in finding.rates.items()
            },
        }


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _rule(point: Point) -> dict[str, Any] | None:
    if point.rule is None:
        return None
    names = [str(name) for name in point.counted.rates.groups.names]
    return rule_records(point.rule, names, point.aware)


def _caveats(audit: Audit, model: FairClassifier | None) -> Iterator[str]:
    small = [group for group in audit.groups if group.rows is not None and 0 < group.rows < _SMALL]
    absent = [group for group in audit.groups if group.rows == 0]
    if small:
        yield f"{len(small)} groups have fewer than {_SMALL} rows: little can be said of them."
    if absent:
        yield f"{len(absent)} combinations never occur, and nothing is known of them."
    yield "Intervals say how much chance there is in these rows. They say nothing of rows of another kind."
    if audit.terms.labelled:
        yield "Error rates take the labels as true. Labels can be unfair themselves."
    if model is not None:
        yield (
            "The proof is of the best classifier for the probabilities that were learned. If these are wrong, "
            "another may be better; the rates above are counted and do not depend on them."
        )
    if getattr(model, "promise_", None) is None:
        yield "Nothing is promised of new rows: ask for confidence, or audit new decisions."
