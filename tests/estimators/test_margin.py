"""Forecasts and margins of fitted classifiers, on new rows."""

import lightgbm
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import evenhand as eh
from evenhand.exceptions import ForecastWarning, InputError

NUMBERS = ["a", "b", "c"]


def population(n, seed):
    rng = np.random.default_rng(seed)
    old = rng.random(n) < 0.12
    table = pd.DataFrame(rng.normal(size=(n, 3)), columns=NUMBERS)
    table["a"] += 0.9 * old
    table["kind"] = np.where(rng.random(n) < 0.3 + 0.4 * old, "x", "y")
    table["age"] = np.where(old, "old", "young")
    y = (table["a"] - 0.5 * table["b"] + 0.7 * (table["kind"] == "x") + rng.logistic(size=n) > 0.6).astype(
        int
    )
    return table, y


X, Y = population(700, 0)
NEW, NEW_Y = population(10_000, 1)
MEAN = eh.CrossFit(2)


def pipeline():
    encode = make_column_transformer(
        (StandardScaler(), NUMBERS), (OneHotEncoder(), ["kind"]), remainder="passthrough"
    )
    return make_pipeline(encode, LogisticRegression())


def boosted():
    encode = make_column_transformer(
        ("passthrough", NUMBERS), (OneHotEncoder(), ["kind"]), remainder="passthrough"
    )
    return make_pipeline(encode, lightgbm.LGBMClassifier(n_estimators=15, num_leaves=6, verbose=-1, n_jobs=1))


def fit(constraint, model=None, kind=eh.FairPostprocessor, **more):
    fair = kind(
        pipeline() if model is None else model,
        constraint,
        sensitive_features=["age"],
        posteriors=MEAN,
        **more,
    )
    return fair.fit(X, Y)


def measured(fair, constraint):
    return constraint.measure(eh.cell_rates(NEW_Y, fair.predict(NEW), NEW[["age"]]))[0].value


@pytest.mark.parametrize("aware", [False, True], ids=["blind", "aware"])
@pytest.mark.parametrize("model", [pipeline, boosted], ids=["pipeline", "lightgbm"])
def test_the_forecast_is_nearer_to_new_rows_than_the_tolerance(model, aware, tmp_path):
    parity = eh.DemographicParity(difference=0.0)
    fair = fit(parity, model(), aware=aware)
    [expected] = fair.forecast_.expected
    assert 0 < expected.low < expected.value < 0.1
    assert measured(fair, parity) < 2 * expected.high
    assert (expected.who, expected.rows) == ("age=old", int((X["age"] == "old").sum()))
    eh.save(fair, tmp_path / "model.eh")
    again = eh.load(tmp_path / "model.eh")
    assert again.forecast_.expected == fair.forecast_.expected


@pytest.mark.parametrize("aware", [False, True], ids=["blind", "aware"])
def test_a_margin_brings_the_forecast_to_the_tolerance(aware, tmp_path):
    asked = 0.04
    parity = eh.DemographicParity(difference=asked)
    plain, careful = fit(parity, aware=aware), fit(parity, aware=aware, margin="forecast")
    [before], [after] = plain.forecast_.expected, careful.forecast_.expected
    assert before.value > asked + 0.001
    assert after.value == pytest.approx(asked, abs=0.002)
    assert after.asked == asked
    assert careful.forecast_.margin > 0
    cost = careful.certificate_.objective - plain.certificate_.objective
    assert careful.forecast_.cost == pytest.approx(cost)
    assert cost > 0
    eh.save(careful, tmp_path / "model.eh")
    proof = eh.verify(tmp_path / "model.eh", data=(X, Y)).proof
    assert proof.confirmed, proof.verdict
    assert "tighter than what was asked for" in proof.verdict
    assert (eh.load(tmp_path / "model.eh").predict(NEW) == careful.predict(NEW)).all()


def test_margins_tighten_each_group_by_its_own_error():
    parity = eh.DemographicParity(difference=0.05)
    values = [fit(parity, margin=margin).forecast_ for margin in (0.0, 0.5, 1.0)]
    assert [found.margin for found in values] == [0.0, 0.5, 1.0]
    assert values[0].expected[0].value > values[1].expected[0].value > values[2].expected[0].value
    internal = values[1].internal.linear(values[1].rates.masses, values[1].rates.groups)
    assert internal.hi[0] < internal.hi[1]  # the old, of whom few were seen


def test_a_tolerance_that_no_margin_can_keep_is_told():
    with pytest.warns(ForecastWarning, match=r"asked for 0\.001"):
        fair = fit(eh.DemographicParity(difference=0.001), margin="forecast")
    assert fair.forecast_.margin > 1


def test_bounds_are_kept_on_average():
    capacity = eh.RateBound("selection rate", at_most=0.3) & eh.DemographicParity(difference=0.1)
    fair = fit(capacity, margin="forecast")
    assert all(found.excess <= 1e-3 for found in fair.forecast_.expected)


def test_a_trained_classifier_has_a_forecast(tmp_path):
    fair = fit(eh.DemographicParity(difference=0.1), kind=eh.FairInprocessor, randomize=True)
    [expected] = fair.forecast_.expected
    [achieved] = fair.achieved_
    assert expected.low < achieved.value < expected.high
    eh.save(fair, tmp_path / "model.eh")
    assert eh.load(tmp_path / "model.eh").forecast_.expected == (expected,)


def test_counts_move_claims_of_posteriors_that_miss_a_group():
    """The old have middle codes, which a model that is linear in the code cannot see."""
    rng = np.random.default_rng(0)
    code = rng.integers(0, 8, 2000)
    age = np.where(rng.random(2000) < np.where(np.abs(code - 3.5) < 1, 0.5, 0.05), "old", "young")
    X = np.column_stack([code, rng.normal(size=2000)])
    y = rng.random(2000) < 1 / (1 + np.exp(4.5 - code))
    fair = eh.FairPostprocessor(
        LogisticRegression(),
        eh.DemographicParity(difference=0.3),
        posteriors=eh.CrossFit(2, calibration=None),
    )
    fair.fit(X, y, sensitive_features={"age": age})
    counted = eh.cell_rates(y, fair.predict(X), {"age": age})
    claimed, expected, shown = (
        rates.selected[0].sum() / rates.mass[0].sum()
        for rates in (fair.rates_, fair.forecast_.rates, counted)
    )
    assert claimed - shown > 0.08
    assert abs(expected - shown) < (claimed - shown) / 3


def test_rows_count_by_their_weights():
    weights = np.where(X["age"] == "old", 5.0, 1.0)
    fair = eh.FairPostprocessor(
        LogisticRegression(),
        eh.DemographicParity(difference=0.05),
        sensitive_features=["age"],
        posteriors=MEAN,
    )
    data = X[[*NUMBERS, "age"]]
    counted = fair.fit(data, Y).forecast_.rows.sum(axis=1)
    weighted = fair.fit(data, Y, sample_weight=weights).forecast_.rows.sum(axis=1)
    assert weighted == pytest.approx(counted)  # the same weight in each group is no information


@pytest.mark.parametrize("margin", [-1, float("nan"), float("inf"), "much", True, None])
def test_margins_are_numbers_of_standard_errors(margin):
    with pytest.raises(InputError, match="`margin` must be a non-negative number or 'forecast', got"):
        fit(eh.DemographicParity(difference=0.05), margin=margin)


def test_a_guarantee_has_margins_of_its_own():
    with pytest.raises(InputError, match="`guarantee` finds its own margins"):
        fit(eh.DemographicParity(difference=0.05), margin=1.0, guarantee=0.9)
