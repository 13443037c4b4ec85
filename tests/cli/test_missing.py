"""``--missing exclude``."""

import numpy as np
import polars as pl
import pytest
from tests.cli.helpers import refused, run


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """A file in which sex is missing in some rows, and decisions."""
    rng = np.random.default_rng(2)
    n = 900
    sex = rng.choice(["F", "M"], n)
    income = rng.normal(np.where(sex == "F", 0.0, 0.5), 1.0)
    paid = np.where(rng.random(n) < 1 / (1 + np.exp(-2 * income)), "yes", "no")
    shown = [None if hidden else value for value, hidden in zip(sex, rng.random(n) < 0.1, strict=True)]
    path = tmp_path_factory.mktemp("missing") / "people.csv"
    pl.DataFrame({"sex": shown, "income": income, "paid": paid, "d": (income > 0).astype(int)}).write_csv(
        path
    )
    return path


def test_an_audit_of_a_file_excludes_rows(people, capsys):
    call = ["audit", people, "--prediction", "d", "--sensitive", "sex"]
    lacking = pl.read_csv(people)["sex"].null_count()
    assert f"missing in {lacking} of 900 rows" in refused(capsys, *call)
    assert "--missing exclude" in refused(capsys, *call)
    _, out, _ = run(capsys, *call, "--missing", "exclude")
    assert f"{lacking} of 900 rows lack a sensitive value and are left out: {lacking} lack sex." in out
    assert f"Audit of {900 - lacking} rows" in out


def test_a_fit_to_a_file_excludes_rows(people, capsys, tmp_path):
    call = ["fit", people, "--target", "paid", "--sensitive", "sex", "--difference", "0.2", "--drop", "d"]
    _, out, _ = run(capsys, *call, "--missing", "exclude", "--out", tmp_path / "blind.eh")
    assert "fit: " in out
    assert out.count("lack a sensitive value and are left out") == 2  # of test rows, and of fit
    decided = tmp_path / "decided.csv"
    assert run(capsys, "predict", tmp_path / "blind.eh", people, "--out", decided)[0] == 0
    assert pl.read_csv(decided).height == 900
    report = tmp_path / "report.html"
    _, _, err = run(
        capsys, *call, "--missing", "exclude", "--aware", "--out", tmp_path / "aware.eh", "--report", report
    )
    assert "test rows lack a sensitive feature that decisions use" in err
    assert "Of the rows that the model was fitted to: " in report.read_text()
    message = refused(capsys, "predict", tmp_path / "aware.eh", people, "--out", tmp_path / "no.csv")
    assert "'sex' is missing in" in message
    assert "decisions use it" in message


def test_files_read_in_batches_leave_rows_out_too(people, capsys, tmp_path):
    call = ["fit", people, "--target", "paid", "--sensitive", "sex", "--difference", "0.2"]
    out = ["--out", tmp_path / "m.eh"]
    assert run(capsys, *call, *out, "--max-samples", "300", "--missing", "exclude")[0] in (0, 4)
    assert "exclude" in run(capsys, *call, *out, "--missing", "drop")[2]
