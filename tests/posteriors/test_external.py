"""xgboost fitted to batches of rows, against its own fit in memory."""

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from xgboost import XGBClassifier, XGBRFClassifier

import evenhand as eh
from evenhand.exceptions import InputError
from evenhand.posteriors.external import check_batch_features, check_batch_learner, fit_to_batches

N = 3000
BOOSTED = XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1)


@pytest.fixture(scope="module")
def table():
    """Numbers with fewer values than bins, some of them missing, and categories."""
    rng = np.random.default_rng(0)
    numbers = pl.Series("income", rng.normal(size=N).round(1))
    return pl.DataFrame(
        {
            "income": numbers.replace(2.0, None),
            "age": rng.integers(18, 90, N),
            "owner": rng.random(N) < 0.5,
            "region": pl.Series(rng.choice(["N", "S", "W"], N), dtype=pl.Enum(["N", "E", "S", "W"])),
        }
    )


@pytest.fixture(scope="module")
def target(table):
    noise = np.random.default_rng(1).normal(size=N)
    score = table["age"].to_numpy() / 30 + table["owner"].to_numpy() + noise
    return np.digitize(score, [1.8, 2.6])


def in_batches(X, target, weights=None, *, rows=700):
    def batches():
        for first in range(0, len(target), rows):
            part = slice(first, first + rows)
            yield X[part], target[part], None if weights is None else weights[part]

    return batches


def same_trees(one, other):
    return one.get_booster().save_raw() == other.get_booster().save_raw()


@pytest.mark.parametrize("rows", [N, 700], ids=["one batch", "many batches"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_trees_are_those_of_a_fit_in_memory(table, target, rows, n_classes, weighted):
    target = np.minimum(target, n_classes - 1)
    weights = np.random.default_rng(2).integers(1, 4, N).astype(float) if weighted else None
    estimator = clone(BOOSTED).set_params(enable_categorical=True)
    found = fit_to_batches(estimator, in_batches(table, target, weights, rows=rows), n_classes)
    expected = clone(estimator).fit(table, target, sample_weight=weights)
    assert same_trees(found, expected)
    assert (found.predict_proba(table) == expected.predict_proba(table)).all()
    assert (found.predict(table) == expected.predict(table)).all()
    assert repr(found.get_params()) == repr(expected.get_params())
    assert found.classes_.tolist() == list(range(n_classes))


@pytest.mark.parametrize(
    "estimator",
    [
        XGBRFClassifier(n_estimators=5, n_jobs=1, random_state=0),
        XGBClassifier(n_estimators=3, n_jobs=1, objective="multi:softmax"),
        XGBClassifier(n_estimators=3, n_jobs=1, booster="dart", rate_drop=0.5, random_state=1),
        XGBClassifier(n_estimators=3, n_jobs=1, max_bin=300, subsample=0.5, random_state=3),
        XGBClassifier(
            n_estimators=3, n_jobs=1, missing=40.0, feature_weights=[1.0, 5.0, 0.5], colsample_bynode=0.5
        ),
        XGBClassifier(n_estimators=3, n_jobs=1, eval_metric="auc", base_score=0.3, tree_method="hist"),
    ],
    ids=["forest", "softmax", "dart", "subsample", "feature weights", "base score"],
)
def test_parameters_count_as_in_memory(table, target, estimator):
    X = table.drop("region")
    found = fit_to_batches(estimator, in_batches(X, target), 3)
    expected = clone(estimator).fit(X, target)
    assert (found.predict_proba(X) == expected.predict_proba(X)).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_more_values_than_bins_give_the_same_trees_too(weighted):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 3))
    y = (X.sum(axis=1) + rng.normal(size=len(X)) > 0).astype(int)
    weights = rng.random(len(X)) if weighted else None
    estimator = XGBClassifier(n_estimators=20, max_depth=3, max_bin=32, n_jobs=1)
    found = fit_to_batches(estimator, in_batches(X, y, weights, rows=1500), 2)
    assert same_trees(found, clone(estimator).fit(X, y, sample_weight=weights))


def test_batches_can_be_empty_and_of_pyarrow(table, target):
    X = table.drop("region")

    def batches():
        yield X[:0].to_arrow(), target[:0], None
        for rows in (slice(0, 1000), slice(1000, 1000), slice(1000, N)):
            yield X[rows].to_arrow(), target[rows], None

    assert same_trees(fit_to_batches(BOOSTED, batches, 3), clone(BOOSTED).fit(X, target))


def test_an_error_while_rows_are_read_is_raised_as_it_is(table, target):
    def batches():
        yield table.drop("region")[:100], target[:100], None
        raise InputError("the file ends here.")

    with pytest.raises(InputError, match=r"the file ends here\."):
        fit_to_batches(BOOSTED, batches, 3)


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (eh.TabularClassifier(), "TabularClassifier cannot learn from rows in batches"),
        (LogisticRegression(), r"Use xgboost\.XGBClassifier"),
        (make_pipeline(StandardScaler(), BOOSTED), "estimator Pipeline cannot"),
        (LGBMClassifier(), "or set learn_rows to the number of rows"),
        (FrozenEstimator(LogisticRegression()), "LogisticRegression is fitted already"),
        (XGBClassifier(early_stopping_rounds=3), "early_stopping_rounds of estimator"),
        (XGBClassifier(callbacks=[]), "callbacks of estimator"),
        (XGBClassifier(objective=lambda y, p: (p - y, p)), "objective of estimator should be a name"),
        (XGBClassifier(tree_method="exact"), "tree_method='hist'"),
        (XGBClassifier(booster="gblinear"), "leave out booster"),
    ],
    ids=[
        "trees",
        "linear",
        "pipeline",
        "lightgbm",
        "frozen",
        "early",
        "callbacks",
        "own",
        "exact",
        "gblinear",
    ],
)
def test_what_cannot_learn_in_batches_is_refused(estimator, words):
    with pytest.raises(InputError, match=words):
        check_batch_learner(estimator, role="estimator")


@pytest.mark.parametrize(
    "values",
    [
        pl.Series(["a", "b"]),
        pl.Series(["a", "b"], dtype=pl.Categorical),
        pl.Series([1, 2]).cast(pl.Date),
        pa.array(["a", "b"]).dictionary_encode(),
    ],
    ids=["text", "categories of a batch", "date", "dictionary"],
)
def test_columns_that_batches_may_code_differently_are_refused(values):
    X = pa.table({"a": values}) if isinstance(values, pa.Array) else pl.DataFrame({"a": values})
    with pytest.raises(InputError, match=r"column 'a' is of type .*pl\.Enum"):
        check_batch_features(X, XGBClassifier(enable_categorical=True))


def test_categories_must_be_enabled(table):
    check_batch_features(table, XGBClassifier(enable_categorical=True))
    check_batch_features(table.drop("region"), BOOSTED)
    check_batch_features(np.zeros((2, 1)), BOOSTED)
    with pytest.raises(InputError, match=r"column 'region' holds categories: set enable_categorical=True"):
        check_batch_features(table, BOOSTED)
