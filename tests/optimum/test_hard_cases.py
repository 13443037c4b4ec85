"""Cases that are easy to get wrong, each with a minimal example."""

import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from tests.flat import build

import evenhand as eh
from evenhand.data.row_keys import id_column, row_keys
from evenhand.exceptions import InputError
from evenhand.posteriors.calibration import fit_calibrator
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.tabular import TabularClassifier

LR = LogisticRegression()
DP = eh.DemographicParity(difference=0.05)


def draw(n, seed):
    rng = np.random.default_rng(seed)
    group, X = rng.integers(0, 2, n), rng.normal(size=(n, 2))
    eta = 1 / (1 + np.exp(-(1.2 * X[:, 0] + 1.5 * group - 0.75 + 0.8 * group * X[:, 1])))
    return X, (rng.random(n) < eta).astype(int), group


X, Y, GROUP = draw(600, 0)


def test_scores_are_calibrated_within_known_groups():
    """A frozen model that does not see the group is right on average and wrong in each group."""
    X0, y0, _ = draw(20_000, 1)
    X1, y1, s1 = draw(40_000, 2)
    X2, y2, s2 = draw(100_000, 3)
    notion = eh.PredictiveEquality(difference=0.02)
    fair = eh.FairPostprocessor(FrozenEstimator(LogisticRegression().fit(X0, y0)), notion, aware=True)
    fair.fit(X1, y1, sensitive_features=s1)
    [found] = notion.measure(eh.cell_rates(y2, fair.predict(X2, sensitive_features=s2), s2))
    assert found.difference < 0.035


def test_calibration_does_not_depend_on_the_unit_of_weights():
    p = np.random.default_rng(0).dirichlet(np.ones(4), 5000)
    codes, hit = np.arange(5000) % 2, np.random.default_rng(1).random(5000) < p[:, 1] ** 2
    plain = fit_calibrator(p, Examples(None, codes, hit, 2))(p)
    small = Examples(None, codes, hit, 2, weights=np.full(5000, 1e-9))
    np.testing.assert_allclose(fit_calibrator(p, small)(p), plain, atol=1e-6)


@pytest.mark.slow
def test_in_single_precision_the_batch_does_not_matter():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, size=(4000, 2))
    wide = np.column_stack([codes + 0.1, np.tile(rng.normal(size=28), (4000, 1))]).astype(np.float32)
    group = rng.integers(0, 2, 4000)
    y = (codes[:, 0] + 0.5 * group + rng.normal(size=4000) > 1.2).astype(int)
    for table in (wide, pd.DataFrame(wide).add_prefix("x")):
        fair = eh.FairPostprocessor(LR, eh.DemographicParity(difference=0.0))
        fair.fit(table, y, sensitive_features=group)
        alone = np.concatenate([fair.predict(table[i : i + 1]) for i in range(200)])
        np.testing.assert_array_equal(alone, fair.predict(table)[:200])


def test_large_ids_stay_apart_and_missing_ones_are_refused():
    ids = np.arange(2**60, 2**60 + 50)
    rows = np.arange(50)
    assert len(set(row_keys(id_column(ids, 50), rows))) == 50
    assert len(set(row_keys(ids[:, None], rows))) == 50
    with pytest.raises(InputError, match="missing in 1 of 2"):
        id_column([1, None], 2)


def test_a_scorer_takes_the_estimators_positive_label():
    table = pd.DataFrame(X, columns=["a", "b"]).assign(s=GROUP)
    label = np.where(Y, "bad", "good")
    notion = eh.EqualOpportunity(difference=0.03)
    fair = eh.FairPostprocessor(LR, notion, sensitive_features="s", aware=True, pos_label="bad")
    fair.fit(table, label)
    exact = eh.EqualOpportunity(difference=0.0)
    stated, other = (eh.fair_scorer(exact, pos_label=name)(fair, table, label) for name in ("bad", "good"))
    assert eh.fair_scorer(exact)(fair, table, label) == stated != other


