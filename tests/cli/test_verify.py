"""``evenhand verify``."""

import json

import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from tests.cli.helpers import refused, run

import evenhand as eh
from evenhand.cli.exit_codes import FAILED, VIOLATED


def test_the_proof_is_computed_again_from_the_file_of_the_fit(loans, fitted, capsys, tmp_path):
    table = pl.read_csv(loans / "train.csv")
    table.write_parquet(tmp_path / "t.parquet")
    table.tail(600).write_csv(tmp_path / "other.csv")
    for path in (loans / "train.csv", tmp_path / "t.parquet"):
        code, text, _ = run(capsys, "verify", fitted, "--data", path)
        assert code == 0
        assert f"proof         proven on {eh.load(fitted).fitted_to_.rows} rows" in text
    code, text, _ = run(capsys, "verify", fitted, "--data", tmp_path / "other.csv", "--json")
    assert code == VIOLATED
    assert "of them and not" in json.loads(text)["proof"]["verdict"]
    assert "has no column 'paid'" in refused(capsys, "verify", fitted, "--data", loans / "new.csv")


def test_with_a_test_file_all_rows_are_learned_from(loans, capsys, tmp_path):
    pl.read_csv(loans / "train.csv").tail(600).write_csv(tmp_path / "test.csv")
    model = tmp_path / "m.eh"
    call = ["fit", loans / "train.csv", "--target", "paid", "--sensitive", "sex", "--difference", "0.2"]
    call += ["--estimator", "logistic", "--test", tmp_path / "test.csv"]
    assert "Audit of 600 rows" in run(capsys, *call, "--out", model)[1]
    assert "proven on 1,000 rows" in run(capsys, "verify", model, "--data", loans / "train.csv")[1]


TABLES = {
    "one label changed": lambda table: table.with_columns(
        paid=pl.when(pl.col("id") == 4)
        .then(pl.when(pl.col("paid") == "yes").then(pl.lit("no")).otherwise(pl.lit("yes")))
        .otherwise(pl.col("paid"))
    ),
    "one label for all": lambda table: table.with_columns(paid=pl.lit("yes")),
    "missing labels": lambda table: table.with_columns(paid=pl.when(pl.col("id") > 9).then(pl.col("paid"))),
    "other features": lambda table: table.with_columns(pl.col("income") + 1),
    "one row more": lambda table: pl.concat([table, table.head(1)]),
    "a renamed column": lambda table: table.rename({"job": "work"}),
    "no sensitive feature": lambda table: table.drop("sex"),
    "one column more": lambda table: table.with_columns(more=1),
}
DIFFERENCES = {
    "one label changed": "these are not the rows of the fit: their labels differ.",
    "one label for all": "y ('paid') has only one class ('yes'), and two are needed.",
    "missing labels": "y ('paid') is missing in ",
    "other features": "these are not the rows of the fit: their features differ.",
    "one row more": "these are not the rows of the fit: there are ",
    "a renamed column": "there is no column 'job' and the fit had no column 'work'.",
    "no sensitive feature": "there is no column 'sex'.",
    "one column more": "these are not the rows of the fit: the fit had no column 'more'.",
}


@pytest.mark.parametrize("change", TABLES)
def test_how_a_file_differs_from_that_of_the_fit_is_said(loans, fitted, capsys, tmp_path, change):
    TABLES[change](pl.read_csv(loans / "train.csv")).write_csv(tmp_path / "t.csv")
    code, text, err = run(capsys, "verify", fitted, "--data", tmp_path / "t.csv")
    assert (code, err) == (VIOLATED, "")
    assert "proof         not confirmed: " in text
    assert DIFFERENCES[change] in text


def test_the_order_of_rows_counts_and_that_of_columns_does_not(loans, fitted, capsys, tmp_path):
    table, path = pl.read_csv(loans / "train.csv"), tmp_path / "t.csv"
    table.reverse().write_csv(path)
    code, text, _ = run(capsys, "verify", fitted, "--data", path)
    assert code == VIOLATED
    assert "not confirmed: these are not the rows of the fit: their labels" in text
    table.select(reversed(table.columns)).write_csv(path)
    code, text, _ = run(capsys, "verify", fitted, "--data", path)
    assert code == 0
    assert f"proven on {eh.load(fitted).fitted_to_.rows} rows" in text


def test_a_model_that_was_not_fitted_to_a_file(loans, capsys, tmp_path):
    table = pl.read_csv(loans / "train.csv")
    fair = eh.FairPostprocessor(
        LogisticRegression(), eh.DemographicParity(difference=0.3), sensitive_features="sex"
    )
    eh.save(fair.fit(table.select("income", "sex"), table["paid"]), tmp_path / "m.eh")
    err = refused(capsys, "verify", tmp_path / "m.eh", "--data", loans / "train.csv")
    assert "was not written by evenhand fit" in err


def test_a_file_that_is_no_model_is_refused(loans, capsys, tmp_path):
    bad = tmp_path / "bad.eh"
    bad.write_bytes(b"not a model")
    code, text, _ = run(capsys, "verify", bad)
    assert code == FAILED
    assert text.startswith("file")
    refused(capsys, "predict", bad, loans / "new.csv", "--out", tmp_path / "x.csv")
    assert not (tmp_path / "x.csv").exists()
