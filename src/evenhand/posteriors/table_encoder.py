"""A table encoded once for all models that share it: as numbers and codes, or by steps of a pipeline."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from evenhand.data import features
from evenhand.data.columns import Level, factorize, is_missing, object_column
from evenhand.data.features import column_names, dense, drop_columns, has_names, take_rows
from evenhand.exceptions import InputError
from evenhand.posteriors.boosted_trees import StackedTrees

Codes = dict[Level, int] | None
"""Codes of the categories of a column; None for a column of numbers."""

_MOST_CATEGORIES = 254  # what the boosted trees can hold, with one bin left for all others
_MOST_LEVELS = 1_000_000


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """Rows of a table as numbers.

    Attributes
    ----------
    matrix : array, shape (n, columns)
        Numbers, and codes of categories; NaN where missing.
    categorical : array of bool, shape (columns,)
        Which columns hold codes.
    stacks : tuple of StackedTrees
        Models that are evaluated together where rows are few.
    """

    matrix: NDArray[np.float64]
    categorical: NDArray[np.bool_]
    stacks: tuple[StackedTrees, ...] = ()
    _found: dict[int, NDArray[np.float64]] = field(default_factory=dict)
    _derived: dict[Hashable, EncodedTable] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.matrix.shape[0], self.matrix.shape[1]

    def __getitem__(self, rows: Any) -> EncodedTable:
        return EncodedTable(self.matrix[rows], self.categorical, self.stacks)

    def proba(self, model: Any) -> NDArray[np.float64] | None:
        """Probabilities by a model that is in a stack, together with all others of it; None if it is not."""
        for stack in self.stacks:
            if any(model is other for other in stack.models) and stack.suits(len(self.matrix)):
                if id(model) not in self._found:
                    found = zip(stack.models, stack.proba(self.matrix), strict=True)
                    self._found.update((id(other), p) for other, p in found)
                return self._found[id(model)]
        return None

    def joined(self, columns: Sequence[NDArray[np.float64]]) -> EncodedTable:
        """The same rows with columns of numbers appended."""
        numbers = np.zeros(len(columns), np.bool_)
        return replace(
            self,
            matrix=np.column_stack([self.matrix, *columns]),
            categorical=np.concatenate([self.categorical, numbers]),
            _found={},
            _derived={},
        )

    def derived(self, key: Hashable, make: Callable[[], EncodedTable]) -> EncodedTable:
        """A table made from this one, which is made once for each key."""
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]


@dataclass(frozen=True, eq=False)
class TableEncoder:
    """How the columns of a table become numbers.

    Attributes
    ----------
    levels : list of lists or None
        For each column its most frequent categories, whose codes are their places; None for one of numbers.

    Examples
    --------
    >>> import polars as pl
    >>> table = pl.DataFrame({"age": [30, None], "job": ["cook", "clerk"]})
    >>> TableEncoder.fit(table)(table).matrix
    array([[30.,  1.],
           [nan,  0.]])
    """

    levels: list[list[Level] | None]

    def __post_init__(self) -> None:
        """Refuse what no table gives: files can be altered."""
        if not isinstance(self.levels, list) or not all(map(_are_levels, self.levels)):
            raise InputError("the encoding of the table is not one that evenhand writes.")

    @cached_property
    def _codes(self) -> list[Codes]:
        return [None if one is None else {level: k for k, level in enumerate(one)} for one in self.levels]

    @classmethod
    def fit(cls, X: Any) -> TableEncoder:
        """The encoder of a table or matrix that is read and checked."""
        return cls([_levels(column) for column in _columns(X)])

    def __call__(self, X: Any) -> EncodedTable:
        """Encode rows; categories not seen in fit are missing."""
        if X.shape[1] != len(self.levels):
            raise InputError(f"X has {X.shape[1]} columns, and its encoding is of {len(self.levels)}.")
        quick = [_quick(value, known) for value, known in zip(_single_row(X), self._codes, strict=False)]
        if quick and None not in quick:
            matrix = np.array([quick], dtype=np.float64)
        else:
            columns = zip(_columns(X), self._codes, column_names(X), strict=True)
            matrix = np.column_stack([_encoded(*column) for column in columns])
        return EncodedTable(matrix, np.array([known is not None for known in self.levels]))


def _are_levels(levels: Any) -> bool:
    if levels is None or not isinstance(levels, list):
        return levels is None
    return len(levels) <= _MOST_CATEGORIES and all(isinstance(one, Hashable) for one in levels)


def _single_row(X: Any) -> Any:
    """The values of a table of one row; none of any other."""
    if X.shape[0] != 1:
        return ()
    return nw.from_native(X, eager_only=True).row(0) if has_names(X) else dense(X)[0].tolist()


def _quick(value: Any, codes: Codes) -> float | None:
    """The number or code of a known value, as columns give it; None if its column is to be read.

    Operations on a column take a hundred times as long as one on a value.
    """
    if value is None:
        return math.nan
    if codes is None:
        return float(value) if isinstance(value, int | float | np.integer | np.floating | np.bool_) else None
    return codes.get(value) if type(value) is str else None


def _columns(X: Any) -> list[Any]:
    if has_names(X):
        frame = nw.from_native(X, eager_only=True)
        return [frame.get_column(name) for name in frame.columns]
    return [X[:, k] for k in column_names(X)]


def _levels(column: Any) -> list[Level] | None:
    """The most frequent categories of a column; None for a column of numbers."""
    numbers = _numbers(column)
    if numbers is not None:
        return [] if np.isnan(numbers).all() else None  # the trees cannot bin an empty column of numbers
    found, codes = factorize(column, what="a column of X", limit=_MOST_LEVELS)
    counts = np.bincount(codes[codes >= 0], minlength=len(found))
    kept = np.sort(np.argsort(-counts, kind="stable")[:_MOST_CATEGORIES])
    return [found[k] for k in kept]


def _encoded(column: Any, codes: Codes, name: Any) -> NDArray[np.float64]:
    numbers = _numbers(column) if codes is None else None
    if numbers is not None:
        return numbers
    found, places = factorize(column, what="a column of X", limit=_MOST_LEVELS)
    kinds = {"number"} if codes is None else set(map(_kind, codes))
    if found and kinds and kinds.isdisjoint(map(_kind, found)):
        raise InputError(
            f"column {name!r} of X held values of type {', '.join(sorted(kinds))} in fit and now holds "
            f"{found[0]!r} of type {_kind(found[0])}: convert it."
        )
    table = np.array([*((codes or {}).get(level, np.nan) for level in found), np.nan], dtype=np.float64)
    return np.asarray(table[places])


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
            plain = large or kind == nw.Float64
            return np.asarray((column if plain else column.cast(nw.Float64)).to_numpy(), dtype=np.float64)
        elif kind == nw.Object:
            column = object_column(column.to_list())
        elif kind == nw.Unknown:  # such as pandas' sparse columns
            column = np.asarray(column.to_numpy())
        else:
            return None
    if column.dtype.kind == "O" and _are_dates(column):
        column = np.array([None if is_missing(value) else value for value in column], dtype="M8[us]")
    if column.dtype.kind == "M":
        days = column.astype("M8[us]").astype(np.int64) / 86.4e9
        return np.where(np.isnat(column), np.nan, days)
    if column.dtype.kind == "O":  # one pandas.NA would make the whole column unreadable
        column = object_column([np.nan if is_missing(value) else value for value in column.tolist()])
    if column.dtype.kind == "O" and any(isinstance(value, str | bytes) for value in column.tolist()):
        return None
    try:
        return np.asarray(column, dtype=np.float64) if column.dtype.kind in "biufO" else None
    except (TypeError, ValueError):
        return None


def _are_dates(column: NDArray[Any]) -> bool:
    known = [value for value in column if not is_missing(value)]
    return bool(known) and all(isinstance(value, datetime.date) for value in known)


def without_last(X: Any, columns: int) -> Any:
    """A table, matrix or encoded table without its last columns."""
    if not columns:
        return X
    if not isinstance(X, EncodedTable):
        return drop_columns(X, column_names(X)[-columns:])
    kept = slice(0, X.shape[1] - columns)
    return X.derived(
        ("first", kept.stop), lambda: EncodedTable(X.matrix[:, kept], X.categorical[kept], X.stacks)
    )


def last_columns(X: Any, columns: int) -> NDArray[np.float64]:
    """The last columns of a table, matrix or encoded table, as numbers."""
    if isinstance(X, EncodedTable):
        return X.matrix[:, X.shape[1] - columns :]
    return np.asarray(features.last_columns(X, columns), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Preparation:
    """The steps of a pipeline that prepare its columns, as a function: fitted once, for all models.

    Folds of posteriors then differ in their classifiers alone, and rows are transformed once instead of once
    per model. Nothing of the label leaks into the rows that a fold leaves out: only steps of scikit-learn
    that need no label are shared, and they are not given one.

    Attributes
    ----------
    steps : Pipeline
        Fitted transformers.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> X = np.array([[1.0], [3.0]])
    >>> Preparation(Pipeline([("scale", StandardScaler())]).fit(X))(X)
    array([[-1.],
           [ 1.]])
    """

    steps: Pipeline

    def __post_init__(self) -> None:
        """Refuse what no fit gives: files can be altered."""
        if not isinstance(self.steps, Pipeline):
            raise InputError("the preparation of the table is not one that evenhand writes.")

    def __call__(self, X: Any) -> Any:
        """Rows as the classifiers see them."""
        found = self.steps.transform(X)
        rows: Any = found
        return rows.tocsr() if issparse(found) else rows


Encoder = TableEncoder | Preparation
"""What encodes a table for several models."""


def shared_preparation(
    learner: Any, X: Any, weights: NDArray[np.float64] | None
) -> tuple[Preparation, Any] | None:
    """The preparation of a pipeline, fitted to rows without their labels, and its classifier.

    Parameters
    ----------
    learner : classifier
    X : table or matrix
    weights : array or None
        Rows of weight 0 are no examples.

    Returns
    -------
    tuple or None
        None if the classifier is no pipeline of scikit-learn or has a cache, or some steps may need the label
        or cannot be fitted: then each model has steps of its own, and says what is wrong with them.
    """
    if type(learner) is not Pipeline or len(learner.steps) < 2 or learner.memory is not None:
        return None
    steps = clone(Pipeline(learner.steps[:-1]))
    parts = [step for step in steps.get_params().values() if hasattr(step, "get_params")]
    if any(not type(part).__module__.startswith("sklearn.") for part in parts):
        return None
    if any(get_tags(part).target_tags.required for part in parts):
        return None
    if weights is not None and weights.any() and not weights.all():
        X = take_rows(X, np.flatnonzero(weights))
    try:
        return Preparation(steps.fit(X)), learner.steps[-1][1]
    except MemoryError:
        raise
    except Exception:  # whatever a function of the pipeline raises; the fit of the first fold says it
        return None
