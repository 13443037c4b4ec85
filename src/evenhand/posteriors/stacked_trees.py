"""Trees of several boosted models, evaluated together for a few rows.

scikit-learn's boosted trees take some milliseconds for one row, nearly all of it validation, and a posterior
model holds many of them. Here the nodes of all trees are in one array, and a step down is taken in all trees
at once. Leaves are added up in scikit-learn's order, so probabilities are the same to the last bit, and a
decision does not depend on how many rows are decided together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["StackedTrees"]

Floats = NDArray[np.float64]

_MAX_SIZE = 100_000
"""Rows times trees up to which this is faster than one model after the other (measured: 200,000)."""
_MISSING = 256
"""Place of a missing value in a table of category codes, which are below 255."""


class StackedTrees:
    """All trees of several fitted models.

    Parameters
    ----------
    models : sequence of HistGradientBoostingClassifier
        Fitted to matrices with the same columns.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = HistGradientBoostingClassifier(max_iter=5).fit(X, X[:, 0] > 0)
    >>> [found] = StackedTrees([model]).proba(X[:3])
    >>> bool((found == model.predict_proba(X[:3])).all())
    True
    """

    def __init__(self, models: Sequence[Any]) -> None:
        self.models = tuple(models)
        trees, owner, output = [], [], []
        for m, model in enumerate(self.models):
            for step in model._predictors:
                for k, tree in enumerate(step):
                    trees.append(tree)
                    owner.append(m)
                    output.append(k)
        sizes = np.array([len(tree.nodes) for tree in trees])
        self._roots = np.cumsum(sizes) - sizes
        nodes = np.concatenate([tree.nodes for tree in trees])
        first, leaf = np.repeat(self._roots, sizes), nodes["is_leaf"].astype(np.bool_)
        own = np.arange(len(nodes))
        self._left = np.where(leaf, own, nodes["left"] + first)
        self._right = np.where(leaf, own, nodes["right"] + first)
        self._value = nodes["value"].astype(np.float64)
        self._threshold = nodes["num_threshold"].astype(np.float64)
        self._missing_left = nodes["missing_go_to_left"].astype(np.bool_)
        # Each model has an order of columns and codes of categories of its own: they lie side by side.
        widths = np.array([model.n_features_in_ for model in self.models])
        offsets = np.cumsum(widths) - widths
        self._feature = np.where(leaf, 0, nodes["feature_idx"] + np.repeat(offsets[owner], sizes))
        self._inputs = [_own_input(model) for model in self.models]
        self._categorical = nodes["is_categorical"].astype(np.bool_) & ~leaf
        bitsets = [tree.raw_left_cat_bitsets for tree in trees]
        counts = np.array([len(some) for some in bitsets])
        place = nodes["bitset_idx"].astype(np.intp) + np.repeat(np.cumsum(counts) - counts, sizes)
        self._bitset = np.where(self._categorical, place, 0)
        self._bits = np.vstack([*bitsets, np.zeros((1, 8), np.uint32)]).astype(np.uint32)
        pairs = list(zip(owner, output, strict=True))
        self._outputs = [
            [
                np.array([t for t, pair in enumerate(pairs) if pair == (m, k)], np.intp)
                for k in range(model.n_trees_per_iteration_)
            ]
            for m, model in enumerate(self.models)
        ]

    def suits(self, n_rows: int) -> bool:
        """Whether evaluating all trees together is faster for so many rows."""
        return n_rows * len(self._roots) <= _MAX_SIZE

    def proba(self, matrix: Floats) -> list[Floats]:
        """Probabilities of the classes, for each model."""
        leaves = self._leaves(np.hstack([own(matrix) for own in self._inputs]))
        found = []
        for model, outputs in zip(self.models, self._outputs, strict=True):
            raw = np.empty((len(matrix), len(outputs)), order="F")
            for k, trees in enumerate(outputs):
                start = np.full((len(matrix), 1), model._baseline_prediction[0, k])
                raw[:, k] = np.add.accumulate(np.hstack([start, leaves[:, trees]]), axis=1)[:, -1]
            found.append(np.asarray(model._loss.predict_proba(raw)))
        return found

    def _leaves(self, X: Floats) -> Floats:
        """Value of the leaf that each row ends in, in each tree."""
        rows = np.arange(len(X))[:, None]
        at = np.tile(self._roots, (len(X), 1))
        while True:
            x = X[rows, self._feature[at]]
            missing = np.isnan(x)
            left = x <= self._threshold[at]
            categorical = self._categorical[at]
            if categorical.any():
                code = np.where(missing | ~categorical, 0, x).astype(np.intp)
                word = self._bits[self._bitset[at], code >> 5]
                left = np.where(categorical, (word >> (code & 31).astype(np.uint32)) & 1 == 1, left)
            left = np.where(missing, self._missing_left[at], left)
            below = np.where(left, self._left[at], self._right[at])
            if (below == at).all():  # a leaf leads to itself
                return np.asarray(self._value[at])
            at = below


def _own_input(model: Any) -> Callable[[Floats], Floats]:
    """What scikit-learn does to a matrix before a model sees it: categories first, in codes of its own."""
    if model._preprocessor is None:
        return lambda matrix: matrix
    categorical = np.flatnonzero(model.is_categorical_)
    others = np.flatnonzero(~model.is_categorical_)
    tables = []
    for known in model._preprocessor.named_transformers_["encoder"].categories_ if len(categorical) else ():
        codes = known[~np.isnan(known)].astype(np.intp)
        table = np.full(_MISSING + 1, np.nan)
        table[codes] = np.arange(len(codes))
        tables.append(table)

    def own(matrix: Floats) -> Floats:
        codes = [
            table[np.where(np.isnan(matrix[:, j]), _MISSING, matrix[:, j]).astype(np.intp)]
            for j, table in zip(categorical, tables, strict=True)
        ]
        return np.column_stack([*codes, matrix[:, others]])

    return own
