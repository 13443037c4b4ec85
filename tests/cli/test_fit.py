"""``evenhand fit`` and ``evenhand frontier``."""

import json
import re

import numpy as np
import polars as pl
import pytest
from tests.cli.helpers import refused, run

import evenhand as eh
from evenhand.cli.exit_codes import UNDECIDED, VIOLATED
from evenhand.data.batched_table import BatchedTable
from evenhand.datasets import load_compas

FIT = ["--target", "paid", "--sensitive", "sex", "--estimator", "logistic"]


@pytest.fixture
def only_checks(monkeypatch):
    """The call should be refused before any row is read."""

    def read(*_, **__):
        raise AssertionError("rows were read")

    monkeypatch.setattr(BatchedTable, "batches", read)


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
    assert out.count("forecast          mean difference") == 1
    assert out.count("\nblind ") == out.count("\naware ") == 6
    page = (tmp_path / "f.html").read_text("utf-8")
    assert 'id="tolerance"' in page
    assert re.search(r"blind clearly satisfies \d of 6 tolerances, and violates \d", page)
    # The curve comes first.
    assert page.index('id="frontier"') < page.index("<table") < page.index("<details>")
    assert "tables: the blind classifier of tolerance 0." in page
    assert "Did you mean 'label'?" in refused(capsys, *call, "labels")


def test_a_guarantee_and_a_report_of_a_model(loans, capsys, tmp_path):
    model, page = tmp_path / "m.eh", tmp_path / "r.html"
    call = ["fit", loans / "train.csv", *FIT, "--difference", "0.15", "--confidence", "0.9", "--aware"]
    _, out, _ = run(capsys, *call, "--out", model, "--report", page, "--json")
    found = json.loads(out)
    assert found["guarantee"]["holds"]
    missed = found["proof"]["violation"]  # thresholds at ranks are not those that were proven
    assert found["proof"]["risk"] >= found["proof"]["bound"] - max(missed, 1e-9)
    assert "<strong>Guaranteed.</strong>" in page.read_text("utf-8")
    proof, internal = found["proof"], eh.load(model).guarantee_.internal
    assert (proof["asked"], proof["requirement"]) == ("DemographicParity(difference=0.15)", repr(internal))
    assert proof["asked"] != proof["requirement"]
    assert "tighter than what was asked for, DemographicParity(difference=0.15)" in proof["text"]


def test_test_rows_do_not_depend_on_labels(capsys, tmp_path):
    """Otherwise intervals on them would not reflect the sampling error of the labels."""
    tested = []
    for k, labels in enumerate(([0, 1] * 50, [0] * 60 + [1] * 40)):
        table = pl.DataFrame({"x": range(100), "sex": ["F", "M", "M", "F"] * 25, "paid": labels})
        table.with_columns(x=pl.col("x") / 7).write_csv(tmp_path / "t.csv")
        call = ["fit", tmp_path / "t.csv", *FIT, "--difference", "0.9", "--out", tmp_path / f"{k}.eh"]
        run(capsys, *call)
        tested.append(eh.load(tmp_path / f"{k}.eh").fitted_to_)
    assert (tested[0].rows, tested[0].features) == (tested[1].rows, tested[1].features)
    assert tested[0].labels != tested[1].labels


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
    code, out, _ = run(capsys, *call, "--fail-on", "insufficient")
    assert code in (UNDECIDED, VIOLATED)
    assert "cannot be guaranteed" in out
    assert "The classifier returned was fitted for" in out
    assert out.endswith("m.eh, saved although its guarantee does not hold\n")
    assert ("constant: this model decides" in out) == ("The classifier is constant" in out)
    assert "constant: this model decides yes for every test row" in out
    code, out, _ = run(capsys, *call, "--force", "--json")
    assert code == 0  # gates are opt-in
    found = json.loads(out)
    assert (found["constant"], found["guarantee"]["holds"]) == (True, False)
    assert found["guarantee"]["attainable"].startswith("DemographicParity(difference=0.")
    assert found["guarantee"]["limiting"] in ("sex=f", "sex=m")
    known = found["guarantee"]["rows_needed"], found["guarantee"]["rows_needed_reason"]
    assert sum(one is None for one in known) == 1


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
        (["--difference", "0.1", "--test-share", "2"], "--test-share must be strictly between 0 and 1"),
        (["--difference", "0.1", "--sensitive", "sexe"], "Did you mean 'sex'?"),
        (["--difference", "0.1", "--confidence", "1"], "confidence must be strictly between 0 and 1"),
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
        (["--tolerances", "1"], "--tolerances must be at least 2"),
        (["--test-share", "0"], "--test-share must be strictly between 0 and 1"),
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
        (with_other_labels, "'paid' is 'NO' or 'YES' in test.csv, and 'no' or 'yes' in train.csv"),
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
    [("0.0001", "of 1,000 rows leaves too few to test on"), ("0.9999", "leaves too few to learn from")],
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


