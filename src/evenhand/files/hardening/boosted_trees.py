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
from evenhand.files.hardening.indices import MISPLACED, lead_on, require

_PER_NODE = (
    *("split_feature", "split_gain", "threshold", "decision_type", "left_child", "right_child"),
    *("internal_value", "internal_weight", "internal_count"),
)
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
        require(isinstance(text, str) and text.isascii())
        start = text.index("\nTree=") + 1
        header = _lines(text[:start])
        last, classes, per_round = (
            int(_ints(header[name], 1)[0])
            for name in ("max_feature_idx", "num_class", "num_tree_per_iteration")
        )
        sizes, features = _ints(header["tree_sizes"]), last + 1
        require(
            *(len(header[name].split(" ")) == features for name in ("feature_names", "feature_infos")),
            *(int(n) == classes for n in re.findall(r"num_class:(\d+)", header.get("objective", ""))),
            per_round == classes and 1 <= classes <= 10**5 and len(sizes) % classes == 0,
            (sizes > 0).all(),
        )
        for k, size in enumerate(sizes.tolist()):
            _check_tree(_lines(text[start : start + size], f"Tree={k}"), features)
            start += size
        require(text.startswith("end of trees", start))
    except (ValueError, KeyError):
        raise UntrustedFileError(MISPLACED) from None


def _lines(text: str, first: str = "tree") -> dict[str, str]:
    """Lines of ``name=value`` below a first line."""
    heading, *lines = text.split("\n")
    pairs = [line.split("=", 1) for line in lines if line]
    found = {pair[0]: pair[-1] for pair in pairs}
    require(heading == first, len(found) == len(pairs))
    return found


def _ints(text: str, count: int | None = None) -> np.ndarray[Any, np.dtype[np.int64]]:
    words = text.split(" ") if text else []
    require(count in (None, len(words)), *map(_INT.fullmatch, words))
    return np.array([int(word) for word in words], dtype=np.int64)


def _check_tree(tree: dict[str, str], features: int) -> None:
    leaves, categorical = (int(_ints(tree[name], 1)[0]) for name in ("num_leaves", "num_cat"))
    nodes = leaves - 1
    require(
        leaves >= 1 and categorical >= 0 and tree["is_linear"] == "0",
        *(len(tree[name].split()) == nodes for name in _PER_NODE),
        *(len(tree[name].split()) == leaves for name in _PER_LEAF[: None if nodes else 1]),
    )
    left, right, split, kind = (
        _ints(tree[name], nodes) for name in ("left_child", "right_child", "split_feature", "decision_type")
    )
    for child in (left, right):  # negative numbers are leaves
        require((lead_on(child, nodes) | ((child < 0) & (child >= -leaves))).all())
    require(((split >= 0) & (split < features) & (kind >= 0) & (kind < 16)).all())
    if categorical:
        bounds = _ints(tree["cat_boundaries"], categorical + 1)
        require(
            bounds[0] == 0,
            (np.diff(bounds) >= 0).all(),
            len(tree["cat_threshold"].split()) == bounds[-1],
        )
    places = [float(word) for word, bits in zip(tree["threshold"].split(), kind, strict=True) if bits & 1]
    require(*(0 <= place < categorical for place in places))


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
        require(
            *(trained[name] == sizes[name] for name in ("num_feature", "num_class", "num_target")),
            softmax == classes,
        )
        booster = learner["gradient_booster"]
        if booster["name"] == "gblinear":
            require(len(booster["model"]["weights"]) == (features + 1) * groups)
            return
        if booster["name"] == "dart":
            require(len(booster["weight_drop"]) == len(booster["gbtree"]["model"]["trees"]))
            booster = booster["gbtree"]
        require(booster["name"] == "gbtree")
        _check_forest(booster["model"], features, groups)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, struct.error, OverflowError):
        raise UntrustedFileError(MISPLACED) from None


def _check_forest(model: dict[str, Any], features: int, groups: int) -> None:
    trees, info = model["trees"], np.asarray(model["tree_info"], dtype=np.int64)
    rounds = np.asarray(model["iteration_indptr"], dtype=np.int64)
    require(
        len(trees) == int(model["gbtree_model_param"]["num_trees"]) and info.shape == (len(trees),),
        ((info >= 0) & (info < groups)).all(),
        (np.diff(rounds) >= 0).all() and rounds[0] == 0 and rounds[-1] == len(trees),
    )
    for k, tree in enumerate(trees):
        _check_nodes(tree, k, features)


def _check_nodes(tree: dict[str, Any], k: int, features: int) -> None:
    shape = tree["tree_param"]
    count = int(shape["num_nodes"])
    require(
        count >= 1 and shape["size_leaf_vector"] in ("0", "1") and tree["id"] == k,
        int(shape["num_feature"]) == features,
        *(len(tree[name]) == count for name in _OF_NODES),
    )
    left, right, split, kind = (np.asarray(tree[name], dtype=np.int64) for name in _OF_NODES[:4])
    leaf = (left == -1) & (right == -1)
    inside = lead_on(left, count) & lead_on(right, count) & (split >= 0) & (split < features)
    require((leaf | inside).all(), np.isin(kind, (0, 1)).all())
    nodes, start, size = (
        np.asarray(tree[f"categories{name}"], dtype=np.int64) for name in ("_nodes", "_segments", "_sizes")
    )
    known = np.asarray(tree["categories"], dtype=np.int64)
    require(len(nodes) == len(start) == len(size))
    require(
        np.isin(np.flatnonzero((kind == 1) & ~leaf), nodes).all(),
        ((nodes >= 0) & (nodes < count) & (start >= 0) & (size >= 0) & (start + size <= len(known))).all(),
        ((known >= 0) & (known <= 1 << 24)).all() and (np.diff(nodes) > 0).all(),
    )


def read_ubjson(data: bytes) -> Any:
    """Parsed binary JSON, as written by xgboost."""
    value, end = _value(data, 1, chr(data[0]), 0)
    require(end == len(data))
    return value


def _value(data: bytes, at: int, mark: str, depth: int) -> tuple[Any, int]:
    require(depth <= _DEEPEST)
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
    require(mark == "{")
    found: dict[str, Any] = {}
    while data[at] != ord("}"):
        key, at = _text(data, at)
        require(key not in found)
        found[key], at = _value(data, at + 1, chr(data[at]), depth + 1)
    return found, at + 1


def _text(data: bytes, at: int) -> tuple[str, int]:
    length, at = _value(data, at + 1, chr(data[at]), _DEEPEST)
    require(type(length) is int and 0 <= length <= len(data) - at)
    return data[at : at + length].decode(), at + length


def _array(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    if data[at] == ord("$"):
        kind, (count, start) = _NUMBERS[chr(data[at + 1])], _value(data, at + 4, chr(data[at + 3]), depth)
        end = start + count * struct.calcsize(kind)
        require(data[at + 2] == ord("#"), count >= 0, end <= len(data))
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
