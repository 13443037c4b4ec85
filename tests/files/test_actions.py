"""Classifiers with several actions in files: the same decisions, and a proof by formulas of its own."""

import dataclasses
import datetime

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import evenhand as eh
from evenhand.datasets import GaussianProblem
from evenhand.exceptions import InputError, UntrustedFileError
from evenhand.files.encoding import decode_model, encode_model
from evenhand.optimum.action_rule import ActionRule

PARITY = eh.DemographicParity(difference=0.05)
DRAWN = GaussianProblem.random(levels=(2, 2), seed=5).sample(1500, seed=0)
COSTS = eh.Costs({"yes": {0: 1, 1: 0}, "no": {0: 0, 1: 1}, "ask": {0: 0.2, 1: 0.2}})
TIERS = np.digitize(DRAWN.X[:, 0] + DRAWN.y, [0, 1])
WEIGHTS = np.random.default_rng(0).uniform(0.5, 2, 1500)


def fitted(y=DRAWN.y, constraint=PARITY, weights=None, **settings):
    given = {"posteriors": eh.CrossFit(2), **settings}
    model = eh.FairPostprocessor(LogisticRegression(), constraint, **given)
    return model.fit(DRAWN.X, y, sensitive_features=DRAWN.sensitive, sample_weight=weights)


def proof_of(model, folder, y=DRAWN.y, **given):
    path = folder / "m.eh"
    eh.save(model, path, overwrite=True)
    report = eh.verify(path, data=(DRAWN.X, y), sensitive_features=DRAWN.sensitive, **given)
    assert report.ok
    return report.proof


CASES = {
    "tiers": {"y": TIERS},
    "aware": {"y": TIERS, "aware": True},
    "partly": {"y": TIERS, "aware": ["A1"]},
    "review": {"cost": COSTS, "constraint": PARITY & eh.RateBound("ask", at_most=0.1)},
    "odds": {"y": TIERS, "constraint": eh.EqualizedOdds(difference=0.1)},
    "against": {"y": TIERS, "constraint": eh.DemographicParity(difference=0.05, against="groups")},
    "ratio": {"cost": COSTS, "constraint": eh.EqualOpportunity(ratio=0.8, groups="independent")},
    "weights": {"cost": COSTS, "weights": WEIGHTS},
}


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_file_decides_alike_and_its_proof_is_confirmed(case, tmp_path):
    model = fitted(**case)
    own = {"sample_weight": case["weights"]} if "weights" in case else {}
    proof = proof_of(model, tmp_path, case.get("y", DRAWN.y), **own)
    assert proof.confirmed, proof.verdict
    assert abs(proof.found.gap) < 1e-9
    assert proof.found.bound == pytest.approx(model.certificate_.bound, abs=1e-9)
    again = eh.load(tmp_path / "m.eh")
    known = {"sensitive_features": DRAWN.sensitive} if model.aware else {}
    assert (again.predict_proba(DRAWN.X, **known) == model.predict_proba(DRAWN.X, **known)).all()
    assert (again.predict(DRAWN.X, **known) == model.predict(DRAWN.X, **known)).all()
    assert again.actions_.tolist() == model.actions_.tolist()
    assert repr(again.forecast_) == repr(model.forecast_)
    assert eh.verify(tmp_path / "m.eh").ok


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
def test_a_deterministic_one_is_verified_too(tmp_path):
    X = np.round(np.clip(DRAWN.X, -1, 1))
    model = eh.FairPostprocessor(LogisticRegression(), eh.DemographicParity(difference=0.01), cost=COSTS)
    model = model.fit(X, DRAWN.y, sensitive_features=DRAWN.sensitive)
    assert model.rule_.randomises
    sure = model.deterministic()
    assert not sure.rule_.randomises
    assert set(np.unique(sure.predict_proba(X))) == {0.0, 1.0}
    eh.save(sure, tmp_path / "m.eh")
    data = (X, DRAWN.y)
    proof = eh.verify(tmp_path / "m.eh", data=data, sensitive_features=DRAWN.sensitive).proof
    assert proof.confirmed, proof.verdict


def test_what_was_changed_is_not_confirmed(tmp_path):
    model = fitted(y=TIERS)
    changed = dataclasses.replace(model.rule_, table=model.rule_.table + [[[0.0, 0.2, 0.0]] * 3] * 4)
    first = dict(model.multipliers_)
    name = next(iter(first))
    for part, value, message in (
        ("rule_", changed, "objective of the shipped rule"),
        ("solved_rule_", changed, "the rule does not follow"),
        ("multipliers_", {**first, name: first[name] + 1}, "the bound is"),
    ):
        before = getattr(model, part)
        setattr(model, part, value)
        proof = proof_of(model, tmp_path, TIERS)
        assert not proof.confirmed
        assert message in proof.verdict
        setattr(model, part, before)
    other = proof_of(model, tmp_path, 2 - TIERS)
    assert not other.confirmed
    assert "labels" in other.verdict


def test_rules_that_do_not_belong_to_a_model_are_refused():
    content, parts = encode_model(fitted(y=TIERS))
    rule = ActionRule(-1.0 + np.eye(3)[None], 1.0 - np.eye(3), (0, 1, 2))
    for wrong in (rule, fitted().rule_):
        content["state"]["rule_"] = {"rule": wrong.to_json()}
        with pytest.raises(UntrustedFileError, match="do not belong together"):
            decode_model(content, parts)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("table", "[[[0, 1]]]", "numbers have shape"),
        ("actions", '[[1], "b", "c"]', "text or numbers"),
        ("chances", "[[0.5, 0.2, 0.2]]", "sum to 1"),
        ("unit", "NaN", "holds NaN"),
        ("version", "7", "version 7"),
    ],
)
def test_texts_of_rules_are_checked(field, value, message):
    atoms, chances = np.full((1, 1, 3), 1 / 3), np.array([[0.5, 0.25, 0.25]])
    rule = ActionRule(-1.0 + np.eye(3)[None], 1.0 - np.eye(3), ("a", "b", "c"), atoms=atoms, chances=chances)
    text = rule.to_json()
    assert ActionRule.from_json(text).to_json() == text
    start = text.index(f'"{field}": ') + len(field) + 4
    end = min(k for k in (text.find(f', "{name}": ', start) for name in vars(rule)) if k > 0)
    with pytest.raises(InputError, match=message):
        ActionRule.from_json(text[:start] + value + text[end:])


def test_names_of_actions_that_cannot_be_written_are_refused(tmp_path):
    with pytest.raises(InputError, match="name actions by text or numbers"):
        eh.Costs({("a", 1): {0: 1, 1: 0}, ("b", 2): {0: 0, 1: 1}})
    days = np.array([datetime.date(2026, 1, day) for day in (1, 2, 3)], dtype=object)[TIERS]
    model = fitted(y=days)
    assert set(model.predict(DRAWN.X)) <= set(days)
    with pytest.raises(InputError, match="names of actions must be text or numbers to be written"):
        eh.save(model, tmp_path / "m.eh")
