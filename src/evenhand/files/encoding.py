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
from evenhand.estimators.access import AttributeAccess
from evenhand.estimators.base import FairClassifier
from evenhand.estimators.fair_training import TrainingCertificate
from evenhand.estimators.imputed import ImputedRows
from evenhand.estimators.inprocess import FairInprocessor
from evenhand.estimators.postprocess import FairPostprocessor
from evenhand.estimators.proxy_groups import ProxyAccess
from evenhand.estimators.settings import CrossFit, GroupPolicy, Guarantee
from evenhand.estimators.trained_models import ClassifierMixture, GroupThresholds
from evenhand.exceptions import InputError, UntrustedFileError
from evenhand.groups.groups import POOLED, GroupName, Groups
from evenhand.groups.proxy import Proxy
from evenhand.guarantee.forecast import ActionForecast, Forecast
from evenhand.guarantee.group_tests import GroupTest
from evenhand.guarantee.guarantee import GuaranteeResult
from evenhand.guarantee.ranks import Ranks
from evenhand.optimum.action_rule import ActionRule
from evenhand.optimum.rule import Rule
from evenhand.optimum.rule_format import of_actions
from evenhand.posteriors import models
from evenhand.posteriors.calibration import (
    CellCalibrator,
    GroupCalibrator,
    LabelSoftmax,
    Sigmoid,
    Softmax,
)
from evenhand.posteriors.chain import FeatureChain
from evenhand.posteriors.learner import Learner
from evenhand.posteriors.table_encoder import Preparation, TableEncoder
from evenhand.requirements.action_rates import ActionRates
from evenhand.requirements.actions import Actions, Costs
from evenhand.requirements.bounds import NoWorse, RateBound
from evenhand.requirements.constraints import ByName, ConstraintName, LinearConstraints
from evenhand.requirements.measurement import BoundMeasurement, Measurement
from evenhand.requirements.notions import NOTIONS
from evenhand.requirements.parameters import Parameters
from evenhand.requirements.rates import CellRates
from evenhand.requirements.requirement import AllOf, WithMargins
from evenhand.requirements.statistic import Statistic
from evenhand.solver.certificate import Certificate

MODELS: dict[str, type[FairClassifier]] = {
    kind.__name__: kind for kind in (FairPostprocessor, FairInprocessor)
}
_CLASSES: tuple[type[Any], ...] = (
    *(models.Averaged, models.Calibrated, models.Encoded, models.GroupByFeature, models.Joint),
    *(models.KnownGroup, models.LabelAndProxy, models.LabelThenGroup, models.Product, models.Restricted),
    *(FeatureChain, Learner, Preparation, TableEncoder, CellCalibrator, GroupCalibrator, Sigmoid, Softmax),
    *(LabelSoftmax, ActionRates, Actions, Costs, ActionForecast),
    *(*NOTIONS, RateBound, Statistic, NoWorse, AllOf, WithMargins, LinearConstraints, ConstraintName),
    *(CellRates, Certificate, Fingerprint, GroupName, GroupTest, Groups, BoundMeasurement, Measurement),
    *(Forecast, GuaranteeResult, Ranks, AttributeAccess, ImputedRows, Proxy, ProxyAccess),
    *(ClassifierMixture, GroupThresholds, TrainingCertificate, CrossFit, GroupPolicy, Guarantee),
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
