"""Fair classifiers with control features."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from tests.flat import build

import evenhand as eh
from evenhand.exceptions import GroupError, InputError, UnseenGroupWarning
from evenhand.posteriors.tabular import TabularClassifier

PARITY = eh.DemographicParity(difference=0.05, given=["level"])


def make(n, seed=0):
    """People of three levels; sex matters within levels, and levels differ in their shares of each sex."""
    rng = np.random.default_rng(seed)
    level = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    male = rng.random(n) < np.array([0.4, 0.6, 0.7])[level]
    race = rng.choice(["a", "b"], n)
    x = rng.normal(size=(n, 2)) + 0.6 * male[:, None] + 0.5 * level[:, None]
    y = (x.sum(axis=1) + rng.normal(size=n) > 1.5).astype(int)
    X = pd.DataFrame(x, columns=["u", "v"]).assign(level=np.array(["l1", "l2", "l3"])[level])
    return X, y, pd.DataFrame({"sex": np.where(male, "M", "F"), "race": race})


@pytest.fixture(scope="module")
def people():
    return make(3000)


@pytest.fixture(scope="module")
def others():
    return make(8000, seed=1)


def worst(constraint, X, y, S, decided):
    rates = eh.cell_rates(y, decided, S, control_features=X[["level"]])
    return max(found.difference for found in constraint.measure(rates))


@pytest.mark.parametrize("aware", [False, True, ["race"]], ids=["blind", "aware", "partly"])
def test_parity_holds_within_levels_on_new_rows(people, others, aware):
    X, y, S = people
    fair = eh.FairPostprocessor(
        TabularClassifier(max_iter=30), PARITY, aware=aware, posteriors=eh.CrossFit(3)
    )
    fair.fit(X, y, sensitive_features=S)
    assert fair.certificate_.gap < 1e-6
    assert fair.certificate_.violation < 1e-6
    assert fair.strata_.keys == (("l1",), ("l2",), ("l3",))
    assert len(fair.compared_) == 12
    assert fair.rule_.table.shape == (12, 2)
    X, y, S = others
    shown = {} if aware is False else {"sensitive_features": S if aware is True else S[["race"]]}
    decided = fair.predict(X, **shown)
    plain = TabularClassifier(max_iter=30).fit(people[0], people[1]).predict(X)
    assert worst(PARITY, X, y, S, plain) > 0.15
    assert worst(PARITY, X, y, S, decided) < 0.14  # groups of some hundred rows are 0.02 off by chance
    assert len(fair.explain(X[:2], **{name: part[:2] for name, part in shown.items()})) == 2
    assert fair.predict_proba(X, **shown).shape == (8000, 2)
    assert fair.decision_function(X, **shown).shape == (8000,)
    assert np.abs(fair.predict_label_proba(X, **shown) - y).mean() < 0.4  # 0.5 by chance
    if aware is True:
        assert next(str(name) for name in fair.thresholds_) == "level=l1, sex=F, race=a"


def test_it_is_the_optimum_of_solve(people):
    X, y, S = people
    fair = eh.FairPostprocessor(LogisticRegressionOnNumbers(), PARITY, posteriors=eh.CrossFit(2)).fit(
        X, y, sensitive_features=S
    )
    assert fair.certificate_.objective < 0.5
    names = fair.linear_constraints_.names
    assert {str(name.stratum) for name in names} == {"level=l1", "level=l2", "level=l3"}
    assert set(fair.multipliers_) == set(names)


class LogisticRegressionOnNumbers(LogisticRegression):
    """Ignores columns that are not numbers."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(np.asarray(X[["u", "v"]], dtype=float), y, sample_weight)

    def predict_proba(self, X):
        return super().predict_proba(np.asarray(X[["u", "v"]], dtype=float))


def test_strata_cost_accuracy_only_where_they_bind(people):
    """Parity within levels may differ from parity overall in both directions."""
    X, y, S = people
    loose = eh.FairPostprocessor(
        TabularClassifier(max_iter=10), eh.DemographicParity(difference=1.0), posteriors=eh.CrossFit(2)
    )
    given = eh.FairPostprocessor(
        TabularClassifier(max_iter=10),
        eh.DemographicParity(difference=1.0, given=["level"]),
        posteriors=eh.CrossFit(2),
    )
    one = loose.fit(X, y, sensitive_features=S).certificate_.objective
    other = given.fit(X, y, sensitive_features=S).certificate_.objective
    assert one == pytest.approx(other, abs=1e-9)


