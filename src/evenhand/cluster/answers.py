"""Answers of a fitted classifier about Dask tables and arrays: lazy, partition by partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd

from evenhand.cluster.dask_partitions import by_rows
from evenhand.cluster.dask_rows import alongside, as_rows
from evenhand.data.batched_table import BatchedTable
from evenhand.data.columns import as_column
from evenhand.exceptions import InputError


def answers(
    model: Any,
    method: str,
    X: Any,
    *,
    kind: Any,
    width: int | None = None,
    sensitive_features: Any = None,
    ids: Any = None,
) -> Any:
    """What a method of a local classifier answers about each partition; nothing is computed.

    Parameters
    ----------
    model : FairClassifier
    method : str
    X : Dask DataFrame or array
    kind : dtype
        Of the answers.
    width : int, default=None
        Columns of an answer; None is one number per row.
    sensitive_features : Dask DataFrame or Series, or array where X is one, default=None
    ids : str, Dask Series, or array where X is one, default=None

    Returns
    -------
    Dask Series or array
        A Series of a DataFrame, with its index and divisions; an array of an array, or where an answer has
        several columns.
    """
    X = as_rows(X)
    known = list(getattr(model, "feature_names_in_", ()))
    given = {"sensitive_features": sensitive_features, "ids": ids}
    if isinstance(X, dd.DataFrame) and known:
        table = BatchedTable(X, tuple(X.columns))
        if isinstance(ids, str):
            given["ids"] = X[table.require(ids, "ids")]
        features = [name for name in known if name in table.names or name not in model.access_.unused]
        X = X[[table.require(name, "a feature of the model") for name in features]]
    names = [name for name, value in given.items() if value is not None]
    beside = [alongside(given[name], X, name) for name in names]
    empty = np.empty(0 if width is None else (0, width), kind)
    ask = partial(_ask, model, method, names, empty)
    if not isinstance(X, dd.DataFrame):
        return by_rows(ask, (X, *beside), kind=kind, width=width)
    shared = dask.delayed(ask, pure=False, traverse=False)  # by all partitions
    meta = _with_index(empty, X._meta.index[:0])
    found = X.map_partitions(_ask_with_index, shared, *beside, meta=meta)
    return found if width is None else found.to_dask_array()


def _ask(model: Any, method: str, names: Sequence[str], empty: Any, X: Any, *beside: Any) -> Any:
    """What a method answers about the rows of a partition, which may be none."""
    if not len(X):
        return empty
    given = dict(zip(names, beside, strict=True))
    for name, piece in given.items():
        if len(piece) != len(X):
            raise InputError(f"{name} has {len(piece):,} rows in a partition where X has {len(X):,}.")
    if "ids" in given:
        given["ids"] = as_column(given["ids"], what="ids")
    return getattr(model, method)(X, **given)


def _ask_with_index(X: Any, ask: Callable[..., Any], *beside: Any) -> Any:
    plain = [one.reset_index(drop=True) for one in beside]  # rows belong together by position
    return _with_index(ask(X.reset_index(drop=True), *plain), X.index)


def _with_index(found: Any, index: Any) -> Any:
    return pd.Series(found, index=index) if found.ndim == 1 else pd.DataFrame(found, index=index)
