"""Classifiers that ``--estimator`` chooses, with the preparation that a table needs for them."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal

from evenhand.exceptions import InputError

__all__ = ["EstimatorName", "estimator_for"]

EstimatorName = Literal["trees", "logistic", "xgboost", "lightgbm"]
_SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "xgboost": ("XGBClassifier", {"random_state": 0}),
    "lightgbm": ("LGBMClassifier", {"random_state": 0, "verbose": -1}),
}


def estimator_for(name: EstimatorName, X: Any) -> Any:
    """Make a classifier for the columns of a table.

    Parameters
    ----------
    name : str
    X : polars.DataFrame
        What the classifier will see; columns that are added later are numbers.

    Returns
    -------
    classifier or None
        None stands for the library's own choice, boosted trees that need no preparation.
    """
    if name == "trees":
        return None
    if name == "logistic":
        model = import_module("sklearn.linear_model").LogisticRegression(max_iter=1000)
    else:
        kind, settings = _SETTINGS[name]
        try:
            model = getattr(import_module(name), kind)(**settings)
        except ImportError:
            raise InputError(
                f"--estimator {name} needs the package {name}, which is not installed: pip install {name}"
            ) from None
    return import_module("sklearn.pipeline").make_pipeline(_preparation(name, X), model)


def _preparation(name: str, X: Any) -> Any:
    """Turn text into numbers, and for a linear model also fill gaps and scale."""
    preprocessing, make_pipeline = (
        import_module("sklearn.preprocessing"),
        import_module("sklearn.pipeline").make_pipeline,
    )
    numbers = [column for column in X.columns if X.schema[column].is_numeric()]
    words = [column for column in X.columns if column not in numbers]
    strange = [column for column in words if X.schema[column].is_temporal() or X.schema[column].is_nested()]
    if strange:
        raise InputError(
            f"--estimator {name} cannot learn from {strange[0]!r}, which holds {X.schema[strange[0]]}: leave "
            f"it out with --drop {strange[0]}, or use --estimator trees."
        )
    if name == "logistic":
        of_words = preprocessing.OneHotEncoder(handle_unknown="ignore")
        imputer = import_module("sklearn.impute").SimpleImputer(add_indicator=True)
        of_numbers = make_pipeline(imputer, preprocessing.StandardScaler())
    else:
        of_words = preprocessing.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
        of_numbers = "passthrough"
    parts = [("numbers", of_numbers, numbers), ("words", of_words, words)]
    return import_module("sklearn.compose").ColumnTransformer(
        [part for part in parts if part[2]], remainder="passthrough"
    )
