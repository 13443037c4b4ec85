"""What a report says of a model: learner, data, proof, prices, rule, and how good its probabilities are."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np

from evenhand.auditing.audit import audit
from evenhand.auditing.comparison import group_name
from evenhand.auditing.figure_tables import plain
from evenhand.auditing.result import Audit
from evenhand.auditing.score_audit import audit_scores
from evenhand.data.features import columns_of
from evenhand.estimators.base import FairClassifier
from evenhand.estimators.limits import refused_with_actions
from evenhand.estimators.postprocess import FairPostprocessor
from evenhand.exceptions import InputError
from evenhand.files.recertify import claimed
from evenhand.groups.groups import Missing
from evenhand.optimum.action_rule import ActionRule
from evenhand.report.summary import place_in_words
from evenhand.requirements.bounds import needs_reference
from evenhand.requirements.constraints import ConstraintName
from evenhand.requirements.statistic import SELECTION

_BINDS = 1e-9
_PACKAGES = ("evenhand", "scikit-learn", "numpy", "scipy")
_LEARNERS = ("xgboost", "lightgbm")
_OF_PROOF = ("tightened", "risk_name", "risk", "bound", "violation", "trained")
_MOST_FEATURES = 200


def describe(model: FairClassifier) -> dict[str, Any]:
    """What is known of a fitted model, as plain values."""
    if isinstance(getattr(model, "rule_", None), ActionRule):
        raise refused_with_actions("report")
    proof, guarantee, constraint = claimed(model), model.guarantee_, model.settings().constraint
    prices = getattr(model, "shadow_prices_", None) or getattr(model, "multipliers_", {})
    plain = model.objective == "risk" and (guarantee is None or guarantee.ranks is None)
    shown: dict[str, Any] = {
        "method": "post-processing" if isinstance(model, FairPostprocessor) else "in-processing",
        "asked": repr(constraint),
        "unconstrained": needs_reference(constraint),
        "aware": model.aware if isinstance(model.aware, bool) else ", ".join(model.aware),
        "guarantee": None if guarantee is None else guarantee.to_dict(),
        "binds": not plain or any(abs(price) > _BINDS for price in prices.values()),
        "card": _card(model),
        "margin": model.forecast_.margin,
        "proof": {
            "requirement": repr(proof.requirement),
            "gap": proof.risk - proof.bound,
            **{name: getattr(proof, name) for name in _OF_PROOF},
        },
        "prices": None,
        "thresholds": [
            {"group": str(name), "threshold": one.threshold, "note": one.note}
            for name, one in getattr(model, "thresholds_", {}).items()
        ],
        "weights": [],
    }
    if isinstance(model, FairPostprocessor):
        if model.objective == "risk":  # otherwise prices are not about people
            shown["prices"] = _prices(model.shadow_prices_, in_errors=proof.halved)
        if not shown["thresholds"]:
            table = np.asarray(model.rule_.table, dtype=np.float64).tolist()
            names = map(str, model.compared_.cell_names)
            shown["weights"] = [
                {"group": name, "weights": row} for name, row in zip(names, table, strict=True)
            ]
    return shown


def _card(model: FairClassifier) -> list[dict[str, str]]:
    """Learner, features and training data, line by line."""
    learner, rows = model._label_estimator(), model.fitted_to_
    parameters = learner.get_params(deep=True)
    settings = ", ".join(f"{name}={value!r}" for name, value in parameters.items() if np.isscalar(value))
    steps = [step for _, step in getattr(learner, "steps", [])]  # of a pipeline
    hidden = {str(name) for name in model.access_.unused}
    names = [str(name) for name in getattr(model, "feature_names_in_", ()) if str(name) not in hidden]
    listed = ", ".join(names[:_MOST_FEATURES]) + (" and others" if len(names) > _MOST_FEATURES else "")
    count = len(names) if names else model.n_features_in_ - len(hidden)
    lines = {
        "learner": ", ".join(type(part).__name__ for part in steps or [learner]),
        "its settings": settings or "none",
        "features": f"{count:,}" + (f": {listed}" if names else ""),
        "sensitive features": ", ".join(map(str, model.groups_.features)),
        "training rows": f"{rows.rows:,}",
        "fitted on": f"{model.fitted_on_.isoformat()} (UTC)",
        "hash of the training data": rows.unordered or f"labels {rows.labels}, features {rows.features}",
        "cost of errors": str(np.asarray(model.cost).tolist()),
    }
    return [{"about": about, "text": text} for about, text in lines.items()]


def versions(model: FairClassifier | None) -> dict[str, str]:
    """Versions of Python and packages; of a learner's package if the model uses it."""
    learner = None if model is None else model._label_estimator()
    parts = [] if learner is None else [learner, *learner.get_params(deep=True).values()]
    used = {type(part).__module__.partition(".")[0] for part in parts}
    found = {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}
    return found | {name: import_module(name).__version__ for name in _LEARNERS if name in used}


