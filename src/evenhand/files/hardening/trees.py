"""Trees in a file, checked before compiled code of other packages reads them.

It trusts the numbers of columns and branches, and wrong ones would make it read out of bounds. A file is
refused if a branch leads anywhere but to a later node or a leaf. Trees of scikit-learn are checked once they
are objects; lightgbm and xgboost read their own text and binary JSON, so these are parsed in Python first.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from evenhand.exceptions import UntrustedFileError

_MISPLACED = "it holds a tree with branches or features that do not exist."
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
_WORDS = {"Z": None, "T": True, "F": False}


def check_indices(parts: Any) -> None:
    """Refuse trees that would make scikit-learn's compiled code read out of bounds.

    Parameters
    ----------
    parts : list
        Arrays and classifiers.
    """
    from sklearn.ensemble._forest import BaseForest  # noqa: PLC0415
    from sklearn.ensemble._gb import BaseGradientBoosting  # noqa: PLC0415
    from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import (  # noqa: PLC0415
        BaseHistGradientBoosting,
    )
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor  # noqa: PLC0415
    from sklearn.tree import BaseDecisionTree  # noqa: PLC0415
    from sklearn.tree._tree import Tree  # noqa: PLC0415

    checked: set[int] = set()
    objects = list(_reached(parts))
    for found in objects:
        if isinstance(found, BaseHistGradientBoosting) and hasattr(found, "_predictors"):
            checked.update(_check_boosted(found))
        elif isinstance(found, BaseDecisionTree) and hasattr(found, "tree_"):
            checked.add(_check_tree(found.tree_, found.n_features_in_))
        elif isinstance(found, BaseForest | BaseGradientBoosting) and hasattr(found, "estimators_"):
            trees = np.asarray(found.estimators_, dtype=object)
            if isinstance(found, BaseGradientBoosting):
                _require(trees.shape[1:] == (found.n_trees_per_iteration_,))
            for tree in trees.ravel():
                _check_tree(tree.tree_, found.n_features_in_)
    if not {id(found) for found in objects if isinstance(found, Tree | TreePredictor)} <= checked:
        raise UntrustedFileError("it holds a tree that belongs to no classifier.")


def _reached(start: Any) -> Iterator[Any]:
    """Everything that objects hold, directly or indirectly."""
    waiting, seen = [start], {}
    while waiting:
        found = waiting.pop()
        if id(found) in seen or isinstance(found, str | bytes | bytearray | int | float | type | None):
            continue
        seen[id(found)] = found
        yield found
        if isinstance(found, dict):
            waiting.extend(found.values())
        elif isinstance(found, list | tuple | set):
            waiting.extend(found)
        elif isinstance(found, np.ndarray):
            waiting.extend(found.ravel().tolist() if found.dtype == object else ())
        if hasattr(found, "__dict__"):
            waiting.extend(vars(found).values())


def _lead_on(child: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether the branch of each node leads to a later one of `count` nodes."""
    found: np.ndarray[Any, np.dtype[np.bool_]] = (child > np.arange(len(child))) & (child < count)
    return found


def _check_tree(tree: Any, n_features: Any) -> int:
    count, left = tree.node_count, tree.children_left
    inside = _lead_on(left, count) & _lead_on(tree.children_right, count)
    inside &= (tree.feature >= 0) & (tree.feature < tree.n_features)
    _require(type(n_features) is int, tree.n_features == n_features, count, ((left == -1) | inside).all())
    return id(tree)


def _check_boosted(model: Any) -> Iterator[int]:
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE  # noqa: PLC0415

    n_features, bins = model.n_features_in_, model._bin_mapper
    categorical = np.asarray(bins.is_categorical_)
    _require(type(n_features) is int)
    _require(
        _keeps_width(model, n_features),
        categorical.shape == (n_features,),
        len(bins.bin_thresholds_) == n_features,
    )
    for known in (np.asarray(bins.bin_thresholds_[k]) for k in np.flatnonzero(categorical)):
        _require(not known.size or (known.min() >= 0 and known.max() <= 255))
    for predictor in (tree for trees in model._predictors for tree in trees):
        nodes, sets = predictor.nodes, np.asarray(predictor.raw_left_cat_bitsets)
        _require(np.shape(predictor.binned_left_cat_bitsets) == sets.shape)
        _require(nodes.dtype == PREDICTOR_RECORD_DTYPE, nodes.ndim == 1, nodes.size, sets.shape[1:] == (8,))
        left, right = (nodes[side].astype(np.int64) for side in ("left", "right"))
        inside = _lead_on(left, len(nodes)) & _lead_on(right, len(nodes))
        inside &= (nodes["feature_idx"] >= 0) & (nodes["feature_idx"] < n_features)
        inside &= (nodes["is_categorical"] == 0) | (nodes["bitset_idx"] < len(sets))
        _require(((nodes["is_leaf"] != 0) | inside).all())
        yield id(predictor)


