"""Distributed classifiers of xgboost and lightgbm: fitted on the cluster, used as local ones.

Neither package is imported unless one of its classifiers was passed.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
from dask.delayed import Delayed
from distributed import Client, Lock
from numpy.typing import NDArray
from sklearn.base import clone

from evenhand.dask.cluster import connected
from evenhand.inputs.features import concat_rows, has_names

__all__ = ["Rows", "copied", "fit_distributed", "is_distributed", "local_learner"]

_PACKAGES = ("xgboost", "lightgbm")

Rows = tuple[Any, NDArray[np.intp], NDArray[np.float64]]
"""Rows of a partition to learn from: X, class numbers and weights."""


def is_distributed(estimator: Any) -> bool:
    """Whether an estimator is a Dask classifier of xgboost or lightgbm."""
    return _package(estimator) is not None


def _package(estimator: Any) -> str | None:
    homes = [kind.__module__ for kind in type(estimator).__mro__]
    return next((name for name in _PACKAGES if any(home.startswith(f"{name}.dask") for home in homes)), None)


def local_learner(estimator: Any) -> Any:
    """The local classifier of the same parameters; what is not distributed stays as it is."""
    package = _package(estimator)
    if package is None:
        return estimator
    kind = next(one for one in type(estimator).__mro__ if one.__module__.startswith(f"{package}.dask"))
    local = getattr(import_module(package), kind.__name__.removeprefix("Dask"))
    cluster = ("client", "coll_cfg")  # parameters that only distributed ones have
    # Defaults differ: the objective of xgboost's is None, which a local classifier takes for a regression.
    default = {name: repr(value) for name, value in kind().get_params().items()}
    given = {name: value for name, value in estimator.get_params().items() if name not in cluster}
    return local(**{name: value for name, value in given.items() if repr(value) != default.get(name)})


def copied(value: Any, client: Client | None = None) -> Any:
    """An unfitted copy of a parameter, with the client of its own or the one that is passed."""
    if _package(value) != "lightgbm":
        made = clone(value, safe=False)
        if client is not None and is_distributed(value):
            made.client = client
        return made
    return type(value)(**{**value.get_params(), "client": client or value.client})  # clients have no copies


def fit_distributed(
    estimator: Any, parts: Sequence[Delayed], example: Any, anchors: Rows, *, client: Client
) -> Any:
    """Fit a copy of a distributed classifier to partitions of rows.

    Parameters
    ----------
    estimator : classifier
    parts : sequence of Delayed of Rows
        Class numbers go from 0 on without a gap.
    example : table or matrix
        Some rows of X.
    anchors : Rows
        A row of each class.
    client : distributed.Client

    Returns
    -------
    classifier
        A local one.
    """
    fair = copied(estimator, client)
    alone: Any = nullcontext()
    if _package(estimator) == "lightgbm":
        # Each of its workers numbers the classes that it sees, so all must see all: rows of weight 0 do that.
        anchored = dask.delayed(_anchored, pure=False)
        parts = [anchored(part, anchors) for part in parts]
        # Two fits at once can wait for each other's workers for ever; xgboost takes such a lock itself.
        with client.as_current():
            alone = Lock("evenhand-lightgbm")
    X, y, weights = (_collection(parts, k, one) for k, one in enumerate((example, anchors[1], anchors[2])))
    with connected(client), client.as_current(), alone, warnings.catch_warnings():
        # lightgbm says so of every classifier, also where nobody set it.
        warnings.filterwarnings("ignore", "Parameter n_jobs will be ignored")
        fair.fit(X, y, sample_weight=weights)
    if _package(estimator) == "lightgbm":
        local = fair.to_local()
        for name in set(local._other_params) - set(estimator.get_params()):
            del local._other_params[name]  # of the cluster that it was fitted on
            vars(local).pop(name, None)
        return local
    local = local_learner(fair)
    local.load_model(bytearray(fair.get_booster().save_raw("ubj")))
    return local


def _anchored(rows: Rows, anchors: Rows) -> Rows:
    """Rows with one of weight 0 for each class that they lack."""
    X, target, weights = rows
    lacking = np.flatnonzero(~np.isin(anchors[1], target))
    if not len(lacking):
        return rows
    further = anchors[0].iloc[lacking] if has_names(X) else anchors[0][lacking]
    return (
        concat_rows([X, further]) if len(target) else further,
        np.concatenate([target, anchors[1][lacking]]),
        np.concatenate([weights, np.zeros(len(lacking))]),
    )


def _collection(parts: Sequence[Delayed], k: int, example: Any) -> Any:
    """One of X, classes and weights as a Dask table or array."""
    cut = dask.delayed(_cut, pure=False)
    if has_names(example):
        return dd.from_delayed([cut(part, k) for part in parts], meta=example.iloc[:0], verify_meta=False)
    shape = (np.nan, *np.shape(example)[1:])
    arrays = [da.from_delayed(cut(part, k), shape, dtype=example.dtype) for part in parts]
    return da.concatenate(arrays, allow_unknown_chunksizes=True)


def _cut(rows: Rows, k: int) -> Any:
    return rows[k]
