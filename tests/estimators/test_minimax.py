"""FairPostprocessor(objective="minimax") from fit to file, report and search."""

import dataclasses
import re

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from tests.flat import build

import evenhand as eh
from evenhand.data import batched_table
from evenhand.datasets import GaussianProblem
from evenhand.exceptions import InputError
from evenhand.files.recertify import claimed
from evenhand.posteriors.models import LabelThenGroup, Product
from evenhand.report.contents import contents

NOTHING = eh.DemographicParity(difference=1.0)
PARITY = eh.DemographicParity(ratio=0.9, against="groups") & eh.RateBound("selection rate", at_most=0.45)
PROBLEM = GaussianProblem.random(levels=(2, 2), seed=10)
TRAIN, TEST = PROBLEM.sample(1500, seed=0), PROBLEM.sample(1500, seed=1)
COSTS = {
    "half": 0.5,
    "pair": (2.0, 7.0),
    "groups": np.array([[1.0, 3.0], [2.0, 1.0], [1.0, 1.0], [4.0, 9.0]]),
}


def fitted(constraint=PARITY, **settings):
    model = build(
        eh.FairPostprocessor,
        **{
            "estimator": LogisticRegression(),
            "constraint": constraint,
            "cv": 2,
            "objective": "minimax",
            **settings,
        },
    )
    return model.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)


def proof_of(model, folder):
    path = folder / "m.eh"
    eh.save(model, path, overwrite=True)
    return eh.verify(path, data=(TRAIN.X, TRAIN.y), sensitive_features=TRAIN.sensitive).proof


def largest_error(rates):
    return ((rates.selected[:, 0] + rates.mass[:, 1] - rates.selected[:, 1]) / rates.mass.sum(axis=1)).max()


def test_the_largest_error_of_a_group_is_smaller_than_with_the_smallest_risk():
    plain, worst = fitted(NOTHING, objective="risk"), fitted(NOTHING)
    assert largest_error(worst.rates_) == pytest.approx(2 * worst.certificate_.objective, abs=1e-9)
    assert largest_error(worst.rates_) < largest_error(plain.rates_) - 1e-3
    new = PROBLEM.sample(20_000, seed=2)
    of_plain, of_worst = (
        largest_error(eh.cell_rates(new.y, model.predict(new.X), new.sensitive)) for model in (plain, worst)
    )
    assert of_worst < of_plain - 0.01


def test_posteriors_of_cells_are_learned_where_the_risk_would_not_need_them():
    """Under parity, P(Y|x) P(S|x) suffice for the risk, but not for the errors of a group."""
    trees = {"estimator": None, "cv": 0.5}
    kinds = [
        type(fitted(NOTHING, objective=objective, **trees).posterior_model_.model.model)
        for objective in ("risk", "minimax")
    ]
    assert kinds == [Product, LabelThenGroup]


@pytest.mark.parametrize("aware", [False, True, ["A1"]], ids=["blind", "aware", "partly"])
@pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS)
def test_the_proof_is_confirmed(aware, cost, tmp_path):
    model = fitted(aware=aware, cost=cost)
    proof = proof_of(model, tmp_path)
    assert proof.confirmed, proof.verdict
    assert "brings the largest risk of a group" in proof.verdict
    assert proof.found.minimised == "largest risk of a group"
    for name in ("objective", "bound", "violation"):
        assert getattr(proof.found, name) == pytest.approx(getattr(model.certificate_, name), abs=1e-9)
    again = eh.load(tmp_path / "m.eh")
    assert again.objective == "minimax"
    assert again.certificate_ == model.certificate_
    assert again.group_weights_ == model.group_weights_
    assert type(again.group_weights_) is type(model.group_weights_)
    assert sum(again.group_weights_.values()) == pytest.approx(1.0)


def altered_weights(model):
    names = list(model.group_weights_)
    model.group_weights_ = dict.fromkeys(names, 1 / len(names))


def altered_sum(model):
    model.group_weights_ = {name: 2 * value for name, value in model.group_weights_.items()}


def altered_multipliers(model):
    model.multipliers_ = {name: value + 0.1 for name, value in model.multipliers_.items()}


def altered_rule_multipliers(model):
    model.rule_multipliers_ = {name: value + 0.1 for name, value in model.rule_multipliers_.items()}


def altered_objective(model):
    model.objective = "risk"


def altered_certificate(model):
    model.certificate_ = dataclasses.replace(model.certificate_, objective=0.01)


def without_weights(model):
    model.group_weights_ = None


ALTERED = {
    altered_weights: "the bound is",
    altered_sum: "the groups or multipliers do not belong to these rows",
    altered_multipliers: "the bound is",
    altered_rule_multipliers: "the rule does not follow from the multipliers",
    altered_objective: "the fit minimises the risk, and the model another objective",
    altered_certificate: "the largest risk of a group is 0.* here and 0.01 in the model",
    without_weights: "the groups or multipliers do not belong to these rows",
}


