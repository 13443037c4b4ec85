"""``evenhand fit`` and ``evenhand frontier``."""

import json
import re

import numpy as np
import polars as pl
import pytest
from tests.cli.helpers import refused, run

import evenhand as eh
from evenhand.cli.exit_codes import UNDECIDED, VIOLATED
from evenhand.cli.table_rows import split_rows
from evenhand.datasets import load_compas

FIT = ["--target", "paid", "--sensitive", "sex", "--estimator", "logistic"]


@pytest.fixture
def only_checks(monkeypatch):
    """The call should be refused before any row is read."""

    def read(*_, **__):
        raise AssertionError("rows were read")

    monkeypatch.setattr("evenhand.cli.table_files.read_table", read)


@pytest.fixture
def only_reads(monkeypatch):
    """The call should be refused before anything is fitted."""

    def fit(*_, **__):
        raise AssertionError("something was fitted")

    monkeypatch.setattr("evenhand.FairPostprocessor.fit", fit)


def test_the_frontier_of_a_file(capsys, tmp_path):
    compas = load_compas()
    table = compas.features.with_columns(compas.label.alias("label"))
    table = table.with_columns(
        **{name: compas.sensitive[name] for name in compas.sensitive.columns if name not in table.columns}
    )
    table.head(1500).write_csv(tmp_path / "train.csv")
    call = ["frontier", tmp_path / "train.csv", "--tolerances", "6", "--estimator", "logistic"]
    call += ["--sensitive", ",".join(compas.sensitive.columns), "--target"]
    code, out, _ = run(capsys, *call, "label", "--aware", "--out", tmp_path / "f.html")
    assert code == 0
    assert out.count("tolerance  accuracy") == 2
    page = (tmp_path / "f.html").read_text("utf-8")
    assert 'id="tolerance"' in page
    assert re.search(r"of 6 tolerances(, blind clearly satisfies| can it be decided whether blind)", page)
    # The curve comes first.
    assert page.index('id="frontier"') < page.index("<table") < page.index("<details>")
    assert "tables: the blind classifier of tolerance 0." in page
    assert "did you mean 'label'?" in refused(capsys, *call, "labels")


def test_a_guarantee_and_a_report_of_a_model(loans, capsys, tmp_path):
    model, page = tmp_path / "m.eh", tmp_path / "r.html"
    call = ["fit", loans / "train.csv", *FIT, "--difference", "0.15", "--confidence", "0.9", "--aware"]
    _, out, _ = run(capsys, *call, "--out", model, "--report", page, "--json")
    found = json.loads(out)
    assert found["guarantee"]["holds"]
    assert found["proof"]["risk"] >= found["proof"]["bound"] - 1e-9
    assert "<strong>Guaranteed.</strong>" in page.read_text("utf-8")
    proof, internal = found["proof"], eh.load(model).guarantee_.internal
    assert (proof["asked"], proof["requirement"]) == ("DemographicParity(difference=0.15)", repr(internal))
    assert proof["asked"] != proof["requirement"]
    assert "tighter than what was asked for, DemographicParity(difference=0.15)" in proof["text"]


def test_test_rows_do_not_depend_on_labels():
    """Otherwise intervals on them would not reflect the sampling error of the labels."""
    X = pl.DataFrame({"id": range(100)})
    drawn = [split_rows(X, pl.Series(labels), 0.25)[1][0] for labels in ([0, 1] * 50, [0] * 80 + [1] * 20)]
    assert drawn[0].equals(drawn[1])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["post", "in"])
