"""Boosted trees for many rows: the probabilities of scikit-learn, to the last bit."""

import joblib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier

import evenhand as eh
from evenhand.posteriors.binned_trees import proba_by_bins


def problem(seed, *, classes=2, categories=False, rows=400):
    """Numbers with copies, gaps, infinities and missing values, and codes with one that is rare."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(rows, 4)), 1)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[rng.random(X.shape) < 0.01] = np.inf
    if categories:
        X[:, 1] = rng.integers(0, 9, rows)
        X[0, 1], X[1:3, 1] = 9, np.nan
    X[:, 3] = rng.integers(0, 2, rows)
    score = np.nan_to_num(X[:, 0], posinf=3.0) + X[:, 3] + rng.normal(size=rows)
    y = np.digitize(score, np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1]))
    columns = [False, True, False, False] if categories else None
    return X, y, HistGradientBoostingClassifier(max_iter=12, categorical_features=columns, random_state=0)


@given(st.integers(0, 10**6), st.sampled_from([2, 3]), st.booleans())
def test_probabilities_are_those_of_scikit_learn_to_the_last_bit(seed, classes, categories):
    X, y, model = problem(seed, classes=classes, categories=categories)
    model.fit(X[:200], y[:200])
    X[300:, 1] = np.where(np.arange(100) % 7 == 0, 8 if categories else 50.0, X[300:, 1])
    [found] = proba_by_bins(model, X)
    np.testing.assert_array_equal(found, model.predict_proba(X))


@pytest.mark.parametrize("classes", [2, 4])
def test_last_columns_take_each_of_several_values(classes):
    X, y, model = problem(0, classes=classes, categories=True)
    model.fit(X, y)
    found = proba_by_bins(model, X[:, :3], np.array([[0.0], [1.0], [np.nan]]))
    for value, p in zip((0.0, 1.0, np.nan), found, strict=True):
        np.testing.assert_array_equal(
            p, model.predict_proba(np.column_stack([X[:, :3], np.full(400, value)]))
        )
    assert np.abs(found[0] - found[1]).max() > 0.01


def test_early_stopping_bins_by_all_categories():
    """A category may be in the held-out rows alone: it has a bin all the same."""
    X, y, model = problem(3, categories=True, rows=1000)
    model.set_params(early_stopping=True, validation_fraction=0.5).fit(X, y)
    np.testing.assert_array_equal(proba_by_bins(model, X)[0], model.predict_proba(X))


def test_trees_of_a_memory_map_are_evaluated_too(tmp_path):
    """joblib hands large arrays to its workers like this."""
    X, y, model = problem(4, categories=True)
    joblib.dump(model.fit(X, y), tmp_path / "model")
    mapped = joblib.load(tmp_path / "model", mmap_mode="r")
    assert not mapped._predictors[0][0].nodes.flags.writeable
    np.testing.assert_array_equal(proba_by_bins(mapped, X)[0], model.predict_proba(X))


def test_a_model_file_decides_a_batch_as_its_rows_one_by_one(tmp_path):
    """Batches go by bins, and race is learned given sex; few rows go through all trees at once."""
    adult = eh.datasets.load_adult()
    fair = eh.FairPostprocessor(constraint=eh.DemographicParity(difference=0.03))
    fair.fit(adult.features[:2000], adult.label[:2000], sensitive_features=adult.sensitive[:2000])
    eh.save(fair, tmp_path / "fair.eh")
    loaded, new = eh.load(tmp_path / "fair.eh"), adult.features[2000:3500]
    whole = loaded.predict_proba(new)
    pieces = np.concatenate([loaded.predict_proba(new[k : k + 3]) for k in range(0, 300, 3)])
    np.testing.assert_array_equal(whole[:300], pieces)
    np.testing.assert_array_equal(whole, fair.predict_proba(new))
    model = loaded.posterior_model_
    np.testing.assert_array_equal(model.cells(new, None)[:300], model.cells(new[:300], None))
