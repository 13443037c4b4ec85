"""Parameters of other packages' classifiers that a model file may not hold.

Some parameters name a path, a function or a backend. When the classifier is fitted again, code runs or files
are read: joblib unpickles the files in the folder of ``Pipeline(memory=...)``. `verify` with data fits again,
and so may anyone who loads a file. These parameters are refused when a model is saved, inspected or loaded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

CALLABLE, CLASS, OTHER = object(), object(), object()
"""Placeholders for a function, a class, and an object or array, where only plain values are compared."""

_FUNCTION_OK = {"func", "inverse_func"}
"""Of FunctionTransformer and TransformedTargetRegressor; `allowlist` lists the functions."""

_CLASS_OK = {"dtype", "dtype_exclude", "dtype_include"}
_ENCODINGS = {"utf-8", "utf8", "utf-16", "utf-32", "ascii", "latin-1", "latin1", "iso-8859-1", "cp1252"}
_PUBLIC = re.compile(r"auto|[A-Za-z]\w*(\.[A-Za-z]\w*)*")
_NAMING = re.compile(r"([\w\- ]|\{feature_name\}|\{transformer_name\})*")
_TOKEN = re.compile(r"[\w.,:()\[\]+\-]*")

_BOOSTING = set(
    """
    alpha bagging_fraction bagging_freq bagging_seed base_score boost_from_average booster boosting
    boosting_type cat_l2 cat_smooth class_weight data_random_seed deterministic drop_rate drop_seed
    early_stopping_round eta eval_metric extra_seed extra_trees feature_fraction feature_fraction_bynode
    feature_fraction_seed feature_pre_filter force_col_wise force_row_wise gamma histogram_pool_size
    interaction_constraints is_unbalance lambda lambda_l1 lambda_l2 learning_rate max_bin max_bin_by_feature
    max_cat_threshold max_cat_to_onehot max_depth max_drop metric metric_freq min_data_in_bin min_data_in_leaf
    min_data_per_group min_gain_to_split min_sum_hessian_in_leaf monotone_constraints
    monotone_constraints_method monotone_penalty neg_bagging_fraction nthread num_class num_iterations
    num_leaves num_threads objective objective_seed one_drop other_rate path_smooth pos_bagging_fraction
    rate_drop sample_type saved_feature_importance scale_pos_weight seed sigmoid silent skip_drop subsample
    top_k top_rate uniform_drop use_missing use_quantized_grad verbose verbosity xgboost_dart_mode
    zero_as_missing
    """.split()  # noqa: SIM905
)
"""Further parameters of xgboost and lightgbm that a file may hold: no paths, machines or devices."""


def _matches(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _boosting(value: Any) -> bool:
    """Whether further parameters of a booster are all known and plain."""
    if value is None:
        return True
    return isinstance(value, Mapping) and all(
        (name in _BOOSTING and all(map(_plain, _leaves(item))))
        or (name in ("device", "device_type") and item == "cpu")
        for name, item in value.items()
    )


def _plain(value: Any) -> bool:
    """Whether a word or number fits into a line of ``name=value`` pairs, as lightgbm writes them."""
    if isinstance(value, str):
        return _TOKEN.fullmatch(value) is not None
    return value is None or isinstance(value, bool | int | float)


_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "memory": (lambda value: value is None, "None, because files in that folder would be unpickled"),
    "callback": (lambda value: value is None, "None"),
    "callbacks": (lambda value: value is None or value == [], "None"),
    "input": (lambda value: value == "content", "'content', because rows would name files to read"),
    "encoding": (lambda value: isinstance(value, str) and value.lower() in _ENCODINGS, "'utf-8'"),
    "importance_getter": (_matches(_PUBLIC), "'auto' or names of attributes"),
    "verbose_feature_names_out": (
        lambda value: isinstance(value, bool) or _matches(_NAMING)(value),
        "True or False",
    ),
    "device": (lambda value: value is None or value == "cpu", "'cpu'"),
    "n_jobs": (lambda value: value is None or isinstance(value, int), "a number of processes"),
    "kwargs": (_boosting, "without parameters that name paths, machines or devices"),
    "_other_params": (_boosting, "without parameters that name paths, machines or devices"),
}
"""By name: which values a parameter may have, and what to set it to."""


def refused_attribute(kind: str, name: str, value: Any) -> str | None:
    """Why a file may not hold an attribute of an object; None if it may.

    Parameters
    ----------
    kind : str
        The class of the object.
    name : str
    value : object
        Plain; `CALLABLE`, `CLASS` and `OTHER` stand for values that are not.

    Returns
    -------
    str or None
    """
    allowed, remedy = _RULES.get(name, (None, ""))
    if allowed is not None and not allowed(value):
        return f"{kind} has {name}={_shown(value)}, but a model file needs it to be {remedy}."
    found = _leaves(value)
    words = all(_TOKEN.fullmatch(item) for item in found if isinstance(item, str))
    if kind.startswith("LGBM") and not name.startswith("_") and not words:
        return f"{kind} has {name}={_shown(value)}, but a model file needs it to be a single word or number."
    if (CALLABLE in found and name not in _FUNCTION_OK) or (CLASS in found and name not in _CLASS_OK):
        return f"{kind} has a function or class as {name}, and model files hold no code: choose one by name."
    return None


def _leaves(value: Any) -> list[Any]:
    """All values in nested lists and dictionaries."""
    waiting, found = [value], []
    while waiting:
        item = waiting.pop()
        if isinstance(item, Mapping):
            waiting.extend(item.values())
            waiting.extend(item)
        elif isinstance(item, list):
            waiting.extend(item)
        else:
            found.append(item)
    return found


def _shown(value: Any) -> str:
    names = {id(CALLABLE): "a function", id(CLASS): "a class", id(OTHER): "an object"}
    return names.get(id(value), repr(value)[:80])


def refused_node(node: Mapping[str, Any]) -> str | None:
    """Why the parameters of an object, as a file describes it, are refused; None if they are not."""
    state = plain_node(node.get("content"))
    for name, value in state.items() if isinstance(state, Mapping) else ():
        refused = refused_attribute(str(node["__class__"]), str(name), value)
        if refused:
            return refused
    return None


def plain_node(node: Any) -> Any:
    """The plain values in a node; `CALLABLE`, `CLASS` and `OTHER` stand for the rest."""
    if not isinstance(node, Mapping):
        return OTHER
    loader, content = node.get("__loader__"), node.get("content")
    if loader == "JsonNode":
        return json.loads(content) if isinstance(content, str) else OTHER
    if loader == "DictNode" and isinstance(content, Mapping):
        return {key: plain_node(item) for key, item in content.items()}
    if loader == "DefaultDictNode" and isinstance(content, Mapping):
        return plain_node(content.get("main"))
    if loader in ("ListNode", "TupleNode", "SetNode") and isinstance(content, list):
        return [plain_node(item) for item in content]
    return {"TypeNode": CLASS, "FunctionNode": CALLABLE, "PartialNode": CALLABLE}.get(str(loader), OTHER)
