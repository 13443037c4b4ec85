"""Boosted trees, together for a few rows and by bins for many: the same probabilities to the last bit."""

import itertools
import tracemalloc

import joblib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier

import evenhand as eh
from evenhand.posteriors import boosted_trees
from evenhand.posteriors.boosted_trees import StackedTrees, proba_by_bins

N = 1500
RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 40, N).astype(float)  # beyond one word of a bitset
CODES[RNG.random(N) < 0.1] = np.nan
MATRIX = np.column_stack([RNG.normal(size=N), CODES, RNG.integers(0, 3, N), RNG.normal(size=N)])
MATRIX[RNG.random(N) < 0.1, 3] = np.nan
LABEL = MATRIX[:, 0] + (np.nan_to_num(CODES) % 2) + RNG.normal(size=N) > 0.5
GROUP = (MATRIX[:, 2] + (np.nan_to_num(MATRIX[:, 3]) > 0)).astype(int)


def fitted(target, categorical, rows=slice(None)):
    model = HistGradientBoostingClassifier(max_iter=12, categorical_features=categorical, random_state=0)
    return model.fit(MATRIX[rows], target[rows])


MODELS = [
    fitted(LABEL, [1, 2]),
    fitted(GROUP, [1, 2]),
    fitted(LABEL, [1, 2], slice(0, 300)),  # other categories are known to it
    fitted(GROUP, None),
]


@pytest.mark.parametrize("rows", [1, 7, 200])
def test_probabilities_are_those_of_each_model_to_the_last_bit(rows):
    new = MATRIX[-rows:].copy()
    new[0, 1] = 200  # a category that no model has seen
    for model, found in zip(MODELS, StackedTrees(MODELS).proba(new), strict=True):
        np.testing.assert_array_equal(found, model.predict_proba(new))


def test_many_rows_are_left_to_each_model():
    trees = StackedTrees(MODELS)
    assert trees.suits(1)
    assert not trees.suits(boosted_trees._MAX_SIZE)


@pytest.mark.parametrize("posterior", ["separate", "label_then_group", "joint"])
@pytest.mark.parametrize("aware", [False, True, ["sex"]], ids=str)
def test_a_row_is_decided_alike_alone_and_among_others(posterior, aware, monkeypatch):
    compas = eh.datasets.load_compas()
    X = compas.features.hstack(compas.sensitive)
    fair = eh.FairPostprocessor(
        eh.TabularClassifier(max_iter=8),
        eh.DemographicParity(difference=0.1),
        sensitive_features=["sex", "race"],
        aware=aware,
        posteriors=eh.CrossFit(2, form=posterior),
    )
    fair.fit(X[:1000], compas.label[:1000])
    together = fair.posterior_model_
    new = X[1000:1040]
    alone = [fair.predict_label_proba(new[k : k + 1])[0] for k in range(40)]
    stacked = fair.predict_label_proba(new)
    monkeypatch.setattr(boosted_trees, "_MAX_SIZE", 0)
    one_by_one = fair.predict_label_proba(new)
    np.testing.assert_array_equal(stacked, one_by_one)
    np.testing.assert_allclose(alone, stacked, rtol=0, atol=1e-12)
    assert together is fair.posterior_model_


def test_the_depth_that_a_file_states_is_not_trusted():
    """An altered depth would change decisions about few rows, and not those about many."""
    model = fitted(LABEL, [1, 2])
    expected = model.predict_proba(MATRIX[:5])
    for step in model._predictors:
        for tree in step:
            tree.nodes["depth"] = 0
    [found] = StackedTrees([model]).proba(MATRIX[:5])
    np.testing.assert_array_equal(found, expected)


def shapley(trees, matrix, column_sets):
    """Shapley values of one model by their definition, from expectations down the nodes."""
    from math import factorial

    def expected(tree, x, known, node=0):
        here = tree.nodes[node]
        if here["is_leaf"]:
            return here["value"]
        left, right = int(here["left"]), int(here["right"])
        feature = int(here["feature_idx"])
        if feature in known:
            code = x[feature]
            if np.isnan(code):
                goes_left = here["missing_go_to_left"]
            elif here["is_categorical"]:
                bits = tree.raw_left_cat_bitsets[here["bitset_idx"]]
                goes_left = (int(bits[int(code) >> 5]) >> (int(code) & 31)) & 1
            else:
                goes_left = code <= here["num_threshold"]
            return expected(tree, x, known, left if goes_left else right)
        shares = [tree.nodes[child]["count"] / here["count"] for child in (left, right)]
        values = [expected(tree, x, known, child) for child in (left, right)]
        return float(np.dot(shares, values))

    d = matrix.shape[1]
    found = np.zeros(matrix.shape)
    for row, x in enumerate(matrix):
        worth = {s: sum(expected(tree, x, s) for tree in trees) for s in column_sets}
        for j in range(d):
            for s in column_sets:
                if j not in s:
                    weight = factorial(len(s)) * factorial(d - len(s) - 1) / factorial(d)
                    found[row, j] += weight * (worth[s | {j}] - worth[s])
    return found


def test_contributions_are_shapley_values_with_categories_and_missing_values():
    """shap takes the codes of categories for numbers, so the definition is the judge."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=400), rng.integers(0, 6, 400), rng.normal(size=400)])
    y = X[:, 0] + 2 * np.isin(X[:, 1], [1, 4]) * X[:, 2] + rng.normal(size=400) > 0.5
    X[::9, 0] = np.nan
    model = HistGradientBoostingClassifier(max_iter=6, max_leaf_nodes=8, categorical_features=[1]).fit(X, y)
    found = StackedTrees([model]).contributions(X[:5])
    sets = [frozenset(part) for k in range(4) for part in itertools.combinations(range(3), k)]
    trees = [tree for [tree] in model._predictors]
    own = shapley(trees, model._preprocess_X(X[:5], reset=False), sets)
    np.testing.assert_allclose(found[:, [1, 0, 2]], own, atol=1e-10)  # categories come first there
    raw = model.decision_function(X[:5])
    np.testing.assert_allclose(raw - found.sum(axis=1), (raw - found.sum(axis=1))[0], atol=1e-10)


def test_contributions_of_numbers_are_those_of_shap():
    shap = pytest.importorskip("shap")
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 4))
    model = HistGradientBoostingClassifier(max_iter=20).fit(X, X[:, 0] * X[:, 1] > 0)
    np.testing.assert_allclose(
        StackedTrees([model]).contributions(X[:10]), shap.TreeExplainer(model).shap_values(X[:10]), atol=1e-10
    )


def test_contributions_of_many_rows_are_found_some_at_a_time(monkeypatch):
    """All rows times all paths to leaves took gigabytes for twenty thousand rows."""
    trees = StackedTrees(MODELS[:1])
    whole = trees.contributions(MATRIX[:50])
    monkeypatch.setattr(boosted_trees, "_MOST_ENTRIES", 10_000)
    tracemalloc.start()
    np.testing.assert_array_equal(trees.contributions(MATRIX)[:50], whole)
    assert tracemalloc.get_traced_memory()[1] < 3e6
    tracemalloc.stop()


def test_a_model_without_splits_has_no_contributions():
    model = HistGradientBoostingClassifier(max_iter=2).fit(np.zeros((60, 2)), np.arange(60) % 2)
    assert not StackedTrees([model]).contributions(np.zeros((3, 2))).any()


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
def test_probabilities_by_bins_are_those_of_scikit_learn_to_the_last_bit(seed, classes, categories):
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