def _keeps_width(model: Any, n_features: int) -> bool:
    """Whether the preprocessor of boosted trees returns as many columns as the trees expect."""
    prepare = getattr(model, "_preprocessor", None)
    if prepare is None:
        return True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about columns without names
        return bool(prepare.transform(np.zeros((1, n_features), dtype=object)).shape == (1, n_features))


def _require(*conditions: Any) -> None:
    """Refuse the file unless all conditions hold."""
    if not all(conditions):
        raise UntrustedFileError(_MISPLACED)


def check_lightgbm(text: Any) -> None:
    """Refuse a lightgbm model whose text would make the parser or the trees read out of bounds.

    Parameters
    ----------
    text : str
        As written by ``Booster.model_to_string``.
    """
    try:
        _require(isinstance(text, str) and text.isascii())
        start = text.index("\nTree=") + 1
        header = _lines(text[:start])
        last, classes, per_round = (
            int(_ints(header[name], 1)[0])
            for name in ("max_feature_idx", "num_class", "num_tree_per_iteration")
        )
        sizes, features = _ints(header["tree_sizes"]), last + 1
        _require(
            *(len(header[name].split(" ")) == features for name in ("feature_names", "feature_infos")),
            *(int(n) == classes for n in re.findall(r"num_class:(\d+)", header.get("objective", ""))),
            per_round == classes and 1 <= classes <= 10**5 and len(sizes) % classes == 0,
            (sizes > 0).all(),
        )
        for k, size in enumerate(sizes.tolist()):
            _check_text_tree(_lines(text[start : start + size], f"Tree={k}"), features)
            start += size
        _require(text.startswith("end of trees", start))
    except (ValueError, KeyError):
        raise UntrustedFileError(_MISPLACED) from None


def _lines(text: str, first: str = "tree") -> dict[str, str]:
    """Lines of ``name=value`` below a first line."""
    heading, *lines = text.split("\n")
    pairs = [line.split("=", 1) for line in lines if line]
    found = {pair[0]: pair[-1] for pair in pairs}
    _require(heading == first, len(found) == len(pairs))
    return found


def _ints(text: str, count: int | None = None) -> np.ndarray[Any, np.dtype[np.int64]]:
    words = text.split(" ") if text else []
    _require(count in (None, len(words)), *map(_INT.fullmatch, words))
    return np.array([int(word) for word in words], dtype=np.int64)


def _check_text_tree(tree: dict[str, str], features: int) -> None:
    leaves, categorical = (int(_ints(tree[name], 1)[0]) for name in ("num_leaves", "num_cat"))
    nodes = leaves - 1
    _require(
        leaves >= 1 and categorical >= 0 and tree["is_linear"] == "0",
        *(len(tree[name].split()) == nodes for name in _PER_NODE),
        *(len(tree[name].split()) == leaves for name in _PER_LEAF[: None if nodes else 1]),
    )
    left, right, split, kind = (
        _ints(tree[name], nodes) for name in ("left_child", "right_child", "split_feature", "decision_type")
    )
    for child in (left, right):  # negative numbers are leaves
        _require((_lead_on(child, nodes) | ((child < 0) & (child >= -leaves))).all())
    _require(((split >= 0) & (split < features) & (kind >= 0) & (kind < 16)).all())
    if categorical:
        bounds = _ints(tree["cat_boundaries"], categorical + 1)
        _require(
            bounds[0] == 0,
            (np.diff(bounds) >= 0).all(),
            len(tree["cat_threshold"].split()) == bounds[-1],
        )
    places = [float(word) for word, bits in zip(tree["threshold"].split(), kind, strict=True) if bits & 1]
    _require(*(0 <= place < categorical for place in places))


