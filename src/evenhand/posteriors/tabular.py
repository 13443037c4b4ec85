"""A classifier for unprepared tables: numbers, categories, text codes, dates, missing values."""

from __future__ import annotations

import datetime
import math
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import ThreadpoolController

from evenhand.exceptions import InputError
from evenhand.inputs.columns import Level, factorize, is_missing
from evenhand.inputs.features import column_names, has_names, read_features

__all__ = ["TabularClassifier"]

_MOST_CATEGORIES = 254  # what the boosted trees can hold, with one bin left for all others
_MOST_LEVELS = 1_000_000
_ENOUGH_TO_SET_ASIDE = 200
_ENOUGH_FOR_THREADS = 50_000


class TabularClassifier(ClassifierMixin, BaseEstimator):
    """Gradient-boosted trees for tables that need no preparation.

    Columns of numbers, booleans and dates are used as numbers, all others as categories. Categories not seen
    in fit count as missing, which the trees handle; so do all but the 254 most frequent of a column.

    Parameters
    ----------
    learning_rate : float, default=0.1
        Weight of each tree.
    max_iter : int, default=200
        Largest number of trees; training stops earlier if a held-out tenth of the rows no longer gains.
    max_leaf_nodes : int, default=None
        Leaves per tree. None stands for an eighth of the square root of the number of rows, from 4 to 15.
    random_state : int, default=0
        For the held-out tenth.

    Examples
    --------
    >>> from evenhand.datasets import load_compas
    >>> compas = load_compas()
    >>> model = TabularClassifier().fit(compas.features, compas.label)
    >>> bool(model.score(compas.features, compas.label) > 0.65)
    True
    """

    def __init__(
        self,
        *,
        learning_rate: float = 0.1,
        max_iter: int = 200,
        max_leaf_nodes: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.max_leaf_nodes = max_leaf_nodes
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    def __getstate__(self) -> Any:
        """State with categories as pairs, because model files convert keys of dictionaries to text."""
        state = super().__getstate__()
        if "levels_" in state:
            pairs = [None if known is None else list(known.items()) for known in self.levels_]
            return {**state, "levels_": pairs}
        return state

    def __setstate__(self, state: Any) -> None:
        if "levels_" in state:
            known = [None if pairs is None else dict(pairs) for pairs in state["levels_"]]
            state = {**state, "levels_": known}
        super().__setstate__(state)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the trees.

        Parameters
        ----------
        X : table or array
        y : array
            Labels of any number of classes.
        sample_weight : array, default=None

        Returns
        -------
        self
        """
        X = read_features(self, X, reset=True, accept_sparse=False)
        if y is None:
            raise InputError("this classifier requires y to be passed, but the target y is None.")
        levels = [_levels(column) for column in _columns(X)]
        matrix, target, weights = _without_singles(_matrix(X, levels), np.asarray(y), sample_weight)
        model = HistGradientBoostingClassifier(
            learning_rate=self.learning_rate,
            max_iter=self.max_iter,
            max_leaf_nodes=self.max_leaf_nodes or min(15, max(4, round(math.sqrt(len(target)) / 8))),
            categorical_features=[known is not None for known in levels],
            early_stopping=len(target) >= max(_ENOUGH_TO_SET_ASIDE, 10 * len(np.unique(target))),
            random_state=self.random_state,
        )
        with _threads(len(target)):
            self.model_ = model.fit(matrix, target, sample_weight=weights)
        self.levels_ = levels
        self.n_iter_ = self.model_.n_iter_
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class, shape (n, classes)."""
        check_is_fitted(self)
        X = read_features(self, X, reset=False, accept_sparse=False)
        matrix = _matrix(X, self.levels_)
        with _threads(len(matrix)):
            return np.asarray(self.model_.predict_proba(matrix))

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable class of each row."""
        check_is_fitted(self)
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])


def _threads(rows: int) -> AbstractContextManager[Any]:
    """A context that limits small fits to one thread.

    More threads gain little there, and on a busy machine they wait for one another: a fit to 2,600 rows took
    0.1 s with one thread and 24 s with two.
    """
    return nullcontext() if rows >= _ENOUGH_FOR_THREADS else _pools().limit(limits=1, user_api="openmp")


@cache
def _pools() -> ThreadpoolController:
    return ThreadpoolController()


def _without_singles(
    matrix: NDArray[np.float64], y: NDArray[Any], sample_weight: Any
) -> tuple[NDArray[np.float64], NDArray[Any], NDArray[np.float64] | None]:
    """Split the row of a class that has only one into two of half the weight, for the held-out tenth."""
    classes, counts = np.unique(y, return_counts=True)
    single = np.flatnonzero(np.isin(y, classes[counts == 1]))
    if not len(single) or len(y) != len(matrix):
        return matrix, y, sample_weight
    weights = np.ones(len(y)) if sample_weight is None else np.array(sample_weight, dtype=np.float64)
    weights[single] /= 2
    rows = np.concatenate([np.arange(len(y)), single])
    return matrix[rows], y[rows], weights[rows]


def _columns(X: Any) -> list[Any]:
    if has_names(X):
        frame = nw.from_native(X, eager_only=True)
        return [frame.get_column(name) for name in frame.columns]
    return [X[:, k] for k in column_names(X)]


def _levels(column: Any) -> dict[Level, int] | None:
    """Codes of the most frequent categories of a column; None for a column of numbers."""
    numbers = _numbers(column)
    if numbers is not None:
        return {} if np.isnan(numbers).all() else None  # the trees cannot bin an empty column of numbers
    found, codes = factorize(column, what="a column of X", limit=_MOST_LEVELS)
    counts = np.bincount(codes[codes >= 0], minlength=len(found))
    kept = np.sort(np.argsort(-counts, kind="stable")[:_MOST_CATEGORIES])
    return {found[k]: code for code, k in enumerate(kept)}


def _matrix(X: Any, levels: list[dict[Level, int] | None]) -> NDArray[np.float64]:
    return np.column_stack(
        [
            _encoded(column, known, name)
            for column, known, name in zip(_columns(X), levels, column_names(X), strict=True)
        ]
    )


def _encoded(column: Any, levels: dict[Level, int] | None, name: Any) -> NDArray[np.float64]:
    numbers = _numbers(column) if levels is None else None
    if numbers is not None:
        return numbers
    found, codes = factorize(column, what="a column of X", limit=_MOST_LEVELS)
    kinds = {"number"} if levels is None else set(map(_kind, levels))
    if found and kinds and kinds.isdisjoint(map(_kind, found)):
        raise InputError(
            f"column {name!r} of X held values of type {', '.join(sorted(kinds))} in fit and now holds "
            f"{found[0]!r} of type {_kind(found[0])}: convert it."
        )
    table = np.array([*((levels or {}).get(level, np.nan) for level in found), np.nan], dtype=np.float64)
    return np.asarray(table[codes])


def _kind(level: Level) -> str:
    return "number" if isinstance(level, int | float) else type(level).__name__


def _numbers(column: Any) -> NDArray[np.float64] | None:
    """A column of numbers, booleans or dates as floats, NaN where missing; None for any other."""
    if isinstance(column, nw.Series):
        kind = column.dtype
        if isinstance(kind, nw.Date | nw.Datetime):
            if isinstance(kind, nw.Datetime) and kind.time_zone is not None:
                column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
            column = column.cast(nw.Datetime("us")).to_numpy()
        elif kind.is_numeric() or kind == nw.Boolean:
            large = kind.is_integer() and column.implementation.is_pyarrow()  # its cast rejects large ones
            return np.asarray((column if large else column.cast(nw.Float64)).to_numpy(), dtype=np.float64)
        elif kind == nw.Object:
            values = column.to_list()
            column = np.empty(len(values), dtype=object)
            column[:] = values
        elif kind == nw.Unknown:  # such as pandas' sparse columns
            column = np.asarray(column.to_numpy())
        else:
            return None
    if column.dtype.kind == "O" and _are_dates(column):
        column = np.array([None if is_missing(value) else value for value in column], dtype="M8[us]")
    if column.dtype.kind == "M":
        days = column.astype("M8[us]").astype(np.int64) / 86.4e9
        return np.where(np.isnat(column), np.nan, days)
    if column.dtype.kind == "O" and any(isinstance(value, str | bytes) for value in column.tolist()):
        return None
    try:
        return np.asarray(column, dtype=np.float64) if column.dtype.kind in "biufO" else None
    except (TypeError, ValueError):
        return None


def _are_dates(column: NDArray[Any]) -> bool:
    known = [value for value in column if not is_missing(value)]
    return bool(known) and all(isinstance(value, datetime.date) for value in known)
