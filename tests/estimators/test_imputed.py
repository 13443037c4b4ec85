"""missing="impute": sensitive values that some rows lack."""

import numpy as np
import pandas as pd
import pytest
from benchmarks.exact import FiniteProblem, GaussianProblem
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from tests.flat import build

import evenhand as eh
from evenhand.exceptions import GroupError, InputError, PooledGroupsWarning
from evenhand.groups.groups import Groups

PARITY = eh.DemographicParity(difference=0.03)
LEARNER = make_pipeline(StandardScaler(), PolynomialFeatures(2), LogisticRegression())


@pytest.fixture(scope="module")
def problem():
    return GaussianProblem.random(levels=(2, 2), seed=4)


def columns(sample, hidden_second=None, hidden_first=None):
    """Sensitive features with values removed."""
    found = {name: values.astype(object) for name, values in sample.sensitive.items()}
    for name, hidden in zip(found, (hidden_first, hidden_second), strict=True):
        if hidden is not None:
            found[name][hidden] = None
    return found


def postprocessor(constraint=PARITY, **settings):
    return build(eh.FairPostprocessor, LEARNER, constraint, missing="impute", **settings)


def hide(sample, seed=0):
    """Hide the second feature of most rows with a large x or a positive label, of few others."""
    rng = np.random.default_rng(seed)
    x = sample.X[:, 0] - sample.X.mean()
    return rng.random(len(x)) < 1 / (1 + np.exp(-x - 2.5 * sample.y + 1))


def parity(problem, fair):
    """Mean difference of blind decisions on 40,000 new rows with all values."""
    test = problem.sample(40_000, seed=99)
    rates = eh.cell_rates(test.y, fair.predict(test.X), test.sensitive)
    [found] = fair.constraint.measure(rates)
    return found.difference


@pytest.mark.parametrize("constraint", [PARITY, eh.EqualOpportunity(difference=0.03)], ids=["DP", "EO"])
def test_blind_decisions_are_fair_to_groups_that_most_rows_do_not_tell(problem, constraint):
    train = problem.sample(10_000, seed=1)
    fair = postprocessor(constraint).fit(train.X, train.y, sensitive_features=columns(train, hide(train)))
    assert parity(problem, fair) < 0.045
    assert fair.certificate_.gap < 1e-6
    # The requirement costs something, so that the rule without it would not do.
    loose = eh.FairPostprocessor(LEARNER, type(constraint)(difference=0.99))
    loose.fit(train.X, train.y, sensitive_features=train.sensitive)
    assert parity(problem, loose) > 0.1


def test_masses_are_those_of_all_rows(problem):
    """Rows that lack a value count by their posteriors, so that masses are not those of complete rows."""
    train = problem.sample(30_000, seed=2)
    hidden = hide(train)
    fair = postprocessor().fit(train.X, train.y, sensitive_features=columns(train, hidden))
    complete = np.bincount(2 * train.codes[~hidden] + train.y[~hidden], minlength=8).reshape(4, 2)
    assert np.abs(complete / complete.sum() - problem.masses).max() > 0.05
    assert np.abs(fair.rates_.masses - problem.masses).max() < 0.015


def test_the_fitted_model_says_how_many_rows_were_imputed(problem):
    train = problem.sample(1_000, seed=3)
    first, second = np.zeros(1_000, bool), np.zeros(1_000, bool)
    first[:100], second[50:350] = True, True
    fair = postprocessor().fit(train.X, train.y, sensitive_features=columns(train, second, first))
    names = list(train.sensitive)
    assert fair.imputed_.rows == 1_000
    assert fair.imputed_.imputed == 350
    assert fair.imputed_.by_feature == {names[0]: 100, names[1]: 300}
    assert str(fair.imputed_).startswith("350 of 1,000 rows lack sensitive values, which were imputed")
    assert fair.groups_.counts.sum() == 650
    none = postprocessor().fit(train.X, train.y, sensitive_features=train.sensitive)
    assert str(none.imputed_) == "all of 1,000 rows have all sensitive values"
    plain = eh.FairPostprocessor(LEARNER, PARITY).fit(train.X, train.y, sensitive_features=train.sensitive)
    assert plain.imputed_ is None


