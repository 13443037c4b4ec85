"""Fits whose models learn from all rows of a lazy table."""

import re

import numpy as np
import polars as pl
import pyarrow.dataset as ds
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from xgboost import XGBClassifier

import evenhand as eh
from evenhand.datasets import FiniteProblem
from evenhand.estimators import large_table
from evenhand.estimators.training_data import draw_seed
from evenhand.exceptions import InputError
from evenhand.inputs import batched_table
from evenhand.posteriors.crossfit_batches import folds_of

PARITY = eh.DemographicParity(difference=0.02)
BOOSTED = XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1)
BOTH = eh.EqualOpportunity(difference=0.01) & eh.PredictiveEquality(difference=0.05)
N = 2400


@pytest.fixture(autouse=True, scope="module")
def _small_batches():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batched_table, "BATCH_ROWS", 900)
        yield


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    sex, race = rng.choice(["F", "M"], N), rng.choice(["a", "b"], N, p=[0.7, 0.3])
    income, age = rng.normal(size=N) + 0.5 * (sex == "F"), rng.integers(18, 80, N)
    score = income + 0.3 * (race == "a") + age / 60 + rng.normal(size=N)
    return pl.DataFrame(
        {
            "income": income.round(1),
            "age": age,
            "sex": sex,
            "race": race,
            "weight": rng.integers(0, 3, N),
            "label": np.where(score > 1.2, "yes", "no"),
        }
    )


@pytest.fixture(scope="module")
def path(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    table.write_parquet(path, row_group_size=1000)
    return path


def fair(constraint=PARITY, estimator=BOOSTED, **settings):
    settings = {"sensitive_features": ["sex", "race"], "cv": 3, "learn_rows": None, **settings}
    return eh.FairPostprocessor(clone(estimator), constraint, **settings)


def in_memory(classifier, table, sample_weight=None):
    """The same classifier fitted to the table in memory, with the same folds."""
    fold = folds_of(np.arange(len(table)), classifier.cv, draw_seed(classifier.random_state))
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(classifier.cv)]
    again = clone(classifier).set_params(cv=splits)
    return again.fit(table.drop("label", "weight"), table["label"], sample_weight=sample_weight)


@pytest.fixture(scope="module")
def plain(path):
    """Fitted with the settings of `fair`; no test may change it."""
    return fair().fit(pl.scan_parquet(path).drop("weight"), "label")


@pytest.fixture(scope="module")
def plain_in_memory(table):
    return in_memory(fair(), table)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"aware": True, "constraint": BOTH},
        {"aware": ["sex"]},
        {"average": False},
        {"posterior": "separate"},
        {"posterior": "joint"},
        {"calibration": None},
        {"constraint": BOTH},
        {"cost": 0.3, "pos_label": "no"},
    ],
    ids=lambda settings: "-".join(map(str, settings)) or "default",
)
def test_the_fit_is_that_of_a_table_in_memory(table, path, plain, plain_in_memory, settings):
    lazy = pl.scan_parquet(path).drop("weight")
    found = fair(**settings).fit(lazy, "label") if settings else plain
    expected = in_memory(fair(**settings), table) if settings else plain_in_memory
    assert found.certificate_.gap < 1e-6
    assert found.certificate_.violation < 1e-9
    assert found.fitted_to_.rows == N
    X = table.drop("label", "weight")
    assert np.abs(found.predict_risk(X) - expected.predict_risk(X)).max() < 1e-11
    assert found.certificate_.objective == pytest.approx(expected.certificate_.objective, abs=1e-6)
    assert np.abs(found.rule_.table - expected.rule_.table).max() < 1e-4
    # A threshold may be anywhere between two out-of-fold scores, and new rows have other scores.
    assert np.mean(found.predict(X) != expected.predict(X)) < (
        0.01 if settings.get("aware") is True else 1e-3
    )


