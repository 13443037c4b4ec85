"""Decisions among several labels or actions by a fitted classifier."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from lightgbm import LGBMClassifier
from scipy.special import softmax
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import evenhand as eh
from evenhand.estimators.limits import ACTION_LIMITS
from evenhand.exceptions import ConstantClassifierWarning, GroupError, InputError, UnseenGroupWarning

RNG = np.random.default_rng(0)
PARITY = eh.DemographicParity(difference=0.02)
REVIEWS = eh.RateBound("review", at_most=0.1)
COSTS = eh.Costs(
    {
        "approve": {"bad": 2, "good": 0},
        "decline": {"bad": 0, "good": 1},
        "review": {"bad": 0.3, "good": 0.3},
    }
)


def people(n, rng=RNG):
    """A table with two sensitive columns; three tiers that depend on them, and whether a loan was good."""
    sex, race = rng.integers(0, 2, n), rng.integers(0, 3, n)
    x, z = rng.normal(0.5 * sex - 0.3 * race, 1, n), rng.normal(size=n)
    town = np.where(z + rng.normal(size=n) > 0, "north", "south")
    tier = np.digitize(x + 0.5 * z + rng.logistic(size=n), [-1.1, 1.0])
    table = {
        "x": x,
        "z": z,
        "town": town,
        "sex": np.array(["F", "M"])[sex],
        "race": np.array(list("abc"))[race],
    }
    return pl.DataFrame(table), np.array(["low", "mid", "top"])[tier], np.where(tier > 0, "good", "bad")


X, TIERS, LOANS = people(6_000)
NEW, NEW_TIERS, NEW_LOANS = people(12_000)
PREPARED = make_column_transformer((OneHotEncoder(sparse_output=False), ["town"]), remainder="passthrough")


def fitted(y, constraint=PARITY, *, model=None, sensitive=("sex",), rows=slice(None), **settings):
    learner = make_pipeline(PREPARED, LogisticRegression()) if model is None else model
    hidden = [name for name in ("sex", "race") if name not in sensitive]
    fair = eh.FairPostprocessor(learner, constraint, sensitive_features=list(sensitive), **settings)
    return fair.fit(X[rows].drop(hidden), y[rows])


def gaps(decisions, table, actions, by="sex"):
    """The largest difference of the rate of each action between groups."""
    rates = [[(decisions[table[by] == g] == a).mean() for a in actions] for g in sorted(set(table[by]))]
    return np.ptp(rates, axis=0)


def new(*sensitive):
    return NEW.drop([name for name in ("sex", "race") if name not in sensitive])


@pytest.fixture(scope="module")
def tiers():
    return fitted(TIERS)


@pytest.fixture(scope="module")
def loans():
    return fitted(LOANS, PARITY & REVIEWS, cost=COSTS)


# What is decided


def test_three_labels_are_decided_on_new_rows_with_equal_rates(tiers):
    decided, shares = tiers.predict(new("sex")), tiers.predict_proba(new("sex"))
    assert tiers.classes_.tolist() == tiers.actions_.tolist() == ["low", "mid", "top"]
    assert shares.shape == (len(NEW), 3)
    assert shares.sum(axis=1) == pytest.approx(1)
    assert (shares[np.arange(len(NEW)), np.searchsorted(tiers.classes_, decided)] > 0).all()
    assert gaps(decided, NEW, tiers.classes_).max() < 0.05
    assert gaps(tiers.predict_unconstrained(new("sex")), NEW, tiers.classes_).max() > 0.1
    assert tiers.certificate_.gap < 1e-6
    assert not tiers.certificate_.shipped_differs
    assert tiers.score(new("sex"), NEW_TIERS) == accuracy_score(NEW_TIERS, decided)


def test_probabilities_of_three_labels_are_calibrated(tiers):
    p = tiers.predict_label_proba(new("sex"))
    assert p.shape == (len(NEW), 3)
    for k, name in enumerate(tiers.classes_):
        for part in np.array_split(np.argsort(p[:, k]), 5):
            assert p[part, k].mean() == pytest.approx((NEW_TIERS[part] == name).mean(), abs=0.035)


def test_review_is_an_action_on_two_labels(loans):
    decided = loans.predict(new("sex"))
    assert loans.classes_.tolist() == ["bad", "good"]
    assert loans.actions_.tolist() == ["approve", "decline", "review"]
    assert loans.pos_label_ == "good"
    assert gaps(decided, NEW, loans.actions_).max() < 0.07
    assert (decided == "review").mean() == pytest.approx(0.1, abs=0.02)
    assert loans.predict_label_proba(new("sex")).shape == (len(NEW),)
    assert loans.decision_function(new("sex")).shape == (len(NEW), 3)
    paid = np.mean([COSTS.table[a][y] for a, y in zip(decided, NEW_LOANS, strict=True)])
    assert loans.score(new("sex"), NEW_LOANS) == pytest.approx(-paid)
    assert paid == pytest.approx(loans.certificate_.of_rule[0], abs=0.03)


def test_costs_may_be_an_array():
    fair = fitted(LOANS, PARITY, cost=np.array([[2, 0, 0.3], [0, 1, 0.3]]))
    assert set(fair.predict(new("sex"))) == {0, 1, 2}
    assert -0.4 < fair.score(new("sex"), NEW_LOANS) < 0
    with pytest.raises(InputError, match="the label 'fair', which was not in fit"):
        fair.score(new("sex"), np.where(NEW_LOANS == "bad", "fair", NEW_LOANS))


def test_two_labels_as_actions_are_decided_as_by_numbers():
    costs = eh.Costs({"bad": {"bad": 0, "good": 0.5}, "good": {"bad": 0.5, "good": 0}})
    plain, named = fitted(LOANS), fitted(LOANS, cost=costs)
    assert named.certificate_.objective == pytest.approx(plain.certificate_.objective, abs=1e-9)
    assert (named.predict(new("sex")) == plain.predict(new("sex"))).mean() > 0.999
    margins = named.decision_function(new("sex"))
    assert margins.shape == (len(NEW),)
    assert (np.sign(margins) == np.sign(plain.decision_function(new("sex")))).mean() > 0.999


@pytest.mark.parametrize("aware", [True, ["sex"]])
def test_groups_may_be_known(aware):
    fair = fitted(TIERS, PARITY, sensitive=("sex", "race"), aware=aware)
    decided = fair.predict(new("sex", "race"))
    for by in ("sex", "race"):
        assert gaps(decided, NEW, fair.classes_, by).max() < 0.08
    assert fair.certificate_.violation < 1e-9


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConstantClassifierWarning")
@pytest.mark.parametrize(
    "constraint",
    [
        eh.EqualOpportunity(difference=0.03),
        eh.EqualizedOdds(difference=0.1),
        eh.AccuracyParity(difference=0.02),
        eh.DemographicParity(ratio=0.9, action=["mid", "top"]) & eh.RateBound("mid", at_least=0.2),
        eh.DemographicParity(difference=0.03, against="groups"),
    ],
    ids=repr,
)
def test_other_requirements_hold(constraint):
    fair = fitted(TIERS, constraint)
    assert fair.certificate_.violation < 1e-6
    assert set(fair.predict(new("sex"))) <= {"low", "mid", "top"}


@pytest.mark.parametrize("aware", [False, True])
def test_rates_are_equal_within_strata(aware, tmp_path):
    fair = fitted(TIERS, eh.DemographicParity(difference=0.02, given=["town"]), aware=aware)
    eh.save(fair, tmp_path / "fair.evenhand")
    loaded, table = eh.load(tmp_path / "fair.evenhand"), new("sex")
    decisions, free = loaded.predict(table), loaded.predict_unconstrained(table)
    assert (decisions == fair.predict(table)).all()
    assert str(fair.rates_.groups.cell_names[0]) == "town=north, sex=F"
    for town in ("north", "south"):
        own = (table["town"] == town).to_numpy()
        assert gaps(decisions[own], table.filter(own), fair.actions_).max() < 0.09
        assert gaps(free[own], table.filter(own), fair.actions_).max() > 0.13
    assert fair.certificate_.violation < 1e-9
    verified = eh.verify(tmp_path / "fair.evenhand", data=(X.drop("race"), TIERS))
    assert verified.proof.confirmed
    told = fair.explain(table[:2])
    assert "town" not in told[0].person


def test_no_group_is_worse_off_than_before(tmp_path):
    before = np.where(RNG.random(len(X)) < 0.3 + 0.3 * (X["sex"] == "F").to_numpy(), "approve", "decline")
    today = eh.cell_rates(LOANS, before, X.select("sex"), actions=COSTS)
    reviews = REVIEWS & eh.DemographicParity(difference=0.02, action="review")
    for constraint in (
        reviews & eh.NoWorse("approve", than=today),
        PARITY & eh.NoWorse("accuracy", margin=-0.3),
    ):
        fair = fitted(LOANS, constraint, cost=COSTS)
        assert fair.certificate_.violation < 1e-9
        eh.save(fair, tmp_path / "fair.evenhand", overwrite=True)
        verified = eh.verify(tmp_path / "fair.evenhand", data=(X.drop("race"), LOANS))
        assert verified.proof.confirmed, verified.proof.verdict
        assert "no worse" in str(eh.load(tmp_path / "fair.evenhand").forecast_)
    fair = fitted(LOANS, reviews & eh.NoWorse("approve", than=today), cost=COSTS)
    decided = fair.predict(new("sex"))
    for who in ("F", "M"):
        assert (decided[NEW["sex"] == who] == "approve").mean() > (
            before[X["sex"] == who] == "approve"
        ).mean() - 0.03


def test_single_features_and_where_they_meet():
    fair = fitted(
        TIERS, eh.DemographicParity(difference=0.03, groups="independent"), sensitive=("sex", "race")
    )
    both = fitted(TIERS, eh.DemographicParity(difference=0.03), sensitive=("sex", "race"))
    assert {str(name.who) for name in fair.multipliers_} == {"sex=F", "sex=M", "race=a", "race=b", "race=c"}
    assert len({name.who for name in both.multipliers_}) == 6
    assert both.certificate_.objective >= fair.certificate_.objective - 1e-9


@pytest.mark.parametrize("form", ["separate", "label_then_group", "joint"])
@pytest.mark.parametrize("calibration", ["auto", None])
def test_posteriors_may_be_learned_in_all_forms(form, calibration):
    how = eh.CrossFit(2, form=form, calibration=calibration, average=form != "joint")
    fair = fitted(TIERS, posteriors=how)
    assert gaps(fair.predict(new("sex")), NEW, fair.classes_).max() < 0.06


@pytest.mark.parametrize(
    "model",
    [
        HistGradientBoostingClassifier(max_iter=20),
        LGBMClassifier(n_estimators=20, verbose=-1),
        None,
    ],
    ids=["histogram", "lightgbm", "default"],
)
def test_trees_decide_between_actions(model):
    learner = None if model is None else make_pipeline(PREPARED, model)
    fair = eh.FairPostprocessor(
        learner, PARITY & REVIEWS, cost=COSTS, sensitive_features="sex", posteriors=eh.CrossFit(3)
    ).fit(X.drop("race"), LOANS)
    decided = fair.predict(new("sex"))
    assert gaps(decided, NEW, fair.actions_).max() < 0.08
    assert (decided == "review").mean() < 0.13


def test_groups_may_be_missing():
    table, rng = X.drop("race"), np.random.default_rng(1)
    table = table.with_columns(
        pl.when(pl.Series(rng.random(len(X)) < 0.3)).then(None).otherwise(pl.col("sex")).alias("sex")
    )
    for missing in ("exclude", "impute", "category"):
        fair = eh.FairPostprocessor(
            make_pipeline(PREPARED, LogisticRegression()),
            PARITY,
            sensitive_features="sex",
            groups=eh.GroupPolicy(missing=missing),
        ).fit(table, TIERS)
        assert gaps(fair.predict(new("sex")), NEW, fair.classes_).max() < 0.06


def test_a_group_that_was_not_seen_is_decided_by_costs():
    seen = np.flatnonzero(X["race"] != "c")
    fair = fitted(
        LOANS,
        PARITY & REVIEWS,
        cost=COSTS,
        sensitive=("race",),
        aware=True,
        rows=seen,
        groups=eh.GroupPolicy(unseen="pooled"),
    )
    table = new("race")
    with pytest.warns(UnseenGroupWarning):
        decided, free = fair.predict(table), fair.predict_unconstrained(table)
    unseen = (NEW["race"] == "c").to_numpy()
    assert (decided[unseen] == free[unseen]).all()
    assert (decided[~unseen] != free[~unseen]).any()


# The same for everyone


@pytest.mark.parametrize("kind", ["tiers", "loans"])
def test_decisions_do_not_depend_on_the_batch(kind, request):
    fair, table = request.getfixturevalue(kind), new("sex")[:500]
    assert fair.rule_.resolution > 0
    answers = fair.predict, fair.predict_proba, fair.predict_label_proba
    whole = [asked(table) for asked in answers]
    for size in (1, 7, 100):
        parts = [table[k : k + size] for k in range(0, 500, size)]
        for found, asked in zip(
            whole, (fair.predict, fair.predict_proba, fair.predict_label_proba), strict=True
        ):
            assert (np.concatenate([asked(part) for part in parts]) == found).all()
    lazily = np.concatenate(list(fair.predict(table.lazy())))
    assert (lazily == whole[0]).all()


def test_ties_of_the_model_for_new_rows_are_randomised_by_person():
    rng = np.random.default_rng(3)
    group, x = rng.integers(0, 2, 4000), rng.integers(0, 4, 4000)
    x = np.clip(x + group, 0, 3)
    y = rng.binomial(2, np.clip(0.1 + 0.2 * x + 0.1 * group, 0, 1))
    model = eh.FairPostprocessor(constraint=PARITY).fit(x[:, None] * 1.0, y, sensitive_features=group)
    table = np.repeat(np.arange(4.0), 2000)[:, None]
    shares = model.predict_proba(table)
    assert model.rule_.randomises
    decided = model.predict(table, ids=np.arange(8000))
    for k in range(4):
        own = slice(2000 * k, 2000 * (k + 1))
        rates = [(decided[own] == c).mean() for c in model.classes_]
        assert rates == pytest.approx(shares[own].mean(axis=0), abs=0.04)
    again = model.predict(table[::-1], ids=np.arange(8000)[::-1])[::-1]
    assert (decided == again).all()
    sure = model.deterministic()
    assert not sure.rule_.randomises
    assert len(np.unique(sure.predict(table, ids=np.arange(8000)).reshape(4, -1), axis=1)[0]) == 1
    assert sure.certificate_.shipped_violation is not None
    assert sure.rates_.by_group.sum(axis=1) == pytest.approx(1)


def test_searches_and_cross_validation_take_several_labels():
    model = eh.FairPostprocessor(
        make_pipeline(PREPARED, LogisticRegression()),
        PARITY,
        sensitive_features="sex",
        posteriors=eh.CrossFit(2),
    )
    table = X[:1500].drop("race")
    assert set(cross_val_predict(model, table, TIERS[:1500], cv=2)) <= {"low", "mid", "top"}
    search = GridSearchCV(
        model, {"constraint": [PARITY, eh.DemographicParity(difference=1)]}, cv=2, error_score="raise"
    )
    assert search.fit(table, TIERS[:1500]).best_score_ > 0.4


def test_a_frozen_model_with_its_own_order_of_classes_is_taken():
    table, half = X.select("x", "z"), slice(0, 3000)
    model = LogisticRegression().fit(table[half].to_numpy(), TIERS[half])
    fair = eh.FairPostprocessor(FrozenEstimator(model), PARITY, posteriors=eh.CrossFit(calibration=None))
    rest = slice(3000, None)
    fair = fair.fit(table[rest].to_numpy(), TIERS[rest], sensitive_features=X["sex"][rest])
    p = fair.predict_label_proba(table.to_numpy())
    assert p == pytest.approx(model.predict_proba(table.to_numpy()), abs=1e-9)


# Explained


def test_explanations_say_what_was_decided_and_what_moved_it(tiers, loans):
    table = new("sex")[:200]
    for fair in (tiers, loans):
        decided, H = fair.predict(table), fair.decision_function(table)
        free = fair.predict_unconstrained(table)
        told = fair.explain(table)
        assert [one.decision for one in told] == decided.tolist()
        assert [one.unconstrained for one in told] == free.tolist()
        actions = fair.actions_.tolist()
        for k, one in enumerate(told):
            if not one.randomised:
                assert one.margin > -1e-9
            other = H[k, actions.index(one.decision)] - one.margin
            assert np.abs(H[k] - other).min() < 1e-9
            before = one.margin - sum(one.moved.values())
            assert before <= 1e-9 if one.decision != one.unconstrained else before >= -1e-9
    assert any(one.decision != one.unconstrained for one in told)
    first = tiers.explain(table)[0]
    assert first.person.startswith(f"The decision is: {first.decision}. The estimated probabilities are: ")
    assert "sex" not in first.person
    words = {"approve": "approved", "decline": "declined", "review": "read by a person"}
    one = loans.explain(table, words=words, outcome="repayment")[0]
    assert f"The decision is: {words[one.decision]}. The estimated probability of repayment is" in one.person
    assert one.auditor.startswith("Margin over ")
    assert len(tiers.explain(table).to_frame()) == 200
    with pytest.raises(InputError, match=r"do not support explain\(reasons=...\)"):
        loans.explain(table, reasons=2)
    with pytest.raises(InputError, match="`words` must map all of"):
        loans.explain(table, words={"approve": "yes"})


def test_of_more_than_two_labels_the_probability_is_of_the_likeliest(tiers):
    told = tiers.explain(new("sex")[:2], outcome="repayment")
    assert "P(likeliest)" in str(told)
    assert "repayment" not in str(told)


def test_our_trees_learn_several_labels_where_no_group_may_be_worse_off():
    fair = fitted(TIERS, PARITY & eh.NoWorse("accuracy", margin=-0.3), model=eh.TabularClassifier(max_iter=5))
    assert fair.certificate_.violation < 1e-9


def test_known_groups_have_ranges_of_scores_for_each_action():
    fair = fitted(LOANS, PARITY & REVIEWS, cost=COSTS, aware=True)
    table = new("sex")
    decided, score = fair.predict(table), fair.predict_label_proba(table)
    for name, ranges in fair.thresholds_.items():
        own = (table["sex"] == str(name).removeprefix("sex=")).to_numpy()
        assert [action for action, _, _ in ranges] == ["decline", "review", "approve"]
        for action, low, high in ranges:
            inside = own & (score > low + 1e-9) & (score < high - 1e-9)
            assert (decided[inside] == action).all()
    assert "review from" in str(fair.thresholds_)


def test_other_classifiers_have_no_ranges(tiers, loans):
    for fair in (tiers, loans, fitted(TIERS, aware=True)):
        with pytest.raises(AttributeError, match="do not support thresholds_"):
            fair.thresholds_  # noqa: B018


def test_the_forecast_is_that_of_two_decisions_where_there_are_two():
    costs = eh.Costs({"bad": {"bad": 0, "good": 0.5}, "good": {"bad": 0.5, "good": 0}})
    for aware in (False, True):
        [plain] = fitted(LOANS, aware=aware).forecast_.expected
        [named] = fitted(LOANS, cost=costs, aware=aware).forecast_.expected
        assert named.value == pytest.approx(plain.value, abs=0.002)
        assert (named.low, named.high) == pytest.approx((plain.low, plain.high), abs=0.003)


def test_the_forecast_of_several_actions_is_near_to_what_new_rows_show(tiers, loans):
    for fair, y in ((tiers, NEW_TIERS), (loans, NEW_LOANS)):
        expected = fair.forecast_.expected[0]
        seen = gaps(fair.predict(new("sex")), NEW, fair.actions_).max() / 2  # against the population
        assert expected.low - 0.02 < seen < expected.high + 0.02
        assert fair.forecast_.on(300).expected[0].value > expected.value
        assert len(y) == len(NEW)


# What cannot be


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"guarantee": 0.9}, "do not support guarantee"),
        ({"margin": 1.0}, "do not support margin"),
        ({"objective": "minimax"}, "do not support objective"),
        ({"constraint": eh.NoWorse("selection rate")}, "there is no action 'selection rate'"),
        ({"sensitive_features": eh.Proxy(sex=["x", "z"])}, "do not support a Proxy"),
        ({"cost": 0.3}, "is for two labels"),
        ({"cost": np.ones((2, 3))}, r"must have shape \(3, actions\)"),
        ({"cost": COSTS}, "the label 'low' is not among the costs"),
        ({"pos_label": "low"}, "pos_label='low' is for two labels"),
        ({"constraint": eh.RateBound("review", at_most=0.1)}, "there is no action 'review'"),
        (
            {"constraint": eh.DemographicParity(difference=0.1, action="review")},
            "there is no action 'review'",
        ),
    ],
)
def test_what_several_labels_do_not_support_is_refused_before_any_fit(settings, message):
    given = {"constraint": PARITY, "sensitive_features": "sex", **settings}
    with pytest.raises(InputError, match=message):
        eh.FairPostprocessor(FrozenEstimator(LogisticRegression()), **given).fit(X.drop("race"), TIERS)


def test_the_page_lists_what_is_not_supported():
    page = (Path(__file__).parents[2] / "docs" / "guide" / "actions.md").read_text("utf-8")
    table = page[page.index("| not supported") : page.index("Of a table that is not in memory")]
    assert [f"| {what} | {remedy} |" for what, remedy in ACTION_LIMITS.values()] == table.splitlines()[2:-1]


def test_costs_that_do_not_fit_the_labels_are_refused():
    three = eh.Costs({"a": {"bad": 1, "good": 0, "fair": 0}, "b": {"bad": 0, "good": 1, "fair": 0}})
    with pytest.raises(InputError, match="the label 'fair' is not among the labels of the rows"):
        fitted(LOANS, eh.DemographicParity(difference=0.1), cost=three)
    with pytest.raises(InputError, match="do not support FairInprocessor"):
        eh.FairInprocessor(constraint=PARITY, cost=COSTS, sensitive_features="sex").fit(X, LOANS)
    with pytest.raises(InputError, match="Only binary"):
        eh.FairInprocessor(constraint=PARITY, sensitive_features="sex").fit(X, TIERS)
    with pytest.raises(InputError, match="two types"):
        fitted(np.array([1, "b", 2, "b"] * 1500, dtype=object))


def test_actions_of_a_requirement_need_several_actions():
    for kind in (eh.FairPostprocessor, eh.FairInprocessor):
        model = kind(None, eh.DemographicParity(difference=0.1, action="good"), sensitive_features="sex")
        with pytest.raises(InputError, match="action= is for decisions among several actions"):
            model.fit(X, LOANS)


@pytest.mark.parametrize("kind", ["tiers", "loans"])
def test_tables_that_are_not_in_memory(kind, tmp_path):
    y, cost = (TIERS, 0.5) if kind == "tiers" else (LOANS, COSTS)
    lazy = X.drop("race").with_columns(y=pl.Series(y)).lazy()
    in_memory, weights = fitted(y, cost=cost, posteriors=eh.CrossFit(2)), np.linspace(0.5, 1.5, len(X))
    model = clone(in_memory).fit(lazy, "y")
    assert model.certificate_ == in_memory.certificate_
    assert (model.predict(new("sex")) == in_memory.predict(new("sex"))).all()

    # Of more rows, the rule is found on those drawn, weighted to stand for all.
    model.set_params(posteriors__max_samples=2000)
    model.fit(lazy.with_columns(w=pl.Series(weights)), "y", sample_weight="w")
    weighted = clone(in_memory).fit(X.drop("race"), y, sample_weight=weights)
    assert model.rates_.masses == pytest.approx(weighted.rates_.masses, abs=0.02)
    assert model.certificate_.objective == pytest.approx(weighted.certificate_.objective, abs=0.02)
    assert gaps(model.predict(new("sex")), NEW, model.actions_).max() < 0.07
    eh.save(model.fit(lazy, "y"), tmp_path / "fair.evenhand")
    proof = eh.verify(tmp_path / "fair.evenhand", data=(lazy, "y")).proof
    assert proof.confirmed, proof.verdict
    assert proof.verdict.startswith("proven on 2,000 rows drawn from 6,000: no classifier")
    with pytest.raises(InputError, match="do not support margin"):
        clone(model).set_params(margin=1.0).fit(lazy, "y")


def test_costs_that_miss_a_label_of_a_lazy_table_are_refused_before_rows_are_drawn():
    lazy = X.drop("race").with_columns(y=pl.Series(TIERS)).lazy()
    model = eh.FairPostprocessor(None, PARITY, sensitive_features="sex", cost=COSTS)
    model.set_params(posteriors=eh.CrossFit(max_samples=2000))
    with pytest.raises(InputError, match="the label 'low' is not among the costs"):
        model.fit(lazy, "y")
    trained = eh.FairInprocessor(None, PARITY, sensitive_features="sex", cost=COSTS)
    with pytest.raises(InputError, match="Only binary"):
        trained.fit(lazy, "y")


def test_reports_are_of_audits(loans, tmp_path):
    decided = loans.predict(new("sex"))
    found = eh.audit(NEW_LOANS, decided, NEW.select("sex"), actions=COSTS, constraint=PARITY & REVIEWS)
    assert "review" in eh.write_report(tmp_path / "report.html", found).read_text("utf-8")
    with pytest.raises(InputError, match=r"do not support write_report\(model=...\)"):
        eh.write_report(tmp_path / "model.html", found, model=loans)
    assert loans._repr_html_()


def test_limits_of_prediction(loans):
    with pytest.raises(InputError, match=r"do not support predict\(at_most=...\)"):
        loans.predict(new("sex"), at_most=3)
    known = fitted(TIERS, aware=True)
    with pytest.raises((GroupError, ValueError), match="sex"):
        known.predict(new())


def test_an_action_that_is_never_best_is_told():
    costs = eh.Costs({**COSTS.table, "wait": {"bad": 2, "good": 2}})
    with pytest.warns(ConstantClassifierWarning, match="nobody gets the action 'wait'"):
        fitted(LOANS, eh.DemographicParity(difference=0.1), cost=costs)


def test_a_constant_classifier_is_told():
    costs = eh.Costs({**COSTS.table, "review": {"bad": 0, "good": 0}})
    with pytest.warns(ConstantClassifierWarning, match="nobody gets the actions 'approve', 'decline'"):
        fitted(LOANS, eh.DemographicParity(difference=0.1), cost=costs)


def test_a_label_without_rows_in_a_group():
    y = np.where((X["sex"] == "F").to_numpy() & (TIERS == "top"), "mid", TIERS)
    for how in (eh.CrossFit(2), eh.CrossFit(2, form="label_then_group")):
        fair = fitted(y, posteriors=how)
        assert gaps(fair.predict(new("sex")), NEW, fair.classes_).max() < 0.06
    fair = fitted(y, eh.EqualOpportunity(difference=0.1), posteriors=eh.CrossFit(2))
    assert fair.rates_.mass[0, 2] == 0


@pytest.mark.parametrize(
    ("y", "cost", "said"),
    [
        (
            LOANS,
            {"approve": {"bad": 1, "good": 0}, "decline": {"bad": 0}},
            "'decline' has no cost for the label",
        ),
        (LOANS, {"a": {"bad": 1, "other": 0}, "b": {"bad": 0, "other": 1}}, "the label 'good' is not among"),
        (LOANS, {"1": {"bad": 1, "good": 0}, 1: {"bad": 0, "good": 1}}, "two actions have the same name"),
        (LOANS, {"approve": {"bad": 1, "good": 0}}, "at least two actions"),
        (
            np.where(TIERS == "low", "1", "2"),
            {"a": {1: 1, 2: 0}, "b": {1: 0, 2: 1}},
            "label '1' is not among",
        ),
    ],
)
def test_costs_that_do_not_belong_to_the_rows(y, cost, said):
    with pytest.raises(InputError, match=said):
        fitted(y, cost=eh.Costs(cost))


def test_many_labels_need_memory_that_is_told_before_any_fit():
    y = np.arange(6000) % 100
    with pytest.raises(InputError, match=r"2 groups, 100 labels and 100 actions need .* GiB of memory"):
        fitted(y, model=FrozenEstimator(LogisticRegression()))


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConstantClassifierWarning")
def test_twenty_labels():
    rng = np.random.default_rng(5)
    x, s = rng.normal(size=(8000, 2)), rng.integers(0, 2, 8000)
    p = softmax(3 * x @ rng.normal(size=(2, 20)) / 2 + 0.5 * s[:, None] * rng.normal(size=20), axis=1)
    y = (rng.random(8000)[:, None] > p.cumsum(axis=1)).sum(axis=1)
    model = eh.FairPostprocessor(LogisticRegression(), PARITY, posteriors=eh.CrossFit(2))
    fair = model.fit(x, y, sensitive_features=s)
    assert fair.certificate_.violation < 1e-6
    assert fair.predict_proba(x).shape == (8000, 20)
