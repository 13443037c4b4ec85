import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from tests.flat import build

import evenhand as eh
from evenhand.exceptions import InputError, TrainingRowsWarning
from evenhand.posteriors.leakage import has_seen


def draw(n, seed):
    """Features, labels, and groups that features tell a little about."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    return X, (rng.random(n) < expit(X[:, 0] + X[:, 1])).astype(int), rng.random(n) < expit(X[:, 2])


X, Y, GROUP = draw(2000, 0)
X_OTHER, Y_OTHER, GROUP_OTHER = draw(2000, 1)
FOREST = RandomForestClassifier(20, random_state=0)
FLAT = LogisticRegression(C=0.003)


def asked(model, X=X, y=Y, n_classes=2):
    half = len(y) // 2
    parts = [(X[:half], y[:half]), (X[half:], y[half:])]
    return has_seen(FrozenEstimator(model), parts, n_classes=n_classes)


@pytest.mark.parametrize(
    "model",
    [
        FOREST,
        DecisionTreeClassifier(random_state=0),
        HistGradientBoostingClassifier(max_iter=30),
        LogisticRegression(),
    ],
    ids=["forest", "tree", "boosted trees", "logistic regression"],
)
def test_a_model_fitted_to_the_rows_is_noticed_and_one_fitted_to_others_is_not(model):
    assert not asked(model.fit(X_OTHER, Y_OTHER))
    assert asked(model.fit(X, Y))


@pytest.mark.parametrize("C", [0.003, 0.03])
def test_an_underconfident_model_has_not_seen_the_rows(C):
    assert not asked(LogisticRegression(C=C).fit(X_OTHER, Y_OTHER))


def test_several_classes():
    cells, others = Y + 2 * GROUP, Y_OTHER + 2 * GROUP_OTHER
    assert asked(FOREST.fit(X, cells), y=cells, n_classes=4)
    assert not asked(FOREST.fit(X_OTHER, others), y=cells, n_classes=4)


def test_tables_and_sparse_rows():
    table = pd.DataFrame(X, columns=list("abcde"))
    model = FrozenEstimator(LogisticRegression().fit(table, Y))
    assert has_seen(model, [(table, Y)], n_classes=2)
    sparse = csr_matrix(X)
    assert has_seen(FrozenEstimator(FOREST.fit(sparse, Y)), [(sparse, Y)], n_classes=2)


def test_few_rows_or_one_class_tell_nothing():
    model = FrozenEstimator(FOREST.fit(X, Y))
    assert has_seen(model, [(X[:100], Y[:100])], n_classes=2) is None
    assert has_seen(model, [(X, np.ones(2000, int))], n_classes=2) is None


class CannotBeFitted(ClassifierMixin, BaseEstimator):
    classes_ = np.array([0, 1])

    def fit(self, X, y):  # noqa: ARG002
        raise RuntimeError

    def predict_proba(self, X):
        p = expit(X[:, 0] + X[:, 1])
        return np.column_stack([1 - p, p])


def test_of_a_model_that_cannot_be_fitted_again_nothing_is_told():
    assert asked(CannotBeFitted()) is None


# In `fit`

PARITY = eh.DemographicParity(difference=0.1)


def fit(model, group_model=None, **settings):
    fair = build(
        eh.FairPostprocessor,
        FrozenEstimator(model),
        PARITY,
        group_estimator=None if group_model is None else FrozenEstimator(group_model),
        aware=group_model is None,
        random_state=0,
        **settings,
    )
    return fair.fit(X, Y, sensitive_features={"g": GROUP.astype(int)})


def test_an_underconfident_model_is_guaranteed_and_told_what_is_assumed():
    with pytest.warns(TrainingRowsWarning, match="only if the frozen model has not seen these rows"):
        assert fit(FLAT.fit(X_OTHER, Y_OTHER), confidence=0.9).guarantee_.holds


def test_nothing_is_guaranteed_with_a_group_model_that_has_seen_the_rows():
    label = RandomForestClassifier(20, random_state=0).fit(X_OTHER, Y_OTHER)
    with pytest.raises(InputError, match="nothing can be guaranteed of a frozen group model"):
        fit(label, FOREST.fit(X, GROUP.astype(int)), confidence=0.9)
    with pytest.warns(TrainingRowsWarning, match="the frozen group model seems to have been fitted"):
        fit(label, FOREST)


def test_models_that_remember_rows_but_not_these_cause_no_warning():
    label = RandomForestClassifier(20, random_state=0).fit(X_OTHER, Y_OTHER)
    group = RandomForestClassifier(20, random_state=0).fit(X_OTHER, GROUP_OTHER.astype(int))
    assert fit(label, group, confidence=0.9).guarantee_.holds