def check_xgboost(data: Any) -> None:
    """Refuse an xgboost model whose trees refer to nodes or features that do not exist.

    Parameters
    ----------
    data : bytes
        Binary JSON, as in ``Booster.__getstate__``.
    """
    try:
        whole = _BinaryJson(bytes(data)).read()
        if whole["Config"]["learner"]["generic_param"].get("device", "cpu") != "cpu":
            raise UntrustedFileError("it holds an xgboost model for a device other than 'cpu'.")
        learner = whole["Model"]["learner"]
        sizes = learner["learner_model_param"]
        features, classes = int(sizes["num_feature"]), sizes["num_class"]
        groups = max(int(classes), int(sizes["num_target"]), 1)
        trained = whole["Config"]["learner"]["learner_model_param"]
        softmax = learner["objective"].get("softmax_multiclass_param", {}).get("num_class", classes)
        _require(
            *(trained[name] == sizes[name] for name in ("num_feature", "num_class", "num_target")),
            softmax == classes,
        )
        booster = learner["gradient_booster"]
        if booster["name"] == "gblinear":
            _require(len(booster["model"]["weights"]) == (features + 1) * groups)
            return
        if booster["name"] == "dart":
            _require(len(booster["weight_drop"]) == len(booster["gbtree"]["model"]["trees"]))
            booster = booster["gbtree"]
        _require(booster["name"] == "gbtree")
        _check_forest(booster["model"], features, groups)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError):
        raise UntrustedFileError(_MISPLACED) from None


def _check_forest(model: dict[str, Any], features: int, groups: int) -> None:
    trees, info = model["trees"], np.asarray(model["tree_info"], dtype=np.int64)
    rounds = np.asarray(model["iteration_indptr"], dtype=np.int64)
    _require(
        len(trees) == int(model["gbtree_model_param"]["num_trees"]) and info.shape == (len(trees),),
        ((info >= 0) & (info < groups)).all(),
        (np.diff(rounds) >= 0).all() and rounds[0] == 0 and rounds[-1] == len(trees),
    )
    for k, tree in enumerate(trees):
        _check_nodes(tree, k, features)


def _check_nodes(tree: dict[str, Any], k: int, features: int) -> None:
    shape = tree["tree_param"]
    count = int(shape["num_nodes"])
    _require(
        count >= 1 and shape["size_leaf_vector"] in ("0", "1") and tree["id"] == k,
        int(shape["num_feature"]) == features,
        *(len(tree[name]) == count for name in _OF_NODES),
    )
    left, right, split, kind = (np.asarray(tree[name], dtype=np.int64) for name in _OF_NODES[:4])
    leaf = (left == -1) & (right == -1)
    inside = _lead_on(left, count) & _lead_on(right, count) & (split >= 0) & (split < features)
    _require((leaf | inside).all(), np.isin(kind, (0, 1)).all())
    nodes, start, size = (
        np.asarray(tree[f"categories{name}"], dtype=np.int64) for name in ("_nodes", "_segments", "_sizes")
    )
    known = np.asarray(tree["categories"], dtype=np.int64)
    _require(len(nodes) == len(start) == len(size))
    _require(
        np.isin(np.flatnonzero((kind == 1) & ~leaf), nodes).all(),
        ((nodes >= 0) & (nodes < count) & (start >= 0) & (size >= 0) & (start + size <= len(known))).all(),
        ((known >= 0) & (known <= 1 << 24)).all() and (np.diff(nodes) > 0).all(),
    )


class _BinaryJson:
    """A reader of what xgboost writes of UBJSON: arrays tell their length first, and keys are unique."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def read(self) -> Any:
        """All of it."""
        found = self._value()
        _require(self.at == len(self.data))
        return found

    def _mark(self) -> str:
        self.at += 1
        return chr(self.data[self.at - 1])

    def _value(self, depth: int = 0) -> Any:
        mark = self._mark()
        _require(depth <= _DEEPEST)
        if mark == "S":
            return self._text()
        if mark == "[":
            return self._array(depth)
        if mark == "{":
            found: dict[str, Any] = {}
            while self.data[self.at] != ord("}"):
                key = self._text()
                _require(key not in found)
                found[key] = self._value(depth + 1)
            self.at += 1
            return found
        return _WORDS[mark] if mark in _WORDS else self._numbers(mark, 1)[0]

    def _numbers(self, mark: str, count: int) -> np.ndarray[Any, Any]:
        kind = np.dtype(_NUMBERS[mark])
        return np.frombuffer(self._bytes(count * kind.itemsize), dtype=kind)

    def _length(self) -> int:
        _require(self._mark() == "L")
        length = int.from_bytes(self._bytes(8), signed=True)
        _require(0 <= length <= len(self.data))
        return length

    def _bytes(self, count: int) -> bytes:
        start, self.at = self.at, self.at + count
        _require(self.at <= len(self.data))
        return self.data[start : self.at]

    def _text(self) -> str:
        return self._bytes(self._length()).decode()

    def _array(self, depth: int) -> Any:
        mark, kind = self._mark(), None
        if mark == "$":
            kind, mark = self._mark(), self._mark()
        _require(mark == "#")
        count = self._length()
        return [self._value(depth + 1) for _ in range(count)] if kind is None else self._numbers(kind, count)
