"""Scikit-learn's estimator checks, and its tools: searches, pipelines, metadata routing."""

import inspect
import pickle
from dataclasses import dataclass

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.flat import build

import evenhand as eh
from evenhand.estimators.scorer import accuracy_within
from evenhand.posteriors.tabular import TabularClassifier

FAIR = eh.DemographicParity(difference=0.05)
LOOSE = eh.DemographicParity(difference=0.3)


@dataclass
class FirstIsHigh:
    """Two groups from the first column of any X; its repr is the same in every process."""

    def __call__(self, X):
        first = X[:, [0]].toarray()[:, 0] if sparse.issparse(X) else np.asarray(X)[:, 0]
        return {"high": first.astype(float) > 0.5}


first_is_high = FirstIsHigh()


def fair(**settings):
    return build(
        eh.FairPostprocessor,
        LogisticRegression(),
        eh.DemographicParity(difference=0.9),
        sensitive_features=first_is_high,
        **settings,
    )


def trained(**settings):
    return build(
        eh.FairInprocessor,
        LogisticRegression(),
        eh.DemographicParity(difference=0.9),
        sensitive_features=first_is_high,
        max_refits=2,
        **settings,
    )


class WithFolds:
    """A classifier whose folds have the name that the checks of weights look for, to keep copies together."""

    def get_params(self, deep=True):
        found = super().get_params(deep)
        return {**found, "cv": None} if deep else found

    def set_params(self, **params):
        return super().set_params(
            **{"posteriors__cv" if name == "cv" else name: params[name] for name in params}
        )


class FairPostprocessor(WithFolds, eh.FairPostprocessor):
    pass


class FairInprocessor(WithFolds, eh.FairInprocessor):
    pass


def with_folds(model):
    kind = FairPostprocessor if isinstance(model, eh.FairPostprocessor) else FairInprocessor
    return kind(**model.get_params(deep=False))


def wrong_checks(model):
    """In scikit-learn 1.6 they swap the labels of one of two copies that should be the same."""
    wrong = "y.flat[0]" in inspect.getsource(estimator_checks._enforce_estimator_tags_y)
    if not wrong or not isinstance(model, eh.FairInprocessor):  # the others answer alike all the same
        return {}
    names = ("dense", "sparse")
    return {f"check_sample_weight_equivalence_on_{name}_data": "the first label became 0" for name in names}


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
@parametrize_with_checks(
    [with_folds(fair()), with_folds(trained(aware=True))], expected_failed_checks=wrong_checks
)
def test_passes_every_check_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
@parametrize_with_checks(
    [with_folds(fair(aware=True)), with_folds(trained()), TabularClassifier(max_iter=20)],
    expected_failed_checks=wrong_checks,
)
def test_other_settings_pass_every_check_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def people():
    """A table with a number, a category and two sensitive columns of text; labels of text."""
    rng = np.random.default_rng(0)
    n = 400
    sex, race = rng.choice(["F", "M"], n), rng.choice(["A", "B"], n)
    skill = rng.normal(size=n) + (sex == "M")
    town = rng.choice(["north", "south"], n)
    y = np.where(skill + 0.5 * (town == "north") + rng.logistic(size=n) > 0.8, "yes", "no")
    return pd.DataFrame({"skill": skill, "town": town, "sex": sex, "race": race}), y


def model():
    columns = make_column_transformer(
        (StandardScaler(), ["skill"]), (OneHotEncoder(), ["town"]), remainder="passthrough"
    )
    return make_pipeline(columns, LogisticRegression())


@pytest.fixture(params=[False, True, ["sex"]], ids=["blind", "aware", "mixed"])
def estimator(request):
    return eh.FairPostprocessor(
        model(), FAIR, sensitive_features=["sex", "race"], aware=request.param, posteriors=eh.CrossFit(2)
    )


@pytest.mark.slow
def test_a_grid_search_sets_the_tolerance_and_parameters_of_the_inner_model(people, estimator):
    X, y = people
    grid = {"constraint__difference": [0.02, 0.1], "estimator__logisticregression__C": [0.1, 1.0]}
    search = GridSearchCV(estimator, grid, cv=2, scoring=eh.fair_scorer(LOOSE)).fit(X, y)
    best = search.best_estimator_
    assert best.constraint.difference == search.best_params_["constraint__difference"]
    assert search.best_params_["estimator__logisticregression__C"] == best.estimator[-1].C
    assert estimator.constraint.difference == 0.05  # the search works on clones
    means = search.cv_results_["mean_test_score"]
    assert np.isfinite(means).all()
    by_tolerance = [
        means[search.cv_results_["param_constraint__difference"] == value] for value in (0.02, 0.1)
    ]
    assert not np.array_equal(*by_tolerance)


