"""Classifiers for ``--estimator``, with the preprocessing that a table needs for them."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal

from evenhand.exceptions import InputError

EstimatorName = Literal["trees", "logistic", "xgboost", "lightgbm"]


def estimator_for(name: EstimatorName, X: Any) -> Any:
    """A classifier for the columns of a table.

    Parameters
    ----------
    name : {"trees", "logistic", "xgboost", "lightgbm"}
    X : polars.DataFrame
        The features of the classifier; columns that are added later are numbers.

    Returns
    -------
    classifier or None
        None stands for the library's default, boosted trees that need no preprocessing.
    """
    if name == "trees":
        return None
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415  (start-up time)

    return make_pipeline(_preprocessing(name, X), _model(name))


def _model(name: EstimatorName) -> Any:
    if name == "logistic":
        from sklearn.linear_model import LogisticRegression  # noqa: PLC0415  (start-up time)

        return LogisticRegression(max_iter=1000)
    kind, settings = {"xgboost": ("XGBClassifier", {}), "lightgbm": ("LGBMClassifier", {"verbose": -1})}[name]
    try:
        return getattr(import_module(name), kind)(random_state=0, **settings)
    except ImportError:
        raise InputError(
            f"--estimator {name} needs the package {name}, which is not installed: pip install {name}"
        ) from None


def _preprocessing(name: EstimatorName, X: Any) -> Any:
    """Encode text as numbers; for a linear model also impute and scale numbers."""
    from sklearn.compose import ColumnTransformer  # noqa: PLC0415  (start-up time)
    from sklearn.impute import SimpleImputer  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler  # noqa: PLC0415

    numbers = [column for column in X.columns if X.schema[column].is_numeric()]
    words = [column for column in X.columns if column not in numbers]
    for column in words:
        kind = X.schema[column]
        if kind.is_temporal() or kind.is_nested():
            raise InputError(
                f"--estimator {name} cannot learn from {column!r}, which holds {kind}: leave it out with "
                f"--drop {column}, or use --estimator trees."
            )
    if name == "logistic":
        of_words = OneHotEncoder(handle_unknown="ignore")
        of_numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
        others = SimpleImputer()  # scikit-learn 1.6 cannot pass a polars table through beside a sparse matrix
    else:
        of_words = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
        of_numbers = others = "passthrough"
    parts = [("numbers", of_numbers, numbers), ("words", of_words, words)]
    return ColumnTransformer([part for part in parts if part[2]], remainder=others)
