"""What each feature adds to the probability of the label, by the label's own model, row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier

from evenhand.data.features import as_matrix, column_names, dense, has_names, read_features
from evenhand.exceptions import InputError, MissingExtraError, reason
from evenhand.posteriors import models
from evenhand.posteriors.boosted_trees import StackedTrees
from evenhand.posteriors.learner import Learner, preprocessing, transformed
from evenhand.posteriors.table_encoder import EncodedTable, Preparation, TableEncoder, without_last
from evenhand.posteriors.tabular import TabularClassifier

Floats = NDArray[np.float64]

_SHAP = (DecisionTreeClassifier, ExtraTreesClassifier, GradientBoostingClassifier, RandomForestClassifier)


def label_contributions(model: models.PosteriorModel, X: Any) -> dict[Any, Floats]:
    """What each column of X adds to P(Y=1 | x), compared with an average row of the fit.

    In the units of the model: log-odds for linear and boosted models, probability for forests and single
    trees, before calibration. The mean over the fold models. Columns that a pipeline makes of one column of X
    are added up.

    Parameters
    ----------
    model : PosteriorModel
    X : table or matrix
        Rows as models see them.

    Returns
    -------
    dict
        By column, an array of shape (n,). Columns of a matrix are x0, x1, ...
    """
    names = column_names(X) if has_names(X) else [f"x{k}" for k in range(X.shape[1])]
    total: dict[Any, Floats] = {}
    parts = list(_label_models(model, X, names))
    for learner, rows, made in parts:
        for name, values in _contributions(learner, rows, made):
            total[name] = total.get(name, 0.0) + values / len(parts)
    return total


def _label_models(model: Any, X: Any, names: Sequence[Any]) -> Iterator[tuple[Learner, Any, Sequence[Any]]]:
    """The models of the label inside a posterior model, the rows as they see them, and of which columns."""
    if isinstance(model, models.Joint):
        raise InputError(
            "form='joint' has no model of the label alone to take reasons from: set form='auto'."
        )
    if isinstance(model, Learner):
        yield model, X, names
        return
    if isinstance(model, models.Encoded):
        X = model.encoder(X)
        if isinstance(model.encoder, Preparation):
            names = _origins(model.encoder.steps, names)
    if isinstance(model, models.LabelAndProxy):
        X = without_last(X, model.n_groups)
    parts = (
        model.models if isinstance(model, models.Averaged) else [getattr(model, "label", None) or model.model]
    )
    for part in parts:
        yield from _label_models(part, X, names)


def _contributions(learner: Learner, X: Any, names: Sequence[Any]) -> Iterator[tuple[Any, Floats]]:
    if learner.model is None:  # a fold with one label
        return
    before, last = preprocessing(learner.model)
    values = dense(_of_columns(last, transformed(X, before), learner.center))
    sign = 1.0 if learner.places[-1] == 1 else -1.0  # a frozen model may have its labels in another order
    made = names if before is None else _origins(before, names)
    yield from zip(made, sign * values.T, strict=False)  # a proxy's columns are not the label's


def _of_columns(model: Any, X: Any, center: Floats | None) -> Any:
    """What each column adds, shape (n, columns)."""
    package = type(model).__module__.partition(".")[0]
    if center is not None:
        return (np.asarray(dense(as_matrix(X)), dtype=np.float64) - center) * np.ravel(model.coef_)
    if isinstance(model, TabularClassifier):
        if not isinstance(X, EncodedTable):
            X = TableEncoder(model.levels_)(read_features(model, X, reset=False, accept_sparse=False))
        return StackedTrees([model.model_]).contributions(X.matrix)
    if isinstance(model, HistGradientBoostingClassifier):
        return StackedTrees([model]).contributions(X)
    if package == "lightgbm":
        return model.predict(X, pred_contrib=True)[:, :-1]
    if package == "xgboost":
        from xgboost import DMatrix  # noqa: PLC0415  (an optional learner)

        rows = DMatrix(X, missing=model.missing, enable_categorical=True)
        end = getattr(model, "best_iteration", -1) + 1
        return model.get_booster().predict(rows, pred_contribs=True, iteration_range=(0, end))[:, :-1]
    if not isinstance(model, _SHAP):
        raise InputError(
            f"reasons need a linear model or trees of scikit-learn, xgboost or lightgbm for the label, and "
            f"this one is a {type(model).__name__}: leave `reasons` out, or choose one of these."
        )
    try:
        import shap  # noqa: PLC0415  (an extra)
    except ImportError:
        raise MissingExtraError("shap", "reasons") from None
    found = np.asarray(shap.TreeExplainer(model).shap_values(X))
    return found[:, :, 1] if found.ndim == 3 else found


def _origins(steps: Any, names: Sequence[Any]) -> list[Any]:
    try:
        made = steps.get_feature_names_out()
    except AttributeError as error:
        raise InputError(
            f"reasons need the names of the columns that each step of a pipeline makes: {reason(error)}"
        ) from None
    return [_origin(str(name), names) for name in made]


def _origin(made: str, names: Sequence[Any]) -> Any:
    """The column of X that a column of a pipeline was made of: by its name, without the transformer's."""
    for text in (made, made.partition("__")[2]):
        found = [name for name in names if text == str(name) or text.startswith(f"{name}_")]
        if found:
            return max(found, key=lambda name: len(str(name)))
    return made
