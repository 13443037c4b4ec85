"""Fits where a sensitive feature is known by probabilities."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from tests.flat import build

import evenhand as eh
from evenhand.exceptions import GroupError, InputError, ProxyCalibrationWarning
from evenhand.groups.proxy import group_probabilities

PARITY = eh.DemographicParity(difference=0.03)
LEARNER = make_pipeline(StandardScaler(), LogisticRegression())


def population(n, seed):
    """Race by a proxy b of two places of living; x and y depend on race only through b, sex is apart."""
    rng = np.random.default_rng(seed)
    b = rng.choice([0.1, 0.35, 0.7, 0.9], n)
    race = np.where(rng.random(n) < b, "B", "A")
    sex = rng.choice(["F", "M"], n)
    x = rng.normal(size=n) - 1.5 * b + 0.4 * (sex == "M")
    y = (rng.random(n) < 1 / (1 + np.exp(-x - 1.5 * (0.5 - b)))).astype(int)
    frame = pd.DataFrame({"x": x, "place": b, "p_a": 1 - b, "p_b": b, "sex": sex})
    return frame, race, y


X, RACE, Y = population(20_000, 0)
TEST, TEST_RACE, TEST_Y = population(30_000, 1)
FEW, FEW_Y = X[:3_000], Y[:3_000]
SEEN = ["x", "place"]


def table(frame):
    return {"A": frame["p_a"].to_numpy(), "B": frame["p_b"].to_numpy()}


def difference(fair, frame=TEST[SEEN], constraint=PARITY, **given):
    rates = eh.cell_rates(TEST_Y, fair.predict(frame, **given), {"race": TEST_RACE, "sex": TEST["sex"]})
    [found] = constraint.measure(rates)
    return found.difference


@pytest.mark.parametrize("constraint", [PARITY, eh.EqualOpportunity(difference=0.03)], ids=["DP", "EO"])
def test_decisions_are_fair_to_the_true_groups(constraint):
    """Probabilities are passed to fit and not needed afterwards; sex is known in fit."""
    proxy = eh.Proxy(sex=X["sex"], race=table(X))
    fair = eh.FairPostprocessor(LEARNER, constraint, posteriors=eh.CrossFit(3)).fit(
        X[SEEN], Y, sensitive_features=proxy
    )
    assert difference(fair, constraint=constraint) < 0.05
    loose = eh.FairPostprocessor(LEARNER, type(constraint)(difference=0.9), posteriors=eh.CrossFit(2)).fit(
        X[SEEN], Y, sensitive_features=proxy
    )
    assert difference(loose, constraint=constraint) > 0.1
    assert fair.groups_.keys == (("F", "A"), ("F", "B"), ("M", "A"), ("M", "B"))
    true = [
        [((TEST["sex"] == s) & (r == TEST_RACE) & (y == TEST_Y)).mean() for y in (0, 1)]
        for s, r in fair.groups_.keys
    ]
    assert np.abs(fair.rates_.masses - true).max() < 0.01
    assert fair.imputed_ is None


def test_a_forecast_says_that_no_rows_are_known_to_be_of_a_group():
    fair = eh.FairPostprocessor(LEARNER, eh.DemographicParity(difference=0.001), posteriors=eh.CrossFit(2))
    with pytest.warns(eh.exceptions.ForecastWarning, match="no rows are known to be of race="):
        fair.fit(FEW[SEEN], FEW_Y, sensitive_features=eh.Proxy(race=table(FEW)))


@pytest.mark.parametrize("constraint", [PARITY, eh.EqualOpportunity(difference=0.03)], ids=["DP", "EO"])
def test_probabilities_as_columns_of_x_are_the_groups(constraint):
    proxy = eh.Proxy(race={"A": "p_a", "B": "p_b"})
    fair = eh.FairPostprocessor(LEARNER, constraint, sensitive_features=proxy)
    columns = ["x", "place", "p_a", "p_b"]
    fair.fit(X[columns], Y)
    rates = eh.cell_rates(TEST_Y, fair.predict(TEST[columns]), {"race": TEST_RACE})
    assert constraint.measure(rates)[0].difference < 0.045
    _, posteriors = fair._read(TEST[columns][:100], None)
    assert posteriors.dense().sum(axis=2) == pytest.approx(TEST[["p_a", "p_b"]].to_numpy()[:100])
    assert posteriors.label() == pytest.approx(fair.predict_label_proba(TEST[columns][:100]))
    assert fair.posterior_model_.model.models[0].label.model.n_features_in_ == 2  # not the probabilities


def test_columns_are_found_by_name_whatever_their_order():
    """Names of values are those of columns where a list names them."""
    fair = eh.FairPostprocessor(LEARNER, PARITY, sensitive_features=eh.Proxy(race=["p_a", "p_b"]))
    fair.fit(FEW[[*SEEN, "p_a", "p_b"]], FEW_Y)
    assert fair.groups_.keys == (("p_a",), ("p_b",))
    other = eh.FairPostprocessor(LEARNER, PARITY, sensitive_features=eh.Proxy(race=["p_b", "p_a"]))
    other.fit(FEW[[*SEEN, "p_a", "p_b"]], FEW_Y)
    assert (
        fair.predict(TEST[:5_000][[*SEEN, "p_a", "p_b"]])
        == other.predict(TEST[:5_000][[*SEEN, "p_a", "p_b"]])
    ).mean() > 0.999
    with pytest.raises((ValueError, InputError), match="order"):
        fair.predict(TEST[:5_000][[*SEEN, "p_b", "p_a"]])
    matrix = FEW[[*SEEN, "p_a", "p_b"]].to_numpy()
    at = eh.FairPostprocessor(LEARNER, PARITY, sensitive_features=eh.Proxy(race=[2, 3])).fit(matrix, FEW_Y)
    assert (at.predict(matrix) == fair.predict(FEW[[*SEEN, "p_a", "p_b"]])).mean() > 0.999


def test_probabilities_in_another_order_are_the_same_groups(tmp_path):
    few, labels = FEW, FEW_Y
    given, turned = table(few), dict(reversed(table(few).items()))
    one, other = (
        eh.FairPostprocessor(LEARNER, PARITY).fit(few[SEEN], labels, sensitive_features=eh.Proxy(race=race))
        for race in (given, turned)
    )
    assert one.groups_.keys == other.groups_.keys == (("A",), ("B",))
    assert (one.decision_function(TEST[SEEN]) == other.decision_function(TEST[SEEN])).all()
    path = tmp_path / "model.eh"
    eh.save(one, path)
    assert eh.verify(path, data=(few[SEEN], labels), sensitive_features=eh.Proxy(race=turned)).proof.confirmed


def test_other_values_than_in_fit_are_told():
    groups = eh.Groups.product({"race": ["A", "B"]})
    with pytest.raises(GroupError, match="race='C' was not seen in fit"):
        group_probabilities(eh.Proxy(race={"A": [0.5], "C": [0.5]}), groups)


def test_one_certain_row_is_decided():
    """Certain rows are an error only where all of a fit are."""
    fair = eh.FairPostprocessor(LEARNER, PARITY, sensitive_features=eh.Proxy(race=["p_a", "p_b"]))
    fair.fit(FEW[[*SEEN, "p_a", "p_b"]], FEW_Y)
    row = TEST[[*SEEN, "p_a", "p_b"]][:1].assign(p_a=1.0, p_b=0.0)
    assert fair.predict(row).shape == (1,)
    with pytest.raises(GroupError, match="do not sum to 1"):
        fair.predict(row.assign(p_b=0.5))


@pytest.mark.parametrize("in_x", [False, True], ids=["in fit", "columns"])
def test_known_features_may_be_used_beside_proxies(in_x):
    columns = [*SEEN, "p_a", "p_b", "sex"]
    if in_x:
        proxy = eh.Proxy(sex="sex", race=["p_a", "p_b"])
        fair = eh.FairPostprocessor(LEARNER, PARITY, sensitive_features=proxy, aware=["sex"])
        found = difference(fair.fit(X[columns], Y), TEST[columns])
        _, posteriors = fair._read(TEST[columns][:50], None)
        women = np.array([key[0] == "F" for key in fair.groups_.keys])
        assert (posteriors.dense()[(TEST["sex"] == "F").to_numpy()[:50]][:, ~women] == 0).all()
        with pytest.raises(GroupError, match="sex='X' was not seen in fit"):
            fair.predict(TEST[columns][:3].assign(sex="X"))
    else:
        fair = eh.FairPostprocessor(LEARNER, PARITY, aware=["sex"])
        fair.fit(X[SEEN], Y, sensitive_features=eh.Proxy(sex=X["sex"], race=table(X)))
        found = difference(fair, sensitive_features={"sex": TEST["sex"]})
    assert found < 0.05


def test_saved_models_decide_alike_and_are_verified(tmp_path):
    columns = [*SEEN, "p_a", "p_b"]
    few = X[:3_000]
    by_column = eh.FairPostprocessor(
        LEARNER, PARITY, sensitive_features=eh.Proxy(race={"A": "p_a", "B": "p_b"})
    ).fit(few[columns], Y[:3_000])
    in_fit = eh.FairPostprocessor(LEARNER, PARITY).fit(
        few[SEEN], Y[:3_000], sensitive_features=eh.Proxy(race=table(few))
    )
    for fair, names, given in (
        (by_column, columns, None),
        (in_fit, SEEN, eh.Proxy(race=table(few))),
    ):
        path = tmp_path / "model.eh"
        eh.save(fair, path, overwrite=True)
        again = eh.load(path)
        assert (again.predict(TEST[names]) == fair.predict(TEST[names])).all()
        assert repr(again.sensitive_features) == repr(fair.sensitive_features)
        proof = eh.verify(path, data=(few[names], Y[:3_000]), sensitive_features=given).proof
        assert proof.confirmed, proof.verdict
    other = eh.Proxy(race={"A": 1 - few["p_b"].to_numpy() ** 2, "B": few["p_b"].to_numpy() ** 2})
    proof = eh.verify(path, data=(few[SEEN], Y[:3_000]), sensitive_features=other).proof
    assert "their groups differ" in proof.verdict


def test_default_trees_and_cross_validation_work():
    columns = [*SEEN, "p_a", "p_b"]
    fair = eh.FairPostprocessor(
        constraint=PARITY, sensitive_features=eh.Proxy(race=["p_a", "p_b"]), posteriors=eh.CrossFit(2)
    )
    decisions = cross_val_predict(clone(fair), pl.from_pandas(X[columns][:2_000]), Y[:2_000], cv=2)
    assert set(decisions) <= {0, 1}
    in_fit = eh.FairPostprocessor(constraint=PARITY, posteriors=eh.CrossFit(2))
    in_fit.fit(X[SEEN][:3_000], Y[:3_000], sensitive_features=eh.Proxy(race=table(X[:3_000])))
    assert (in_fit.predict(TEST[SEEN][:5]) == in_fit.predict(TEST[SEEN])[:5]).all()


def test_known_values_check_the_calibration_in_fit():
    wrong = {"A": np.full(20_000, 0.3), "B": np.full(20_000, 0.7)}
    known = {"race": np.where(np.arange(20_000) % 20 == 0, RACE, None)}
    fair = eh.FairPostprocessor(DecisionTreeClassifier(max_depth=3), PARITY, posteriors=eh.CrossFit(2))
    with pytest.warns(ProxyCalibrationWarning, match="are not calibrated"):
        fair.fit(X[SEEN], Y, sensitive_features=eh.Proxy(race=wrong, known=known))


@pytest.mark.parametrize(
    ("settings", "proxy", "message"),
    [
        ({"aware": True}, eh.Proxy(race=table(X)), "'race' is known by probabilities only"),
        ({"confidence": 0.9}, eh.Proxy(race=table(X)), "nor a Proxy: leave it out"),
        ({"min_group_size": 5}, eh.Proxy(race=table(X)), "min_size counts rows of groups"),
        ({"posterior": "joint"}, eh.Proxy(race=table(X)), "form='joint' cannot be learned"),
        ({"group_estimator": KNeighborsClassifier()}, eh.Proxy(race=table(X)), "does not take sample_weight"),
        ({"sensitive_features": "sex"}, eh.Proxy(race=table(X)), "both named in the constructor and passed"),
        ({"sensitive_features": eh.Proxy(race=["p_a", "p_b"])}, {"race": RACE}, "choose one"),
        ({"sensitive_features": eh.Proxy(race=table(X))}, None, "names columns of X"),
        ({"sensitive_features": eh.Proxy(race=["p_a", "p_b"], sex="sex")}, None, "aware does not name it"),
        ({"sensitive_features": eh.Proxy(race=["p_a", "p_b"], known="sex")}, None, "known= belongs to"),
        (
            {"sensitive_features": eh.Proxy(race=["p_a", "p_b"]), "posterior": "joint"},
            None,
            "which are given by proxies here",
        ),
        ({}, eh.Proxy(race={"A": [0.5], "B": [0.5]}), "differ in their number of rows"),
    ],
    ids=[
        "aware",
        "guarantee",
        "pooling",
        "joint",
        "weights",
        "both",
        "both, other",
        "table",
        "unused",
        "known",
        "joint, columns",
        "rows",
    ],
)
def test_what_does_not_work_is_told(settings, proxy, message):
    with pytest.raises((GroupError, InputError), match=message):
        build(eh.FairPostprocessor, LEARNER, PARITY, **settings).fit(X, Y, sensitive_features=proxy)


def test_other_estimators_refuse_proxies():
    with pytest.raises(InputError, match="proxies are for FairPostprocessor"):
        eh.FairInprocessor(LEARNER, PARITY).fit(X[SEEN], Y, sensitive_features=eh.Proxy(race=table(X)))
    with pytest.raises(InputError, match="proxies are for FairPostprocessor"):
        eh.FairInprocessor(LEARNER, PARITY, sensitive_features=eh.Proxy(race=["p_a", "p_b"])).fit(X, Y)
    with pytest.raises(InputError, match="does not support a Proxy with data, passed to fit: name"):
        eh.FairPostprocessor(LEARNER, PARITY).fit(
            pl.LazyFrame({"x": [1.0], "y": [0]}), "y", sensitive_features=eh.Proxy(race=table(X))
        )
    with pytest.raises(InputError, match="a frontier is measured on known groups"):
        eh.frontier(
            eh.FairPostprocessor(LEARNER, PARITY), X[SEEN], Y, sensitive_features=eh.Proxy(race=table(X))
        )


def test_groups_by_columns_are_compared_within_strata(tmp_path):
    """`given` names a column of X; decisions on new rows are fair to the true groups in each stratum."""
    within = eh.DemographicParity(difference=0.03, given=["level"])
    columns = [*SEEN, "p_a", "p_b", "level"]
    train, test = (frame.assign(level=(frame["sex"] == "M").astype(int))[columns] for frame in (X, TEST))
    train, labels, control = train[:5_000], Y[:5_000], {"level": test["level"]}
    proxy = eh.Proxy(race={"A": "p_a", "B": "p_b"})
    fair, loose = (
        eh.FairPostprocessor(LEARNER, asked, sensitive_features=proxy, posteriors=eh.CrossFit(2)).fit(
            train, labels
        )
        for asked in (within, within.with_slack(0.9))
    )

    def worst(model):
        rates = eh.cell_rates(TEST_Y, model.predict(test), {"race": TEST_RACE}, control_features=control)
        return max(found.difference for found in within.measure(rates))

    assert worst(loose) > 0.1
    assert worst(fair) < 0.05
    eh.save(fair, tmp_path / "model.eh")
    assert (eh.load(tmp_path / "model.eh").predict(test) == fair.predict(test)).all()
    assert eh.verify(tmp_path / "model.eh", data=(train, labels)).proof.confirmed
