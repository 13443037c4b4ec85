"""Trees of lightgbm and xgboost in a file, checked before their compiled code reads them.

Both packages read branches, features and sizes from text or binary JSON, and trust most of them: an altered
number makes them read out of bounds. Here the model is parsed in Python first, and refused if a branch leads
anywhere but to a later node or a leaf.
"""

from __future__ import annotations

import re
import struct
from typing import Any

import numpy as np

from evenhand.exceptions import UntrustedFileError

__all__ = ["check_lightgbm", "check_xgboost"]

_PER_NODE = ("split_feature", "split_gain", "threshold", "decision_type", "left_child", "right_child")
_PER_NODE_SUMMARY = ("internal_value", "internal_weight", "internal_count")
_PER_LEAF = ("leaf_value", "leaf_weight", "leaf_count")
_OF_NODES = (
    *("left_children", "right_children", "split_indices", "split_type", "split_conditions", "parents"),
    *("default_left", "base_weights", "loss_changes", "sum_hessian"),
)
_INT = re.compile(r"-?\d{1,9}")
_DEEPEST = 64
_NUMBERS = {"i": "b", "U": "B", "I": ">h", "u": ">H", "l": ">i", "L": ">q", "d": ">f", "D": ">d"}


def check_lightgbm(text: Any) -> None:
    """Refuse a lightgbm model whose text would make the parser or the trees read out of bounds.

    Parameters
    ----------
    text : str
        As written by ``Booster.model_to_string``.
    """
    try:
        if not isinstance(text, str) or not text.isascii():
            raise ValueError
        start = text.index("\nTree=") + 1
        header = _lines(text[:start])
        features = int(_ints(header["max_feature_idx"], 1)[0]) + 1
        classes = int(_ints(header["num_class"], 1)[0])
        per_round = int(_ints(header["num_tree_per_iteration"], 1)[0])
        sizes = _ints(header["tree_sizes"])
        named = [len(header[name].split(" ")) for name in ("feature_names", "feature_infos")]
        in_objective = re.findall(r"num_class:(\d+)", header.get("objective", ""))
        if named != [features] * 2 or per_round != classes or not 1 <= classes <= 10**5:
            raise ValueError
        if len(sizes) % classes or any(int(number) != classes for number in in_objective):
            raise ValueError
        for k, size in enumerate(sizes.tolist()):
            _check_tree(_lines(text[start : start + size], f"Tree={k}"), features)
            start += size
        if not text.startswith("end of trees", start) or (sizes <= 0).any():
            raise ValueError
    except (ValueError, KeyError):
        raise _refusal("lightgbm") from None


def _lines(text: str, first: str = "tree") -> dict[str, str]:
    """Lines of ``name=value`` below a first line."""
    heading, *lines = text.split("\n")
    pairs = [line.split("=", 1) for line in lines if line]
    found = {pair[0]: pair[-1] for pair in pairs}
    if heading != first or len(found) != len(pairs):
        raise ValueError
    return found


def _ints(text: str, count: int | None = None) -> np.ndarray[Any, np.dtype[np.int64]]:
    words = text.split(" ") if text else []
    if (count is not None and len(words) != count) or not all(map(_INT.fullmatch, words)):
        raise ValueError
    return np.array([int(word) for word in words], dtype=np.int64)


def _check_tree(tree: dict[str, str], features: int) -> None:
    leaves, categorical = int(_ints(tree["num_leaves"], 1)[0]), int(_ints(tree["num_cat"], 1)[0])
    if leaves < 1 or categorical < 0 or tree["is_linear"] != "0":
        raise ValueError
    nodes = leaves - 1
    for name in (*_PER_NODE, *_PER_NODE_SUMMARY):
        if len(tree[name].split()) != nodes:
            raise ValueError
    for name in _PER_LEAF:
        if len(tree[name].split()) != leaves and (nodes or name == "leaf_value"):
            raise ValueError
    own = np.arange(nodes)
    for side in ("left_child", "right_child"):
        child = _ints(tree[side], nodes)
        if not (((child > own) & (child < nodes)) | ((child < 0) & (child >= -leaves))).all():
            raise ValueError
    split, kind = _ints(tree["split_feature"], nodes), _ints(tree["decision_type"], nodes)
    if not ((split >= 0) & (split < features)).all() or not ((kind >= 0) & (kind < 16)).all():
        raise ValueError
    if categorical:
        bounds = _ints(tree["cat_boundaries"], categorical + 1)
        if bounds[0] != 0 or (np.diff(bounds) < 0).any() or len(tree["cat_threshold"].split()) != bounds[-1]:
            raise ValueError
    places = [float(word) for word, bits in zip(tree["threshold"].split(), kind, strict=True) if bits & 1]
    if any(not 0 <= place < categorical for place in places):
        raise ValueError