AWARE = pytest.mark.parametrize("aware", [["A1"], ["A2"], True], ids=["first", "second", "both"])


@pytest.mark.parametrize(
    ("aware", "constraint"),
    [
        (["A1"], PARITY),
        (["A2"], eh.EqualOpportunity(difference=0.03)),
        (True, PARITY),
        pytest.param(["A1"], eh.EqualOpportunity(difference=0.03), marks=pytest.mark.slow),
        pytest.param(True, eh.EqualOpportunity(difference=0.03), marks=pytest.mark.slow),
    ],
    ids=["first-DP", "second-EO", "both-DP", "first-EO", "both-EO"],
)
def test_decisions_that_use_what_is_known_are_fair_where_values_are_missing_alike(aware, constraint):
    """Features with a few values, which trees learn exactly; values are missing by feature and label."""
    problem = FiniteProblem.random(8, levels=(2, 2), concentration=1.0, seed=3)
    tree = DecisionTreeClassifier()
    fair = eh.FairPostprocessor(tree, constraint, aware=aware, groups=eh.GroupPolicy(missing="impute"))
    train, test = problem.sample(30_000, seed=1), problem.sample(50_000, seed=2)

    def known(sample):
        chance = np.array([0.1, 0.8, 0.5, 0.3])[sample.X[:, 0].astype(int) % 4] * np.where(sample.y, 1.0, 0.4)
        gone = np.random.default_rng(0).random(len(chance))
        return columns(sample, gone < chance, gone > 0.9)

    fair.fit(train.X, train.y, sensitive_features=known(train))
    usable = {name: values for name, values in known(test).items() if aware is True or name in aware}
    chance = fair.predict_proba(test.X, sensitive_features=usable)[:, 1]
    [found] = constraint.measure(eh.cell_rates(test.y, chance, test.sensitive))
    assert found.difference < 0.042


@AWARE
def test_known_features_rule_groups_out_and_unknown_ones_none(problem, aware):
    train = problem.sample(5_000, seed=4)
    fair = postprocessor(aware=aware).fit(
        train.X, train.y, sensitive_features=columns(train, hide(train), np.arange(5_000) % 10 == 0)
    )
    usable = list(train.sensitive) if aware is True else aware
    test = problem.sample(500, seed=5)
    known = {name: test.sensitive[name].astype(object) for name in usable}
    unknown = {name: np.full(500, None) for name in usable}
    visible = fair.access_.read(fair, test.X, known)
    assert visible.X[:, 1:].tolist() == [[1.0] * len(usable)] * 500  # not which group, but that it is known
    allowed = fair.access_.allowed(fair.groups_, visible.known)
    assert allowed.sum(axis=1).tolist() == [1 if aware is True else 2] * 500
    nothing = fair.access_.read(fair, test.X, unknown)
    assert fair.access_.allowed(fair.groups_, nothing.known).all()
    assert fair.predict_label_proba(test.X, sensitive_features=unknown) == pytest.approx(
        fair.posterior_model_.model.cells(nothing.X, None)[:, :, 1].sum(axis=1), abs=1e-9
    )


def test_a_row_that_lacks_a_feature_at_prediction_is_decided_by_the_others(problem):
    """Even if no row of the fit lacked it."""
    train = problem.sample(5_000, seed=6)
    fair = postprocessor(aware=True).fit(train.X, train.y, sensitive_features=train.sensitive)
    first, second = train.sensitive
    given = columns(train)
    given[second][:] = None
    visible = fair.access_.read(fair, train.X, given)
    allowed = fair.access_.allowed(fair.groups_, visible.known)
    own = np.array([[key[0] == value for key in fair.groups_.keys] for value in train.sensitive[first]])
    assert (allowed == own).all()
    with pytest.raises(AttributeError, match="needs known groups"):
        _ = fair.thresholds_


