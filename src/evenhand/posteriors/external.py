"""A classifier fitted to rows that are read in batches: xgboost, which keeps a byte for each number.

xgboost sorts the values of every feature into at most `max_bin` bins while it reads the batches, some times
over, and grows its trees on the bins. The rows themselves are never all in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from evenhand.exceptions import InputError
from evenhand.inputs.features import has_names
from evenhand.posteriors.learner import is_frozen

__all__ = ["Batches", "LabelledRows", "check_batch_features", "check_batch_learner", "fit_to_batches"]

LabelledRows = tuple[Any, NDArray[np.intp], NDArray[np.float64] | None]
"""Features, class numbers and weights of some rows."""

Batches = Callable[[], Iterator[LabelledRows]]
"""Reads all rows again from the first one."""

_CLASSIFIERS = ("XGBClassifier", "XGBRFClassifier")


def check_batch_learner(estimator: Any, *, role: str) -> None:
    """Raise an InputError if a classifier cannot be fitted to rows that are read in batches.

    Parameters
    ----------
    estimator : object
    role : str
        The name of the parameter, for messages.
    """
    kind = type(estimator)
    if kind.__module__ != "xgboost.sklearn" or kind.__name__ not in _CLASSIFIERS:
        name = type(estimator.estimator).__name__ if is_frozen(estimator) else kind.__name__
        why = "is fitted already" if is_frozen(estimator) else "cannot learn from rows in batches"
        raise InputError(
            f"learn_rows=None learns from all rows without holding them in memory, and {role} {name} {why}. "
            "Use xgboost.XGBClassifier for label and groups; or set learn_rows to the number of rows that "
            "are drawn to learn from."
        )
    for name in ("early_stopping_rounds", "callbacks"):
        if getattr(estimator, name) is not None:
            raise InputError(f"{name} of {role} cannot be used with learn_rows=None: leave it out.")
    if callable(estimator.objective):
        raise InputError(f"objective of {role} should be a name with learn_rows=None, but is a function.")
    if estimator.booster == "gblinear" or estimator.tree_method not in (None, "auto", "hist"):
        raise InputError(
            f"{role} needs the rows themselves, and with learn_rows=None only their bins are in memory: "
            "leave out booster and tree_method, or set tree_method='hist'."
        )


def check_batch_features(X: Any, estimator: Any) -> None:
    """Raise an InputError if xgboost does not take a column, or would read it differently in each batch.

    Parameters
    ----------
    X : table or array
        Some of the rows.
    estimator : XGBClassifier
    """
    if not has_names(X):
        return
    for name, kind in nw.from_native(X, eager_only=True).schema.items():
        if kind.is_integer() or kind.is_float() or kind == nw.Boolean:
            continue
        if not isinstance(kind, nw.Enum):
            raise InputError(
                f"column {name!r} is of type {kind}, and xgboost takes numbers in batches, or categories "
                "that are the same in all of them: cast it with pl.col(...).cast(pl.Enum([...])) and set "
                "enable_categorical=True, or leave it out."
            )
        if not estimator.enable_categorical:
            raise InputError(f"column {name!r} holds categories: set enable_categorical=True in xgboost.")


def fit_to_batches(estimator: Any, batches: Batches, n_classes: int) -> Any:
    """Fit a copy of a classifier to class numbers, all of which occur.

    The trees are those of ``estimator.fit`` with the same rows: xgboost finds the bins of a table in memory
    by the same pass over its rows.

    Parameters
    ----------
    estimator : XGBClassifier
    batches : function
        Returns an iterator of features, class numbers and weights.
    n_classes : int

    Returns
    -------
    XGBClassifier
        Fitted.
    """
    import xgboost  # noqa: PLC0415  (optional, and the estimator is one of its own)

    class Reader(xgboost.DataIter):
        """The batches, as xgboost asks for them."""

        def __init__(self) -> None:
            super().__init__()
            self.left = batches()

        def reset(self) -> None:
            self.left = batches()

        def next(self, input_data: Callable[..., None]) -> bool:
            for X, target, weights in self.left:
                if len(target):
                    names = {"feature_types": model.feature_types, "feature_weights": model.feature_weights}
                    input_data(data=X, label=target, weight=weights, **names)
                    return True
            return False

    model = clone(estimator)
    params = model.get_xgb_params()
    if n_classes > 2:  # as XGBClassifier.fit does
        if params.get("objective") != "multi:softmax":
            params["objective"] = "multi:softprob"
        params["num_class"] = n_classes
    with xgboost.config_context(verbosity=model.verbosity):
        bins = xgboost.QuantileDMatrix(
            Reader(),
            missing=model.missing,
            nthread=model.n_jobs,
            max_bin=model.max_bin,
            enable_categorical=model.enable_categorical,
        )
        trained = xgboost.train(params, bins, model.get_num_boosting_rounds())
        model.load_model(trained.save_raw("ubj"))
    # fit sets none of these, so that they stay what the user chose in a copy.
    for name in ("booster", "base_score", "feature_types", "enable_categorical"):
        setattr(model, name, getattr(estimator, name))
    return model