def test_cross_validation_predicts_and_scores(people, estimator):
    X, y = people
    decisions = cross_val_predict(estimator, X, y, cv=2)
    assert set(decisions) == {"no", "yes"}
    probabilities = cross_val_predict(estimator, X, y, cv=2, method="predict_proba")
    assert np.allclose(probabilities.sum(axis=1), 1)
    scores = cross_validate(
        estimator, X, y, cv=2, scoring={"fair": eh.fair_scorer(LOOSE), "plain": "accuracy"}
    )
    assert (scores["test_plain"] > 0.5).all()
    assert np.isfinite(scores["test_fair"]).all()


def test_works_at_the_end_of_a_pipeline(people):
    X, y = people
    numbers = X[["skill"]].assign(sex=(X["sex"] == "F").astype(float))
    scaled = StandardScaler().set_output(transform="pandas")
    steps = make_pipeline(
        scaled,
        eh.FairPostprocessor(LogisticRegression(), FAIR, sensitive_features="sex", posteriors=eh.CrossFit(2)),
    )
    scores = cross_validate(steps, numbers, y, cv=2)
    assert (scores["test_score"] > 0.5).all()


def test_a_clone_and_a_pickle_make_the_same_decisions(people, estimator):
    X, y = people
    fitted = estimator.fit(X, y)
    again = clone(estimator).fit(X, y)
    kept = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    for other in (again, kept):
        assert (other.predict(X) == fitted.predict(X)).all()
        assert other.rule_.to_json() == fitted.rule_.to_json()


def test_the_html_diagram_contains_the_inner_model(people, estimator):
    X, y = people
    page = estimator.fit(X, y)._repr_html_()
    assert "FairPostprocessor" in page
    assert "LogisticRegression" in page


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConstantClassifierWarning")
@pytest.mark.parametrize("aware", [False, True])
def test_metadata_routing_passes_groups_and_weights(people, routing, aware):
    X, y = people
    groups, weights = X[["sex", "race"]], np.where(y == "yes", 2.0, 1.0)
    inner = make_pipeline(StandardScaler(), LogisticRegression())
    estimator = (
        eh.FairPostprocessor(inner, FAIR, aware=aware, posteriors=eh.CrossFit(2))
        .set_fit_request(sensitive_features=True, sample_weight=True)
        .set_predict_request(sensitive_features=True)
        .set_score_request(sensitive_features=True, sample_weight=False)
    )
    scores = cross_validate(
        estimator, X[["skill"]], y, cv=2, params={"sensitive_features": groups, "sample_weight": weights}
    )
    halves = list(StratifiedKFold(2).split(X, y))

    def score(**more):
        for train, test in halves:
            fit = {name: values[train] for name, values in more.items()}
            estimator.fit(X[["skill"]].iloc[train], y[train], sensitive_features=groups.iloc[train], **fit)
            yield estimator.score(X[["skill"]].iloc[test], y[test], sensitive_features=groups.iloc[test])

    assert scores["test_score"].tolist() == list(score(sample_weight=weights)) != list(score())
    if not aware:  # scikit-learn passes nothing from a scorer to predict
        scorer = make_scorer(accuracy_within, constraint=LOOSE).set_score_request(sensitive_features=True)
        search = GridSearchCV(estimator, {"constraint__difference": [0.01, 0.2]}, scoring=scorer, cv=2)
        search.fit(X[["skill"]], y, sensitive_features=groups, sample_weight=weights)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_weights_reach_a_classifier_inside_a_pipeline(people):
    X, y = people
    groups = X[["sex"]]
    inner = make_pipeline(StandardScaler(), LogisticRegression())
    plain = eh.FairPostprocessor(inner, FAIR, posteriors=eh.CrossFit(2)).fit(
        X[["skill"]], y, sensitive_features=groups
    )
    weights = np.where(y == "yes", 10.0, 1.0)
    heavy = clone(plain).fit(X[["skill"]], y, sensitive_features=groups, sample_weight=weights)
    assert (heavy.predict(X[["skill"]]) == "yes").mean() > (plain.predict(X[["skill"]]) == "yes").mean() + 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    "read", [pl.from_pandas, lambda X: pl.from_pandas(X).to_arrow()], ids=["polars", "pyarrow"]
)
def test_every_table_library_gives_the_same_decisions(people, read):
    X, y = people
    decide = {}
    for aware in (False, True):
        estimator = eh.FairPostprocessor(
            constraint=FAIR, sensitive_features=["sex", "race"], aware=aware, posteriors=eh.CrossFit(2)
        )
        decide[aware] = estimator.fit(read(X), y).predict(read(X))
        assert (decide[aware] == clone(estimator).fit(X, y).predict(X)).all()
    assert (decide[False] != decide[True]).any()
