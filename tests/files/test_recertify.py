import dataclasses
import io
import json
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from tests.flat import build

import evenhand as eh
from evenhand.data.fingerprint import Fingerprint
from evenhand.datasets import GaussianProblem
from evenhand.estimators import fit_rows
from evenhand.files.recertify import claimed
from evenhand.posteriors.learner import Learner
from evenhand.solver.certificate import Certificate

PARITY = eh.DemographicParity(difference=0.05)
TRAIN = GaussianProblem.random(levels=(2, 2), seed=5).sample(800, seed=0)
GIVEN = {"data": (TRAIN.X, TRAIN.y), "sensitive_features": TRAIN.sensitive}


def fitted(kind=eh.FairPostprocessor, constraint=PARITY, weights=None, X=TRAIN.X, **settings):
    model = build(kind, **{"estimator": LogisticRegression(), "constraint": constraint, "cv": 2, **settings})
    return model.fit(X, TRAIN.y, sensitive_features=TRAIN.sensitive, sample_weight=weights)


def proof_of(model, folder, **given):
    path = folder / "m.eh"
    eh.save(model, path, overwrite=True)
    report = eh.verify(path, **{**GIVEN, **given})
    assert report.ok
    return report.proof


REQUIREMENTS = {
    "difference": PARITY,
    "ratio": eh.EqualOpportunity(ratio=0.9),
    "exact": eh.DemographicParity(difference=0.0),
    "several": PARITY & eh.PredictiveEquality(ratio=0.8, groups="independent"),
}


@pytest.mark.parametrize("aware", [False, True, ["A1"]], ids=["blind", "aware", "partly"])
@pytest.mark.parametrize("constraint", REQUIREMENTS.values(), ids=REQUIREMENTS)
def test_the_proof_of_a_rule_is_confirmed(constraint, aware, tmp_path):
    model = fitted(constraint=constraint, aware=aware)
    proof = proof_of(model, tmp_path)
    assert proof.confirmed, proof.verdict
    assert proof.verdict.startswith(f"proven on 800 rows: no classifier that satisfies {constraint!r}")
    assert abs(proof.found.gap) < 1e-9
    for name in ("objective", "bound", "violation"):
        assert getattr(proof.found, name) == pytest.approx(getattr(model.certificate_, name), abs=1e-12)


