"""Columns that are left out, keys of randomised decisions, and the choice of a classifier."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.cli.helpers import refused, run

from evenhand import load
from evenhand.cli.exit_codes import FAILED
from evenhand.cli.table_files import index_columns
from evenhand.cli.table_rows import identifiers
from evenhand.exceptions import InputError

BASE = ["--target", "paid", "--sensitive", "sex", "--difference", "0.5", "--estimator", "logistic"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The same rows, with each kind of index that pandas writes."""
    folder = tmp_path_factory.mktemp("columns")
    rng = np.random.default_rng(1)
    n = 400
    sex = rng.choice(["F", "M"], n)
    income = rng.normal(np.where(sex == "F", 0.0, 0.6))
    table = pd.DataFrame(
        {
            "customer_id": [f"c{k}" for k in rng.permutation(n)],
            "sex": sex,
            "age": rng.choice(["young", "old"], n),
            "income": np.where(rng.random(n) < 0.1, np.nan, income),
            "job": rng.choice(["cook", "clerk", None], n),
            "member": rng.random(n) < 0.5,
            "paid": (rng.random(n) < 1 / (1 + np.exp(-1.5 * income))).astype(int),
        }
    )
    table.to_parquet(folder / "ranged.parquet")
    table.sample(frac=1, random_state=0).to_parquet(folder / "numbered.parquet")
    table.set_index("customer_id").to_parquet(folder / "named.parquet")
    table.to_csv(folder / "written.csv")
    table.drop(columns="paid").to_csv(folder / "new.csv", index=False)
    return folder


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ranged.parquet", []),
        ("numbered.parquet", ["__index_level_0__"]),
        ("named.parquet", []),
        ("written.csv", [""]),
        ("new.csv", []),
    ],
)
def test_the_index_of_a_pandas_table_is_known(place, name, expected):
    assert index_columns(place / name) == expected


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("numbered.parquet", "'__index_level_0__'"),
        ("written.csv", "the first"),
    ],
)
def test_row_numbers_are_not_learned_from(place, capsys, tmp_path, name, word):
    """The index is left out with a note, and predict and verify do not need it."""
    model = tmp_path / "m.eh"
    code, _, err = run(capsys, "fit", place / name, *BASE, "--drop", "customer_id", "--out", model)
    assert code != FAILED, err
    assert err.startswith(f"evenhand: {word}")
    assert "is the index of a pandas table, and is left out." in err
    assert err.count("\n") == 1
    assert sorted(load(model).feature_names_in_) == ["age", "income", "job", "member", "sex"]
    new = tmp_path / "new.csv"
    pl.read_csv(place / "new.csv").drop("customer_id", "sex").write_csv(new)
    assert run(capsys, "predict", model, new, "--out", tmp_path / "d.csv")[0] == 0
    code, told, _ = run(capsys, "verify", model, "--data", place / name)
    assert code == 0, told
    assert f"proven on {load(model).fitted_to_.rows} rows" in told


def test_a_named_index_is_a_column(place, capsys, tmp_path):
    model = tmp_path / "m.eh"
    call = [*BASE, "--id", "customer_id", "--out", model]
    code, _, err = run(capsys, "fit", place / "named.parquet", *call)
    assert (code != FAILED, err) == (True, "")
    assert load(model)._source.id == "customer_id"


def test_a_note_names_columns_with_a_different_value_in_every_row(place, capsys, tmp_path):
    """Measurements, which always differ, are not among them; an index with a name is."""
    model = tmp_path / "m.eh"
    code, _, err = run(capsys, "fit", place / "named.parquet", *BASE, "--out", model)
    assert code != FAILED
    assert err == (
        "evenhand: 'customer_id' has a different value in each of 400 rows: if it only identifies them, "
        "leave it out with --drop customer_id, or make it the key of randomised decisions with --id "
        "customer_id.\n"
    )
    assert "customer_id" in load(model).feature_names_in_


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
def test_the_id_is_the_key_of_randomised_decisions(capsys, tmp_path):
    """Rows with the same features differ in their decisions, which are the same in every run."""
    rng = np.random.default_rng(0)
    n = 800
    sex = rng.choice(["F", "M"], n)
    paid = (rng.random(n) < np.where(sex == "F", 0.3, 0.7)).astype(int)
    table = pl.DataFrame({"who": [f"p{k}" for k in range(n)], "sex": sex, "one": np.ones(n), "paid": paid})
    table.write_csv(tmp_path / "t.csv")
    table.drop("who", "paid").write_csv(tmp_path / "anonymous.csv")
    call = ["--target", "paid", "--sensitive", "sex", "--difference", "0.02", "--estimator", "logistic"]
    call += ["--aware", "--id", "who", "--out", tmp_path / "m.eh"]
    assert run(capsys, "fit", tmp_path / "t.csv", *call)[0] != FAILED
    for out, more in (("a.csv", []), ("b.csv", ["--id", "who", "--rows", "33"])):
        predict = ["predict", tmp_path / "m.eh", tmp_path / "t.csv", "--out", tmp_path / out]
        assert run(capsys, *predict, *more)[0] == 0
    first, again = (pl.read_csv(tmp_path / name) for name in ("a.csv", "b.csv"))
    assert first["decision"].equals(again["decision"])
    chances = first.filter(first["decision_probability"].is_not_null())
    assert chances["decision_probability"].is_between(0, 1, closed="none").all()
    assert len(chances) > 100
    assert set(chances["decision"]) == {0, 1}  # one row of features, two decisions
    code, _, err = run(
        capsys, "predict", tmp_path / "m.eh", tmp_path / "anonymous.csv", "--out", tmp_path / "c.csv"
    )
    assert code == 0
    assert "has no column 'who', the key of randomised decisions in the fit" in err


