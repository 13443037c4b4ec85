"""The contents of a report as plain values, which the page and the model card show."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.auditing.comparison import FOUR_FIFTHS, Comparison, asks, group_name
from evenhand.auditing.figure_tables import plain
from evenhand.auditing.group_rates import Excluded
from evenhand.auditing.impact_ratios import ImpactRatios
from evenhand.auditing.result import Audit, audit_dict
from evenhand.estimators.base import FairClassifier
from evenhand.exceptions import InputError
from evenhand.guarantee.forecast import Expected
from evenhand.report.model import describe, on_test_rows, versions
from evenhand.report.summary import summary
from evenhand.requirements.statistic import SELECTION
from evenhand.tradeoff.frontier import Frontier

_SMALL = 30
_LIMITS = ("value", "low", "high")
_MOST_GROUPS = 200
_SAME = 1e-9


def contents(
    audit: Audit,
    before: Audit | None = None,
    without: Audit | None = None,
    model: FairClassifier | None = None,
    frontier: Frontier | None = None,
    *,
    test: Sequence[Any] | None = None,
    title: str = "",
    data: str = "",
    impact_ratios: ImpactRatios | None = None,
) -> dict[str, Any]:
    """The contents of a report.

    Parameters
    ----------
    audit : Audit
        Of the reported decisions, on held-out rows.
    before : Audit, default=None
        Of a plain model, on the same rows.
    without : Audit, default=None
        Of the same probabilities without the requirement; by default made from `model` and `test`.
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
    hidden = audit.terms.min_count
    others = {"test": test, "frontier": frontier, "impact_ratios": impact_ratios}
    reveal = [name for name, there in others.items() if there is not None]
    audits = {"before": before, "without": without}
    reveal += [name for name, one in audits.items() if one is not None and one.terms.min_count < hidden]
    if hidden and reveal:
        raise InputError(
            f"the audit hides counts below min_count={hidden}, and {', '.join(reveal)} would show them: omit "
            "that, or make earlier audits with the same min_count."
        )
    bins, probabilities, own = on_test_rows(model, test, audit)
    compared = {"plain": before, "without": without or own}
    earlier = {name: audit_dict(one, group_name) for name, one in compared.items() if one}
    found = audit_dict(audit, group_name)
    groups = [
        _group(one, {name: of["groups"] for name, of in earlier.items()}, probabilities)
        for one in found["groups"]
    ]
    rows = audit.groups[0].rows
    expected = [] if model is None or not rows else list(model.forecast_.on(round(rows)).expected)
    shown = {
        "title": title,
        "data": data,
        "date": datetime.date.today().isoformat(),
        "versions": versions(model),
        "confidence": audit.terms.confidence,
        "reading": audit.terms.reading,
        "rows": rows,
        "features": list(audit.terms.features),
        "rates": list(audit.terms.rates),
        "groups": groups[:_MOST_GROUPS],
        "groups_left_out": max(0, len(groups) - _MOST_GROUPS),
        "small": _SMALL if any(one["small"] for one in groups[:_MOST_GROUPS]) else None,
        "columns": list(earlier),
        "comparisons": [
            {**_comparison(one, earlier, expected), "measured": _measured(result)}
            for one, result in zip(found["comparisons"], audit.comparisons, strict=True)
        ],
        "model": None if model is None else describe(model),
        "frontier": None if frontier is None else _frontier(frontier, model),
        "calibration": bins,
        "probabilities": bool(probabilities),
        "cost": _cost(groups[0]),
        "changed": _changed(groups[0]),
        "excluded": audit.excluded and str(audit.excluded),
        "impact_ratios": impact_ratios
        and {"tables": [one.lines for one in impact_ratios.blocks()], "notes": impact_ratios.notes()},
        "caveats": _caveats(audit, model),
    }
    return {**shown, "summary": summary(shown)}