def test_a_saved_model_decides_alike_and_is_verified(people, tmp_path):
    X, y, S = people
    for aware in (False, True):
        fair = eh.FairPostprocessor(
            TabularClassifier(max_iter=10), PARITY, aware=aware, posteriors=eh.CrossFit(2)
        )
        fair.fit(X, y, sensitive_features=S)
        shown = {"sensitive_features": S} if aware else {}
        path = tmp_path / f"{aware}.eh"
        eh.save(fair, path)
        again = eh.load(path)
        assert (again.predict(X, **shown) == fair.predict(X, **shown)).all()
        assert again.strata_.keys == fair.strata_.keys
        report = eh.verify(path, data=(X, y), sensitive_features=S)
        assert report.proof.confirmed, report.proof.verdict


def test_unseen_strata_are_refused_or_decided_by_costs(people):
    X, y, S = people
    new = X[:4].assign(level=["l1", "l9", "l2", "l9"])
    fair = eh.FairPostprocessor(TabularClassifier(max_iter=10), PARITY, posteriors=eh.CrossFit(2)).fit(
        X, y, sensitive_features=S
    )
    with pytest.raises(
        GroupError, match=r"2 of 4 rows belong to strata not seen in fit: level=l9 .*Check the"
    ):
        fair.predict(new)
    for aware in (False, True):
        fair = eh.FairPostprocessor(
            TabularClassifier(max_iter=10),
            PARITY,
            aware=aware,
            posteriors=eh.CrossFit(2),
            groups=eh.GroupPolicy(unseen="pooled"),
        ).fit(X, y, sensitive_features=S)
        shown = {"sensitive_features": S[:4]} if aware else {}
        with pytest.warns(UnseenGroupWarning, match="No requirement was fitted for them"):
            decided = fair.predict(new, **shown)
        with pytest.warns(UnseenGroupWarning, match="No requirement was fitted for them"):
            risk = fair.predict_label_proba(new, **shown)
        assert (decided[[1, 3]] == (risk[[1, 3]] > 0.5)).all()


def test_a_guarantee_is_tested_in_every_stratum(people):
    X, y, S = people
    wide = eh.DemographicParity(difference=0.25, given=["level"])
    fair = eh.FairPostprocessor(
        TabularClassifier(max_iter=10), wide, posteriors=eh.CrossFit(2), guarantee=0.9
    )
    fair.fit(X, y, sensitive_features=S[["sex"]])
    assert fair.guarantee_.holds
    assert len(fair.guarantee_.tests) == 6
    assert {str(test.name.stratum) for test in fair.guarantee_.tests} == {"level=l1", "level=l2", "level=l3"}


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ToleranceWarning")
def test_in_processing_takes_control_features(people, others):
    X, y, S = people
    wide = eh.DemographicParity(difference=0.1, given=["level"])
    fair = eh.FairInprocessor(TabularClassifier(max_iter=10), wide, max_fits=12)
    fair.fit(X, y, sensitive_features=S[["sex"]])
    plain = TabularClassifier(max_iter=10).fit(X, y)
    X, y, S = others
    before, after = (worst(wide, X, y, S[["sex"]], model.predict(X)) for model in (plain, fair))
    assert before > 0.17
    assert after < 0.14  # the tolerance, and sampling error of six groups on other rows


def test_a_frontier_compares_within_strata(people):
    X, y, S = people
    found = eh.frontier(
        eh.FairPostprocessor(TabularClassifier(max_iter=10), PARITY, posteriors=eh.CrossFit(2)),
        X,
        y,
        sensitive_features=S[["sex"]],
        tolerances=[0.01, 0.1, 0.3],
    )
    assert [point.tolerance for point in found.points] == [0.01, 0.1, 0.3]
    assert all(point.comparison.given == ("level",) for point in found.points)
    risks = [point.risk for point in found.points]
    assert risks == sorted(risks, reverse=True)


def test_a_grid_search_works(people):
    X, y, S = people
    table = X.assign(sex=S["sex"])
    fair = eh.FairPostprocessor(
        TabularClassifier(max_iter=10), PARITY, sensitive_features="sex", posteriors=eh.CrossFit(2)
    )
    found = GridSearchCV(fair, {"constraint__difference": [0.05, 0.5]}, cv=2).fit(table, y)
    assert found.best_params_ == {"constraint__difference": 0.5}  # accuracy is what is searched for
    assert found.best_estimator_.strata_.keys == (("l1",), ("l2",), ("l3",))


