"""The contents of a report as plain values, which the page shows."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import numpy as np

from evenhand.auditing.audit_text import group_name, range_cells
from evenhand.auditing.category_tables import ImpactRatios
from evenhand.auditing.comparison import FOUR_FIFTHS, Distance
from evenhand.auditing.exclusion import Excluded, range_notes
from evenhand.auditing.group_rates import Finding, Rate
from evenhand.auditing.result import Audit
from evenhand.data.features import columns_of
from evenhand.data.labels import read_labels
from evenhand.estimators.base import FairClassifier
from evenhand.estimators.inprocess import FairInprocessor
from evenhand.estimators.postprocess import FairPostprocessor
from evenhand.files.recertify import claimed
from evenhand.guarantee.intervals import critical_value, wilson
from evenhand.optimum.group_thresholds import group_thresholds
from evenhand.optimum.rule import Rule
from evenhand.report.summary import place_in_words, summary
from evenhand.requirements.bounds import NoWorse, RateBound
from evenhand.requirements.constraints import ConstraintName
from evenhand.requirements.notions import Notion
from evenhand.requirements.requirement import Requirement
from evenhand.requirements.statistic import SELECTION
from evenhand.tradeoff.frontier import Frontier, Point

__all__ = ["contents", "rule_records"]

_SMALL = 30
_PACKAGES = ("evenhand", "scikit-learn", "numpy")
_OF_PROOF = ("tightened", "risk_name", "risk", "bound", "violation", "trained")
_LIMITS = ("value", "low", "high")
_MOST_GROUPS = 200
_MOST_STRATA = 50


def contents(
    audit: Audit,
    *,
    before: Audit | None = None,
    model: FairClassifier | None = None,
    frontier: Frontier | None = None,
    test: Sequence[Any] | None = None,
    title: str,
    data: str,
    impact_ratios: ImpactRatios | None = None,
) -> dict[str, Any]:
    """The contents of a report.

    Parameters
    ----------
    audit : Audit
        Of the reported decisions, on held-out rows.
    before : Audit, default=None
        Of the decisions that they replace, on the same rows.
    model : FairPostprocessor or FairInprocessor, default=None
        Fitted; without it the report is about predictions from elsewhere.
    frontier : Frontier, default=None
    test : (X, y) or (X, y, sensitive_features), default=None
        Rows on which the model's probabilities are compared with the labels.
    title : str
    data : str
        A sentence on the data.
    impact_ratios : ImpactRatios, default=None
        Tables of Local Law 144.

    Returns
    -------
    dict
        Values that JSON can hold.
    """
    found = audit.to_dict()
    groups = [_flat(group, one) for group, one in zip(audit.groups, found["groups"], strict=True)]
    earlier = None if before is None else before.to_dict()
    shown = {
        "title": title,
        "data": data,
        "date": datetime.date.today().isoformat(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}},
        "confidence": audit.terms.confidence,
        "reading": audit.terms.reading,
        "rows": audit.groups[0].rows,
        "features": list(audit.terms.features),
        "groups": groups[:_MOST_GROUPS],
        "groups_left_out": max(0, len(groups) - _MOST_GROUPS),
        "earlier": None if earlier is None else [_named(one) for one in earlier["groups"]][:_MOST_GROUPS],
        "comparisons": [_comparison(one) for one in found["comparisons"]],
        "bounds": _bounds(audit),
        "model": None if model is None else _model(model),
        "frontier": None if frontier is None else _frontier(frontier, model),
        "calibration": _calibration(model, test, audit.terms.confidence),
        "cost": _cost(groups, earlier),
        "changed": groups[0].get("change"),
        "excluded": _excluded(audit),
        "impact_ratios": _impact_ratios(impact_ratios),
        "caveats": list(_caveats(audit, model)),
    }
    return {**shown, "summary": summary(shown)}


def _excluded(audit: Audit) -> dict[str, Any] | None:
    """Rows that lack a sensitive value, and how far selection rates and requirements depend on them."""
    if audit.excluded is None:
        return None
    return {
        "text": str(audit.excluded),
        "rates": [
            {"name": group_name(one.group), "value": _known(one.value), "low": one.low, "high": one.high}
            for one in audit.excluded.rates[: len(audit.terms.rates) * _MOST_GROUPS]
            if one.rate == SELECTION.name and not np.isnan(one.low)
        ],
        "comparisons": [
            {"name": f"{one.notion}, {one.groups}", "cells": list(range_cells(one))}
            for one in audit.excluded.comparisons
            if one.tolerance is not None
        ],
        "notes": range_notes(audit.comparisons, audit.excluded),
    }


def _impact_ratios(found: ImpactRatios | None) -> dict[str, Any] | None:
    """Tables of Local Law 144, cell by cell, and their notes."""
    if found is None:
        return None
    tables = [{"headings": found.headings(table), "lines": found.lines(table)} for table in found.tables]
    return {"tables": tables, "notes": found.notes()}


def _cost(groups: Sequence[Mapping[str, Any]], earlier: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Accuracy after and before, and its change, as far as they are known."""
    error = groups[0]["rates"].get("error rate")
    if error is None:
        return None
    old = None if earlier is None else earlier["groups"][0]["rates"].get("error rate")
    change = (groups[0].get("change") or {}).get("rates", {}).get("error rate")
    return {
        "after": _subtracted(error, 1.0),
        "before": None if old is None else _subtracted(old, 1.0),
        "change": None if change is None else _subtracted(change, 0.0),
    }