# Bands, margins, forecasts and gates


@pytest.fixture(scope="module")
def ages(tmp_path_factory):
    """Labelled rows with ages, as CSV."""
    place = tmp_path_factory.mktemp("ages")
    rng = np.random.default_rng(2)
    n = 1200
    age = rng.integers(18, 90, n)
    income = rng.normal(np.minimum(age, 60) / 40, 1.0)
    paid = np.where(rng.random(n) < 1 / (1 + np.exp(1 - income)), "yes", "no")
    table = pl.DataFrame({"age": age, "income": income, "paid": paid})
    table.write_csv(place / "train.csv")
    return place / "train.csv"


def test_ages_are_refused_without_bands(ages, tmp_path, capsys):
    call = [ages, "--target", "paid", "--sensitive", "age"]
    for command in (["fit", *call, "--difference", "0.1", "--out", tmp_path / "m"], ["frontier", *call]):
        message = refused(capsys, *command)
        assert "'age' has 72 different numbers" in message
        assert "--bands age=25,45,65" in message
    audit = ["audit", ages, "--prediction", "paid", "--sensitive", "age"]
    assert "--bands age=25,45,65" in refused(capsys, *audit)


def test_bands_are_groups_and_the_model_file_keeps_them(ages, tmp_path, capsys):
    model, decided = tmp_path / "m.eh", tmp_path / "d.csv"
    call = ["fit", ages, "--target", "paid", "--sensitive", "age", "--bands", "age=25,45,65", "--aware"]
    code, out, _ = run(capsys, *call, "--difference", "0.1", "--estimator", "logistic", "--out", model)
    assert code == 0
    for name in ("age=under 25", "age=25 to 44", "age=45 to 64", "age=65 and over"):
        assert name in out
    assert run(capsys, "verify", model, "--data", ages)[0] == 0
    assert run(capsys, "predict", model, ages, "--out", decided)[0] == 0  # with ages as they are
    rows = pl.read_csv(decided)
    assert rows.get_column("age").to_list() == pl.read_csv(ages).get_column("age").to_list()
    names = pl.Series(["under 25", "25 to 44", "45 to 64", "65 and over"])
    place = sum((rows.get_column("age") >= edge).cast(int) for edge in (25, 45, 65))
    banded = rows.select("income").with_columns(age=names[place.to_list()])
    assert (
        rows.get_column("decision").to_list()
        == eh.load(model).predict(banded.select("age", "income")).tolist()
    )
    code, out, _ = run(
        capsys, "audit", decided, "--prediction", "decision", "--sensitive", "age", "--bands", "age=45"
    )
    assert code == 0
    assert "age=under 45" in out
    assert "age=45 and over" in out


@pytest.mark.parametrize(
    ("bands", "message"),
    [
        ("income=1", "the name of a sensitive feature"),
        ("age", "the name of a sensitive feature"),
        ("age=x", "bands begin at numbers"),
        ("age=45,25", "numbers must increase"),
    ],
)
def test_wrong_bands_are_refused(ages, capsys, bands, message):
    call = ["audit", ages, "--prediction", "paid", "--sensitive", "age", "--bands", bands]
    assert message in refused(capsys, *call)


