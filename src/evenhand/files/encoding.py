"""Fitted models as plain JSON, and back.

Our own objects are written as class name and fields, and made again by constructors from a fixed table.
Arrays and classifiers of other packages go into a list of parts and are referred to by index. Python's JSON
restores floats exactly.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from evenhand.data.fingerprint import Fingerprint
from evenhand.estimators import access, fair_training, imputed, proxy_groups, settings, trained_models
from evenhand.estimators.base import FairClassifier
from evenhand.estimators.inprocess import FairInprocessor
from evenhand.estimators.postprocess import FairPostprocessor
from evenhand.exceptions import InputError, UntrustedFileError
from evenhand.groups import groups, proxy
from evenhand.groups.groups import POOLED, GroupName
from evenhand.guarantee import forecast, group_tests, guarantee, ranks
from evenhand.optimum.action_rule import ActionRule
from evenhand.optimum.rule import Rule
from evenhand.optimum.rule_format import of_actions
from evenhand.posteriors import calibration, chain, learner, models, table_encoder
from evenhand.requirements import (
    action_rates,
    actions,
    bounds,
    constraints,
    measurement,
    notions,
    rates,
    requirement,
    statistic,
)
from evenhand.requirements.constraints import ByName, ConstraintName
from evenhand.requirements.parameters import Parameters
from evenhand.solver.certificate import Certificate

MODELS: dict[str, type[FairClassifier]] = {
    kind.__name__: kind for kind in (FairPostprocessor, FairInprocessor)
}
_CLASSES: tuple[type[Any], ...] = (
    *notions.NOTIONS,
    *(models.Averaged, models.Calibrated, models.Encoded, models.GroupByFeature, models.Joint),
    *(models.KnownGroup, models.LabelAndProxy, models.LabelThenGroup, models.Product, models.Restricted),
    *(calibration.CellCalibrator, calibration.GroupCalibrator, calibration.LabelSoftmax, calibration.Sigmoid),
    *(calibration.Softmax, chain.FeatureChain, learner.Learner, table_encoder.Preparation),
    *(table_encoder.TableEncoder, bounds.RateBound, bounds.NoWorse, statistic.Statistic),
    *(requirement.AllOf, requirement.WithMargins, constraints.LinearConstraints, ConstraintName),
    *(measurement.BoundMeasurement, measurement.Measurement, rates.CellRates, action_rates.ActionRates),
    *(actions.Actions, actions.Costs, groups.Groups, GroupName, proxy.Proxy, Certificate, Fingerprint),
    *(forecast.ActionForecast, forecast.Forecast, group_tests.GroupTest, guarantee.GuaranteeResult),
    *(ranks.Ranks, access.AttributeAccess, imputed.ImputedRows, proxy_groups.ProxyAccess),
    *(trained_models.ClassifierMixture, trained_models.GroupThresholds, fair_training.TrainingCertificate),
    *(settings.CrossFit, settings.GroupPolicy, settings.Guarantee),
)
_OURS = {kind.__name__: kind for kind in _CLASSES}
_ELSEWHERE = {"_file", "_source"}
_TIMES: dict[str, Any] = {kind.__name__: kind for kind in (datetime.date, datetime.datetime, datetime.time)}


def encode_model(model: FairClassifier, trusted: Collection[str] = ()) -> tuple[dict[str, Any], list[Any]]:
    """A fitted model as plain values.

    Parameters
    ----------
    model : FairPostprocessor or FairInprocessor
    trusted : collection of str, default=()
        Full names of functions that may be parts.

    Returns
    -------
    content, parts
        Values that JSON can hold, and arrays and classifiers.
    """
    writer = _Writer(trusted)
    state = {
        name: writer.encode(value, name) for name, value in vars(model).items() if name not in _ELSEWHERE
    }
    return {"model": type(model).__name__, "state": state}, writer.parts


def read_rule(text: str) -> Rule | ActionRule:
    """The rule that a text holds, of two decisions or of several actions."""
    return ActionRule.from_json(text) if of_actions(text) else Rule.from_json(text)


def decode_model(content: Any, parts: list[Any]) -> FairClassifier:
    """The model that :func:`encode_model` wrote.

    Parameters
    ----------
    content : dict
    parts : list

    Returns
    -------
    FairPostprocessor or FairInprocessor
    """
    kind = MODELS[content["model"]]
    model = kind()
    known = set(model.get_params(deep=False))
    for name, value in content["state"].items():
        if name not in known and not (name.endswith("_") and not name.startswith("_")):
            raise UntrustedFileError(f"the model has an unknown attribute {name!r}.")
        model.__dict__[name] = decode_value(value, parts)
    tags = model.__dict__.get("input_tags_", (False, False))
    if not (isinstance(tags, tuple) and [type(tag) for tag in tags] == [bool, bool]):
        raise UntrustedFileError("the model has tags that evenhand does not write.")
    for name in ("rule_", "solved_rule_") if kind is FairPostprocessor else ():
        one, shape = model.__dict__[name], (len(model.compared_), len(model.classes_))
        if type(one) is not type(model.__dict__["rule_"]) or one.table.shape[:2] != shape:
            raise UntrustedFileError("the model and its rule do not belong together.")
    return model


def encode_value(value: Any) -> tuple[Any, list[Any]]:
    """Requirements, groups and plain values as what JSON can hold, and the arrays among them."""
    writer = _Writer(())
    return writer.encode(value, "it"), writer.parts


class _Writer:
    """Encodes values and collects parts; the same object becomes the same part."""

    def __init__(self, trusted: Collection[str]) -> None:
        self._trusted = trusted
        self.parts: list[Any] = []
        self._places: dict[int, int] = {}

    def encode(self, value: Any, where: str) -> Any:  # noqa: PLR0911  (one per kind of value)
        kind = type(value)
        if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
            return value
        if kind is float:
            return {"float": repr(value)}
        if kind is list or kind is tuple:
            return {kind.__name__: [self.encode(item, where) for item in value]}
        if isinstance(value, Mapping) and not isinstance(value, Parameters):
            pairs = [[self.encode(one, where) for one in pair] for pair in value.items()]
            return {"dict": pairs}
        if value is POOLED:
            return {"pooled": True}
        if kind is Rule or kind is ActionRule:
            return {"rule": value.to_json()}
        if _TIMES.get(kind.__name__) is kind:
            return {kind.__name__: value.isoformat()}
        if _OURS.get(kind.__name__) is kind:
            found = {name: self.encode(item, name) for name, item in _fields(value).items()}
            return {"object": kind.__name__, "fields": found}
        if callable(value) and not hasattr(value, "fit") and not isinstance(value, np.generic | type):
            function = getattr(value, "__name__", value)
            name = f"{getattr(value, '__module__', None)}.{function}"
            if name not in self._trusted:
                raise InputError(
                    f"this model cannot be saved: {where} holds the function {function!r}, and model files "
                    f"hold no code. Name columns instead, or pass trusted=[{name!r}] to save and to load."
                )
        return {"part": self._part(value)}

    def _part(self, value: Any) -> int:
        if id(value) not in self._places:
            self._places[id(value)] = len(self.parts)
            self.parts.append(value)
        return self._places[id(value)]


def _fields(value: Any) -> dict[str, Any]:
    if is_dataclass(value):
        names = [field.name for field in fields(value) if field.init and field.name != "memory"]
        return {name: getattr(value, name) for name in names}
    params: dict[str, Any] = value.get_params(deep=False)
    return params


def decode_value(value: Any, parts: list[Any]) -> Any:
    """What :func:`encode_value` wrote."""
    if not isinstance(value, dict):
        return value
    if "object" in value:
        kind = _OURS[value["object"]]
        if "memory" in value["fields"]:  # `verify` would unpickle what is in that folder
            raise UntrustedFileError("the model names a folder of cached results, which are not read.")
        return kind(**{name: decode_value(item, parts) for name, item in value["fields"].items()})
    [(tag, content)] = value.items()
    if tag in ("list", "tuple"):
        found = [decode_value(item, parts) for item in content]
        return found if tag == "list" else tuple(found)
    if tag == "dict":
        pairs = {decode_value(key, parts): decode_value(item, parts) for key, item in content}
        named = pairs and all(isinstance(one, ConstraintName | GroupName) for one in pairs)
        return ByName(pairs) if named else pairs
    if tag == "part":
        return parts[content]
    simple: dict[str, Any] = {"float": float, "pooled": lambda _: POOLED, "rule": read_rule}
    return (simple.get(tag) or _TIMES[tag].fromisoformat)(content)