@pytest.mark.parametrize("aware", [False, True])
def test_weights_are_a_column(table, path, aware):
    found = fair(aware=aware).fit(pl.scan_parquet(path), "label", sample_weight="weight")
    expected = in_memory(fair(aware=aware), table, table["weight"])
    X = table.drop("label", "weight")
    assert np.abs(found.predict_risk(X) - expected.predict_risk(X)).max() < 1e-11
    assert found.certificate_.objective == pytest.approx(expected.certificate_.objective, abs=1e-6)


def test_a_small_sample_calibrates_and_all_rows_are_learned_from(table, path, plain_in_memory, monkeypatch):
    """The sample changes the calibration a little, and nothing else."""
    monkeypatch.setattr(large_table, "SAMPLE_ROWS", 1000)
    settings = {"calibration": None}
    lazy, X = pl.scan_parquet(path).drop("weight"), table.drop("label", "weight")
    found, expected = fair(**settings).fit(lazy, "label"), in_memory(fair(**settings), table)
    assert np.abs(found.predict_risk(X) - expected.predict_risk(X)).max() < 1e-11
    assert found.certificate_.objective == pytest.approx(expected.certificate_.objective, abs=1e-6)
    calibrated = fair().fit(lazy, "label").predict_risk(X)
    difference = np.abs(calibrated - plain_in_memory.predict_risk(X))
    assert 0 < difference.mean() < 0.03


@pytest.mark.parametrize("sample_rows", [10_000, 2_000], ids=["all rows", "a sample"])
@pytest.mark.parametrize("aware", [False, True], ids=["blind", "aware"])
def test_atoms_are_randomised_by_what_their_rows_got(monkeypatch, sample_rows, aware):
    """With six distinct features, out-of-fold posteriors scatter around the atoms of the deployed model."""
    monkeypatch.setattr(large_table, "SAMPLE_ROWS", sample_rows)
    monkeypatch.setattr(batched_table, "BATCH_ROWS", 3000)
    drawn = FiniteProblem.random(6, levels=(2, 2), seed=4).sample(8_000, seed=0)
    sensitive = {name: np.asarray(values) for name, values in drawn.sensitive.items()}
    frame = pl.DataFrame({"x": drawn.X[:, 0], **sensitive, "label": drawn.y.astype(int)})
    model = fair(sensitive_features=list(sensitive), aware=aware)
    model.fit(frame.lazy(), "label")
    assert model.certificate_.violation < 1e-9
    selection = model.predict_proba(frame.drop("label"))[:, 1]
    rates = (
        frame.select(list(sensitive)).with_columns(rate=selection).group_by(list(sensitive)).mean()["rate"]
    )
    assert rates.max() - rates.min() < 0.09
    assert ((selection > 0) & (selection < 1)).any()


@pytest.mark.filterwarnings("ignore:this classifier is constant")  # nothing can be learned here
def test_a_row_is_scored_by_models_that_have_not_seen_it():
    """Labels are noise and trees know what they saw by heart: with a leak, the risk would be near 0."""
    rng = np.random.default_rng(0)
    n = 1200
    columns = {"x": rng.permutation(n), "s": rng.choice(["a", "b"], n), "label": rng.integers(0, 2, n)}
    frame = pl.DataFrame(columns)
    deep = {"max_depth": 30, "max_bin": n, "min_child_weight": 0, "reg_lambda": 0.0, "learning_rate": 1.0}
    estimator = XGBClassifier(n_estimators=5, n_jobs=1, **deep)
    model = fair(estimator=estimator, sensitive_features=["s"], average=False).fit(frame.lazy(), "label")
    assert 2 * model.certificate_.objective > 0.4
    uncalibrated = fair(estimator=estimator, sensitive_features=["s"], average=False, calibration=None)
    by_heart = uncalibrated.fit(frame.lazy(), "label").predict_risk(frame.drop("label"))
    assert np.mean((by_heart > 0.5) == frame["label"].to_numpy()) > 0.9


def test_a_dataset_of_pyarrow_gives_the_same_model(path):
    found = fair().fit(ds.dataset(path), "label")
    expected = fair().fit(pl.scan_parquet(path), "label")
    assert found.certificate_.objective == pytest.approx(expected.certificate_.objective, abs=1e-9)


