"""Proofs of models that were fitted in batches."""

import dataclasses

import numpy as np
import polars as pl
import pyarrow.dataset as ds
import pytest
from sklearn.linear_model import LogisticRegression
from xgboost import XGBClassifier

import evenhand as eh
from evenhand.datasets import GaussianProblem
from evenhand.exceptions import InputError
from evenhand.inputs import batched_table
from evenhand.solver.certificate import Certificate

N = 1500
DRAWN = GaussianProblem.random(levels=(2, 2), seed=5).sample(N, seed=0)
TABLE = pl.DataFrame(
    {
        **{f"x{k}": DRAWN.X[:, k] for k in range(DRAWN.X.shape[1])},
        **{name: DRAWN.sensitive[name] for name in ("A1", "A2")},
        "y": DRAWN.y,
        "w": np.random.default_rng(0).random(N),
    }
)
PLAIN = TABLE.drop("w")
BOOSTED = XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(batched_table, "BATCH_ROWS", 400)
    monkeypatch.setattr("evenhand.optimum.posterior_file._PART_BYTES", 7000)


def fitted(table=PLAIN, weight=None, **settings):
    model = eh.FairPostprocessor(
        **{
            "estimator": LogisticRegression(),
            "constraint": eh.DemographicParity(difference=0.05),
            "sensitive_features": ["A1", "A2"],
            "cv": 2,
            "learn_rows": 600,
            **settings,
        }
    )
    return model.fit(table.lazy(), "y", sample_weight=weight)


def proof_of(model, folder, data=None, **given):
    eh.save(model, folder / "m.eh", overwrite=True)
    return eh.verify(folder / "m.eh", data=data or (PLAIN.lazy(), "y"), **given).proof


SETTINGS = {
    "blind": {},
    "all rows": {"learn_rows": 10_000},
    "all rows in batches": {"learn_rows": None, "estimator": BOOSTED},
    "all rows in batches, aware": {"learn_rows": None, "estimator": BOOSTED, "aware": True},
    "aware": {"aware": True},
    "partly aware": {"aware": ["A2"]},
    "ratio": {"constraint": eh.EqualOpportunity(ratio=0.9)},
    "costs": {"cost": [10.0, 30.0]},
    "one split": {"cv": 0.4},
    "discrete": {"table": PLAIN.with_columns(pl.col("x0").round(0)), "aware": True},
    "discrete, blind": {"table": PLAIN.with_columns(pl.col("x0").round(0))},
    "weights": {"table": TABLE, "weight": "w"},
    "no seed": {"random_state": None},
    "a default learner": {"estimator": None},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
def test_the_proof_is_confirmed(settings, tmp_path):
    model = fitted(**settings)
    table = settings.get("table", PLAIN)
    proof = proof_of(model, tmp_path, (table.lazy(), "y"), sample_weight=settings.get("weight"))
    assert proof.confirmed, proof.verdict
    assert proof.verdict.startswith("proven on 1,500 rows: no classifier that satisfies")
    for name in ("objective", "bound", "violation"):
        assert getattr(proof.found, name) == pytest.approx(getattr(model.certificate_, name), abs=1e-9)


def test_columns_may_be_in_another_order_and_files_of_another_format(tmp_path):
    TABLE.select("y", "A2", "x0", "A1").write_parquet(tmp_path / "t.parquet")
    data = (ds.dataset(tmp_path / "t.parquet"), "y")
    assert proof_of(fitted(), tmp_path, data).confirmed


OTHERS = {
    "a value": (
        PLAIN.with_columns(x0=pl.when(pl.int_range(N) == 900).then(0.5).otherwise("x0")),
        "their features differ",
    ),
    "a label": (
        PLAIN.with_columns(y=pl.when(pl.int_range(N) == 900).then(1 - pl.col("y")).otherwise("y")),
        "their labels differ",
    ),
    "fewer": (PLAIN[:-1], "there are 1,499 of them and not 1,500"),
    "another order": (PLAIN.reverse(), "differ"),
    "another column": (PLAIN.with_columns(z=1), "the fit had no column 'z'"),
    "no column": (PLAIN.drop("x0"), "there is no column 'x0'"),
}


@pytest.mark.parametrize(("table", "words"), OTHERS.values(), ids=OTHERS)
def test_other_rows_are_recognised(table, words, tmp_path, monkeypatch):
    model = fitted()
    monkeypatch.setattr("evenhand.model_files.recertify_batches.learn_in_batches", None)  # and early
    proof = proof_of(model, tmp_path, (table.lazy(), "y"))
    assert not proof.confirmed
    assert proof.found is None
    assert words in proof.verdict
    assert "these are not the rows of the fit" in proof.verdict


@pytest.mark.parametrize("aware", [False, True])
def test_what_was_altered_is_found(aware, tmp_path):
    model = fitted(aware=aware)
    altered = {
        "bound": (
            "certificate_",
            dataclasses.replace(model.certificate_, bound=model.certificate_.bound + 0.01),
        ),
        "risk": ("certificate_", Certificate(0.0, model.certificate_.bound, 0.0)),
        "the rule does not follow": (
            "solved_rule_",
            dataclasses.replace(model.solved_rule_, table=model.solved_rule_.table + 0.1),
        ),
    }
    for word, (name, value) in altered.items():
        before = getattr(model, name)
        setattr(model, name, value)
        proof = proof_of(model, tmp_path)
        assert not proof.confirmed
        assert word in proof.verdict
        setattr(model, name, before)
    flipped = dataclasses.replace(model.rule_, table=-model.rule_.table)
    if not aware:
        model.rule_ = flipped
        assert "the decisions on these rows do not follow from the rule" in proof_of(model, tmp_path).verdict


def test_the_other_kind_of_table_is_one_sentence(tmp_path):
    with pytest.raises(
        InputError, match=r"fitted to a table that was read in batches: pass a lazy one, as to"
    ):
        proof_of(fitted(), tmp_path, (PLAIN.drop("y"), PLAIN["y"]))
    inside = fitted().fit(PLAIN.drop("y"), PLAIN["y"])
    with pytest.raises(InputError, match=r"fitted to a table in memory: collect the lazy one"):
        proof_of(inside, tmp_path, (PLAIN.lazy(), "y"))
    assert proof_of(inside, tmp_path, (PLAIN.drop("y"), PLAIN["y"])).confirmed


def test_nothing_is_left_behind(tmp_path, monkeypatch):
    model = fitted()
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    assert proof_of(model, tmp_path).confirmed
    assert list(folder.iterdir()) == []