def test_other_tables_and_sensitive_features_as_controls(people):
    X, y, S = people
    table = pl.from_pandas(X)
    fair = eh.FairPostprocessor(TabularClassifier(max_iter=10), PARITY, posteriors=eh.CrossFit(2))
    fair.fit(table, y, sensitive_features=pl.from_pandas(S[["sex"]]))
    assert len(fair.predict(table)) == len(X)
    both = eh.DemographicParity(difference=0.05, given=["race"])
    fair = eh.FairPostprocessor(
        TabularClassifier(max_iter=10), both, aware=["race"], posteriors=eh.CrossFit(2)
    )
    fair.fit(X, y, sensitive_features=S)
    assert fair.strata_ is None
    decided = fair.predict(X, sensitive_features=S[["race"]])
    assert max(m.difference for m in both.measure(eh.cell_rates(y, decided, S))) < 0.1


def test_bad_inputs(people):
    X, y, S = people
    with pytest.raises(InputError, match="given names 'grade', which is neither a column of X nor a sensi"):
        eh.FairPostprocessor(None, eh.DemographicParity(difference=0.1, given=["grade"])).fit(
            X, y, sensitive_features=S
        )
    near = rf"given names '{X.columns[0]}x', which .* sensitive feature\. Did you mean '{X.columns[0]}'"
    with pytest.raises(InputError, match=near):
        eh.FairPostprocessor(None, eh.DemographicParity(difference=0.1, given=[f"{X.columns[0]}x"])).fit(
            X, y, sensitive_features=S
        )
    with pytest.raises(InputError, match=r"'sex', which decisions may not use here: add it to aware"):
        eh.FairPostprocessor(None, eh.DemographicParity(difference=0.1, given=["sex"])).fit(
            X, y, sensitive_features=S
        )
    with pytest.raises(InputError, match="given names the column 'level', but X has no column names"):
        eh.FairPostprocessor(None, PARITY).fit(X[["u", "v"]].to_numpy(), y, sensitive_features=S)
    with pytest.raises(GroupError, match="control feature 'level' is missing in 1 of 3,000 rows"):
        eh.FairPostprocessor(None, PARITY).fit(
            X.assign(level=[None, *X["level"][1:]]), y, sensitive_features=S
        )
    with pytest.raises(GroupError, match="'u' has 3,000 different numbers"):
        eh.FairPostprocessor(None, eh.DemographicParity(difference=0.1, given=["u"])).fit(
            X, y, sensitive_features=S
        )
    lazy = pl.from_pandas(X.drop(columns="level").assign(sex=S["sex"], y=y)).lazy()
    with pytest.raises(InputError, match="no column 'level', which should hold a control feature"):
        eh.FairPostprocessor(None, PARITY, sensitive_features="sex").fit(lazy, "y")
    with pytest.raises(InputError, match="control features need posteriors in memory"):
        eh.solve(pl.LazyFrame({"a": [0.5], "b": [0.5]}), PARITY, control_features={"level": ["1"]})


@pytest.mark.parametrize("aware", [False, True], ids=["blind", "aware"])
def test_the_minimax_is_a_group_of_all_strata(people, tmp_path, aware):
    X, y, S = people
    fair = eh.FairPostprocessor(
        TabularClassifier(max_iter=10),
        PARITY,
        objective="minimax",
        aware=aware,
        posteriors=eh.CrossFit(2),
    )
    fair.fit(X, y, sensitive_features=S)
    assert len(fair.group_weights_) == 4
    assert sum(fair.group_weights_.values()) == pytest.approx(1.0)
    errors = fair.rates_.mass[:, 1] - fair.rates_.selected[:, 1] + fair.rates_.selected[:, 0]
    risks = 0.5 * errors.reshape(3, 4).sum(axis=0) / fair.rates_.mass.sum(axis=1).reshape(3, 4).sum(axis=0)
    assert fair.certificate_.objective == pytest.approx(risks.max(), abs=1e-9)
    assert fair.certificate_.gap < 1e-6
    eh.save(fair, tmp_path / "worst.eh")
    report = eh.verify(tmp_path / "worst.eh", data=(X, y), sensitive_features=S)
    assert report.proof.confirmed, report.proof.verdict