def _group(
    found: Mapping[str, Any],
    earlier: Mapping[str, Sequence[Mapping[str, Any]]],
    probabilities: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """A group with the rates of the decisions that it is compared with, and how good probabilities are."""
    name, rows = found["group"], found["rows"]
    before: dict[str, Any] = {
        which: next((one["rates"] for one in groups if one["group"] == found["group"]), {})
        for which, groups in earlier.items()
    }
    judged = probabilities.get(name)
    if judged and rows and found["positives"] is not None:
        judged = {**judged, "observed": found["positives"] / rows}
    small = rows is not None and rows < _SMALL
    return {**found, "name": name, "small": small, "before": before, "probabilities": judged}


def _cost(everyone: Mapping[str, Any]) -> dict[str, Any] | None:
    """Accuracy with the requirement and before it, and the difference, as far as they are known."""
    error = everyone["rates"].get("error rate")
    if error is None:
        return None
    old = {name: rates["error rate"] for name, rates in everyone["before"].items() if rates.get("error rate")}
    last = old.get("without") or old.get("plain")
    change = (everyone.get("change") or {}).get("rates", {}).get("error rate")
    if last is not None and (change is None or not _same(error["value"] - change["value"], last["value"])):
        change = {"value": error["value"] - last["value"], "low": None, "high": None}
    return {
        "after": _subtracted(error, 1.0),
        "before": {name: _subtracted(one, 1.0) for name, one in old.items()},
        "change": None if change is None else _subtracted(change, 0.0),
    }


def _changed(everyone: Mapping[str, Any]) -> dict[str, Any] | None:
    """Decisions that changed, and since when: since those whose selection rate the change starts from."""
    change, rate = everyone.get("change"), everyone["rates"].get(SELECTION.name)
    if not change or not rate:
        return None
    start = rate["value"] - change["rates"][SELECTION.name]["value"]
    of = {name: (rates.get(SELECTION.name) or {}).get("value") for name, rates in everyone["before"].items()}
    return {**change, "since": next((name for name in reversed(of) if _same(of[name], start)), "before")}


def _same(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and abs(one - other) < _SAME


def _subtracted(rate: Mapping[str, Any], start: float) -> dict[str, Any]:
    """`start` minus a rate, with its limits."""
    turned = zip(_LIMITS, (rate[key] for key in ("value", "high", "low")), strict=True)
    return {key: None if number is None else start - number for key, number in turned}


def _comparison(
    found: Mapping[str, Any], earlier: Mapping[str, Mapping[str, Any]], expected: list[Expected]
) -> dict[str, Any]:
    name = found["group"]
    if name is not None:
        name += f" given {found['stratum']}" if found["stratum"] else ""
        name += f" ({found['side']})" if found["side"] else ""
    kept = {key: value for key, value in found.items() if key != "distances"}
    asked = found["tolerance"] is not None and found["notion"] != FOUR_FIFTHS
    statistics = dict.fromkeys(part["statistic"] for part in found["distances"])
    return {
        **kept,
        "group": name,
        "statistics": list(statistics) or [found["statistic"] or "rate"],
        "asked": asked,
        "forecast": _forecast(found, expected) if asked else None,
        "before": {key: _counterpart(found, audit["comparisons"]) for key, audit in earlier.items()},
    }


def _measured(found: Comparison) -> str:
    """What is measured, without the notion; of a rate and its reference, the change."""
    return asks(found).removeprefix(found.notion).removeprefix(", ") or f"change, {found.measure}"


def _counterpart(found: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> float | None:
    """The same comparison of other decisions."""
    keys = ("notion", "measure", "groups", "against", "given")
    same = (one for one in others if all(one.get(key) == found.get(key) for key in keys))
    return next((one["value"] for one in same), None)


def _forecast(found: Mapping[str, Any], expected: list[Expected]) -> dict[str, Any] | None:
    """What as many new rows were likely to show; the first that is about this, which no other takes then."""
    measure = found["measure"] if found["against"] in ("population", "groups", "named") else "bound"
    for one in expected:
        about = one.notion == found["notion"] and one.measure == measure
        if about and _same(one.asked, found["tolerance"]) and not math.isnan(one.value):
            expected.remove(one)
            return {key: plain(getattr(one, key)) for key in _LIMITS}
    return None


def _frontier(frontier: Frontier, model: FairClassifier | None) -> dict[str, Any]:
    notions = () if model is None else model.settings().constraint.notions
    asked = notions[0].tolerance if notions else None
    points = frontier.records()
    for record, point in zip(points, (*frontier.points, *frontier.others), strict=True):
        record["groups"] = [
            {"name": group_name(one.group), "rows": one.rows, "rates": plain(one.rates)}
            for one in point.groups(frontier.confidence)[:_MOST_GROUPS]
        ]
    return {
        "notion": frontier.notions,
        "rows": frontier.n_rows,
        "measure": frontier.measure,
        "confidence": frontier.confidence,
        "curves": list(dict.fromkeys(point.curve for point in frontier.points)),
        "asked": asked,
        "expected": any(point["expected_accuracy"] is not None for point in points),
        "points": points,
        "prices": frontier.price_records(),
    }


def _caveats(audit: Audit, model: FairClassifier | None) -> list[str]:
    everyone, terms, by_proxy = audit.groups[0], audit.terms, audit.terms.by_proxy or ""
    small = sum(group.rows is not None and 0 < group.rows < _SMALL for group in audit.groups)
    absent = sum(group.rows == 0 for group in audit.groups)
    fitted, learned = model is not None, None if model is None else Excluded.of_groups(model.groups_)
    imputed, unsure = getattr(model, "imputed_", None), getattr(model, "guarantee_", None) is None
    constant = everyone.rows and everyone.selected in (0, everyone.rows)
    who = "Everybody" if everyone.selected else "Nobody"
    said = {
        f"Groups with fewer than {_SMALL} rows: {small}. Their rates are very uncertain.": small,
        **{f"Pooled: {pooled}": True for pooled in terms.pooled},
        f"Combinations that do not occur in these rows: {absent}. Nothing is known about them.": absent,
        str(audit.excluded): audit.excluded,
        f"Of the rows that the model was fitted to: {learned}": learned,
        f"{who} is selected: these decisions are constant.": constant,
        f"{by_proxy[:1].upper()}{by_proxy[1:]}": by_proxy,
        "Intervals account for chance in these rows. They do not cover data from another population.": True,
        "Error rates assume that the labels are correct. Labels can be unfair themselves.": terms.labelled,
        f"In the fit, {imputed}. This is right if they are missing at random given features and label, which "
        "data cannot show.": imputed and imputed.imputed,
        "The proof is about the best classifier for the learned probabilities. If these are wrong, another "
        "classifier may be better. The rates above are measured and do not depend on them.": fitted,
        "Nothing is guaranteed for new data: set a confidence when fitting, or audit new decisions.": unsure,
    }
    return [text for text, holds in said.items() if holds]
