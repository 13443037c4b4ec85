"""Boosted trees of scikit-learn: all trees of several models together for a few rows, by bins for many.

scikit-learn's boosted trees take some milliseconds for one row, nearly all of it validation, and a posterior
model holds many of them. For a few rows the nodes of all trees are in one array, and a step down is taken in
all trees at once. For many rows, a tree that compares bins, which are bytes, takes two thirds of the time of
one that compares numbers. Leaves are added up in scikit-learn's order, so probabilities are the same to the
last bit, and a decision does not depend on how many rows are decided together.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

Floats = NDArray[np.float64]
Path = tuple[tuple[int, int], ...]
"""Nodes from a root down, and whether it goes left there."""

_MAX_SIZE = 100_000
"""Rows times trees up to which this is faster than one model after the other (measured: 200,000)."""
_MOST_ENTRIES = 1 << 20
"""Rows times nodes on paths to leaves that contributions are found of at a time: some arrays of 8 MB."""
_MISSING = 256
"""Place of a missing value in a table of category codes, which are below 255."""
_NOTHING = np.empty((1, 0))


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
        Each leaf is a game that pays its value times a product over its columns: 1 or 0 of a known one, as
        the row agrees, and its share of any other. In the multilinear extension of such a game, the value of
        a player is an integral from 0 to 1 of a polynomial, and Gauss's rule is exact for it.
        (shap takes the codes of categories for numbers here, without a word.)

        Parameters
        ----------
        X : table or matrix, as the model takes it

        Returns
        -------
        array, shape (n, columns)
        """
        model = self.models[0]
        X = np.asarray(model._preprocess_X(X, reset=False), dtype=np.float64)
        splits = np.array(
            [split for root in self._roots.tolist() for split in self._splits(root, ())], np.intp
        )
        if not len(splits):  # no tree has a split
            return np.zeros(X.shape)
        columns = X.shape[1]
        players = splits[:, 0] * columns + self._feature[splits[:, 1]]  # a leaf, and a column on its path
        order = np.argsort(players, kind="stable")
        _, nodes, lefts = splits[order].T
        below = np.where(lefts == 1, self._left[nodes], self._right[nodes])
        players, first = np.unique(players[order], return_index=True)
        leaf, column = np.divmod(players, columns)
        share = np.multiply.reduceat(self._rows[below] / self._rows[nodes], first)
        games = np.flatnonzero(np.diff(leaf, prepend=-1))
        sizes = np.diff(games, append=len(players))
        points = np.polynomial.legendre.leggauss(int(sizes.max()) // 2 + 1)
        found = np.empty(X.shape)
        for rows in np.array_split(np.arange(len(X)), 1 + len(X) * len(nodes) // _MOST_ENTRIES):
            agrees = self._goes_left(X[rows], np.tile(nodes, (len(rows), 1))) == lefts
            change = np.logical_and.reduceat(agrees, first, axis=1) - share
            total = np.zeros(change.shape)
            for point, weight in zip(*points, strict=True):
                factor = share + change * (point + 1) / 2
                product = np.multiply.reduceat(factor, games, axis=1)
                total += weight / 2 * np.repeat(product, sizes, axis=1) / factor
            each = self._value[leaf] * change * total
            found[rows] = np.column_stack([each[:, column == j].sum(axis=1) for j in range(columns)])
        if model._preprocessor is None:
            return found
        categories_first = np.argsort(~model.is_categorical_, kind="stable")
        return found[:, np.argsort(categories_first)]

    def _splits(self, node: int, before: Path) -> list[tuple[int, int, int]]:
        """For all leaves below a node: the leaf, a node on its path, and whether the path goes left there."""
        left, right = int(self._left[node]), int(self._right[node])
        if left == node:
            return [(node, *step) for step in before]
        return self._splits(left, (*before, (node, 1))) + self._splits(right, (*before, (node, 0)))


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


def proba_by_bins(model: Any, matrix: Floats, last: Floats = _NOTHING) -> list[Floats]:
    """Probabilities of the classes of all rows, with each of several values of the model's last columns.

    Trees that do not split by the last columns are evaluated once for all of their values.

    Parameters
    ----------
    model : HistGradientBoostingClassifier
    matrix : array, shape (n, columns)
        All columns but the last.
    last : array, shape (variants, last columns), default=None
        Numbers, the same in all rows. By default the matrix has all columns.

    Returns
    -------
    list of arrays, shape (n, classes)
        One for each variant.
    """
    n, width = matrix.shape
    first = np.broadcast_to(matrix[:1], (len(last), width))
    binned = [
        model._bin_mapper.transform(own_input(model)(np.hstack(parts)))
        for parts in ([matrix, np.zeros((n, last.shape[1]))], [first, last])
    ]
    rows, variants = binned[0], binned[1][:, width:]
    missing, threads = model._bin_mapper.missing_values_bin_idx_, _openmp_effective_n_threads()
    raw = [np.tile(model._baseline_prediction, (n, 1)) for _ in last]
    for step in model._predictors:
        for k, tree in enumerate(map(_writable, step)):
            splits = tree.nodes["feature_idx"][tree.nodes["is_leaf"] == 0]
            varies = (splits >= width).any()
            for v, total in enumerate(raw):
                if v == 0 or varies:
                    rows[:, width:] = variants[v]
                    leaves = tree.predict_binned(rows, missing, threads)
                total[:, k] += leaves
    return [np.asarray(model._loss.predict_proba(total)) for total in raw]


def _writable(tree: Any) -> Any:
    """A tree as compiled code takes it: those of a memory map are copied, as they cannot be written to."""
    arrays = tree.nodes, tree.binned_left_cat_bitsets
    return tree if all(array.flags.writeable for array in arrays) else copy.deepcopy(tree)
