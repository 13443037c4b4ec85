"""Decisions with their reasons."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from lightgbm import LGBMClassifier
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from tests.conftest import often
from tests.flat import build
from xgboost import XGBClassifier

import evenhand as eh
from evenhand.datasets import GaussianProblem
from evenhand.exceptions import InputError

PROBLEM = GaussianProblem.random(levels=(2, 2), seed=3)
TRAIN, TEST = PROBLEM.sample(3000, seed=0), PROBLEM.sample(300, seed=1)
FAIR = eh.DemographicParity(difference=0.02)


def fitted(constraint=FAIR, y=TRAIN.y, **settings):
    fair = build(eh.FairPostprocessor, LogisticRegression(), constraint, cv=2, **settings)
    return fair.fit(TRAIN.X, y, sensitive_features=TRAIN.sensitive)


def explained(fair, rows=TEST):
    shown = rows.sensitive if fair.aware else None
    return fair.explain(rows.X, sensitive_features=shown), shown


@pytest.mark.parametrize("aware", [False, True, ["A1"]], ids=["blind", "aware", "mixed"])
def test_explanations_agree_with_decisions(aware):
    fair = fitted(aware=aware)
    found, shown = explained(fair)
    assert [one.decision for one in found] == fair.predict(TEST.X, sensitive_features=shown).tolist()
    chances = fair.predict_proba(TEST.X, sensitive_features=shown)[:, 1]
    np.testing.assert_array_equal([one.probability for one in found], chances)
    risk = fair.predict_label_proba(TEST.X, sensitive_features=shown)
    np.testing.assert_allclose([one.risk for one in found], risk, rtol=0, atol=1e-12)
    margins = np.array([one.margin for one in found])
    np.testing.assert_allclose(margins, fair.decision_function(TEST.X, sensitive_features=shown))
    # What the constraints moved leads from the unconstrained margin, risk - 1/2 at equal costs, to H.
    moved = np.array([sum(one.moved.values()) for one in found])
    np.testing.assert_allclose(margins - moved, risk - 0.5, atol=1e-9)
    np.testing.assert_array_equal([one.unconstrained for one in found], (risk > 0.5).astype(int))
    assert any(one.unconstrained != one.decision for one in found)


def test_the_person_reads_words_and_no_group_and_the_auditor_reads_the_constraints():
    fair = fitted(y=np.where(TRAIN.y == 1, "pay", "default"), pos_label="pay")
    words = {"pay": "approved", "default": "declined"}
    found = fair.explain(TEST.X, words=words, outcome="repayment")
    changed = next(one for one in found if one.unconstrained != one.decision)
    assert (
        str(changed)
        == changed.person
        == (
            f"The decision is: {words[changed.decision]}. The estimated probability of repayment is "
            f"{changed.risk:.3f}."
        )
    )
    for one in found:
        assert not any(part in one.person for part in ("A1", "A2", "constraint", "requirement", "fair"))
    assert changed.auditor.startswith(f"Margin {changed.margin:+.4f}; without the requirement ")
    assert f"the decision would have been {words[changed.unconstrained]}" in changed.auditor
    largest = max(changed.moved, key=lambda name: abs(changed.moved[name]))
    assert f"Moved by: {largest.group} {changed.moved[largest]:+.4f}" in changed.auditor
    free, _ = explained(fitted(eh.DemographicParity(difference=0.9)))
    assert "the fairness requirement did not affect it." in free[0].auditor


def test_odds_say_which_rate_moved_the_margin():
    found, _ = explained(fitted(eh.EqualizedOdds(difference=0.02)))
    assert any("-positive rate) " in one.auditor for one in found)


def test_a_decision_by_lot_is_said_to_both():
    fair = eh.FairPostprocessor(LogisticRegression(), FAIR, posteriors=eh.CrossFit(2))
    X = np.sign(TRAIN.X)
    fair.fit(X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    rows = np.array([[-1.0], [1.0]])
    [drawn] = [one for one in fair.explain(rows, words={0: "no", 1: "yes"}) if one.randomised]
    assert f"decided by lot: yes had a probability of {drawn.probability:.3f}" in drawn.person
    assert drawn.auditor.endswith(f"A tie, randomised: yes with probability {drawn.probability:.3f}.")
    strict = fair.deterministic()
    told = strict.explain(rows)
    assert [one.decision for one in told] == strict.predict(rows).tolist()
    assert not any("lot" in one.person for one in told)
    against = [one for one in told if (one.margin > 0) != (one.decision == 1)]
    assert all(
        one.auditor.endswith("decided alike for everyone with these probabilities.") for one in against
    )


@pytest.mark.parametrize("words", [("approved", "declined"), {1: "approved"}, {1: "a", 0: "b", 2: "c"}])
def test_words_are_refused_unless_each_label_has_one(words):
    with pytest.raises(InputError, match=r"`words` must map both labels to a word, such as \{1: 'approved'"):
        fitted().explain(TEST.X[:1], words=words)


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_a_table_has_a_row_per_decision_in_the_library_of_x(library):
    X = library.DataFrame({"x": TRAIN.X[:, 0], **TRAIN.sensitive})
    fair = eh.FairPostprocessor(
        LogisticRegression(), FAIR, sensitive_features=["A1", "A2"], posteriors=eh.CrossFit(2)
    )
    fair.fit(X, TRAIN.y)
    found = fair.explain(X[:20], reasons=2)
    frame = found.to_frame()
    assert isinstance(frame, library.DataFrame)
    assert len(frame) == len(found) == 20
    assert list(frame.columns)[:6] == [
        *("decision", "risk", "margin", "probability", "randomised", "unconstrained")
    ]
    assert list(frame.columns)[10:] == ["reason_1", "person", "auditor"]
    assert list(frame["person"]) == [one.person for one in found]
    assert list(frame["auditor"]) == [one.auditor for one in found]
    assert repr(found).count("\n") == 1 + 12  # headings, a line for each row, and how many more
    assert repr(found).endswith("and 8 more")
    assert found[:3]._repr_html_().count("<tr>") == 1 + 3
    assert found[0].auditor in found[0]._repr_html_().replace("&#x27;", "'")
    assert repr(found[:0]).startswith("decision")


@pytest.fixture(scope="module")
def compas():
    data = eh.datasets.load_compas()
    rows = np.random.default_rng(0).permutation(len(data.label))[:1260]
    return data.features.to_pandas().iloc[rows], data.label[rows], data.sensitive.to_pandas().iloc[rows]


def prepared(last):
    numbers = make_column_selector(dtype_include="number")
    texts = make_column_selector(dtype_exclude="number")
    return make_pipeline(
        make_column_transformer(
            (StandardScaler(), numbers), (OneHotEncoder(sparse_output=False), texts), remainder="passthrough"
        ),
        last,
    )


LEARNERS = {
    "default": eh.TabularClassifier(max_iter=20),
    "linear": prepared(LogisticRegression()),
    "lightgbm": prepared(LGBMClassifier(n_estimators=10, verbose=-1, n_jobs=1)),
    "xgboost": prepared(XGBClassifier(n_estimators=10, n_jobs=1)),
    "boosted": prepared(HistGradientBoostingClassifier(max_iter=10)),
}


@pytest.mark.parametrize("aware", often([["sex"], False], 1), ids=["mixed", "blind"])
@pytest.mark.parametrize("name", LEARNERS)
def test_reasons_are_features_of_the_table_that_lead_towards_the_decision(compas, name, aware, tmp_path):
    X, y, S = compas
    fair = eh.FairPostprocessor(LEARNERS[name], FAIR, aware=aware, posteriors=eh.CrossFit(2))
    fair.fit(X[:1200], y[:1200], sensitive_features=S[:1200])
    eh.save(fair, tmp_path / "fair.evenhand")
    shown = {"sensitive_features": S[1200:]} if aware else {}
    found = eh.load(tmp_path / "fair.evenhand").explain(X[1200:], reasons=3, **shown)
    assert {name for one in found for name in one.reasons} <= {*X.columns, "sex"}
    assert max(len(one.reasons) for one in found) == 3
    for one in found:
        signs = {value > 0 for value in one.reasons.values()}
        assert signs <= {one.decision == 1}
        assert sorted(one.reasons.values(), key=abs, reverse=True) == list(one.reasons.values())
        named = [name for name in one.reasons if name != "sex"]
        assert one.person.endswith(f"What counted most: {', '.join(named)}.") == bool(named)
    # Reasons are of P(Y=1 | x): who has most of the strongest one has a higher probability on average.
    risk, arrests = np.array([one.risk for one in found]), X["priors_count"][1200:].to_numpy()
    assert risk[arrests > 5].mean() > risk[arrests == 0].mean()
    least = [one.reasons.get("priors_count", 0.0) for one, k in zip(found, arrests, strict=True) if k == 0]
    assert max(least) <= 0


def test_a_sensitive_column_that_a_frozen_model_sees_is_not_named_to_the_person():
    X = pd.DataFrame({"x": TRAIN.X[:, 0], "A1": TRAIN.sensitive["A1"], "A2": TRAIN.sensitive["A2"]})
    y = (X["A1"] + 0.1 * X["x"] > 0.5).astype(int)  # the group is the strongest reason there is
    model = FrozenEstimator(LogisticRegression().fit(X[:1500], y[:1500]))
    fair = eh.FairPostprocessor(
        model, eh.DemographicParity(difference=0.9), sensitive_features=["A1", "A2"], aware=True
    )
    fair.fit(X[1500:], y[1500:])
    found = fair.explain(X[:20], reasons=3)
    assert any("A1" in one.reasons for one in found)
    assert not any("A1" in one.person for one in found)
    assert any("A1" in one.auditor for one in found)


def test_reasons_are_refused_where_there_are_none():
    with pytest.raises(InputError, match=r"`reasons` must be a non-negative integer, got -1\."):
        fitted().explain(TEST.X[:1], reasons=-1)
    other = eh.FairPostprocessor(GaussianNB(), FAIR, posteriors=eh.CrossFit(2))
    other.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    with pytest.raises(InputError, match=r"reasons need a linear model or trees .* is a GaussianNB"):
        other.explain(TEST.X[:1], reasons=1)
    joint = eh.FairPostprocessor(LogisticRegression(), FAIR, posteriors=eh.CrossFit(2, form="joint"))
    joint.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    with pytest.raises(InputError, match="form='joint' has no model of the label alone"):
        joint.explain(TEST.X[:1], reasons=1)


def test_thresholds_are_those_that_decide():
    fair = fitted(aware=True)
    risk = fair.predict_label_proba(TEST.X, sensitive_features=TEST.sensitive)
    decisions = fair.predict(TEST.X, sensitive_features=TEST.sensitive)
    codes = fair.groups_.encode(TEST.sensitive)
    assert list(fair.thresholds_) == list(fair.groups_.names)
    for m, one in enumerate(fair.thresholds_.values()):
        if one.threshold is not None:
            own = codes == m
            assert ((risk[own] > one.threshold) == (decisions[own] == 1)).mean() > 0.98
    assert sum(one.threshold is not None for one in fair.thresholds_.values()) > 1
    assert repr(fair.thresholds_).splitlines()[1].startswith("A1=0, A2=0  ")
    assert "<table>" in fair.thresholds_._repr_html_()


def test_blind_rules_have_no_thresholds():
    with pytest.raises(AttributeError, match="thresholds_ needs known groups: fit with aware=True"):
        fitted().thresholds_  # noqa: B018


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.UnseenGroupWarning")
def test_rows_of_unseen_groups_are_explained_by_the_costs():
    fair = fitted(aware=True, unseen="pooled")
    new = {"A1": np.full(5, 7), "A2": np.zeros(5, int)}
    found = fair.explain(TEST.X[:5], sensitive_features=new)
    assert [one.decision for one in found] == fair.predict(TEST.X[:5], sensitive_features=new).tolist()
    assert all(one.unconstrained == one.decision for one in found)
    assert all("did not affect it" in one.auditor for one in found)


def test_groups_that_are_compared_with_each_other_are_explained():
    """The scalar of the requirement moves no score."""
    fair = fitted(eh.DemographicParity(ratio=0.9, against="groups"))
    found, _ = explained(fair)
    moved = np.array([sum(one.moved.values()) for one in found])
    margins = fair.decision_function(TEST.X)
    np.testing.assert_allclose(margins - moved, fair.predict_label_proba(TEST.X) - 0.5, atol=1e-9)


def test_a_capacity_is_a_constraint_on_everybody():
    found, _ = explained(fitted(eh.RateBound("selection rate", at_most=0.1)))
    assert "Moved by: everybody " in found[0].auditor