def test_text_has_no_bands(loans, capsys):
    call = ["audit", loans / "train.csv", "--prediction", "paid", "--sensitive", "sex", "--bands", "sex=1"]
    assert "bands need numbers" in refused(capsys, *call)


def test_codes_stay_groups_of_their_own(tmp_path, capsys):
    pl.DataFrame({"region": list(range(30)) * 20, "d": [0, 1, 1] * 200}).write_csv(tmp_path / "r.csv")
    call = ["audit", tmp_path / "r.csv", "--prediction", "d", "--sensitive", "region"]
    assert "are codes, --bands region=each" in refused(capsys, *call)
    code, out, _ = run(capsys, *call, "--bands", "region=each")
    assert code == 0
    assert "in 30 groups by region" in out


def test_fit_exits_0_unless_a_gate_is_asked_for(loans, tmp_path, capsys):
    call = ["fit", loans / "train.csv", "--target", "paid", "--sensitive", "sex", "--difference", "0.05"]
    call += ["--estimator", "logistic", "--force", "--out", tmp_path / "m"]
    code, out, _ = run(capsys, *call)
    assert code == 0
    assert "insufficient evidence" in out
    assert run(capsys, *call, "--fail-on", "violated")[0] == 0
    assert run(capsys, *call, "--fail-on", "insufficient")[0] == 4


def test_fit_says_what_was_asked_forecast_and_measured(loans, tmp_path, capsys):
    call = ["fit", loans / "train.csv", "--target", "paid", "--sensitive", "sex", "--difference", "0.01"]
    call += ["--drop", "id", "--aware", "--estimator", "logistic", "--force", "--out", tmp_path / "m"]
    _, out, _ = run(capsys, *call)
    [(rows, forecast, measured)] = re.findall(
        r"parity: asked for 0.010; forecast for (\d+) test rows: ([\d.]+); measured: ([\d.]+)\.", out
    )
    [expected] = eh.load(tmp_path / "m").forecast_.on(int(rows)).expected
    assert float(forecast) == pytest.approx(expected.value, abs=5e-4)
    assert f"difference  {measured} [" in out
    [population] = eh.load(tmp_path / "m").forecast_.expected
    _, tighter, _ = run(capsys, *call, "--margin", "forecast")
    assert re.search(r"margin: [\d.]+ standard errors, which cost a risk of", tighter)
    [kept] = eh.load(tmp_path / "m").forecast_.expected
    assert kept.value < population.value
    assert "--objective and --margin need --method post" in refused(
        capsys, *call, "--margin", "1", "--method", "in"
    )
    call[call.index("--difference")] = "--ratio"
    call[call.index("0.01")] = "0.8"
    assert "parity: asked for a ratio of 0.800; forecast for" in run(capsys, *call)[1]


def test_the_report_of_fit_compares_like_for_like(loans, tmp_path, capsys):
    call = ["fit", loans / "train.csv", "--target", "paid", "--sensitive", "sex", "--difference", "0.03"]
    call += ["--estimator", "logistic", "--out", tmp_path / "m", "--report", tmp_path / "card.md"]
    assert run(capsys, *call)[0] == 0
    card = (tmp_path / "card.md").read_text("utf-8")
    assert "by the plain model and 0." in card
    assert "by the same probabilities without the requirement" in card
    [row] = [line for line in card.splitlines() if line.startswith("| demographic parity |")]
    measured, plain, without = (float(row.split("|")[k].split()[0]) for k in (4, 6, 7))
    assert min(plain, without) > measured


def test_frontier_names_the_option_for_ratios(loans, capsys):
    call = ["frontier", loans / "train.csv", "--target", "paid", "--sensitive", "sex"]
    assert "--by-ratio" in refused(capsys, *call, "--ratio", "0.8")
