"""A probabilistic classifier inside a posterior model that copes with small and empty classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import clone, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.ensemble._forest import ForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model._base import LinearClassifierMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from evenhand.data.columns import level_order
from evenhand.data.features import as_matrix, column_names, has_names, take_rows
from evenhand.exceptions import EvenhandError, InputError, reason
from evenhand.posteriors.boosted_trees import proba_by_bins
from evenhand.posteriors.table_encoder import EncodedTable
from evenhand.posteriors.tabular import TabularClassifier

_BOOSTED = {"HistGradientBoostingClassifier", "XGBClassifier", "LGBMClassifier"}
"""By name, because libraries need not be installed."""


@dataclass(frozen=True, eq=False)
class Learner:
    """A fitted classifier whose probabilities are in the order of the class numbers.

    Attributes
    ----------
    model : classifier or None
        None if the training rows had only one class.
    places : array of int
        The class number of each column of the model's probabilities.
    n_classes : int
    center : array or None
        Of a linear model, the mean of its columns in the training rows; None of any other.
    """

    model: Any
    places: NDArray[np.intp]
    n_classes: int
    center: NDArray[np.float64] | None = None

    def proba(self, X: Any) -> NDArray[np.float64]:
        """P(class | x), shape (n, n_classes); classes not seen in fit have probability 0."""
        if self.model is not None:
            return self._checked(X.shape[0], self._probabilities(X))
        out = np.zeros((X.shape[0], self.n_classes))
        out[:, self.places] = 1.0
        return out

    def proba_with(self, X: Any, last: NDArray[np.float64]) -> list[NDArray[np.float64]] | None:
        """P(class | x) with each of several values of the columns after those of X, shape (values, columns).

        None if the model is not of trees that share their work.
        """
        trees = boosted_trees(self.model)
        if trees is None or not isinstance(X, EncodedTable):
            return None
        return [self._checked(X.shape[0], found) for found in proba_by_bins(trees, X.matrix, last)]

    def _checked(self, n: int, probabilities: Any) -> NDArray[np.float64]:
        """Probabilities by the model as those of all classes."""
        found, out = np.asarray(probabilities, dtype=np.float64), np.zeros((n, self.n_classes))
        if found.shape != (n, len(self.places)):
            raise InputError(
                f"predict_proba of {_name(self.model)} has shape {found.shape}, not {(n, len(self.places))}."
            )
        out[:, self.places] = found
        with np.errstate(invalid="ignore"):  # of inf - inf
            total = out.sum(axis=1)
        bad = int(np.count_nonzero(~((out >= 0).all(axis=1) & (np.abs(total - 1) <= 1e-3))))
        if bad:
            raise InputError(
                f"probabilities of {_name(self.model)} are NaN, outside [0, 1] or do not sum to 1 in {bad:,} "
                f"of {n:,} rows."
            )
        return out

    def _probabilities(self, X: Any) -> Any:
        if not isinstance(X, EncodedTable) or type(self.model) is TabularClassifier:
            return self.model.predict_proba(X)
        found, trees = X.proba(self.model), boosted_trees(self.model)
        if found is None and trees is not None:
            [found] = proba_by_bins(trees, X.matrix)
        return self.model.predict_proba(X.matrix) if found is None else found

    def choose(self, X: Any) -> NDArray[np.intp]:
        """The class number that the classifier predicts for each row."""
        if self.model is None:
            return np.full(X.shape[0], self.places[0])
        return self.places[np.asarray(self.model.predict(X), dtype=np.intp)]

    def selection(self, X: Any) -> NDArray[np.float64]:
        """Of two classes, 1 where the second is predicted, and 0 elsewhere."""
        return np.asarray(self.choose(X) == 1, dtype=np.float64)

    def score(self, X: Any) -> NDArray[np.float64]:
        """A score that is positive where the second of two classes is predicted."""
        if self.model is None:
            return np.full(X.shape[0], 2.0 * self.places[0] - 1.0)
        if hasattr(self.model, "decision_function"):
            return np.asarray(self.model.decision_function(X), dtype=np.float64)
        if hasattr(self.model, "predict_proba"):
            return self.proba(X)[:, 1] - 0.5
        return self.choose(X).astype(np.float64) - 0.5


def is_frozen(estimator: Any) -> bool:
    """Whether an estimator is frozen: fitted already, and not fitted again."""
    return isinstance(estimator, FrozenEstimator)


def is_tree_ensemble(estimator: Any) -> bool:
    """Whether an estimator, or the last step of a pipeline, is boosted trees or a forest."""
    last = preprocessing(estimator)[1]
    return isinstance(last, ForestClassifier) or type(last).__name__ in _BOOSTED


def boosted_trees(model: Any) -> Any:
    """The boosted trees of scikit-learn in a fitted model, if they can be stacked; None of any other."""
    if type(model) is TabularClassifier:
        return model.model_
    own = type(model) is HistGradientBoostingClassifier and model._preprocessor is None
    return model if own else None


def check_model(estimator: Any, *, role: str) -> None:
    """Raise an InputError if an object is not a scikit-learn classifier."""
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise InputError(f"{role} must be a scikit-learn classifier, got {estimator!r}.")
    inner = estimator.estimator if is_frozen(estimator) else estimator
    if not hasattr(inner, "__sklearn_tags__"):
        raise InputError(
            f"{role} is a {type(inner).__name__}, which is not a scikit-learn classifier: derive it from "
            "sklearn.base.ClassifierMixin and sklearn.base.BaseEstimator."
        )
    if is_regressor(inner):
        raise InputError(f"{role} {_name(estimator)} is a regressor, and a classifier is needed.")


def check_learner(estimator: Any, *, weighted: bool, role: str, probabilities: bool = True) -> None:
    """Raise an InputError, before anything is fitted, if an estimator cannot be used.

    Parameters
    ----------
    estimator : object
    weighted : bool
        Whether it will be fitted with sample weights.
    role : str
        The name of the parameter, for messages.
    probabilities : bool, default=True
        Whether it needs predict_proba.
    """
    check_model(estimator, role=role)
    if probabilities and not hasattr(estimator, "predict_proba"):
        raise InputError(
            f"{role} {_name(estimator)} has no predict_proba, and probabilities are needed. Wrap it in "
            "sklearn.calibration.CalibratedClassifierCV, or choose another classifier."
        )
    if weighted and not takes_weights(estimator):
        other = "." if probabilities else ", or use FairPostprocessor, which trains without them."
        raise InputError(
            f"{role} {_name(estimator)} does not take sample_weight in fit. Choose another classifier{other}"
        )


def fit_learner(
    estimator: Any,
    X: Any,
    target: NDArray[np.intp],
    *,
    n_classes: int,
    weights: NDArray[np.float64] | None = None,
    names: NDArray[Any] | None = None,
    what: str = "label",
) -> Learner:
    """Fit a copy of a classifier to class numbers.

    Parameters
    ----------
    estimator : classifier
        A frozen one is not fitted again.
    X : table or matrix
    target : array of int
        The class of each row, from 0 to ``n_classes - 1``; not all need to occur.
    n_classes : int
    weights : array, default=None
    names : array, default=None
        Names that a frozen classifier may have for the classes, in the order of their numbers.
    what : str, default="label"
        What it is a model of, for messages.

    Returns
    -------
    Learner
    """
    if is_frozen(estimator):
        places = _frozen_places(estimator, n_classes, names)
        return Learner(estimator, places, n_classes, _center(estimator, X))
    if weights is not None and weights.any() and not weights.all():  # a row of weight 0 is no example
        counted = np.flatnonzero(weights)
        X, target, weights = take_rows(X, counted), target[counted], weights[counted]
    present, codes = np.unique(target, return_inverse=True)
    if len(present) == 1:
        return Learner(None, present, n_classes)
    model = clone(estimator)
    with config_context(enable_metadata_routing=False):  # weights are passed explicitly
        try:
            model.fit(X, codes, **({} if weights is None else weight_argument(model, weights)))
        except (EvenhandError, MemoryError):
            raise
        except Exception as error:
            raise InputError(
                f"{_name(model)}, as the model of the {what}, cannot be fitted to {len(codes):,} rows in "
                f"{len(present)} classes, the smallest of {np.bincount(codes).min():,}: {reason(error)}"
            ) from error
    own = np.asarray(model.classes_)
    if own.dtype.kind not in "biuf" or not np.isin(own, np.arange(len(present))).all():
        raise InputError(
            f"{_name(model)} was fitted to class numbers but has the classes {own.tolist()}: a part of it "
            "seems to be frozen. Fit the whole model first and pass it as FrozenEstimator(...)."
        )
    return Learner(model, present[own.astype(np.intp)], n_classes, _center(model, X))


def preprocessing(model: Any) -> tuple[Any, Any]:
    """A fitted classifier in two: what prepares its columns, None if nothing does, and what classifies."""
    while is_frozen(model) or hasattr(model, "best_estimator_"):
        model = model.estimator if is_frozen(model) else model.best_estimator_
    if not isinstance(model, Pipeline):
        return None, model
    before, last = preprocessing(model.steps[-1][1])
    steps = [*model.steps[:-1], *([] if before is None else [("last", before)])]
    return (Pipeline(steps) if steps else None), last


def transformed(X: Any, steps: Pipeline | None) -> Any:
    """X after the steps of :func:`preprocessing`.

    Step by step, because the ``transform`` of a Pipeline refuses a last step that has nothing to fit.
    """
    for _, step in () if steps is None else steps.steps:
        if hasattr(step, "transform"):  # not "passthrough"
            X = step.transform(X)
    return X


def _center(model: Any, X: Any) -> NDArray[np.float64] | None:
    """Mean of the columns that a linear classifier of two classes sees."""
    before, last = preprocessing(model)
    own = type(last).__module__.startswith("sklearn.")  # a subclass may do more to X than multiply it
    weights: Any = getattr(last, "coef_", None)  # a frozen model may not be fitted, which it says itself
    linear = own and isinstance(last, LinearClassifierMixin) and weights is not None
    if not linear or len(np.atleast_2d(weights)) != 1:
        return None
    rows = as_matrix(transformed(X, before))
    return np.asarray(rows.mean(axis=0), dtype=np.float64).ravel()


def left_out(estimator: Any, X: Any, added: int) -> list[Any]:
    """Of the last columns of X, those that a ColumnTransformer at the start of an estimator leaves out.

    Parameters
    ----------
    estimator : object
    X : table or matrix
    added : int
        How many columns.

    Returns
    -------
    list of names
        Of a matrix, x0, x1, ...
    """
    while not isinstance(estimator, ColumnTransformer):
        inner = estimator.steps[0][1] if isinstance(estimator, Pipeline) else None
        estimator = inner if inner is not None else getattr(estimator, "estimator", None)
        if estimator is None:
            return []
    if estimator.remainder != "drop":
        return []
    names = column_names(X) if has_names(X) else [f"x{k}" for k in range(X.shape[1])]
    parts = [(name, "passthrough", which) for name, _, which in estimator.transformers]
    try:  # only the choice of columns matters here
        chosen = ColumnTransformer(parts).fit(take_rows(X, np.arange(1))).get_feature_names_out()
    except ValueError:  # said again by fit
        return []
    kept = {str(name).partition("__")[2] for name in chosen}
    return [name for name in names[len(names) - added :] if name not in kept]


def _frozen_places(estimator: Any, n_classes: int, names: NDArray[Any] | None) -> NDArray[np.intp]:
    own = np.asarray(getattr(estimator, "classes_", range(n_classes))).tolist()
    numbers = list(range(n_classes))
    expected = numbers if names is None else np.asarray(names, dtype=object).tolist()
    candidates = [expected]
    if names is not None and level_order(expected) == numbers:  # otherwise 1 could be either label
        candidates.append(numbers)
    for known in candidates:
        if len(own) == len(known) and all(name in known for name in own):
            return np.array([known.index(name) for name in own], dtype=np.intp)
    raise InputError(
        f"the frozen {_name(estimator)} has the classes {own}, where {expected} were expected."
        + (
            ""
            if names is not None
            else " These are the numbers of the groups, or 2 m + y for group m and label y. A model of the "
            "label can be used with form='label_then_group'."
        )
    )


def _name(estimator: Any) -> str:
    return type(estimator.estimator if is_frozen(estimator) else estimator).__name__


def takes_weights(estimator: Any) -> bool:
    """Whether a classifier takes sample weights in fit, or is not fitted at all."""
    if is_frozen(estimator):
        return True
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    return bool(has_fit_parameter(last, "sample_weight"))


def weight_argument(model: Any, weights: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """The weights under the keyword that reaches the classifier, also inside a pipeline."""
    name = f"{model.steps[-1][0]}__sample_weight" if isinstance(model, Pipeline) else "sample_weight"
    return {name: weights}