def test_the_labels_of_a_frozen_model_are_not_guessed():
    frozen = FrozenEstimator(LogisticRegression().fit(X, Y))
    fair = eh.FairPostprocessor(frozen, DP, aware=True, pos_label="no")
    with pytest.raises(InputError, match=r"\['yes', 'no'\] were expected"):
        fair.fit(X, np.where(Y, "yes", "no"), sensitive_features=GROUP)


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConstantClassifierWarning")
def test_a_fold_with_zero_weight_on_one_label_is_fitted():
    weights = np.zeros(600)
    weights[np.flatnonzero(Y == 0)[:50]] = weights[np.flatnonzero(Y == 1)[0]] = 1
    fair = eh.FairPostprocessor(LR, eh.DemographicParity(difference=0.5))
    fair.fit(X, Y, sensitive_features=GROUP, sample_weight=weights)


def test_columns_named_by_numbers_may_be_absent_at_prediction():
    table = pd.DataFrame(np.column_stack([X, GROUP]))
    fair = eh.FairPostprocessor(LR, DP, sensitive_features=[2]).fit(table, Y)
    np.testing.assert_array_equal(fair.predict(table), fair.predict(table[[0, 1]]))


@pytest.mark.parametrize("settings", [{"aware": None}, {"aware": 1}, {"cv": "0.3"}])
def test_parameters_of_the_wrong_type_are_refused(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        build(eh.FairPostprocessor, LR, DP, **settings).fit(X, Y, sensitive_features=GROUP)


def test_many_classes_with_few_rows_are_fitted():
    rng = np.random.default_rng(0)
    TabularClassifier(max_iter=3).fit(rng.normal(size=(250, 2)), np.arange(250) % 50)


@pytest.mark.parametrize(
    "column",
    [
        pd.date_range("2020-01-01", periods=600, freq="h", tz="Europe/Berlin").to_series(index=range(600)),
        pd.Series(np.full(600, np.nan)),
        pd.Series(pd.arrays.SparseArray(X[:, 1])),
    ],
    ids=["time zone", "all missing", "sparse"],
)
def test_a_table_takes_columns_of_this_kind(column):
    table = pd.DataFrame({"a": X[:, 0], "b": column})
    model = TabularClassifier(max_iter=3).fit(table, Y)
    assert model.predict_proba(table).shape == (600, 2)
    assert not model.levels_[1]  # no categories


@pytest.mark.parametrize("column", [X[:, 0], X[:, 0].round().astype(str)])
def test_a_column_of_another_type_at_prediction_is_refused(column):
    model = TabularClassifier(max_iter=3).fit(pd.DataFrame({"a": column}), Y)
    other = column.astype(str) if column.dtype.kind == "f" else column.astype(float)
    with pytest.raises(InputError, match="column 'a' of X held values of type"):
        model.predict(pd.DataFrame({"a": other}))


def test_a_known_feature_of_the_group_informs_the_label():
    """A frozen model that does not see the known feature gets its evidence through the group model."""
    rng = np.random.default_rng(0)
    features, sex, race = rng.normal(size=(8000, 2)), rng.integers(0, 2, 8000), rng.integers(0, 2, 8000)
    eta = 1 / (1 + np.exp(-(1.2 * features[:, 0] + 2 * sex - 1 + 0.5 * race)))
    y = (rng.random(8000) < eta).astype(int)
    frozen = FrozenEstimator(LogisticRegression().fit(features[:4000], y[:4000]))
    loose = eh.DemographicParity(difference=0.9)
    fair = eh.FairPostprocessor(
        frozen, loose, aware=["sex"], posteriors=eh.CrossFit(group_estimator=LR, calibration=None)
    )
    groups = {"sex": sex[4000:], "race": race[4000:]}
    fair.fit(features[4000:], y[4000:], sensitive_features=groups)
    assert fair.score(features[4000:], y[4000:], sensitive_features={"sex": sex[4000:]}) > 0.72