def test_columns_of_x_and_an_argument_mean_the_same(problem):
    train = problem.sample(3_000, seed=7)
    given = columns(train, hide(train))
    table = pd.DataFrame({"x": train.X[:, 0], **given})
    names = list(given)
    fair = postprocessor(sensitive_features=names, aware=names[:1]).fit(table, train.y)
    beside = postprocessor(aware=names[:1]).fit(table[["x"]], train.y, sensitive_features=given)
    assert (fair.predict(table) == beside.predict(table[["x"]], sensitive_features=given)).all()
    assert fair.certificate_ == beside.certificate_


def test_saved_models_decide_alike_and_are_verified(problem, tmp_path):
    train = problem.sample(3_000, seed=8)
    given = columns(train, hide(train), np.arange(3_000) % 7 == 0)
    fair = postprocessor(aware=list(given)[:1]).fit(train.X, train.y, sensitive_features=given)
    path = tmp_path / "model.eh"
    eh.save(fair, path)
    again = eh.load(path)
    usable = {name: given[name] for name in list(given)[:1]}
    assert (
        again.decision_function(train.X, sensitive_features=usable)
        == fair.decision_function(train.X, sensitive_features=usable)
    ).all()
    assert again.imputed_ == fair.imputed_
    assert eh.verify(path, data=(train.X, train.y), sensitive_features=given).proof.confirmed
    # Rows are told apart by what they know, not only by complete groups.
    other = {name: values.copy() for name, values in given.items()}
    first, second = other.values()
    row = next(k for k in range(3_000) if first[k] is None and second[k] is not None)
    second[row] = next(value for value in {*second} - {None} if value != second[row])
    proof = eh.verify(path, data=(train.X, train.y), sensitive_features=other).proof
    assert "their groups differ" in proof.verdict


def test_the_default_trees_infer_too():
    compas = eh.datasets.load_compas()
    race = compas.sensitive["race"].to_numpy().astype(object)
    race[np.random.default_rng(0).random(len(race)) < 0.5] = None
    given = {"race": race, "sex": compas.sensitive["sex"].to_numpy()}
    fair = eh.FairPostprocessor(
        constraint=eh.DemographicParity(difference=0.05),
        posteriors=eh.CrossFit(3),
        groups=eh.GroupPolicy(missing="impute"),
    )
    fair.fit(compas.features, compas.label, sensitive_features=given)
    few = fair.predict(compas.features[:5])
    assert (few == fair.predict(compas.features)[:5]).all()
    [found] = fair.constraint.measure(
        eh.cell_rates(compas.label, fair.predict(compas.features), compas.sensitive)
    )
    assert found.difference < 0.1


def test_pooled_values_are_known_of_rows_that_lack_another(problem):
    train = problem.sample(4_000, seed=9)
    given = columns(train, np.arange(4_000) % 5 == 0)
    first, second = given
    given[first][:6] = "rare"
    given[first][6:12] = "scarce"
    with pytest.warns(PooledGroupsWarning):
        fair = postprocessor(min_group_size=100).fit(train.X, train.y, sensitive_features=given)
    assert fair.imputed_.by_feature == {first: 0, second: 800}
    assert set(fair.predict(train.X)) <= {0, 1}