def test_some_features_may_be_used_and_small_groups_are_pooled(place, capsys, tmp_path):
    model = tmp_path / "m.eh"
    call = ["--target", "paid", "--sensitive", "sex,age", "--ratio", "0.1", "--estimator", "logistic"]
    call += ["--drop", "customer_id,job", "--aware", "sex", "--min-group-size", "60", "--json"]
    code, out, err = run(capsys, "fit", place / "ranged.parquet", *call, "--out", model)
    assert code != FAILED, err
    assert json.loads(out)["audit"]
    loaded = load(model)
    assert (loaded.aware, loaded.groups.min_size) == (["sex"], 60)
    assert min(loaded.groups_.counts) >= 60 or len(loaded.groups_) < 4
    assert loaded.access_.unused == ("age",)
    assert "job" not in loaded.feature_names_in_


def test_the_frontier_has_the_same_options(place, capsys):
    call = ["--target", "paid", "--sensitive", "sex,age", "--estimator", "logistic", "--tolerances", "2"]
    call += ["--drop", "customer_id", "--aware", "age", "--min-group-size", "10"]
    code, out, err = run(capsys, "frontier", place / "numbered.parquet", *call)
    assert code == 0, err
    assert "aware" in out
    assert err.startswith("evenhand: '__index_level_0__' of numbered.parquet is the index")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--drop", "custmer_id"], "has no column 'custmer_id'. Did you mean 'customer_id'?"),
        (["--id", "custmer_id"], "has no column 'custmer_id'. Did you mean 'customer_id'?"),
        (["--drop", "sex"], "'sex' is both --sensitive and --drop"),
        (["--id", "paid"], "'paid' is both --target and --id"),
        (["--id", "age", "--drop", "age"], "'age' is both --id and --drop"),
        (["--drop", ","], "--drop must name columns"),
        (["--aware", "sx"], "which is not among the sensitive features. Did you mean 'sex'?"),
        (["--min-group-size", "-1"], "--min-group-size must be a non-negative integer"),
        (["--estimator", "lgistic"], 'Did you mean "logistic"?'),
    ],
    ids=str,
)
def test_wrong_names_are_one_sentence(place, capsys, tmp_path, arguments, message):
    call = ["--target", "paid", "--sensitive", "sex", "--difference", "0.1", "--out", tmp_path / "m.eh"]
    assert message in refused(capsys, "fit", place / "ranged.parquet", *call, *arguments)


def test_a_column_that_a_linear_model_cannot_use_is_named():
    from evenhand.cli.estimators import estimator_for

    dates = pl.DataFrame({"day": pl.Series(["2026-01-01"]).str.to_date()})
    with pytest.raises(
        InputError, match="cannot learn from 'day', which holds Date: leave it out with --drop day"
    ):
        estimator_for("logistic", dates)


def test_a_file_of_options_may_have_these_options(place, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text(
        f'[fit]\ntable = "{place / "ranged.parquet"}"\ntarget = "paid"\nsensitive = ["sex", "age"]\n'
        'difference = 0.5\nestimator = "logistic"\ndrop = ["job"]\nid = "customer_id"\nmin-group-size = 10\n'
        'aware = ["age"]\nout = "m.eh"\n'
    )
    code, _, err = run(capsys, "fit", "--config", "run.toml")
    assert (code != FAILED, err) == (True, "")
    loaded = load("m.eh")
    assert (loaded.aware, loaded.groups.min_size) == (["age"], 10)
    assert sorted(loaded.feature_names_in_) == ["age", "income", "member", "sex"]


def test_identifiers_are_recognised_whatever_their_type():
    n = 300
    numbers = pl.Series(range(n))
    table = pl.DataFrame(
        {
            "text": numbers.cast(pl.String),
            "category": numbers.cast(pl.String).cast(pl.Categorical),
            "went through pandas": numbers.cast(pl.Float64),
            "some missing": pl.Series([None, None, *range(n - 2)]),
            "when": numbers.cast(pl.Datetime),
            "measured": numbers / 7,
            "mostly missing": pl.Series([*range(150), *[None] * 150]),
            "age": numbers % 60,
        }
    )
    assert identifiers(table) == ["text", "category", "when"]
    assert identifiers(table.head(100)) == []