def on_test_rows(
    model: FairClassifier | None, test: Sequence[Any] | None, reported: Audit
) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]], Audit | None]:
    """How good probabilities are in each group, and what they decide without the requirement.

    Parameters
    ----------
    model : FairPostprocessor or FairInprocessor
    test : (X, y) or (X, y, sensitive_features)
    reported : Audit

    Returns
    -------
    list of dict
        Predicted and observed share of positives in tenths of all rows, for each combination.
    dict
        By the name of a group: AUC, and the mean of predicted probabilities.
    Audit or None
        Without the requirement; None if it is not about the reported rows.
    """
    if test is None or not isinstance(model, FairPostprocessor):
        return [], {}, None
    X, y, given = (*test, None)[:3]
    where, terms = model.settings().columns, reported.terms
    sensitive = given if where is None else columns_of(X, where)
    usable = given if model.aware is not False and model.sensitive_features is None else None
    missing: Missing = "category" if model.groups_.missing == "category" else "exclude"
    found = audit_scores(
        y,
        model.predict_label_proba(X, sensitive_features=usable),
        sensitive,
        confidence=terms.confidence,
        pos_label=model.pos_label_,
        missing=missing,
    )
    names = {str(name) for name in model.groups_.names}
    bins = [{**one, "n": one["rows"]} for one in found.records("calibration") if one["group"] in names]
    judged = {group_name(one.group): {"auc": plain(one.auc), "predicted": one.mean} for one in found.groups}
    try:
        without = audit(
            y,
            model.predict_unconstrained(X, sensitive_features=usable),
            sensitive,
            control_features=columns_of(X, list(model.strata_.features)) if model.strata_ else None,
            constraint=model.settings().constraint,
            confidence=terms.confidence,
            pos_label=model.pos_label_,
            missing=missing,
        )
    except InputError:  # audited in another way, such as with pooled groups
        return bins, judged, None
    return bins, judged, without if without.groups[0].rows == reported.groups[0].rows else None


def _prices(prices: Mapping[ConstraintName, float], *, in_errors: bool) -> dict[str, Any]:
    """Shadow prices: of places in words, of all else that binds as what it would gain if easier by 0.01."""
    unit = 2.0 if in_errors else 1.0  # with both costs 1/2, the risk is half the error
    places = [price for name, price in prices.items() if _is_capacity(name)]
    others = {str(name): abs(price) for name, price in prices.items() if not _is_capacity(name)}
    rows = [{"row": name, "price": 0.01 * unit * price} for name, price in others.items() if price > _BINDS]
    return {
        "of": "accuracy" if in_errors else "risk",
        "places": [place_in_words(unit * price, in_errors=in_errors) for price in places],
        "rows": sorted(rows, key=lambda row: -row["price"]),
        "idle": len(others) - len(rows),
    }


def _is_capacity(name: ConstraintName) -> bool:
    return name.notion == name.statistic == SELECTION.name and not name.group.features