@pytest.mark.parametrize("alter", ALTERED, ids=lambda alter: alter.__name__)
def test_what_was_altered_is_not_confirmed(alter, tmp_path):
    model = fitted()
    alter(model)
    proof = proof_of(model, tmp_path)
    assert not proof.confirmed
    assert re.search(ALTERED[alter], proof.verdict), proof.verdict


def test_a_guarantee_is_about_the_requirement(tmp_path):
    model = fitted(eh.DemographicParity(difference=0.4), confidence=0.9)
    assert model.guarantee_.holds
    assert model.certificate_.minimised == "largest risk of a group"
    proof = proof_of(model, tmp_path)
    assert proof.confirmed, proof.verdict
    assert claimed(model).requirement == model.guarantee_.internal


@pytest.mark.parametrize("aware", [False, True], ids=["blind", "aware"])
def test_what_moved_a_score_adds_up_to_it(aware):
    model = fitted(aware=aware)
    given = {"sensitive_features": TEST.sensitive} if aware else {}
    margins = model.decision_function(TEST.X, **given)
    risk = model.predict_label_proba(TEST.X, **given)
    for row in (0, 1, 2):
        explained = model.explain(TEST.X, **given)[row]
        assert explained.margin == pytest.approx(margins[row])
        assert risk[row] - 0.5 + sum(explained.moved.values()) == pytest.approx(margins[row], abs=1e-9)
        assert any(name.notion == "minimax" for name in explained.moved)


def test_a_table_in_batches(monkeypatch, tmp_path):
    monkeypatch.setattr(batched_table, "BATCH_ROWS", 400)
    frame = pl.DataFrame({"x": TRAIN.X[:, 0], **TRAIN.sensitive, "y": TRAIN.y})
    model = eh.FairPostprocessor(
        LogisticRegression(),
        PARITY,
        sensitive_features=list(TRAIN.sensitive),
        objective="minimax",
        posteriors=eh.CrossFit(2, max_samples=600),
    ).fit(frame.lazy(), "y")
    assert model.certificate_.minimised == "largest risk of a group"
    assert model.certificate_.gap <= 1e-6
    eh.save(model, tmp_path / "m.eh")
    proof = eh.verify(tmp_path / "m.eh", data=(frame.lazy(), "y")).proof
    assert proof.confirmed, proof.verdict


def test_it_is_a_parameter_as_others_are():
    model = eh.FairPostprocessor(LogisticRegression(), NOTHING, objective="minimax")
    assert model.get_params()["objective"] == clone(model).objective == "minimax"
    assert eh.FairPostprocessor().objective == "risk"
    X = np.column_stack([TRAIN.X, TRAIN.codes])
    search = GridSearchCV(
        model.set_params(sensitive_features=[1], posteriors__cv=2),
        {"objective": ["risk", "minimax"]},
        cv=2,
    ).fit(X, TRAIN.y)
    assert search.best_params_["objective"] == "risk"  # by accuracy
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_what_does_not_go_together_is_refused():
    with pytest.raises(InputError, match="objective must be one of 'risk', 'minimax', got 'minmax'"):
        fitted(objective="minmax")
    with pytest.raises(InputError, match="'fair' has objective='minimax', but a frontier shows"):
        eh.frontier(
            eh.FairPostprocessor(LogisticRegression(), PARITY, objective="minimax"),
            TRAIN.X,
            TRAIN.y,
            sensitive_features=TRAIN.sensitive,
        )
    with pytest.raises(TypeError, match="objective"):
        eh.FairInprocessor(LogisticRegression(), PARITY, objective="minimax")
    with pytest.raises(ValueError, match="objective"):
        eh.FairInprocessor(LogisticRegression(), PARITY).set_params(objective="minimax")


@pytest.mark.parametrize(("cost", "of"), [(0.5, "accuracy"), (0.3, "risk")], ids=["half", "other"])
def test_the_report_says_whose_risk_it_is(cost, of):
    model = fitted(cost=cost)
    audit = eh.audit(TEST.y, model.predict(TEST.X), TEST.sensitive, constraint=PARITY)
    shown = contents(audit, model=model, title="", data="")["model"]
    name = "largest risk of a group" + (" (half the error)" if of == "accuracy" else "")
    assert shown["proof"]["risk_name"] == name
    assert shown["prices"] is None  # multipliers are not about people here


def test_a_file_without_the_objective_is_of_the_smallest_risk(tmp_path):
    """Models of earlier versions have neither the parameter nor the attributes."""
    model = fitted(objective="risk")
    for name in ("objective", "group_weights_", "rule_multipliers_"):
        del model.__dict__[name]
    assert proof_of(model, tmp_path).confirmed
    again = eh.load(tmp_path / "m.eh")
    assert again.objective == "risk"
    assert str(again.explain(TEST.X[:1])[0]) == str(model.explain(TEST.X[:1])[0])
