"""Tables are encoded, and steps of a pipeline fitted, once for all models."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
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
from evenhand.data.features import take_rows
from evenhand.exceptions import InputError
from evenhand.posteriors import table_encoder
from evenhand.posteriors.crossfit import cross_fit
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.models import Encoded
from evenhand.posteriors.spec import PosteriorSpec
from evenhand.posteriors.table_encoder import EncodedTable, Preparation, TableEncoder, shared_preparation

TABLE = {"age": [30.0, None, 50.0], "job": ["cook", "clerk", None], "rich": [True, False, True]}


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_numbers_stay_and_categories_become_codes(library):
    found = TableEncoder.fit(library(TABLE))(library(TABLE))
    expected = [[30, 1, 1], [np.nan, 0, 0], [50, np.nan, 1]]
    np.testing.assert_array_equal(found.matrix, expected)
    assert found.categorical.tolist() == [False, True, False]


def test_unseen_categories_are_missing_and_another_type_is_an_error():
    encode = TableEncoder.fit(pl.DataFrame(TABLE))
    new = pl.DataFrame({"age": [1.0], "job": ["pilot"], "rich": [False]})
    assert np.isnan(encode(new).matrix[0, 1])
    with pytest.raises(InputError, match="column 'job' of X held values of type str"):
        encode(new.with_columns(job=pl.Series([7])))


def test_rows_and_columns_of_an_encoded_table():
    table = EncodedTable(np.arange(6.0).reshape(3, 2), np.array([True, False]))
    assert table.shape == (3, 2)
    assert table[np.array([2, 0])].matrix.tolist() == [[4, 5], [0, 1]]
    wider = table.joined([np.ones(3), np.zeros(3)])
    assert wider.matrix[0].tolist() == [0, 1, 1, 0]
    assert wider.categorical.tolist() == [True, False, False, False]


@pytest.mark.parametrize("aware", [False, True])
def test_a_fit_and_a_prediction_read_the_table_once(aware, monkeypatch):
    compas = eh.datasets.load_compas()
    rows = compas.features[:600]
    calls = []
    encode = TableEncoder.__call__
    monkeypatch.setattr(
        table_encoder.TableEncoder, "__call__", lambda self, X: calls.append(len(X)) or encode(self, X)
    )
    fair = eh.FairPostprocessor(
        eh.TabularClassifier(max_iter=3),
        eh.DemographicParity(difference=0.2),
        aware=aware,
        posteriors=eh.CrossFit(3),
    )
    sensitive = compas.sensitive[:600]
    fair.fit(rows, compas.label[:600], sensitive_features=sensitive)
    assert calls == [600]
    fair.predict(rows[:5], sensitive_features=sensitive[:5] if aware else None)
    assert calls == [600, 5]


@pytest.mark.parametrize(
    "levels",
    [None, "abc", [{"a": 0}], [["a"] * 255], [["a", ["b"]]], [("a",)], [0]],
    ids=lambda levels: str(levels)[:20],
)
def test_levels_that_no_table_gives_are_refused(levels):
    with pytest.raises(InputError, match="not one that evenhand writes"):
        TableEncoder(levels)


def test_a_table_with_another_number_of_columns_is_refused():
    encode = TableEncoder.fit(pl.DataFrame(TABLE))
    with pytest.raises(InputError, match="X has 2 columns, and its encoding is of 3"):
        encode(pl.DataFrame(TABLE).drop("rich"))


def test_one_missing_value_of_an_object_column_leaves_the_others_as_they_are():
    encode = TableEncoder.fit(pd.DataFrame({"x": [1.0, 2.0, 3.0]}))
    new = pd.DataFrame({"x": np.array([5.0, -5.0, pd.NA], dtype=object)})
    np.testing.assert_array_equal(encode(new).matrix[:, 0], [5.0, -5.0, np.nan])


@pytest.mark.parametrize("posterior", ["separate", "label_then_group", "joint"])
def test_a_column_may_be_unknown_in_a_fold_or_for_a_label(posterior):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    single, positives = np.full(300, np.nan), np.where(y == 1, rng.normal(size=300), np.nan)
    single[0] = 1.0
    X = pd.DataFrame({"x": rng.normal(size=300) + y, "single": single, "positives": positives})
    fair = eh.FairPostprocessor(
        eh.TabularClassifier(max_iter=5),
        eh.DemographicParity(difference=0.5),
        posteriors=eh.CrossFit(3, form=posterior),
    )
    fair.fit(X, y, sensitive_features=rng.integers(0, 2, 300))
    assert (fair.predict(X) == y).mean() > 0.6


@pytest.mark.parametrize("library", ["polars", "pandas", "pyarrow"])
def test_one_row_is_encoded_as_among_others(library):
    """A row by itself is read value by value, and its numbers are those that it has in a batch."""
    table = pl.DataFrame(
        {
            "whole": [1, None, 2**53 + 1],
            "real": [0.1, float("nan"), None],
            "truth": [True, None, False],
            "text": ["a", None, "not in fit"],
            "day": [datetime.date(2020, 1, 1), None, datetime.date(1960, 5, 5)],
        }
    )
    encoder = TableEncoder.fit(table[:2])
    native = {"polars": table, "pandas": table.to_pandas(), "pyarrow": table.to_arrow()}[library]
    rows = [take_rows(native, np.array([k])) for k in range(len(table))]
    single = np.vstack([encoder(row).matrix for row in rows])
    np.testing.assert_array_equal(single, encoder(native).matrix)


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
    steps, last = shared_preparation(LINEAR, X, weights)
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
    assert shared_preparation(make_pipeline(*steps, LogisticRegression()), X, None) is None


def test_a_pipeline_with_a_cache_or_of_another_kind_keeps_its_steps(tmp_path):
    class Own(Pipeline):
        pass

    assert shared_preparation(LINEAR, X, None) is not None
    assert shared_preparation(Own(LINEAR.steps), X, None) is None
    cached = make_pipeline(StandardScaler(), LogisticRegression(), memory=str(tmp_path))
    assert shared_preparation(cached, X, None) is None
    assert shared_preparation(LogisticRegression(), X, None) is None


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