SETTINGS = {
    "weights": {"weights": np.random.default_rng(0).random(800)},
    "costs": {"cost": [10.0, 30.0]},
    "one split": {"cv": 0.4},
    "randomised ties": {"aware": True, "X": (TRAIN.X > 0).astype(float)},
    "no seed": {"random_state": None},
    "a used-up seed": {"random_state": np.random.RandomState(5)},
    "a default learner": {"estimator": None, "cv": 0.4},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
def test_the_proof_is_confirmed_with_any_setting(settings, tmp_path):
    data, weights = (settings.get("X", TRAIN.X), TRAIN.y), settings.get("weights")
    proof = proof_of(fitted(**settings), tmp_path, data=data, sample_weight=weights)
    assert proof.confirmed, proof.verdict


@pytest.mark.parametrize("aware", [False, True])
@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
def test_the_bound_of_a_trained_classifier_is_confirmed(aware, tmp_path):
    model = fitted(eh.FairInprocessor, aware=aware, max_refits=2)
    proof = proof_of(model, tmp_path)
    assert proof.confirmed, proof.verdict
    assert f"has a risk (half the error) below {model.certificate_.bound:.6f}" in proof.verdict
    model.certificate_ = dataclasses.replace(
        model.certificate_, bound=model.certificate_.bound + 0.01, relaxed=model.certificate_.relaxed - 0.5
    )
    model.learner_ = Learner(None, np.array([1]), 2)
    verdict = proof_of(model, tmp_path).verdict
    assert "the bound is" in verdict
    assert "the bound for classifiers that violate the requirement as this one is another" in verdict
    assert "the classifier is not the one that is trained on these rows" in verdict


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConstantClassifierWarning")
def test_a_claim_names_the_requirement_of_the_bound():
    plain = claimed(fitted())
    assert not plain.tightened
    assert "has a risk (half the error) below" in str(plain)
    assert "has a risk below" in str(claimed(fitted(cost=0.3)))
    careful = fitted(constraint=eh.DemographicParity(difference=0.2), confidence=0.9, aware=True)
    assert claimed(careful).requirement is careful.guarantee_.internal
    assert "tighter than what was asked for, DemographicParity(difference=0.2)" in str(claimed(careful))


@pytest.mark.parametrize("kind", [eh.FairPostprocessor, eh.FairInprocessor])
def test_a_guarantee_is_tested_again(kind, tmp_path):
    model = fitted(kind, eh.DemographicParity(difference=0.4), confidence=0.9, aware=True)
    proof = proof_of(model, tmp_path)
    assert model.guarantee_.holds
    assert proof.confirmed, proof.verdict
    assert proof.rows == 800 * (1 - model.settings().reserve)  # the others were held out
    model.guarantee_ = dataclasses.replace(model.guarantee_, confidence=1 - 1e-12)
    ranked = kind is eh.FairPostprocessor
    wrong = "ranks of the guarantee break it with probability" if ranked else "is not guaranteed by the held-"
    assert wrong in proof_of(model, tmp_path).verdict


@pytest.mark.parametrize("aware", [False, True])
@pytest.mark.filterwarnings("ignore::evenhand.exceptions.GuaranteeWarning")
def test_what_is_guaranteed_instead_is_checked(aware, tmp_path):
    model = fitted(constraint=eh.DemographicParity(difference=0.05), confidence=0.9, aware=aware)
    assert not model.guarantee_.holds
    assert (model.guarantee_.ranks is not None) is aware
    assert proof_of(model, tmp_path).confirmed
    better = eh.DemographicParity(difference=model.guarantee_.attainable.difference * 0.8)
    model.guarantee_ = dataclasses.replace(model.guarantee_, attainable=better)
    assert not proof_of(model, tmp_path).confirmed


def guaranteed_by_ranks():
    model = fitted(constraint=eh.EqualOpportunity(difference=0.4), confidence=0.9, aware=True)
    assert model.guarantee_.holds
    assert model.guarantee_.ranks is not None
    return model


def with_other_ranks(model, **changes):
    model.guarantee_ = dataclasses.replace(
        model.guarantee_, ranks=dataclasses.replace(model.guarantee_.ranks, **changes)
    )
    return model


def test_a_guarantee_by_ranks_is_checked(tmp_path):
    assert proof_of(guaranteed_by_ranks(), tmp_path).confirmed
    ranks = guaranteed_by_ranks().guarantee_.ranks
    wrong = "not confirmed: .*the ranks that the guarantee rests on are not those of these rows"
    higher = with_other_ranks(guaranteed_by_ranks(), ranks=(ranks.ranks[0] + 9, *ranks.ranks[1:]))
    assert re.search(wrong, proof_of(higher, tmp_path).verdict)
    larger = with_other_ranks(guaranteed_by_ranks(), sizes=(ranks.sizes[0] + 1, *ranks.sizes[1:]))
    assert re.search(wrong, proof_of(larger, tmp_path).verdict)
    others = with_other_ranks(guaranteed_by_ranks(), labels=(True, True))
    assert "do not belong to its requirement" in proof_of(others, tmp_path).verdict


def test_thresholds_that_were_moved_are_noticed(tmp_path):
    model = guaranteed_by_ranks()
    edges = tuple(edge + 0.05 for edge in model.rule_.steps.edges)
    model.rule_ = dataclasses.replace(model.rule_, steps=dataclasses.replace(model.rule_.steps, edges=edges))
    assert "the decisions on these rows do not follow from the rule" in proof_of(model, tmp_path).verdict


def altered_multipliers(model):
    model.multipliers_ = {name: value + 0.1 for name, value in model.multipliers_.items()}


def altered_names(model):
    model.multipliers_ = dict(list(model.multipliers_.items())[1:])


def altered_certificate(model):
    model.certificate_ = dataclasses.replace(model.certificate_, objective=0.01, bound=0.01)


def nonsense_certificate(model):
    model.certificate_ = Certificate(np.nan, np.nan, np.nan)


def altered_violation(model):
    model.certificate_ = dataclasses.replace(model.certificate_, violation=0.1)


def altered_requirement(model):
    model.constraint = eh.DemographicParity(difference=0.001)


def altered_rule(model):
    model.rule_ = dataclasses.replace(model.rule_, table=model.rule_.table + 0.1)


def altered_solved_rule(model):
    model.solved_rule_ = dataclasses.replace(model.solved_rule_, table=model.solved_rule_.table + 0.1)


def altered_learner(model):
    model.posterior_model_ = fitted(calibration=None, estimator=LogisticRegression(C=1e-3)).posterior_model_


ALTERED = {
    altered_multipliers: "the bound is .* the rule does not follow from the multipliers",
    altered_names: "the groups or multipliers do not belong to these rows",
    altered_certificate: r"the risk is 0\.\d+ here and 0.01 in the model; the bound is 0",
    nonsense_certificate: "the risk is .* nan in the model",
    altered_violation: "the violation is .* and 0.1 in the model",
    altered_requirement: "the bound is .* the violation is",
    altered_rule: "the decisions on these rows do not follow from the rule",
    altered_solved_rule: "the rule does not follow from the multipliers",
    altered_learner: "the decisions on these rows do not follow from the rule",
}


@pytest.mark.parametrize(("change", "match"), ALTERED.items(), ids=[change.__name__ for change in ALTERED])
def test_an_altered_model_is_not_confirmed(change, match, tmp_path):
    """It is saved after the change, so its checksum is right."""
    model = fitted()
    change(model)
    proof = proof_of(model, tmp_path)
    assert not proof.confirmed
    assert proof.verdict.startswith("not confirmed: ")
    assert re.search(match, proof.verdict), proof.verdict


def test_other_rows_are_refused_before_any_work(tmp_path, monkeypatch):
    model = fitted(weights=np.arange(800.0))
    monkeypatch.setattr(fit_rows, "learn_posteriors", None)
    weights = np.arange(800.0)

    def verdict(X=TRAIN.X, y=TRAIN.y, sensitive=TRAIN.sensitive, weights=weights):
        proof = proof_of(model, tmp_path, data=(X, y), sensitive_features=sensitive, sample_weight=weights)
        assert not proof.confirmed
        return proof.verdict.removeprefix("not confirmed: these are not the rows of the fit: ")

    some = {name: values[:700] for name, values in TRAIN.sensitive.items()}
    fewer = verdict(TRAIN.X[:700], TRAIN.y[:700], some, weights[:700])
    assert fewer == "there are 700 of them and not 800."
    assert verdict(y=1 - TRAIN.y) == "their labels differ."
    assert verdict(X=TRAIN.X + 1e-9) == "their features differ."
    assert verdict(weights=None) == "their weights differ."
    order = np.random.default_rng(0).permutation(800)
    permuted = {name: values[order] for name, values in TRAIN.sensitive.items()}
    assert verdict(sensitive=permuted) == "their groups differ."
    reordered = verdict(TRAIN.X[order], TRAIN.y[order], permuted, weights[order])
    assert (
        reordered == "not confirmed: these are the rows of the fit in another order: sort them as they were."
    )


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_are_matched_by_name(kind, tmp_path):
    columns = {"x0": TRAIN.X[:, 0], "x1": TRAIN.X[:, 0] ** 2}
    model = fitted(X=kind(columns))
    reordered = kind(dict(reversed(columns.items())))
    assert proof_of(model, tmp_path, data=(reordered, TRAIN.y)).confirmed
    renamed = kind({f"z{name}": column for name, column in columns.items()})
    verdict = proof_of(model, tmp_path, data=(renamed, TRAIN.y)).verdict
    assert "there is no column 'x0', 'x1' and the fit had no column 'zx0', 'zx1'" in verdict


def test_a_missing_seed_is_named(tmp_path):
    proof = proof_of(fitted(estimator=RandomForestClassifier(3)), tmp_path)
    assert not proof.confirmed
    assert "If the learner draws at random, estimator__random_state=None may be why" in proof.verdict


# Fingerprints of rows


def test_rows_have_the_same_fingerprint_in_every_library_and_file():
    columns = {
        "x": [0.1, -0.0, None, 1e-300],
        "n": [1, 2, 3, 2**60],
        "b": [True, False, True, True],
        "t": ["a", "ä,b", None, "a"],
    }
    table = pl.DataFrame(columns)
    csv, parquet = io.BytesIO(), io.BytesIO()
    table.write_csv(csv)
    table.write_parquet(parquet)
    objects = np.array(list(zip(*columns.values(), strict=True)), dtype=object)
    many = [table, table.to_pandas(), pd.DataFrame(columns), pa.table(columns), objects]
    many += [table.cast({"t": pl.Categorical})]
    many += [pl.read_csv(csv.getvalue()), pl.read_parquet(parquet.getvalue())]
    y, s = np.array([True, False, True, True]), np.arange(4)
    empty = pd.DataFrame({"n": pd.array([None] * 4, dtype="Int64")})
    assert Fingerprint.of(empty, y, s, None) == Fingerprint.of(np.full((4, 1), np.nan), y, s, None)
    prints = {Fingerprint.of(one, y, s, None) for one in many}
    assert len(prints) == 1
    changed = table.with_columns(t=pl.Series(["a", "ä,b", "", "a"]))
    assert Fingerprint.of(changed, y, s, None) not in prints
    assert Fingerprint.of(table.select("n", "x", "b", "t"), y, s, None) not in prints


def test_explicit_zeros_do_not_change_the_fingerprint_of_sparse_rows():
    y, s = np.array([True, False]), np.arange(2)
    plain = csr_array(np.array([[0.0, 2.0], [1.0, 0.0]]))
    values = np.array([2.0, 0.0, 1.0]), np.array([1, 0, 0]), np.array([0, 2, 3])
    with_zero = csr_array(values, shape=(2, 2))
    other = csr_array(np.array([[2.0, 0.0], [1.0, 0.0]]))
    assert Fingerprint.of(plain, y, s, None) == Fingerprint.of(with_zero, y, s, None)
    assert Fingerprint.of(plain, y, s, None) != Fingerprint.of(other, y, s, None)


def test_unhashable_values_change_the_fingerprint():
    X = np.empty((2, 1), dtype=object)
    X[:, 0] = [[1], [2]]
    y, s = np.array([True, False]), np.arange(2)
    assert Fingerprint.of(X, y, s, None) != Fingerprint.of(X[::-1], y, s, None)


def test_a_proof_can_be_written_as_json(tmp_path):
    assert json.dumps(dataclasses.asdict(proof_of(fitted(), tmp_path)))


def test_a_guarantee_against_a_reference_is_tested_again_with_the_rates_of_the_fit(tmp_path):
    data = GaussianProblem.random(levels=(2,), seed=3).sample(3000, seed=0)
    asked = eh.NoWorse("true-positive rate", margin=-0.05) & eh.RateBound("selection rate", at_most=0.6)
    fair = eh.FairPostprocessor(
        LogisticRegression(), asked, aware=True, posteriors=eh.CrossFit(2), guarantee=0.9
    )
    fair.fit(data.X, data.y, sensitive_features=data.sensitive)
    assert fair.guarantee_.holds
    eh.save(fair, tmp_path / "m.eh")
    found = eh.verify(tmp_path / "m.eh", data=(data.X, data.y), sensitive_features=data.sensitive)
    assert found.proof.confirmed
    assert eh.load(tmp_path / "m.eh").guarantee_.internal == fair.guarantee_.internal
