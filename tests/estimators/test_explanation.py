"""Decisions with their reasons."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from tests.flat import build

import evenhand as eh
from evenhand.datasets import GaussianProblem

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


def test_sentences_name_labels_requirement_and_chance():
    fair = fitted(y=np.where(TRAIN.y == 1, "pay", "default"), pos_label="pay")
    found, _ = explained(fair)
    changed = next(one for one in found if one.unconstrained != one.decision)
    text = str(changed)
    told = f"The decision is {changed.decision}; the probability of pay is {changed.risk:.3f}."
    assert text.startswith(told)
    assert f"would have been {changed.unconstrained}" in text
    largest = max(changed.moved, key=lambda name: abs(changed.moved[name]))
    assert f"mostly through the constraint on {largest.group}." in text
    free, _ = explained(fitted(eh.DemographicParity(difference=0.9)))
    assert "The fairness requirement did not affect it." in str(free[0])
    constant = np.zeros((400, 1))
    groups = {"g": np.arange(400) % 2}
    with pytest.warns(eh.exceptions.EvenhandWarning):
        lottery = eh.FairPostprocessor(
            LogisticRegression(),
            eh.EqualizedOdds(difference=0.0),
            cost=0.5,
            aware=True,
            posteriors=eh.CrossFit(2),
        ).fit(constant, np.arange(400) // 2 % 2, sensitive_features=groups)
    one = lottery.explain(constant[:1], sensitive_features={"g": [0]})[0]
    assert one.randomised == (0 < one.probability < 1)


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_a_table_has_a_row_per_decision_in_the_library_of_x(library):
    X = library.DataFrame({"x": TRAIN.X[:, 0], **TRAIN.sensitive})
    fair = eh.FairPostprocessor(
        LogisticRegression(), FAIR, sensitive_features=["A1", "A2"], posteriors=eh.CrossFit(2)
    )
    fair.fit(X, TRAIN.y)
    found = fair.explain(X[:20])
    frame = found.to_frame()
    assert isinstance(frame, library.DataFrame)
    assert len(frame) == len(found) == 20
    assert list(frame.columns)[:6] == [
        *("decision", "risk", "margin", "probability", "randomised", "unconstrained")
    ]
    assert len(frame.columns) == 6 + 4 + 1
    assert list(frame["sentence"]) == [str(one) for one in found]
    assert repr(found).count("\n") == 12
    assert repr(found).endswith("and 8 more")
    assert "<table>" in found[:3]._repr_html_()


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
    assert repr(fair.thresholds_).startswith("A1=0, A2=0  ")
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
    assert all("did not affect it" in str(one) for one in found)


def test_groups_that_are_compared_with_each_other_are_explained():
    """The scalar of the requirement moves no score."""
    fair = fitted(eh.DemographicParity(ratio=0.9, against="groups"))
    found, _ = explained(fair)
    moved = np.array([sum(one.moved.values()) for one in found])
    margins = fair.decision_function(TEST.X)
    np.testing.assert_allclose(margins - moved, fair.predict_label_proba(TEST.X) - 0.5, atol=1e-9)


def test_a_capacity_is_a_constraint_on_everybody():
    found, _ = explained(fitted(eh.RateBound("selection rate", at_most=0.1)))
    assert str(found[0]).endswith("mostly through the constraint on everybody.")
