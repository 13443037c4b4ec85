"""``evenhand alternatives``: from a file to the page and the record."""

import json

import numpy as np
import polars as pl
import pytest
from tests.cli.helpers import refused, run
from tests.less_discriminatory.test_search import WEIGHTS, Linear, drawn


@pytest.fixture(scope="module")
def loans(tmp_path_factory):
    X, y, sex = drawn(1_500, 0)
    path = tmp_path_factory.mktemp("loans") / "loans.csv"
    table = pl.DataFrame(X, schema=["a", "b", "c"]).with_columns(
        sex=pl.Series(sex),
        paid=pl.Series(np.where(y, "yes", "no")),
        approved=pl.Series(np.where(Linear(WEIGHTS).predict(X), "yes", "no")),
        score=pl.Series(X @ WEIGHTS),
        known=pl.Series([None, *np.where(y[1:], "yes", "no")]),
    )
    table.write_csv(path)
    return path


@pytest.fixture
def call(loans):
    return ["alternatives", loans, "--target", "paid", "--sensitive", "sex", "--reference", "sex=M"]


def test_decisions_of_a_file_are_compared(call, capsys, tmp_path):
    page = tmp_path / "page.html"
    own = ["--prediction", "approved", "--drop", "score,known", "--estimator", "logistic", "--margin", "0.05"]
    code, out, err = run(capsys, *call, *own, "--out", page, "--json")
    assert code == 0
    found = json.loads(out)
    assert found["candidates"][0]["name"] == "incumbent"
    assert {one["kind"] for one in found["candidates"]} >= {"incumbent", "seeds", "fair"}
    assert found["candidates"][0]["auc"] is None
    assert {"without a", "without b", "without c"} <= {one["name"] for one in found["candidates"]}
    assert not [one for one in found["missing"] if "could not be tried" in one]
    assert f"Page: {page}" in err
    assert "check with counsel" in page.read_text()


def test_what_is_missing_is_said(call, capsys):
    assert "--prediction, or its scores as --score" in refused(capsys, *call)
    assert "pass --approval-rate" in refused(capsys, *call, "--score", "score")
    unknown = ["known" if one == "paid" else one for one in call]
    assert "--target is missing" in refused(capsys, *unknown, "--prediction", "approved")
    both = ["--score", "score", "--prediction", "approved"]
    assert "--prediction, or its scores as --score" in refused(capsys, *call, *both)
