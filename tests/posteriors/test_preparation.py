import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_selection import SelectFromModel, SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler, TargetEncoder
from xgboost import XGBClassifier

import evenhand as eh
from evenhand.posteriors.crossfit import cross_fit
from evenhand.posteriors.examples import Examples, LabelExamples
from evenhand.posteriors.models import Encoded
from evenhand.posteriors.preparation import Preparation, shared_preparation
from evenhand.posteriors.spec import PosteriorSpec

RNG = np.random.default_rng(0)
N = 600
X = RNG.normal(size=(N, 3)) * [1, 10, 100]
Y = X[:, 0] + RNG.normal(size=N) > 0
S = RNG.integers(0, 2, N)
ROWS = Examples(X, S, Y, 2)
LINEAR = make_pipeline(StandardScaler(), LogisticRegression())


class OwnScaler(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):  # noqa: ARG002
        self.scale_ = 1.0 if y is None else float(np.mean(y))
        return self

    def transform(self, X):
        return X * self.scale_


@pytest.mark.parametrize("form", ["separate", "label_then_group", "joint"])
@pytest.mark.parametrize("average", [True, False])
def test_posteriors_are_those_of_a_classifier_of_prepared_columns(form, average):
    bare = LogisticRegression()
    found = cross_fit(PosteriorSpec(form, LINEAR, LINEAR), ROWS, cv=3, average=average)
    prepared = StandardScaler().fit_transform(X)
    by_hand = cross_fit(PosteriorSpec(form, bare, bare), Examples(prepared, S, Y, 2), cv=3, average=average)
    assert np.array_equal(found.cells, by_hand.cells)
    assert np.array_equal(found.model.cells(X, None), by_hand.model.cells(prepared, None))


def test_a_fit_sees_no_label_and_no_row_of_weight_0():
    weights = np.where(X[:, 0] > 1, 0.0, 1.0)
    steps, last = shared_preparation(LINEAR, LabelExamples(X, Y, weights))
    counted = X[weights > 0]
    assert np.array_equal(steps(X), StandardScaler().fit(counted).transform(X))
    assert isinstance(last, LogisticRegression)


@pytest.mark.parametrize(
    "steps",
    [
        (TargetEncoder(),),
        (StandardScaler(), SelectKBest(k=1)),
        (SelectFromModel(LogisticRegression()),),
        (make_column_transformer((TargetEncoder(), [0]), remainder="passthrough"),),
        (make_column_transformer((StandardScaler(), [0]), remainder=TargetEncoder()),),
        (OwnScaler(),),
        (make_column_transformer((make_pipeline(OwnScaler()), [0]), remainder="passthrough"),),
        (),
    ],
)
def test_steps_that_may_need_the_label_are_fitted_in_each_fold(steps):
    assert shared_preparation(make_pipeline(*steps, LogisticRegression()), ROWS.for_label) is None


def test_a_pipeline_with_a_cache_or_of_another_kind_keeps_its_steps(tmp_path):
    class Own(Pipeline):
        pass

    assert shared_preparation(LINEAR, ROWS.for_label) is not None
    assert shared_preparation(Own(LINEAR.steps), ROWS.for_label) is None
    cached = make_pipeline(StandardScaler(), LogisticRegression(), memory=str(tmp_path))
    assert shared_preparation(cached, ROWS.for_label) is None
    assert shared_preparation(LogisticRegression(), ROWS.for_label) is None


def test_steps_that_cannot_be_fitted_are_named_by_the_fold_that_fails():
    text = np.array([["a"], ["b"]] * (N // 2), dtype=object)
    fair = eh.FairPostprocessor(LINEAR, eh.DemographicParity(difference=0.1))
    with pytest.raises(
        eh.exceptions.InputError, match="Pipeline, as the model of the groups, cannot be fitted"
    ):
        fair.fit(text, Y, sensitive_features=S)


def test_with_a_splitter_each_fold_has_steps_of_its_own():
    spec = PosteriorSpec("known", LINEAR, None)
    splitter = StratifiedKFold(3)
    [(train, test), *_] = splitter.split(X, ROWS.split_by)
    found = cross_fit(spec, ROWS, cv=splitter)
    assert not isinstance(found.model, Encoded)
    own = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[train], Y[train])
    assert np.array_equal(found.cells[test, 0], own.predict_proba(X[test]))
    assert isinstance(cross_fit(spec, ROWS, cv=0.5).model.encoder, Preparation)


def people(n, seed):
    rng = np.random.default_rng(seed)
    sex, job = rng.choice(["F", "M"], n), rng.choice(["cook", "clerk", "smith"], n)
    age, score = rng.normal(40, 10, n), rng.normal(size=n)
    table = pd.DataFrame({"age": age, "job": job, "score": score + (sex == "M"), "sex": sex})
    return table, (score + 0.5 * (job == "cook") + rng.normal(size=n) > 0).astype(int)


def pipeline(model, encoder):
    words, numbers = (
        make_column_selector(dtype_exclude="number"),
        make_column_selector(dtype_include="number"),
    )
    return make_pipeline(make_column_transformer((encoder, words), (StandardScaler(), numbers)), model)


CODES = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
LEARNERS = {
    "scikit-learn": pipeline(HistGradientBoostingClassifier(max_iter=20, random_state=0), CODES),
    "lightgbm": pipeline(LGBMClassifier(n_estimators=20, n_jobs=1, verbose=-1), CODES),
    "xgboost": pipeline(XGBClassifier(n_estimators=20, n_jobs=1), CODES),
    "forest": pipeline(RandomForestClassifier(n_estimators=10, random_state=0), CODES),
    "logistic": pipeline(LogisticRegression(), OneHotEncoder(handle_unknown="ignore")),
}


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("name", LEARNERS)
def test_a_row_is_decided_alike_alone_in_a_batch_and_by_the_model_of_a_file(name, tmp_path):
    table, y = people(500, 1)
    new, _ = people(1_000, 2)
    notion = eh.EqualOpportunity if name == "logistic" else eh.DemographicParity
    fair = eh.FairPostprocessor(LEARNERS[name], notion(difference=0.02), sensitive_features="sex").fit(
        table, y
    )
    eh.save(fair, tmp_path / "model.eh")
    loaded = eh.load(tmp_path / "model.eh")
    whole, margins = fair.predict(new), fair.decision_function(new)
    for model in (fair, loaded):
        assert np.array_equal(model.predict(new), whole)
        assert np.array_equal(model.predict(new[:300]), whole[:300])
        for k in range(20):
            row = new[k : k + 1]
            assert model.predict(row) == whole[k]
            assert model.decision_function(row) == pytest.approx(margins[k], abs=1e-10)