def test_groups_of_complete_rows():
    groups, codes = Groups.fit({"a": ["x", None, "y", "x"], "b": [1, 2, None, 2]}, missing="impute")
    assert groups.keys == (("x", 1), ("x", 2))
    assert codes.tolist() == [0, -1, -1, 1]
    assert groups.counts.tolist() == [1, 1]
    assert groups.encode({"a": [None, "x"], "b": [1, 2]}).tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a": ["x", "y", None, None], "b": [None, None, 1, 2]}, "so missing='impute' leaves no group"),
        ({"a": ["x", "y", "z", "x"], "b": [1, 2, None, 2]}, "a='z' occurs only in rows that lack another"),
        (
            {"a": ["x", "y", "x", "y"], "b": [1, 2, 2, 2], "c": [0, 1, None, 0]},
            "1 rows that lack a sensitive feature have a combination",
        ),
    ],
    ids=["nothing complete", "a value without complete rows", "a combination without complete rows"],
)
def test_what_cannot_be_imputed_is_told(given, message):
    X, y = np.arange(4.0)[:, None], [0, 1, 0, 1]
    with pytest.raises(GroupError, match=message):
        postprocessor().fit(X, y, sensitive_features={k: np.array(v, object) for k, v in given.items()})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"confidence": 0.9}, "`guarantee` needs rows whose groups are known"),
        ({"posterior": "joint"}, "form='joint' cannot be learned from rows with missing"),
        ({"posterior": "separate"}, "form='separate' cannot be learned"),
    ],
    ids=["guarantee", "joint", "separate"],
)
def test_what_does_not_go_with_it_is_told(problem, settings, message):
    train = problem.sample(200, seed=10)
    with pytest.raises(InputError, match=message):
        postprocessor(**settings).fit(train.X, train.y, sensitive_features=columns(train, hide(train)))


def test_a_frozen_model_of_the_label_is_used_unless_it_sees_sensitive_features(problem):
    train = problem.sample(3_000, seed=13)
    given = columns(train, hide(train))
    other = problem.sample(3_000, seed=14)
    blind = FrozenEstimator(LogisticRegression().fit(other.X, other.y))
    fair = eh.FairPostprocessor(
        blind,
        PARITY,
        aware=["A1"],
        posteriors=eh.CrossFit(group_estimator=LEARNER),
        groups=eh.GroupPolicy(missing="impute"),
    )
    fair.fit(train.X, train.y, sensitive_features=given)
    assert set(fair.predict(train.X, sensitive_features={"A1": given["A1"]})) <= {0, 1}
    table = pd.DataFrame({"x": train.X[:, 0], "A1": train.sensitive["A1"], "A2": given["A2"]})
    sees = FrozenEstimator(LogisticRegression().fit(table[["x", "A1"]], train.y))
    fair = eh.FairPostprocessor(
        sees,
        PARITY,
        sensitive_features=["A1", "A2"],
        aware=["A1"],
        posteriors=eh.CrossFit(group_estimator=LEARNER),
        groups=eh.GroupPolicy(missing="impute"),
    )
    with pytest.raises(InputError, match="the frozen model was fitted to the sensitive feature 'A1'"):
        fair.fit(table, train.y)


def test_other_estimators_and_audits_refuse_it(problem):
    train = problem.sample(200, seed=11)
    given = columns(train, hide(train))
    with pytest.raises(InputError, match="missing='impute' is for FairPostprocessor"):
        eh.FairInprocessor(constraint=PARITY, groups=eh.GroupPolicy(missing="impute")).fit(
            train.X, train.y, sensitive_features=given
        )
    with pytest.raises(InputError, match="missing='impute' is for fit"):
        eh.audit(train.y, train.y, given, missing="impute")
    with pytest.raises(GroupError, match="is missing in"):
        clone(postprocessor()).set_params(groups__missing="error").fit(
            train.X, train.y, sensitive_features=given
        )


def test_the_report_says_what_was_imputed(problem, tmp_path):
    train = problem.sample(2_000, seed=12)
    fair = postprocessor().fit(train.X, train.y, sensitive_features=columns(train, hide(train)))
    audit = eh.audit(train.y, fair.predict(train.X), train.sensitive)
    page = tmp_path / "page.html"
    eh.write_report(page, audit, model=fair)
    text = page.read_text(encoding="utf-8")
    assert "rows lack sensitive values, which were imputed" in text
    assert "missing at random given features and label" in text