def check_xgboost(data: Any) -> None:
    """Refuse an xgboost model whose trees refer to nodes or features that do not exist.

    Parameters
    ----------
    data : bytes
        Binary JSON, as in ``Booster.__getstate__``.
    """
    try:
        whole = read_ubjson(bytes(data))
        if whole["Config"]["learner"]["generic_param"].get("device", "cpu") != "cpu":
            raise UntrustedFileError("it holds an xgboost model for a device other than 'cpu'.")
        learner = whole["Model"]["learner"]
        sizes = learner["learner_model_param"]
        features, classes = int(sizes["num_feature"]), sizes["num_class"]
        groups = max(int(classes), int(sizes["num_target"]), 1)
        trained = whole["Config"]["learner"]["learner_model_param"]
        softmax = learner["objective"].get("softmax_multiclass_param", {}).get("num_class", classes)
        same = all(trained[name] == sizes[name] for name in ("num_feature", "num_class", "num_target"))
        if not same or softmax != classes:
            raise ValueError
        booster = learner["gradient_booster"]
        if booster["name"] == "gblinear":
            if len(booster["model"]["weights"]) != (features + 1) * groups:
                raise ValueError
            return
        if booster["name"] == "dart":
            if len(booster["weight_drop"]) != len(booster["gbtree"]["model"]["trees"]):
                raise ValueError
            booster = booster["gbtree"]
        if booster["name"] != "gbtree":
            raise ValueError
        _check_forest(booster["model"], features, groups)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, struct.error, OverflowError):
        raise _refusal("xgboost") from None


def _check_forest(model: dict[str, Any], features: int, groups: int) -> None:
    trees, info = model["trees"], np.asarray(model["tree_info"], dtype=np.int64)
    rounds = np.asarray(model["iteration_indptr"], dtype=np.int64)
    if len(trees) != int(model["gbtree_model_param"]["num_trees"]) or info.shape != (len(trees),):
        raise ValueError
    if not ((info >= 0) & (info < groups)).all() or (np.diff(rounds) < 0).any():
        raise ValueError
    if rounds[0] != 0 or rounds[-1] != len(trees):
        raise ValueError
    for k, tree in enumerate(trees):
        _check_nodes(tree, k, features)


def _check_nodes(tree: dict[str, Any], k: int, features: int) -> None:
    shape = tree["tree_param"]
    count, own = int(shape["num_nodes"]), np.arange(len(tree["left_children"]))
    if count < 1 or shape["size_leaf_vector"] not in ("0", "1") or tree["id"] != k:
        raise ValueError
    if int(shape["num_feature"]) != features or any(len(tree[name]) != count for name in _OF_NODES):
        raise ValueError
    left, right, split, kind = (np.asarray(tree[name], dtype=np.int64) for name in _OF_NODES[:4])
    leaf = (left == -1) & (right == -1)
    inside = (left > own) & (left < count) & (right > own) & (right < count)
    if not (leaf | (inside & (split >= 0) & (split < features))).all() or not np.isin(kind, (0, 1)).all():
        raise ValueError
    nodes, start, size = (
        np.asarray(tree[f"categories{name}"], dtype=np.int64) for name in ("_nodes", "_segments", "_sizes")
    )
    if (
        not len(nodes) == len(start) == len(size)
        or not np.isin(np.flatnonzero((kind == 1) & ~leaf), nodes).all()
    ):
        raise ValueError
    known = np.asarray(tree["categories"], dtype=np.int64)
    if ((nodes < 0) | (nodes >= count) | (start < 0) | (size < 0) | (start + size > len(known))).any():
        raise ValueError
    if ((known < 0) | (known > 1 << 24)).any() or (np.diff(nodes) <= 0).any():
        raise ValueError


def read_ubjson(data: bytes) -> Any:
    """Parsed binary JSON, as written by xgboost."""
    value, end = _value(data, 1, chr(data[0]), 0)
    if end != len(data):
        raise ValueError
    return value


def _value(data: bytes, at: int, mark: str, depth: int) -> tuple[Any, int]:
    if depth > _DEEPEST:
        raise ValueError
    if mark in _NUMBERS:
        return struct.unpack_from(_NUMBERS[mark], data, at)[0], at + struct.calcsize(_NUMBERS[mark])
    if mark in "ZTF":
        return {"Z": None, "T": True, "F": False}[mark], at
    if mark == "C":
        return chr(data[at]), at + 1
    if mark == "S":
        return _text(data, at)
    if mark == "[":
        return _array(data, at, depth)
    if mark != "{":
        raise ValueError
    found: dict[str, Any] = {}
    while data[at] != ord("}"):
        key, at = _text(data, at)
        if key in found:
            raise ValueError
        found[key], at = _value(data, at + 1, chr(data[at]), depth + 1)
    return found, at + 1


def _text(data: bytes, at: int) -> tuple[str, int]:
    length, at = _value(data, at + 1, chr(data[at]), _DEEPEST)
    if type(length) is not int or not 0 <= length <= len(data) - at:
        raise ValueError
    return data[at : at + length].decode(), at + length


def _array(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    if data[at] == ord("$"):
        kind, (count, start) = _NUMBERS[chr(data[at + 1])], _value(data, at + 4, chr(data[at + 3]), depth)
        end = start + count * struct.calcsize(kind)
        if data[at + 2] != ord("#") or count < 0 or end > len(data):
            raise ValueError
        return np.frombuffer(data[start:end], dtype=kind), end
    items = []
    if data[at] == ord("#"):
        count, at = _value(data, at + 2, chr(data[at + 1]), depth)
        for _ in range(min(count, len(data))):
            item, at = _value(data, at + 1, chr(data[at]), depth + 1)
            items.append(item)
        return items, at
    while data[at] != ord("]"):
        item, at = _value(data, at + 1, chr(data[at]), depth + 1)
        items.append(item)
    return items, at + 1


def _refusal(package: str) -> UntrustedFileError:
    return UntrustedFileError(f"it holds a tree of {package} with branches or features that do not exist.")
