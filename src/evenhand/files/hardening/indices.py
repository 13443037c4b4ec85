"""Numbers that compiled code of other packages trusts, checked before it uses them.

Trees hold numbers of columns and branches. Wrong ones in a file would make compiled code read out of bounds.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from evenhand.exceptions import UntrustedFileError

MISPLACED = "it holds a tree with branches or features that do not exist."


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
                require(trees.shape[1:] == (found.n_trees_per_iteration_,))
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


def lead_on(child: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether the branch of each node leads to a later one of `count` nodes."""
    found: np.ndarray[Any, np.dtype[np.bool_]] = (child > np.arange(len(child))) & (child < count)
    return found


def _check_tree(tree: Any, n_features: Any) -> int:
    count, left = tree.node_count, tree.children_left
    inside = lead_on(left, count) & lead_on(tree.children_right, count)
    inside &= (tree.feature >= 0) & (tree.feature < tree.n_features)
    require(type(n_features) is int, tree.n_features == n_features, count, ((left == -1) | inside).all())
    return id(tree)


def _check_boosted(model: Any) -> Iterator[int]:
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE  # noqa: PLC0415

    n_features, bins = model.n_features_in_, model._bin_mapper
    categorical = np.asarray(bins.is_categorical_)
    require(type(n_features) is int)
    require(
        _keeps_width(model, n_features),
        categorical.shape == (n_features,),
        len(bins.bin_thresholds_) == n_features,
    )
    for known in (np.asarray(bins.bin_thresholds_[k]) for k in np.flatnonzero(categorical)):
        require(not known.size or (known.min() >= 0 and known.max() <= 255))
    for predictor in (tree for trees in model._predictors for tree in trees):
        nodes, sets = predictor.nodes, np.asarray(predictor.raw_left_cat_bitsets)
        require(np.shape(predictor.binned_left_cat_bitsets) == sets.shape)
        require(nodes.dtype == PREDICTOR_RECORD_DTYPE, nodes.ndim == 1, nodes.size, sets.shape[1:] == (8,))
        left, right = (nodes[side].astype(np.int64) for side in ("left", "right"))
        inside = lead_on(left, len(nodes)) & lead_on(right, len(nodes))
        inside &= (nodes["feature_idx"] >= 0) & (nodes["feature_idx"] < n_features)
        inside &= (nodes["is_categorical"] == 0) | (nodes["bitset_idx"] < len(sets))
        require(((nodes["is_leaf"] != 0) | inside).all())
        yield id(predictor)


def _keeps_width(model: Any, n_features: int) -> bool:
    """Whether the preprocessor of boosted trees returns as many columns as the trees expect."""
    prepare = getattr(model, "_preprocessor", None)
    if prepare is None:
        return True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about columns without names
        return bool(prepare.transform(np.zeros((1, n_features), dtype=object)).shape == (1, n_features))


def require(*conditions: Any) -> None:
    """Refuse the file unless all conditions hold."""
    if not all(conditions):
        raise UntrustedFileError(MISPLACED)