def test_categories_are_learned(table, path, tmp_path):
    levels = ["young", "middle", "old"]
    band = pl.when(pl.col("age") < 30).then(0).when(pl.col("age") < 50).then(1).otherwise(2)
    band = band.replace_strict([0, 1, 2], levels, return_dtype=pl.Enum(levels))
    lazy = pl.scan_parquet(path).drop("weight").with_columns(age=band)
    estimator = clone(BOOSTED).set_params(enable_categorical=True)
    found = fair(estimator=estimator).fit(lazy, "label")
    expected = in_memory(fair(estimator=estimator), table.with_columns(age=band))
    X = lazy.drop("label").collect()
    assert np.abs(found.predict_risk(X) - expected.predict_risk(X)).max() < 1e-11
    eh.save(found, tmp_path / "model.eh")
    assert (eh.load(tmp_path / "model.eh").predict(X) == found.predict(X)).all()


def test_a_fitted_model_is_saved_and_decides_in_batches(path, table, tmp_path):
    lazy = pl.scan_parquet(path).drop("weight")
    found = fair(aware=["race"]).fit(lazy, "label")
    eh.save(found, tmp_path / "model.eh")
    loaded = eh.load(tmp_path / "model.eh")
    decisions = found.predict(table.drop("label", "weight"))
    assert (loaded.predict(table.drop("label", "weight")) == decisions).all()
    assert (np.concatenate(list(loaded.predict(lazy.drop("label")))) == decisions).all()
    assert clone(loaded).learn_rows is None
    assert eh.verify(tmp_path / "model.eh", data=(lazy, "label")).proof.confirmed
    changed = lazy.with_columns(age=pl.col("age") + 1)
    assert not eh.verify(tmp_path / "model.eh", data=(changed, "label")).proof.confirmed


def test_an_interrupted_fit_goes_on(path, tmp_path, monkeypatch):
    lazy = pl.scan_parquet(path).drop("weight")
    scratch = tmp_path / "scratch"
    with monkeypatch.context() as patch:
        patch.setattr("evenhand.estimators.postprocess.make_rule_of_batches", None)
        with pytest.raises(TypeError):
            fair().fit(lazy, "label", scratch=scratch)
    assert any(scratch.iterdir())
    found = fair().fit(lazy, "label", scratch=scratch)
    assert not any(scratch.iterdir())
    expected = fair().fit(lazy, "label")
    assert found.certificate_.objective == pytest.approx(expected.certificate_.objective, abs=1e-12)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"estimator": eh.TabularClassifier()},
            "estimator TabularClassifier cannot learn from rows in batches",
        ),
        ({"group_estimator": LogisticRegression()}, "group_estimator LogisticRegression cannot learn"),
        ({"estimator": XGBClassifier(early_stopping_rounds=2)}, "early_stopping_rounds of estimator"),
        ({"cv": 0.3}, "cv should be a whole number from 2 on"),
        ({"cv": KFold(3)}, "cv should be a whole number from 2 on"),
        ({"cv": 1}, "cv should be a whole number from 2 on"),
        ({"cv": None}, "cv should be a whole number from 2 on"),
        ({"constraint": None}, "constraint should be a notion of fairness"),
    ],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, dict) else "",
)
def test_what_cannot_be_is_refused_before_anything_is_read(settings, words, tmp_path):
    with pytest.raises(InputError, match=words):
        fair(**settings).fit(pl.scan_parquet(tmp_path / "absent.parquet"), "label")


def test_text_is_refused_with_what_to_do(path):
    lazy = pl.scan_parquet(path).drop("weight").with_columns(place=pl.lit("here"))
    with pytest.raises(InputError, match=re.escape("column 'place' is of type String")):
        fair().fit(lazy, "label")


def test_a_table_in_memory_is_learned_from_as_ever(table):
    X = table.drop("label", "weight")
    found = fair(estimator=eh.TabularClassifier()).fit(X, table["label"])
    assert found.certificate_.gap < 1e-6
