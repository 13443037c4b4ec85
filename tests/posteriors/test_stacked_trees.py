"""Trees of several models evaluated together: the same probabilities to the last bit."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

import evenhand as eh
from evenhand.posteriors import stacked_trees
from evenhand.posteriors.stacked_trees import StackedTrees

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
    assert not trees.suits(stacked_trees._MAX_SIZE)


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
    monkeypatch.setattr(stacked_trees, "_MAX_SIZE", 0)
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
