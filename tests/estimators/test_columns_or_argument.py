"""Sensitive features as columns of X or passed separately: models see the same and decide the same."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from lightgbm import LGBMClassifier
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict
from tests.flat import build
from xgboost import XGBClassifier

import evenhand as eh

DRAWN = eh.datasets.GaussianProblem.random(levels=(2, 2), seed=4).sample(900, seed=1)
RACE = np.array(["white", "black"])[DRAWN.sensitive["A1"]]
SEX = np.array(["F", "M"])[DRAWN.sensitive["A2"]]
SENSITIVE = {"race": RACE, "sex": SEX}
NUMBERS = np.column_stack([DRAWN.X, np.random.default_rng(0).normal(size=900)])
TABLE = pd.DataFrame(NUMBERS, columns=["score", "noise"])
LEARN, NEW = np.arange(600), np.arange(600, 900)
PARITY = eh.DemographicParity(difference=0.05)
KINDS = {
    "post": lambda learner=None, **more: build(
        eh.FairPostprocessor, learner or LogisticRegression(), PARITY, cv=2, **more
    ),
    "in": lambda learner=None, **more: build(
        eh.FairInprocessor, learner or LogisticRegression(), PARITY, max_refits=2, **more
    ),
}
# Few rows and few trainings: how fair the result is does not matter here.
pytestmark = pytest.mark.filterwarnings("ignore::evenhand.exceptions.ToleranceWarning")
both_kinds = pytest.mark.parametrize("kind", KINDS)


def take(value, rows):
    if isinstance(value, dict):
        return {name: column[rows] for name, column in value.items()}
    return value.iloc[rows] if hasattr(value, "iloc") else value[rows]


def forms(library):
    """X and the places of its sensitive columns, then X without them, and the sensitive features by name."""
    if library == "numpy":  # in the middle, as text
        mixed = np.column_stack([NUMBERS[:, 0].astype(object), RACE, NUMBERS[:, 1].astype(object), SEX])
        return mixed, [1, 3], NUMBERS, {"x1": RACE, "x3": SEX}
    inside = TABLE.copy()
    inside.insert(1, "race", RACE)
    inside["sex"] = SEX
    if library == "polars":
        return pl.DataFrame(inside), ["race", "sex"], pl.DataFrame(TABLE), SENSITIVE
    return inside, ["race", "sex"], TABLE, SENSITIVE


def compare(kind, library, aware, **settings):
    """Fit both forms, check that they answer alike, and return them."""
    inside, where, apart, sensitive = forms(library)
    aware = list(sensitive)[1:] if aware == "sex" else aware
    within = KINDS[kind](sensitive_features=where, aware=aware, **settings)
    beside = KINDS[kind](aware=aware, **settings)
    within.fit(take(inside, LEARN), DRAWN.y[LEARN])
    beside.fit(take(apart, LEARN), DRAWN.y[LEARN], sensitive_features=take(sensitive, LEARN))
    used = {} if aware is False else {"sensitive_features": take(sensitive, NEW)}
    for way in ("predict", "predict_proba", "decision_function"):
        one, two = getattr(within, way)(take(inside, NEW)), getattr(beside, way)(take(apart, NEW), **used)
        # The last bits of a linear model depend on the layout of a table in memory.
        assert np.array_equal(one, two) or (way == "decision_function" and np.allclose(one, two, 1e-12)), way
    return within, beside


@both_kinds
@pytest.mark.parametrize("library", ["pandas", "polars", "numpy"])
@pytest.mark.parametrize("aware", [False, True, "sex"], ids=["blind", "aware", "partly aware"])
def test_both_forms_decide_alike(kind, library, aware):
    within, beside = compare(kind, library, aware)
    assert dict(within.multipliers_) == dict(beside.multipliers_)
    assert within.certificate_ == beside.certificate_


@both_kinds
def test_text_columns_survive_grid_search_and_cross_validation(kind):
    inside, where, apart, sensitive = forms("pandas")
    fair = KINDS[kind](sensitive_features=where, aware=True)
    found = GridSearchCV(fair, {"estimator__C": [0.1, 1.0]}, cv=2, error_score="raise").fit(inside, DRAWN.y)
    assert np.isfinite(found.cv_results_["mean_test_score"]).all()
    halves = [(np.arange(0, 900, 2), np.arange(1, 900, 2)), (np.arange(1, 900, 2), np.arange(0, 900, 2))]
    crossed = cross_val_predict(fair, inside, DRAWN.y, cv=halves)
    for learn, new in halves:
        beside = KINDS[kind](aware=True)
        beside.fit(take(apart, learn), DRAWN.y[learn], sensitive_features=take(sensitive, learn))
        decided = beside.predict(take(apart, new), sensitive_features=take(sensitive, new))
        assert (crossed[new] == decided).all()


class Recorder(ClassifierMixin, BaseEstimator):
    """Records what it is fitted to."""

    seen: list = []  # noqa: RUF012  (shared by clones)

    def fit(self, X, y, sample_weight=None):
        Recorder.seen.append(X)
        self.inner_ = LogisticRegression().fit(X, y, sample_weight)
        self.classes_ = self.inner_.classes_
        return self

    def predict(self, X):
        return self.inner_.predict(X)

    def predict_proba(self, X):
        return self.inner_.predict_proba(X)


@pytest.mark.parametrize("aware", [True, "sex"])
@pytest.mark.parametrize("library", ["pandas", "numpy"])
def test_models_are_given_the_same_numbers(library, aware):
    Recorder.seen = []
    compare("post", library, aware, learner=Recorder())
    half = len(Recorder.seen) // 2
    for one, two in zip(Recorder.seen[:half], Recorder.seen[half:], strict=True):
        assert type(one) is type(two)
        assert list(getattr(one, "columns", [])) == list(getattr(two, "columns", []))
        assert np.array_equal(np.asarray(one), np.asarray(two))
        assert set(np.unique(np.asarray(one)[:, 2:])) == {0.0, 1.0}


def test_a_frozen_model_keeps_the_columns_that_it_was_fitted_to():
    numeric = TABLE.assign(sex=(SEX == "M").astype(float))
    answers = []
    for columns in (["score", "noise", "sex"], ["score", "noise"]):
        fitted = LogisticRegression().fit(numeric.iloc[LEARN][columns], DRAWN.y[LEARN])
        fair = KINDS["post"](FrozenEstimator(fitted), sensitive_features="sex", aware=True)
        fair.fit(numeric.iloc[NEW], DRAWN.y[NEW])
        assert fair.posterior_model_.model.label.model.n_features_in_ == len(columns)
        answers.append(fair.decision_function(numeric.iloc[NEW]))
    assert not np.allclose(*answers)


def test_a_frozen_group_model_is_given_no_further_columns():
    """One feature is known; the other is predicted by a model that was fitted before."""
    numeric = TABLE.assign(race=(RACE == "white").astype(float), sex=(SEX == "M").astype(float))
    codes = 2 * numeric["race"].astype(int) + numeric["sex"].astype(int)
    fitted = LogisticRegression().fit(numeric.iloc[LEARN][["score", "noise", "sex"]], codes[LEARN])
    settings = {"sensitive_features": ["race", "sex"], "aware": ["sex"], "posterior": "label_then_group"}
    fair = KINDS["post"](group_estimator=FrozenEstimator(fitted), **settings)
    assert set(fair.fit(numeric.iloc[NEW], DRAWN.y[NEW]).predict(numeric.iloc[NEW])) == {0, 1}
    trained = KINDS["in"](group_estimator=FrozenEstimator(fitted), **settings)
    with pytest.raises(eh.exceptions.InputError, match="frozen only where aware is True or False"):
        trained.fit(numeric.iloc[NEW], DRAWN.y[NEW])


NASTY = np.array(["a, b", '<5 [x] "q": {}'])[DRAWN.sensitive["A1"]]  # boosters reject such column names


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConstantClassifierWarning")  # three trees
@both_kinds
@pytest.mark.parametrize(
    "learner",
    [
        XGBClassifier(n_estimators=3, n_jobs=1),
        LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1),
    ],
    ids=["xgboost", "lightgbm"],
)
@pytest.mark.parametrize(
    ("aware", "posterior"),
    [(False, "label_then_group"), (True, "auto"), (["r [<], s"], "label_then_group")],
    ids=["blind", "aware", "partly aware"],
)
def test_boosters_accept_the_names_of_added_columns(kind, learner, aware, posterior):
    table = TABLE.assign(group_0=0.5).iloc[:300]  # a name that would be given to an added column
    if kind == "in" and posterior == "label_then_group":
        posterior = "joint"
    sensitive = {"r [<], s": NASTY[:300], "sex": SEX[:300]}
    fair = KINDS[kind](learner, aware=aware, posterior=posterior)
    fair.fit(table, DRAWN.y[:300], sensitive_features=sensitive)
    used = {} if aware is False else {"sensitive_features": sensitive}
    inside = KINDS[kind](learner, aware=aware, posterior=posterior, sensitive_features=list(sensitive)).fit(
        table.assign(**sensitive), DRAWN.y[:300]
    )
    assert (inside.predict(table.assign(**sensitive)) == fair.predict(table, **used)).all()
