"""Trees of several boosted models, evaluated together for a few rows.

scikit-learn's boosted trees take some milliseconds for one row, nearly all of it validation, and a posterior
model holds many of them. Here the nodes of all trees are in one array, and a step down is taken in all trees
at once. Leaves are added up in scikit-learn's order, so probabilities are the same to the last bit, and a
decision does not depend on how many rows are decided together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Path = tuple[tuple[int, int], ...]
"""Nodes from a root down, and whether it goes left there."""

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
        self._rows = nodes["count"].astype(np.float64)
        # Each model has an order of columns and codes of categories of its own: they lie side by side.
        widths = np.array([model.n_features_in_ for model in self.models])
        offsets = np.cumsum(widths) - widths
        self._feature = np.where(leaf, 0, nodes["feature_idx"] + np.repeat(offsets[owner], sizes))
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

    @cached_property
    def _inputs(self) -> list[Callable[[Floats], Floats]]:
        return [own_input(model) for model in self.models]

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
        at = np.tile(self._roots, (len(X), 1))
        while True:
            below = np.where(self._goes_left(X, at), self._left[at], self._right[at])
            if (below == at).all():  # a leaf leads to itself
                return np.asarray(self._value[at])
            at = below

    def _goes_left(self, X: Floats, at: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Whether each row goes left at some nodes, shape (n, nodes)."""
        x = X[np.arange(len(X))[:, None], self._feature[at]]
        missing = np.isnan(x)
        left = x <= self._threshold[at]
        categorical = self._categorical[at]
        if categorical.any():
            code = np.where(missing | ~categorical, 0, x).astype(np.intp)
            word = self._bits[self._bitset[at], code >> 5]
            left = np.where(categorical, (word >> (code & 31).astype(np.uint32)) & 1 == 1, left)
        return np.where(missing, self._missing_left[at], left)

    def contributions(self, X: Any) -> Floats:
        """What each column adds to the log-odds of each row, by the first model, of two classes.

        Shapley values, where a column that is not known is averaged over by the rows of `fit`: of each leaf,
        it matters which columns on its path a row agrees with, and what share of the rows of `fit` does.
        (shap takes the codes of categories for numbers here, without a word.)

        Parameters
        ----------
        X : table or matrix, as the model takes it

        Returns
        -------
        array, shape (n, columns)
        """
        model = self.models[0]
        paths = [path for root in self._roots.tolist() for path in self._paths(root, ())]
        columns = [sorted({self._feature[node] for node, _ in path}) for _, path in paths]
        width = max((len(own) for own in columns), default=0)
        X = np.asarray(model._preprocess_X(X, reset=False), dtype=np.float64)
        found = np.zeros(X.shape)
        if not width:  # no tree has a split
            return found
        places = [
            (leaf, columns[leaf].index(self._feature[node]), node, left)
            for leaf, (_, path) in enumerate(paths)
            for node, left in path
        ]
        at, slot, nodes, lefts = (np.array(part, np.intp) for part in zip(*places, strict=True))
        below = np.where(lefts == 1, self._left[nodes], self._right[nodes])
        share = np.ones((len(paths), width))
        np.multiply.at(share, (at, slot), self._rows[below] / self._rows[nodes])
        values = self._value[[leaf for leaf, _ in paths]]
        feature = np.array([[*own, *[0] * (width - len(own))] for own in columns], np.intp)
        for row, left in zip(found, self._goes_left(X, np.tile(nodes, (len(X), 1))), strict=True):
            agrees = np.ones((len(paths), width), np.bool_)
            np.logical_and.at(agrees, (at, slot), left == lefts)
            np.add.at(row, feature, values[:, None] * _shapley(share, agrees))
        if model._preprocessor is None:
            return found
        return found[
            :, np.argsort(np.argsort(~model.is_categorical_, kind="stable"))
        ]  # categories were first

    def _paths(self, node: int, before: Path) -> list[tuple[int, Path]]:
        """All leaves below a node, with their paths."""
        left, right = int(self._left[node]), int(self._right[node])
        if left == node:
            return [(node, before)]
        return self._paths(left, (*before, (node, 1))) + self._paths(right, (*before, (node, 0)))


def _shapley(share: Floats, agrees: NDArray[np.bool_]) -> Floats:
    """Shapley value of each player in games that pay 1 times a product over players, shape (games, players).

    A player who takes part multiplies by 1 or 0, as it agrees, and by its share otherwise. The product over
    all players of (share + agrees t) has the sum over coalitions of size k as the coefficient of t^k; without
    one player it is divided by its factor. Players with a share of 1 who agree change nothing.
    """
    games, players = share.shape
    polynomial = np.zeros((games, players + 1))
    polynomial[:, 0] = 1.0
    for j in range(players):
        polynomial[:, 1:] = polynomial[:, 1:] * share[:, j, None] + polynomial[:, :-1] * agrees[:, j, None]
        polynomial[:, 0] *= share[:, j]
    total, above = np.zeros((games, players)), np.zeros((games, players))
    for k in range(players - 1, -1, -1):  # coefficients of the quotient, from the highest
        weight = 1.0 / (players * math.comb(players - 1, k))
        above = np.where(agrees, polynomial[:, k + 1, None] - share * above, polynomial[:, k, None] / share)
        total += weight * above
    return total * (agrees - share)


def own_input(model: Any) -> Callable[[Floats], Floats]:
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
