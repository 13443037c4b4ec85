"""What a fit and an answer cost with learners that users bring, as ratios to the plain model of the same run.

Pipelines with a ColumnTransformer on mixed columns, blind, demographic parity; one thread, processor time.
Run: ``python -m benchmarks.serving_learners``; about three minutes.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from threadpoolctl import threadpool_limits
from xgboost import XGBClassifier

import evenhand as eh
from benchmarks.record import write
from benchmarks.serving import TOLERANCE, Rows, adult_rows, cpu, income_rows, latencies

ANSWERS, BATCH = 100, 20_000


def words(X: Any) -> list[str]:
    """Names of the columns that hold no numbers."""
    return [name for name in X.columns if not X[name].dtype.is_numeric()]


def numbers(X: Any) -> list[str]:
    """Names of the columns of numbers."""
    return [name for name in X.columns if X[name].dtype.is_numeric()]


def trees(model: Any) -> Pipeline:
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    return make_pipeline(make_column_transformer((codes, words), remainder="passthrough"), model)


def learners() -> dict[str, Any]:
    """The learners of the table."""
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), words), (StandardScaler(), numbers)
    )
    return {
        "scikit-learn's boosted trees": trees(HistGradientBoostingClassifier(random_state=0)),
        "xgboost": trees(XGBClassifier(random_state=0, n_jobs=1)),
        "lightgbm": trees(LGBMClassifier(random_state=0, n_jobs=1, verbose=-1)),
        "random forest": trees(RandomForestClassifier(random_state=0)),
        "logistic regression": make_pipeline(columns, LogisticRegression(max_iter=1000)),
        "our trees": eh.TabularClassifier(),
    }


def measured(model: Any, fit: float, rows: Any) -> np.ndarray:
    """Seconds of the fit, of the median row and of a batch."""
    single = [rows[k : k + 1] for k in range(ANSWERS)]
    batch = rows[np.arange(BATCH) % len(rows)]
    return np.array([fit, latencies(model.predict, single)[0] / 1e3, cpu(lambda: model.predict(batch))[0]])


def compared(table: str, rows: Rows) -> dict[str, float]:
    """Each learner, plain and inside of ours."""
    X, y, new, sensitive = rows
    codes, found = np.unique(y, return_inverse=True)[1], {}
    for name, learner in learners().items():
        blind = X.drop(sensitive)
        seconds, plain = cpu(lambda blind=blind, learner=learner: learner.fit(blind, codes))  # type: ignore[misc]
        base = measured(plain, seconds, new.drop(sensitive))
        for way, average in {"": "auto", ", average=False": False}.items():
            own = None if name == "our trees" else learner
            fair = eh.FairPostprocessor(
                own,
                eh.DemographicParity(difference=TOLERANCE),
                sensitive_features=sensitive,
                posteriors=eh.CrossFit(average=average),  # type: ignore[arg-type]
            )
            seconds, _ = cpu(lambda fair=fair: fair.fit(X, y))  # type: ignore[misc]
            ours = measured(fair, seconds, new)
            what = f"{table}, {name}{way}"
            for figure, ratio in zip(("fit", "one row", "20,000 rows"), ours / base, strict=True):
                found[f"{what}: {figure} over plain"] = float(ratio)
            found[f"{what}: one row, median ms"] = float(1e3 * ours[1])
            print(what, np.round(ours / base, 1), f"{1e3 * ours[1]:.1f} ms", flush=True)
    return found


def main() -> None:
    found = compared("Adult, 4 groups", adult_rows())
    income = income_rows()
    if income is not None:
        found |= compared("ACS income, 10 groups", income)
    packages = ["evenhand", "lightgbm", "numpy", "scikit-learn", "xgboost-cpu"]
    write("serving_learners", found, packages)


if __name__ == "__main__":
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
