"""Classifiers for ``--estimator``, with the preprocessing that a table needs for them."""

from __future__ import annotations

from typing import Any, Literal

from evenhand.exceptions import InputError

EstimatorName = Literal["trees", "logistic"]


def estimator_for(name: EstimatorName, X: Any) -> Any:
    """A classifier for the columns of a table.

    Parameters
    ----------
    name : {"trees", "logistic"}
    X : polars.DataFrame
        The features of the classifier; columns that are added later are numbers.

    Returns
    -------
    classifier or None
        None stands for the library's default, boosted trees that need no preprocessing.
    """
    if name == "trees":
        return None
    from sklearn.compose import ColumnTransformer  # noqa: PLC0415  (start-up time)
    from sklearn.impute import SimpleImputer  # noqa: PLC0415
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import OneHotEncoder, StandardScaler  # noqa: PLC0415

    numbers = [column for column in X.columns if X.schema[column].is_numeric()]
    words = [column for column in X.columns if column not in numbers]
    for column in words:
        kind = X.schema[column]
        if kind.is_temporal() or kind.is_nested():
            raise InputError(
                f"--estimator logistic cannot learn from {column!r}, which holds {kind}: leave it out with "
                f"--drop {column}, or use --estimator trees."
            )
    of_numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    parts = [("numbers", of_numbers, numbers), ("words", OneHotEncoder(handle_unknown="ignore"), words)]
    others = SimpleImputer()  # scikit-learn 1.6 cannot pass a polars table through beside a sparse matrix
    preprocessing = ColumnTransformer([part for part in parts if part[2]], remainder=others)
    return make_pipeline(preprocessing, LogisticRegression(max_iter=1000))
