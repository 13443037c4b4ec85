"""Columns that the command line leaves out, keys by which people are known, and what learns."""

import json
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.cli.test_commands import run

from evenhand import load
from evenhand.cli.files import index_columns
from evenhand.cli.rows import row_names
from evenhand.cli.running import FAILED
from evenhand.exceptions import InputError

BASE = ["--target", "paid", "--sensitive", "sex", "--difference", "0.5", "--estimator", "logistic"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The same people, with an index of each kind that pandas writes."""
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
        ("named.parquet", ["customer_id"]),
        ("written.csv", [""]),
        ("new.csv", []),
    ],
)
def test_the_index_of_a_pandas_table_is_known(place, name, expected):
    assert index_columns(place / name) == expected


def test_what_a_file_says_of_its_index_may_be_anything(tmp_path):
    for said in ("no json", "[]", '{"index_columns": 3}', '{"index_columns": [{"kind": "range"}, "gone"]}'):
        pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "t.parquet", metadata={"pandas": said})
        assert index_columns(tmp_path / "t.parquet") == []


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("numbered.parquet", "'__index_level_0__'"),
        ("named.parquet", "'customer_id'"),
        ("written.csv", "the first"),
    ],
)
def test_row_numbers_are_not_learned_from(place, capsys, tmp_path, name, word):
    """The index is left out with a word, and not needed by predict and verify."""
    model = tmp_path / "m.eh"
    more = [] if name == "named.parquet" else ["--drop", "customer_id"]
    code, _, err = run(capsys, "fit", place / name, *BASE, *more, "--out", model)
    assert code != FAILED, err
    assert err.startswith(f"evenhand: {word}")
    assert "is the index of a pandas table, and is not learned from." in err
    assert err.count("\n") == 1
    assert sorted(load(model).feature_names_in_) == ["age", "income", "job", "member", "sex"]
    new = tmp_path / "new.csv"
    pl.read_csv(place / "new.csv").drop("customer_id", "sex").write_csv(new)
    assert run(capsys, "predict", model, new, "--out", tmp_path / "d.csv")[0] == 0
    code, told, _ = run(capsys, "verify", model, "--data", place / name)
    assert code == 0, told
    assert "proven on 300 rows" in told


def test_an_index_that_a_call_names_is_used(place, capsys, tmp_path):
    model = tmp_path / "m.eh"
    asked = [*BASE, "--id", "customer_id", "--out", model]
    code, _, err = run(capsys, "fit", place / "named.parquet", *asked)
    assert (code != FAILED, err) == (True, "")
    assert load(model)._source.id == "customer_id"


def test_columns_that_are_different_in_every_row_are_told(place, capsys, tmp_path):
    """Numbers and names; measurements differ anyway."""
    model = tmp_path / "m.eh"
    code, _, err = run(capsys, "fit", place / "ranged.parquet", *BASE, "--out", model)
    assert code != FAILED
    assert err == (
        "evenhand: 'customer_id' is different in every one of 300 rows: if it only names them, leave it out "
        "with --drop customer_id, or with --id customer_id if people are known by it.\n"
    )
    assert "customer_id" in load(model).feature_names_in_


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
def test_randomised_decisions_go_by_the_id(capsys, tmp_path):
    """ModelInput with the same features get decisions of their own, the same ones every time."""
    rng = np.random.default_rng(0)
    n = 800
    sex = rng.choice(["F", "M"], n)
    paid = (rng.random(n) < np.where(sex == "F", 0.3, 0.7)).astype(int)
    table = pl.DataFrame({"who": [f"p{k}" for k in range(n)], "sex": sex, "one": np.ones(n), "paid": paid})
    table.write_csv(tmp_path / "t.csv")
    table.drop("who", "paid").write_csv(tmp_path / "anonymous.csv")
    asked = ["--target", "paid", "--sensitive", "sex", "--difference", "0.02", "--estimator", "logistic"]
    asked += ["--aware", "--id", "who", "--out", tmp_path / "m.eh"]
    assert run(capsys, "fit", tmp_path / "t.csv", *asked)[0] != FAILED
    for out, more in (("a.csv", []), ("b.csv", ["--id", "who", "--rows", "33"])):
        assert (
            run(capsys, "predict", tmp_path / "m.eh", tmp_path / "t.csv", "--out", tmp_path / out, *more)[0]
            == 0
        )
    first, again = (pl.read_csv(tmp_path / name) for name in ("a.csv", "b.csv"))
    assert first["decision"].equals(again["decision"])
    chances = first.filter((first["probability"] > 0) & (first["probability"] < 1))
    assert len(chances) > 100
    assert set(chances["decision"]) == {0, 1}  # one row of features, two decisions
    code, _, err = run(
        capsys, "predict", tmp_path / "m.eh", tmp_path / "anonymous.csv", "--out", tmp_path / "c.csv"
    )
    assert code == 0
    assert "has no column 'who', by which people were known in the fit" in err


def test_some_features_may_be_used_and_small_groups_are_taken_together(place, capsys, tmp_path):
    model = tmp_path / "m.eh"
    asked = ["--target", "paid", "--sensitive", "sex,age", "--ratio", "0.1", "--estimator", "logistic"]
    asked += [
        "--drop",
        "customer_id,job",
        "--aware",
        "sex",
        "--min-group-size",
        "70",
        "--json",
        "--out",
        model,
    ]
    code, out, err = run(capsys, "fit", place / "ranged.parquet", *asked)
    assert code != FAILED, err
    assert json.loads(out)["audit"]
    kept = load(model)
    assert (kept.aware, kept.min_group_size) == (["sex"], 70)
    assert min(kept.groups_.counts) >= 70 or len(kept.groups_) < 4
    assert kept.access_.unused == ("age",)
    assert "job" not in kept.feature_names_in_


def test_the_frontier_has_the_same_options(place, capsys):
    asked = ["--target", "paid", "--sensitive", "sex,age", "--estimator", "logistic", "--tolerances", "2"]
    asked += ["--drop", "customer_id", "--aware", "age", "--min-group-size", "10"]
    code, out, err = run(capsys, "frontier", place / "numbered.parquet", *asked)
    assert code == 0, err
    assert "aware" in out
    assert err.startswith("evenhand: '__index_level_0__' of numbered.parquet is the index")
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_what_learns_can_be_chosen(place, capsys, tmp_path, name):
    model = tmp_path / "m.eh"
    asked = [*BASE[:-1], name, "--drop", "customer_id", "--test-share", "0.5", "--out", model]
    code, _, err = run(capsys, "fit", place / "ranged.parquet", *asked)
    assert (code != FAILED, err) == (True, "")
    assert type(load(model).estimator[-1]).__module__.startswith(name)
    assert run(capsys, "predict", model, place / "new.csv", "--out", tmp_path / "d.csv")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--drop", "custmer_id"], "has no column 'custmer_id': did you mean 'customer_id'?"),
        (["--id", "custmer_id"], "has no column 'custmer_id': did you mean 'customer_id'?"),
        (["--drop", "sex"], "'sex' is both --sensitive and --drop"),
        (["--id", "paid"], "'paid' is both --target and --id"),
        (["--id", "age", "--drop", "age"], "'age' is both --id and --drop"),
        (["--drop", ","], "--drop should name columns"),
        (["--aware", "sx"], "which is not among the sensitive features: did you mean 'sex'?"),
        (["--min-group-size", "-1"], "--min-group-size should be 0 or more"),
        (["--estimator", "lgistic"], 'Did you mean "logistic"?'),
    ],
    ids=str,
)
def test_wrong_names_are_one_sentence(place, capsys, tmp_path, arguments, message):
    asked = ["--target", "paid", "--sensitive", "sex", "--difference", "0.1", "--out", tmp_path / "m.eh"]
    code, _, err = run(capsys, "fit", place / "ranged.parquet", *asked, *arguments)
    assert code == FAILED
    assert message in err
    assert err.count("\n") == 1


def test_a_package_that_is_missing_is_named(place, capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    asked = [*BASE[:-1], "xgboost", "--drop", "customer_id", "--out", tmp_path / "m.eh"]
    code, _, err = run(capsys, "fit", place / "ranged.parquet", *asked)
    assert (code, err) == (
        FAILED,
        "evenhand: --estimator xgboost needs the package xgboost, which is not installed: "
        "pip install xgboost\n",
    )


def test_what_a_linear_model_cannot_read_is_said():
    from evenhand.cli.estimators import estimator_for

    dates = pl.DataFrame({"day": pl.Series(["2026-01-01"]).str.to_date()})
    with pytest.raises(
        InputError, match="cannot learn from 'day', which holds Date: leave it out with --drop day"
    ):
        estimator_for("logistic", dates)


def test_a_file_of_options_has_them_too(place, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text(
        f'[fit]\ntable = "{place / "ranged.parquet"}"\ntarget = "paid"\nsensitive = ["sex", "age"]\n'
        'difference = 0.5\nestimator = "logistic"\ndrop = ["job"]\nid = "customer_id"\nmin-group-size = 10\n'
        'aware = ["age"]\nout = "m.eh"\n'
    )
    code, _, err = run(capsys, "fit", "--config", "run.toml")
    assert (code != FAILED, err) == (True, "")
    kept = load("m.eh")
    assert (kept.aware, kept.min_group_size) == (["age"], 10)
    assert sorted(kept.feature_names_in_) == ["age", "income", "member", "sex"]


def test_columns_that_name_rows_are_known_whatever_their_type():
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
    assert row_names(table) == ["text", "category", "went through pandas", "some missing", "when"]
    assert row_names(table.head(100)) == []