@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
def test_a_failed_guarantee_and_a_constant_model_are_reported(capsys, tmp_path, method):
    """The feature is noise, and no file is large enough for a tolerance of 0.0002."""
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], 400)
    noise, paid = rng.normal(size=400), np.where(rng.random(400) < 0.9, "yes", "no")
    pl.DataFrame({"noise": noise, "sex": sex, "paid": paid}).write_csv(tmp_path / "t.csv")
    call = ["fit", tmp_path / "t.csv", *FIT[:4], "--difference", "0.0002", "--confidence", "0.9"]
    call += ["--method", method, "--out", tmp_path / "m.eh"]
    code, out, _ = run(capsys, *call)
    assert code in (UNDECIDED, VIOLATED)
    assert "cannot be guaranteed" in out
    assert "The classifier returned was fitted for" in out
    assert out.endswith("m.eh, saved although its guarantee does not hold\n")
    assert ("constant: this model decides" in out) == ("The classifier is constant" in out)
    assert "constant: this model decides yes for every test row" in out
    code, out, _ = run(capsys, *call, "--force", "--json")
    found = json.loads(out)
    assert (found["constant"], found["guarantee"]["holds"]) == (True, False)


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
def test_the_risk_of_a_trained_classifier_is_reported_under_the_posteriors(loans, capsys, tmp_path):
    call = ["fit", loans / "train.csv", *FIT, "--difference", "0.1", "--method", "in", "--json"]
    _, out, _ = run(capsys, *call, "--out", tmp_path / "m.eh")
    proof = json.loads(out)["proof"]
    assert f"has a risk (half the error) below {proof['bound']:.6f}; " in proof["text"]
    assert f"this one has {proof['risk']:.6f} and violates" in proof["text"]
    found = eh.load(tmp_path / "m.eh").certificate_
    assert (proof["risk"], proof["violation"]) == (found.objective, found.violation)


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
def test_a_mixture_can_be_trained_saved_and_used(loans, capsys, tmp_path):
    model, out = tmp_path / "m.eh", tmp_path / "decisions.csv"
    call = ["fit", loans / "train.csv", *FIT, "--difference", "0.02", "--method", "in", "--randomize"]
    run(capsys, *call, "--out", model)
    assert eh.load(model).randomize
    code, _, _ = run(capsys, "predict", model, loans / "new.csv", "--out", out)
    assert code == 0
    assert out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--difference", "0.1", "--randomize"], "--randomize is for --method in"),
        ([], "no tolerance: pass --difference or --ratio"),
        (["--difference", "0.1", "--test-share", "2"], "--test-share should be strictly between 0 and 1"),
        (["--difference", "0.1", "--sensitive", "sexe"], "did you mean 'sex'?"),
        (["--difference", "0.1", "--confidence", "1"], "confidence should be strictly between 0 and 1"),
        (["--difference", "1.5"], "from 0 to 1"),
        (["--difference", "0.1", "--ratio", "0.8"], "pass --difference or --ratio, not both"),
        (["--difference", "0.1", "--test", "new.csv", "--test-share", "0.3"], "--test or --test-share"),
        (["--difference", "0.1", "--test", "none.csv"], "there is no file none.csv"),
        (["--difference", "0.1", "--test", "{loans}/new.csv"], "new.csv has no column 'paid'"),
        (["--difference", "0.1", "--sensitive", "paid"], "'paid' is both --target and --sensitive"),
        (["--difference", "0.1", "--report", "{out}"], "is named for two outputs"),
        (["--difference", "0.1", "--report", "{loans}/train.csv", "--force"], "is also an input"),
        (["--difference", "0.1", "--method", "pots"], 'Did you mean "post"?'),
    ],
    ids=str,
)
@pytest.mark.usefixtures("only_checks")
def test_a_wrong_fit_is_one_sentence(loans, capsys, tmp_path, arguments, message):
    call = ["fit", loans / "train.csv", "--target", "paid", "--out", tmp_path / "m.eh"]
    call += [] if "--sensitive" in arguments else ["--sensitive", "sex"]
    formatted = [argument.format(loans=loans, out=tmp_path / "m.eh") for argument in arguments]
    assert message in refused(capsys, *call, *formatted)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tolerances", "1"], "--tolerances should be at least 2"),
        (["--test-share", "0"], "--test-share should be strictly between 0 and 1"),
        (["--out", "no/where.html"], "there is no folder no"),
        (["--notion", "equal-oportunity"], 'Did you mean "equal-opportunity"?'),
    ],
    ids=str,
)
@pytest.mark.usefixtures("only_checks")
def test_a_wrong_frontier_is_one_sentence(loans, capsys, arguments, message):
    assert message in refused(capsys, "frontier", loans / "train.csv", *FIT, *arguments)


def without_some_labels(table):
    return table.with_columns(paid=pl.when(pl.col("id") > 4).then(pl.col("paid")))


