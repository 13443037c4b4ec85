"""Rules as graphs of ONNX decide as rules do."""

import os
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import evenhand as eh
from evenhand.exceptions import MissingExtraError
from evenhand.optimum.rule import Rule
from evenhand.solver.thresholds import Steps

if not os.environ.get("EVENHAND_REQUIRE_ALL"):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
import onnxruntime as runtime

PROBLEM = eh.datasets.GaussianProblem.random(levels=(2, 2), seed=5)
TRAIN, NEW = PROBLEM.sample(1500, seed=0), PROBLEM.sample(3000, seed=1)


def answers(rule, **inputs):
    session = runtime.InferenceSession(rule.to_onnx().SerializeToString())
    decision, probability = session.run(["decision", "probability"], inputs)
    np.testing.assert_array_equal(decision, probability >= 0.5)
    return probability


def test_a_blind_rule_decides_alike_on_new_rows():
    fair = eh.FairPostprocessor(LogisticRegression(), eh.EqualizedOdds(difference=0.03))
    fair.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    p = fair.posterior_model_.cells(NEW.X, None)
    found = answers(fair.rule_, posteriors=p)
    np.testing.assert_allclose(found, fair.predict_proba(NEW.X)[:, 1], rtol=0, atol=1e-12)
    assert 0.1 < found.mean() < 0.9


def test_randomised_atoms_have_their_probabilities():
    """A tree has few posteriors, so that some of them are randomised."""
    X = np.round(TRAIN.X, 0)
    fair = eh.FairPostprocessor(DecisionTreeClassifier(max_depth=2), eh.DemographicParity(difference=0.01))
    fair.fit(X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    assert fair.rule_.randomises
    new = np.round(NEW.X, 0)
    expected = fair.predict_proba(new)[:, 1]
    assert ((expected > 0) & (expected < 1)).any()
    found = answers(fair.rule_, posteriors=fair.posterior_model_.cells(new, None))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_known_groups_are_decided_by_their_thresholds():
    fair = eh.FairPostprocessor(LogisticRegression(), eh.DemographicParity(difference=0.02), aware=True)
    fair.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    eta = fair.predict_label_proba(NEW.X, sensitive_features=NEW.sensitive)
    eta = eta[:, 1] if eta.ndim == 2 else eta
    codes = fair.groups_.encode({name: NEW.sensitive[name] for name in fair.groups_.features})
    found = answers(fair.rule_, label_probability=eta, group=codes.astype(np.int64))
    expected = fair.predict_proba(NEW.X, sensitive_features=NEW.sensitive)[:, 1]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_a_boundary_is_decided_by_the_second_score_and_edges_belong_to_the_side_below():
    p = np.array([[[0.25, 0.25], [0.2, 0.3]], [[0.3, 0.2], [0.25, 0.25]], [[0.1, 0.4], [0.1, 0.4]]])
    W = np.array([[1.0, -1.0], [1.0, -1.0]])
    for ties in (None, np.zeros((2, 2)), np.array([[0.0, 1.0], [-0.5, 0.0]])):
        rule = Rule(W * 0, ties=ties)
        np.testing.assert_array_equal(answers(rule, posteriors=p), rule.selection(p))
    rule = Rule(W, atoms=p[:1], chances=np.array([0.25]), reach=0.1, resolution=1e-11)
    near = np.concatenate([p, p[:1] + 5e-12, p[:1] + 5e-11])
    np.testing.assert_array_equal(answers(rule, posteriors=near), rule.selection(near))
    assert answers(rule, posteriors=near)[3] == 0.25
    steps = Steps((np.array([0.3, 0.6]), np.array([])), (np.array([0.0, 0.5, 1.0]), np.array([1.0])))
    eta, group = np.array([0.3, 0.30001, 0.6, 0.7, 0.1]), np.array([0, 0, 0, 0, 1])
    found = answers(Rule(W, steps=steps), label_probability=eta, group=group)
    assert found.tolist() == [0.0, 0.5, 0.5, 1.0, 1.0]


def test_onnx_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx.helper", None)
    with pytest.raises(MissingExtraError, match=r"evenhand\[onnx\]"):
        Rule(np.array([[-0.5, 0.5]])).to_onnx()


@pytest.mark.parametrize("aware", [False, True])
def test_groups_within_strata_are_those_that_are_compared(aware):
    X = pd.DataFrame({"a": TRAIN.X[:, 0], "region": np.arange(len(TRAIN.X)) % 2})
    constraint = eh.DemographicParity(difference=0.02, given=["region"])
    fair = eh.FairPostprocessor(LogisticRegression(), constraint, aware=aware)
    fair.fit(X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    known = {"sensitive_features": TRAIN.sensitive} if aware else {}
    places = {name: k for k, name in enumerate(fair.compared_.combinations)}
    size = len(fair.groups_)
    assert list(places.values()) == list(range(size))
    first = X.region.to_numpy() * size
    if aware:
        eta = fair.predict_label_proba(X, **known)
        group = first + fair.groups_.encode({name: TRAIN.sensitive[name] for name in fair.groups_.features})
        found = answers(fair.rule_, label_probability=eta, group=group.astype(np.int64))
    else:
        p = np.zeros((len(X), 2 * size, 2))
        cells = fair.posterior_model_.cells(X, None)
        for m in range(size):
            p[np.arange(len(X)), first + m] = cells[:, m]
        found = answers(fair.rule_, posteriors=p)
    np.testing.assert_allclose(found, fair.predict_proba(X, **known)[:, 1], rtol=0, atol=1e-12)


def test_what_is_unknown_is_not_refused_silently():
    rule = Rule(np.array([[-0.5, 0.5]]))
    assert np.isnan(answers(rule, posteriors=np.full((1, 1, 2), np.nan))).all()
    steps = Steps((np.array([0.3]), np.array([0.5])), (np.array([0.0, 1.0]), np.array([0.0, 1.0])))
    rule = Rule(np.zeros((2, 2)), steps=steps)
    nan, one = np.array([np.nan, 0.4]), np.array([0.4])
    found = answers(rule, label_probability=nan, group=np.array([0, 0]))
    np.testing.assert_array_equal(found, [np.nan, 1.0])
    for group in (-1, 2):
        with pytest.raises(runtime.capi.onnxruntime_pybind11_state.InvalidArgument):
            answers(rule, label_probability=one, group=np.array([group]))
