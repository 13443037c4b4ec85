"""What each feature adds to the probability of the label."""

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from scipy.special import logit
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesClassifier, GradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

from evenhand.exceptions import MissingExtraError
from evenhand.posteriors.contributions import label_contributions
from evenhand.posteriors.learner import fit_learner
from evenhand.posteriors.models import Averaged, KnownGroup
from evenhand.posteriors.tabular import TabularClassifier

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "age": RNG.normal(40, 10, 600),
        "age_band": RNG.choice(["a", "b", "c"], 600),
        "income": RNG.lognormal(size=600),
    }
)
SCORE = TABLE["age"] / 10 + 2 * (TABLE["age_band"] == "b") - TABLE["income"]
Y = (SCORE + RNG.normal(size=600) > 3).astype(int)
NEW = TABLE[:40]


def prepared(last):
    return make_pipeline(
        make_column_transformer((StandardScaler(), ["age", "income"]), (OneHotEncoder(), ["age_band"])), last
    )


def contributions(estimator, X=TABLE, new=NEW):
    learner = fit_learner(estimator, X, Y.to_numpy(), n_classes=2)
    return learner, label_contributions(KnownGroup(learner), new)


@pytest.mark.parametrize(
    "estimator",
    [
        prepared(LogisticRegression()),
        prepared(LGBMClassifier(n_estimators=15, verbose=-1, n_jobs=1)),
        prepared(XGBClassifier(n_estimators=15, n_jobs=1)),
        prepared(GradientBoostingClassifier(n_estimators=15)),
        TabularClassifier(max_iter=15),
        GridSearchCV(prepared(LogisticRegression()), {"logisticregression__C": [1.0]}, cv=2),
    ],
    ids=["linear", "lightgbm", "xgboost", "gradient boosting", "default", "grid search"],
)
def test_they_add_up_to_the_log_odds_and_columns_of_a_pipeline_count_for_their_feature(estimator):
    learner, found = contributions(estimator)
    assert set(found) == {"age", "age_band", "income"}
    score = logit(learner.proba(NEW)[:, 1])
    rest = score - sum(found.values())
    np.testing.assert_allclose(rest, rest[0], atol=1e-5)
    is_b = (NEW["age_band"] == "b").to_numpy()
    assert found["age_band"][is_b].min() > found["age_band"][~is_b].max()


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(10, max_depth=4, random_state=0),
        ExtraTreesClassifier(10, max_depth=4, random_state=0),
        DecisionTreeClassifier(max_depth=3),
    ],
    ids=["forest", "extra trees", "tree"],
)
def test_forests_are_explained_in_probabilities(estimator):
    X = TABLE[["age", "income"]].to_numpy()
    learner, found = contributions(estimator, X, X[:40])
    assert list(found) == ["x0", "x1"]
    rest = learner.proba(X[:40])[:, 1] - sum(found.values())
    np.testing.assert_allclose(rest, rest[0], atol=1e-9)


def test_linear_contributions_are_from_the_training_mean():
    X = TABLE[["age", "income"]].to_numpy()
    learner, found = contributions(LogisticRegression(), X, X[:5])
    expected = learner.model.coef_[0] * (X[:5] - X.mean(axis=0))
    np.testing.assert_allclose(np.column_stack([found["x0"], found["x1"]]), expected)


def test_a_frozen_model_with_its_labels_in_another_order_has_the_same_reasons():
    X = TABLE[["age", "income"]].to_numpy()
    names = np.where(Y == 1, "a pays", "b defaults")
    frozen = FrozenEstimator(LogisticRegression().fit(X, names))
    order = np.array(["b defaults", "a pays"], dtype=object)
    learner = fit_learner(frozen, X, Y.to_numpy(), n_classes=2, names=order)
    found = label_contributions(KnownGroup(learner), X[:40])
    rest = logit(learner.proba(X[:40])[:, 1]) - sum(found.values())
    np.testing.assert_allclose(rest, rest[0], atol=1e-9)
    assert np.corrcoef(found["x0"], X[:40, 0])[0, 1] > 0.99


def test_they_are_the_mean_of_the_folds():
    X = TABLE[["age", "income"]].to_numpy()
    parts = [fit_learner(LogisticRegression(), X[k::2], Y.to_numpy()[k::2], n_classes=2) for k in (0, 1)]
    one, other, both = (
        label_contributions(model, X[:5])
        for model in (*map(KnownGroup, parts), Averaged(tuple(map(KnownGroup, parts))))
    )
    np.testing.assert_allclose(both["x0"], (one["x0"] + other["x0"]) / 2)


def test_a_column_that_is_made_of_several_has_its_own_name():
    X = TABLE[["age", "income"]]
    _, found = contributions(make_pipeline(StandardScaler(), PCA(), LogisticRegression()), X, X[:3])
    assert list(found) == ["pca0", "pca1"]


def test_without_shap_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "shap", None)
    X = TABLE[["age", "income"]].to_numpy()
    with pytest.raises(MissingExtraError, match=r"pip install 'evenhand\[reasons\]'"):
        contributions(DecisionTreeClassifier(max_depth=2), X, X[:2])