def test_a_stratum_without_held_out_rows_is_not_guaranteed():
    """Six people of a level that held-out rows may lack: nothing is known of them."""
    rng = np.random.default_rng(13)
    sex, level = rng.choice(["F", "M"], 6000), rng.integers(0, 2, 6000).astype(str)
    level[:6], sex[:6] = "5", ["F", "M"] * 3
    x = rng.normal(size=6000) + 2.0 * (sex == "M") * (level == "5")
    y = (x + rng.normal(size=6000) > 0).astype(int)
    X = pd.DataFrame({"x": x, "level": level})
    wide = eh.DemographicParity(difference=0.1, given=["level"])
    tabular = TabularClassifier(max_iter=10)
    fair = eh.FairPostprocessor(
        tabular,
        wide,
        random_state=13,
        posteriors=eh.CrossFit(2),
        guarantee=eh.Guarantee(confidence=0.9, reserve=0.3),
    )
    with pytest.warns(eh.exceptions.GuaranteeWarning):
        fair.fit(X, y, sensitive_features={"sex": sex})
    rare = [test for test in fair.guarantee_.tests if str(test.name.stratum) == "level=5"]
    assert len(rare) == 2
    assert not any(test.passed for test in rare)


@pytest.mark.parametrize("settings", [{"cv": 2}, {"cv": 0.3}], ids=["absent", "held out"])
def test_known_groups_without_rows_in_a_stratum_are_decided_by_costs(people, settings):
    X, y, S = people
    absent = ((X["level"] == "l1") & (S["sex"] == "F")).to_numpy()
    kept = ~absent
    held_out = settings["cv"] < 1
    if held_out:  # two rows are there, but they may both be learned from
        kept[np.flatnonzero(absent)[:2]] = True
    X, y, S = X[kept].reset_index(drop=True), y[kept], S[kept].reset_index(drop=True)
    fair = build(eh.FairPostprocessor, TabularClassifier(max_iter=10), PARITY, aware=True, **settings)
    if held_out:
        fair.fit(X, y, sensitive_features=S[["sex"]])
    else:
        with pytest.warns(eh.exceptions.VacuousConstraintWarning) as caught:
            fair.fit(X, y, sensitive_features=S[["sex"]])
        said = " ".join(str(one.message) for one in caught)
        assert "no row is in 1 of 6 combinations of stratum and group (level=l1, sex=F)" in said
    new = pd.DataFrame({"u": [5.0, -5.0], "v": [5.0, -5.0], "level": ["l1", "l1"]})
    shown = {"sensitive_features": {"sex": ["F", "F"]}}
    if fair.rates_.mass[0].sum() == 0:
        assert (fair.decision_function(new, **shown) > 0).tolist() == [True, False]
        assert fair.predict(new, **shown).tolist() == [1, 0]


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.VacuousConstraintWarning")
@pytest.mark.parametrize("over", [None, "capacity"])
def test_a_frontier_bears_groups_that_are_absent_from_strata(people, over):
    X, y, S = people
    sex = S["sex"].where(X["level"] != "l3", "M").to_numpy()
    sex[np.flatnonzero(X["level"] == "l3")[:1]] = "F"
    constraint = PARITY if over is None else PARITY & eh.RateBound("selection rate", at_most=0.4)
    found = eh.frontier(
        eh.FairPostprocessor(TabularClassifier(max_iter=10), constraint, posteriors=eh.CrossFit(2)),
        X,
        y,
        sensitive_features={"sex": sex},
        tolerances=[0.1, 0.4],
        **({} if over is None else {"over": over}),
    )
    assert len(found.points) == 2


def test_messages_name_strata_and_control_features(people):
    X, y, S = people
    numbers = X.assign(level=X["level"].str[1:].astype(int))
    fair = eh.FairPostprocessor(TabularClassifier(max_iter=10), PARITY, posteriors=eh.CrossFit(2))
    fair.fit(numbers, y, sensitive_features=S)
    with pytest.raises(InputError, match="the control feature 'level' is a column of X: pass a table"):
        fair.predict(numbers.to_numpy())
    moved = [one.auditor for one in fair.explain(numbers[:50]) if "Moved by" in one.auditor]
    assert moved
    assert all(" given level=" in one for one in moved)


def test_no_group_is_worse_off_than_under_decisions_counted_without_strata(people):
    X, y, S = people
    today = eh.cell_rates(y, (X["u"] > 1).astype(int), S)
    both = PARITY & eh.NoWorse("selection rate", than=today)
    fair = eh.FairPostprocessor(TabularClassifier(max_iter=10), both, posteriors=eh.CrossFit(2)).fit(
        X, y, sensitive_features=S
    )
    assert fair.certificate_.violation < 1e-6
    unconstrained = eh.NoWorse("error rate").against(fair.rates_)
    assert repr(unconstrained) == "NoWorse('error rate')"