def with_other_labels(table):
    return table.with_columns(paid=pl.col("paid").str.to_uppercase())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without_some_labels, "'paid' of t.csv is missing in 5 of 1,000 rows"),
        (lambda table: table.head(0), "t.csv has no rows"),
        (lambda table: table.head(1), "'paid' of t.csv has only one class"),
        (lambda table: table.with_columns(paid=pl.col("id") % 3), "'paid' of t.csv has 3 classes"),
    ],
    ids=["missing labels", "no rows", "one row", "three labels"],
)
@pytest.mark.parametrize("command", ["fit", "frontier"])
@pytest.mark.usefixtures("only_reads")
def test_rows_that_cannot_be_learned_from(loans, capsys, tmp_path, *, command, change, message):
    change(pl.read_csv(loans / "train.csv")).write_csv(tmp_path / "t.csv")
    call = [command, tmp_path / "t.csv", *FIT, "--out", tmp_path / "m"]
    assert message in refused(capsys, *call, *(["--difference", "0.4"] if command == "fit" else []))


@pytest.mark.usefixtures("only_reads")
def test_files_and_columns_may_be_called_like_parameters(loans, capsys, tmp_path):
    table = without_some_labels(pl.read_csv(loans / "train.csv")).rename({"paid": "y_true"})
    table.write_csv(tmp_path / "y_true.csv")
    call = ["fit", tmp_path / "y_true.csv", "--target", "y_true", "--sensitive", "sex", "--difference", "0.4"]
    assert "'y_true' of y_true.csv is missing" in refused(capsys, *call, "--out", tmp_path / "m.eh")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop("income"), "test.csv has no column 'income'"),
        (lambda table: table.head(0), "test.csv has no rows"),
        (without_some_labels, "'paid' of test.csv is missing in 5"),
        (with_other_labels, "'paid' is 'NO' or 'YES' in test.csv, but 'no' or 'yes' in train.csv"),
        (lambda table: table.filter(paid="yes"), "'paid' of test.csv has only one class ('yes')"),
    ],
    ids=["no feature", "no rows", "missing labels", "other labels", "one label"],
)
@pytest.mark.usefixtures("only_reads")
def test_a_file_that_cannot_be_tested_on_is_named(loans, capsys, tmp_path, change, message):
    change(pl.read_csv(loans / "train.csv")).write_csv(tmp_path / "test.csv")
    call = ["fit", loans / "train.csv", *FIT, "--difference", "0.4", "--out", tmp_path / "m.eh"]
    assert message in refused(capsys, *call, "--test", tmp_path / "test.csv")


@pytest.mark.parametrize(
    ("share", "message"),
    [("0.0001", "leaves 1 of 1,000 rows to test on"), ("0.9999", "none to learn from")],
)
@pytest.mark.usefixtures("only_reads")
def test_both_parts_need_both_labels(loans, capsys, tmp_path, share, message):
    call = ["fit", loans / "train.csv", *FIT, "--difference", "0.4", "--out", tmp_path / "m.eh"]
    err = refused(capsys, *call, "--test-share", share)
    assert f"--test-share {share}" in err
    assert message in err


def test_a_test_file_may_have_more_columns_in_another_order(loans, capsys, tmp_path):
    table = pl.read_csv(loans / "train.csv")
    table.select("paid", "job", pl.lit(1).alias("more"), "income", "sex", "id").write_csv(tmp_path / "t.csv")
    call = ["fit", loans / "train.csv", *FIT, "--drop", "id", "--difference", "0.4"]
    code, out, _ = run(capsys, *call, "--test", tmp_path / "t.csv", "--out", tmp_path / "m.eh")
    assert code in (0, UNDECIDED)
    assert "Audit of 1000 rows" in out.replace(",", "")


def test_a_missing_sensitive_value_can_be_a_group(loans, capsys, tmp_path):
    page, model = tmp_path / "r.html", tmp_path / "m.eh"
    sensitive = ["--sensitive", "job", "--difference", "0.4"]
    fit = ["--target", "paid", "--estimator", "logistic"]
    calls = [
        ["audit", loans / "train.csv", "--prediction", "paid", *sensitive],
        ["fit", loans / "train.csv", *fit, *sensitive, "--aware", "--out", model, "--report", page],
        ["frontier", loans / "train.csv", *fit, "--tolerances", "3", *sensitive[:2]],
    ]
    for call in calls:
        code, out, err = run(capsys, *call)
        assert (code != 0, out) == (True, "")
        assert err.endswith(" --missing category.\n")
        assert run(capsys, *call, "--missing", "category")[0] in (0, UNDECIDED)
    assert "job=(missing)" in page.read_text("utf-8")