def _subtracted(rate: Mapping[str, Any], start: float) -> dict[str, Any]:
    """`start` minus a rate, with its limits."""
    turned = zip(_LIMITS, (rate[key] for key in ("value", "high", "low")), strict=True)
    return {key: None if number is None else start - number for key, number in turned}


def _calibration(
    model: FairClassifier | None, test: Sequence[Any] | None, confidence: float
) -> list[dict[str, Any]]:
    """Predicted and observed share of positives, by group, in up to ten bins of equal size."""
    if test is None or not isinstance(model, FairPostprocessor):
        return []
    X, y, sensitive = (*test, None)[:3]
    aware = model.aware is not False and model.sensitive_features is None
    eta = model.predict_label_proba(X, sensitive_features=sensitive if aware else None)
    positive = read_labels(y, pos_label=model.pos_label_).positive
    where = model.settings().columns
    columns = columns_of(X, where) if where is not None else sensitive
    codes = model.groups_.encode(columns)
    found = []
    for m, name in enumerate(model.groups_.names):
        own = np.flatnonzero(codes == m)
        for rows in np.array_split(own[np.argsort(eta[own], kind="stable")], min(10, max(1, len(own) // 20))):
            if len(rows):
                share = wilson(positive[rows].mean(), len(rows), critical_value(confidence))
                limits = {key: float(getattr(share, key)) for key in ("low", "high")}
                observed, predicted = float(positive[rows].mean()), float(eta[rows].mean())
                row = {"group": str(name), "predicted": predicted, "observed": observed, "n": len(rows)}
                found.append({**row, **limits})
    return found


def _name(group: Mapping[str, Any] | None) -> str:
    return ", ".join(f"{feature}={value}" for feature, value in (group or {}).items()) or "everyone"


def _named(group: Mapping[str, Any]) -> dict[str, Any]:
    return {**group, "name": _name(group["group"])}


def _flat(finding: Finding, group: Mapping[str, Any]) -> dict[str, Any]:
    return {**_named(group), "small": finding.rows is not None and finding.rows < _SMALL}


def _comparison(found: Mapping[str, Any]) -> dict[str, Any]:
    name = None if found["group"] is None else _name(found["group"])
    if name is not None and found.get("stratum"):
        name = f"{name} given {_name(found['stratum'])}"
    kept = {key: value for key, value in found.items() if key not in ("distances", "aggregate", "empty")}
    asked = found["tolerance"] is not None and found["notion"] != FOUR_FIFTHS
    statistics = dict.fromkeys(part["statistic"] for part in found["distances"])
    return {
        **kept,
        "group": name,
        "undefined": [_name(one) for one in found["undefined"]],
        "given": found.get("given", []),
        "vacuous": [_name(one) for one in found.get("vacuous", ())],
        "empty": [_name(one) for one in found.get("empty", ())],
        "strata": list(_strata(found)),
        "strata_left_out": max(0, len(found.get("strata", ())) - _MOST_STRATA),
        "statistics": list(statistics) or [found["statistic"] or "rate"],
        "asked": asked,
        "beside": None if asked else _beside(found),
    }


def _strata(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The disparity of all rows together, and that of each stratum; of many, the worst."""
    sign = -1.0 if found["measure"] == "difference" else 1.0
    parts = found.get("strata", [])
    if len(parts) > _MOST_STRATA:
        known = [one for one in parts if one["value"] is not None]
        parts = sorted(known, key=lambda one: sign * one["value"])[:_MOST_STRATA]
    whole = found.get("aggregate")
    for one in [*([] if whole is None else [whole]), *parts]:
        where = _name(one["stratum"]) if one.get("stratum") else "all together"
        limits = {key: one[key] for key in _LIMITS}
        yield {"stratum": where, **limits, "group": None if one["group"] is None else _name(one["group"])}


def _bounds(audit: Audit) -> dict[str, Any]:
    """For the chart of rates: the bounds, and rates that are bounded but not reported for every group."""
    found = [one for one in audit.comparisons if one.against == "bound"]
    return {
        "limits": [{"quantity": one.statistic, "value": one.tolerance} for one in found],
        "rates": [
            {"group": group_name(part.group), "quantity": part.statistic, **_limits(part)}
            for one in {one.notion: one for one in found}.values()
            if one.statistic not in audit.terms.rates
            for part in one.distances
        ],
    }


def _limits(found: Distance | Rate) -> dict[str, float | None]:
    return {key: _known(getattr(found, key)) for key in _LIMITS}


def _beside(found: Mapping[str, Any]) -> str | None:
    """How an interval compares with a limit that nobody asked for, without a verdict."""
    limit, low, high = (found[key] for key in ("tolerance", "low", "high"))
    if limit is None or low is None or high is None:
        return None
    if low <= limit <= high:
        return f"the interval contains {limit:g}"
    return f"the interval is {'below' if high < limit else 'above'} {limit:g}"


def _model(model: FairClassifier) -> dict[str, Any]:
    proof = claimed(model) if isinstance(model, FairPostprocessor | FairInprocessor) else None
    guarantee = getattr(model, "guarantee_", None)
    shown: dict[str, Any] = {
        "method": "post-processing" if isinstance(model, FairPostprocessor) else "in-processing",
        "asked": [one for part in model.settings().constraint.requirements for one in _asked(part)],
        "aware": model.aware if isinstance(model.aware, bool) else ", ".join(model.aware),
        "guarantee": None if guarantee is None else {"holds": guarantee.holds, "text": str(guarantee)},
        "proof": None
        if proof is None
        else {
            "requirement": repr(proof.requirement),
            "gap": proof.risk - proof.bound,
            **{name: getattr(proof, name) for name in _OF_PROOF},
        },
        "prices": None,
        "rule": None,
    }
    if isinstance(model, FairPostprocessor):
        shown["prices"] = _prices(
            model.shadow_prices_, in_errors=claimed(model).halved, worst=model.objective != "risk"
        )
        names = [str(name) for name in model.compared_.cell_names]
        shown["rule"] = rule_records(model.rule_, names, aware=model.aware is True)
    return shown


def _asked(part: Requirement) -> Iterator[dict[str, Any]]:
    """What a requirement asks for, in the words of a comparison."""
    if isinstance(part, Notion):
        yield {
            "notion": part.label,
            "measure": part.compares_by,
            "tolerance": part.tolerance,
            "groups": part.groups,
            "against": part.against,
            "given": list(part.controls),
            "statistics": [statistic.name for statistic in part.statistics],
        }
    elif isinstance(part, RateBound):
        sides = (("at least", part.at_least), ("at most", part.at_most))
        for side, bound in ((side, bound) for side, bound in sides if bound is not None):
            known = {"notion": part.label, "measure": side, "tolerance": float(bound), "groups": part.groups}
            yield {**known, "against": "bound", "statistics": [part.label]}
    elif isinstance(part, NoWorse):
        side = "at least" if part.more_is_better else "at most"
        yield {
            "notion": part.label,
            "measure": side,
            "tolerance": 0.0,
            "groups": part.groups,
            "against": "reference",
            "statistics": [part.rate_statistic.name],
            "than": "under the best rule without a requirement" if isinstance(part.than, str) else None,
        }


def _prices(prices: Mapping[ConstraintName, float], *, in_errors: bool, worst: bool) -> dict[str, Any]:
    """Shadow prices: of places in words, of everything else as what 0.01 more tolerance would save."""
    unit = 2.0 if in_errors else 1.0  # with both costs 1/2, the risk is half the error
    places = [price for name, price in prices.items() if _is_capacity(name)]
    return {
        "of": "accuracy" if in_errors else "risk",
        "whose": "of the worst group" if worst else "",
        "places": [place_in_words(unit * price, in_errors=in_errors, worst=worst) for price in places],
        "rows": [
            {"row": str(name), "price": 0.01 * unit * abs(price)}
            for name, price in prices.items()
            if not _is_capacity(name)
        ],
    }


def _is_capacity(name: ConstraintName) -> bool:
    return name.notion == name.statistic == SELECTION.name and not name.group.features


def rule_records(rule: Rule, names: list[str], *, aware: bool) -> dict[str, Any]:
    """Thresholds of an attribute-aware rule, or the table W of an attribute-blind one."""
    table = np.asarray(rule.table, dtype=np.float64)
    if not aware:
        weights = [
            {"group": name, "label": label, "weight": float(table[m, label])}
            for m, name in enumerate(names)
            for label in (0, 1)
        ]
        return {"kind": "weights", "weights": weights}
    thresholds = [
        {"group": name, **{key: value for key, value in asdict(one).items() if key != "steps" or value}}
        for name, one in zip(names, group_thresholds(rule), strict=True)
    ]
    return {"kind": "thresholds", "thresholds": thresholds}


def _frontier(frontier: Frontier, model: FairClassifier | None) -> dict[str, Any]:
    notions = () if model is None else model.settings().constraint.notions
    asked = notions[0].tolerance if notions else None
    known = isinstance(model, FairPostprocessor) and model.access_.knows(model.groups_)
    names = list(dict.fromkeys(point.curve for point in frontier.points))
    own = [name for name in names if frontier.curve(name)[0].aware == known]
    points = [
        {**record, "groups": list(_rates(point, frontier.confidence)), "rules": _rules(point)}
        for point, record in zip((*frontier.points, *frontier.others), frontier.records(), strict=True)
    ]
    return {
        "notion": frontier.notions,
        "measure": frontier.measure,
        "confidence": frontier.confidence,
        "rows": frontier.n_rows,
        "complete": frontier.complete,
        "mixtures": sum(point.origin == "mixture" for point in frontier.points),
        "curves": names,
        "chosen": own[0] if model is not None and own else names[0],
        "asked": asked,
        "expected": any(point["expected_accuracy"] is not None for point in points),
        "points": points,
        "prices": frontier.price_records(),
    }


def _rates(point: Point, confidence: float) -> Iterator[dict[str, Any]]:
    for finding in point.groups(confidence)[:_MOST_GROUPS]:
        yield {
            "name": str(finding.group) or "everyone",
            "rows": finding.rows,
            "rates": {name: _limits(rate) for name, rate in finding.rates.items()},
        }


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _rules(point: Point) -> list[dict[str, Any]]:
    names = [str(name) for name in point.counted.rates.groups.cell_names]
    return [rule_records(rule, names, aware=point.aware) for rule in point.rules]


def _caveats(audit: Audit, model: FairClassifier | None) -> Iterator[str]:
    small = [group for group in audit.groups if group.rows is not None and 0 < group.rows < _SMALL]
    absent = [group for group in audit.groups if group.rows == 0]
    if small:
        yield f"Groups with fewer than {_SMALL} rows: {len(small)}. Their rates are very uncertain."
    for pooled in audit.terms.pooled:
        yield f"Pooled: {pooled}"
    if absent:
        yield f"Combinations that do not occur in these rows: {len(absent)}. Nothing is known about them."
    if audit.excluded is not None:
        yield str(audit.excluded)
    learned = None if model is None else Excluded.of_groups(model.groups_)
    if learned is not None:
        yield f"Of the rows that the model was fitted to: {learned}"
    everyone = audit.groups[0]
    if everyone.rows and everyone.selected in (0, everyone.rows):
        who = "Everybody" if everyone.selected else "Nobody"
        yield f"{who} is selected: these decisions are constant."
    if audit.terms.by_proxy:
        yield f"{audit.terms.by_proxy[0].upper()}{audit.terms.by_proxy[1:]}"
    yield "Intervals account for chance in these rows. They do not cover data from another population."
    if audit.terms.labelled:
        yield "Error rates assume that the labels are correct. Labels can be unfair themselves."
    imputed = getattr(model, "imputed_", None)
    if imputed is not None and imputed.imputed:
        yield (
            f"In the fit, {imputed}. This is right if they are missing at random given features and label, "
            "which data cannot show."
        )
    if model is not None:
        yield (
            "The proof is about the best classifier for the learned probabilities. If these are wrong, "
            "another classifier may be better. The rates above are measured and do not depend on them."
        )
    if getattr(model, "guarantee_", None) is None:
        yield "Nothing is guaranteed for new data: set a confidence when fitting, or audit new decisions."
