import json
import os
import re
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from evenhand.cli.rows import divided
from evenhand.cli.running import FAILED, UNDECIDED, VIOLATED, main
from evenhand.cli.telling import in_options
from evenhand.datasets import load_compas
from evenhand.exceptions import InputError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    sex = rng.choice(["F", "M"], 3000)
    y = rng.integers(0, 2, 3000)
    apart = np.where(sex == "F", rng.random(3000) < 0.2, rng.random(3000) < 0.6).astype(int)
    table = pl.DataFrame(
        {
            "y": y,
            "apart": apart,
            "alike": rng.integers(0, 2, 3000),
            "chance": rng.random(3000),
            "answer": np.where(apart, "yes", "no"),
            "sex": sex,
            "race": rng.choice(["a", "b, c", "\x1b[31mred"], 3000),
            "weight": rng.random(3000),
        }
    )
    table.write_csv(place / "p.csv")
    table.write_parquet(place / "p.parquet")
    table.head(30).write_csv(place / "few.csv")
    (place / "broken.parquet").write_bytes(b"PAR1 not really")
    (place / "empty.csv").write_text("")
    return place


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    out = capsys.readouterr()
    return ended.value.code, out.out, out.err


@pytest.fixture
def only_checks(monkeypatch):
    """A call that should be refused before any row is read."""

    def read(*_, **__):
        raise AssertionError("rows were read")

    monkeypatch.setattr("evenhand.cli.files.read_table", read)


@pytest.mark.parametrize("name", ["p.csv", "p.parquet"])
def test_a_violated_audit_can_be_told_from_an_error(folder, capsys, name):
    base = ["audit", folder / name, "--label", "y", "--sensitive", "sex"]
    code, out, _ = run(capsys, *base, "--prediction", "apart", "--difference", "0.05")
    assert code == VIOLATED
    assert "violated (tolerance 0.05)" in out
    code, out, _ = run(capsys, *base, "--prediction", "alike", "--difference", "0.3")
    assert code == 0
    assert "satisfied" in out
    code, _, _ = run(capsys, *base, "--prediction", "apart")
    assert code == 0  # nothing is asked for


def test_too_few_rows_have_a_code_of_their_own(folder, capsys):
    few = ["audit", folder / "few.csv", "--prediction", "alike", "--sensitive", "sex", "--ratio", "0.8"]
    assert run(capsys, *few)[0] == UNDECIDED


def test_several_notions_weights_and_earlier_decisions(folder, capsys):
    code, out, _ = run(
        capsys,
        *("audit", folder / "p.csv", "--label", "y", "--prediction", "apart", "--sensitive", "sex, race"),
        *("--before", "alike", "--weight", "weight", "--difference", "0.1", "--groups", "independent"),
        *("--notion", "equal-opportunity", "predictive-equality"),
    )
    assert code == VIOLATED
    assert "equal opportunity, difference" in out
    assert "changed" in out
    assert "\x1b" not in out


def test_scores_are_decided_by_a_threshold_and_that_is_said(folder, capsys):
    asked = ["audit", folder / "p.csv", "--prediction", "chance", "--sensitive", "sex"]
    _, out, _ = run(capsys, *asked)
    assert "probabilities of a randomised decision" in out
    _, out, _ = run(capsys, *asked, "--label", "y", "--threshold", "0.9")
    assert "selected from 0.9 on" in out
    _, out, _ = run(capsys, *asked, "--threshold", "0.9", "--json")
    chances = pl.read_csv(folder / "p.csv")["chance"]
    assert json.loads(out)["groups"][0]["selected"] == (chances >= 0.9).sum()


@pytest.mark.parametrize(
    ("prediction", "threshold", "message"),
    [
        ("chance", "nan", "--threshold should be a finite number"),
        ("answer", "0.5", "--threshold is for scores, but --prediction holds no numbers"),
    ],
)
def test_a_threshold_that_cannot_be_used_is_one_sentence(folder, capsys, prediction, threshold, message):
    asked = ["audit", folder / "p.csv", "--prediction", prediction, "--sensitive", "sex"]
    code, _, err = run(capsys, *asked, "--threshold", threshold)
    assert code == FAILED
    assert message in err


def test_json_for_machines(folder, capsys):
    asked = ["audit", folder / "p.csv", "--prediction", "answer", "--sensitive", "sex", "--json"]
    _, out, _ = run(capsys, *asked, "--positive", "yes")
    found = json.loads(out)
    _, out, _ = run(capsys, *asked, "--positive", "no")
    turned = json.loads(out)
    assert found["groups"][0]["selected"] + turned["groups"][0]["selected"] == 3000


def test_a_report_is_written_and_not_overwritten(folder, capsys, tmp_path):
    page = tmp_path / "audit.html"
    asked = ["audit", folder / "p.csv", "--prediction", "apart", "--sensitive", "sex", "--report", page]
    code, _, err = run(capsys, *asked)
    assert code == 0
    assert "The same as a page" in err
    assert "<title>Audit of p.csv</title>" in page.read_text("utf-8")
    code, out, err = run(capsys, *asked)
    assert (code, out) == (FAILED, "")
    assert "use --force" in err
    assert run(capsys, *asked, "--force")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--prediction", "apart", "--sensitive", "sexx"], "has no column 'sexx': did you mean 'sex'?"),
        (["--prediction", "zzz", "--sensitive", "sex"], "has no column 'zzz': it has 'y', 'apart'"),
        (["--prediction", "apart", "--sensitive", " , "], "--sensitive should name columns"),
        (["--prediction", "apart", "--sensitive", "chance"], "distinct values"),
        (["--prediction", "race", "--sensitive", "sex"], "'race' has 3 values ('"),
        (["--prediction", "race", "--label", "y", "--sensitive", "sex"], "--prediction holds '"),
        (["--prediction", "apart", "--label", "race", "--sensitive", "sex"], "--label has 3 classes"),
        (["--prediction", "apart", "--weight", "race", "--sensitive", "sex"], "--weight should be numbers"),
        (["--prediction", "apart", "--before", "answer", "--sensitive", "sex"], "--before holds 'no'"),
        (
            ["--prediction", "apart", "--label", "y", "--sensitive", "sex", "--positive", "7"],
            "--positive '7' is not a value of --label",
        ),
        (
            ["--prediction", "apart", "--sensitive", "sex", "--difference", "0.1", "--ratio", "0.8"],
            "give --difference or --ratio, not both",
        ),
        (["--prediction", "apart", "--sensitive", "sex", "--difference", "7"], "from 0 to 1"),
        (["--prediction", "apart", "--sensitive", "sex", "--confidence", "1"], "between 0 and 1"),
        (["--prediction", "apart", "--sensitive", "sex", "--confidence", "-1"], "between 0 and 1"),
        (["--prediction", "apart", "--sensitive", "sex", "--confidence", "nan"], "between 0 and 1"),
        (["--prediction", "apart", "--sensitive", "sex", "--min-count", "-1"], "--min-count should be"),
        (["--prediction", "apart", "--sensitive", "sex", "--diference", "0.1"], "Did you mean --difference?"),
        (["--prediction", "apart", "--sensitive", "sex", "--ratio", "0.8x"], "unable to convert"),
        (["--prediction", "apart"], "--sensitive"),
        (["--prediction", "apart", "--sensitive", "sex", "--notion", "parity"], "parity"),
        (
            ["--prediction", "apart", "--sensitive", "sex", "--report", "no/where.html"],
            "there is no folder no",
        ),
        (["--prediction", "apart", "--sensitive", "sex", "--report", "."], ". is a folder"),
    ],
    ids=str,
)
def test_a_wrong_call_is_one_sentence(folder, capsys, arguments, message):
    code, out, err = run(capsys, "audit", folder / "p.csv", *arguments)
    assert (code, out) == (FAILED, "")
    assert message in err
    assert err.startswith("evenhand: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing.csv", "there is no file"),
        ("broken.parquet", "cannot be read"),
        ("empty.csv", "cannot be read"),
    ],
)
def test_files_that_cannot_be_read(folder, capsys, name, message):
    code, _, err = run(capsys, "audit", folder / name, "--prediction", "a", "--sensitive", "b")
    assert code == FAILED
    assert message in err


def test_the_frontier_of_a_file(capsys, tmp_path):
    compas = load_compas()
    table = compas.features.with_columns(compas.label.alias("label"))
    table = table.with_columns(
        **{name: compas.sensitive[name] for name in compas.sensitive.columns if name not in table.columns}
    )
    table.write_csv(tmp_path / "train.csv")
    asked = ["frontier", tmp_path / "train.csv", "--target", "label", "--tolerances", "6"]
    asked += ["--sensitive", ",".join(compas.sensitive.columns)]
    code, out, _ = run(capsys, *asked, "--aware", "--out", tmp_path / "f.html")
    assert code == 0
    assert out.count("tolerance  accuracy") == 2
    page = (tmp_path / "f.html").read_text("utf-8")
    assert 'id="tolerance"' in page
    assert re.search(r"of 6 tolerances(, blind clearly satisfies| can be told whether blind keeps it)", page)
    # The curve comes first.
    assert page.index('id="frontier"') < page.index("<table") < page.index("<details>")
    assert "tables: the blind classifier of tolerance 0." in page
    code, _, err = run(capsys, *asked[:2], "--target", "labels", "--sensitive", "sex")
    assert code == FAILED
    assert "did you mean 'label'?" in err


def test_help_is_quick_and_needs_none_of_the_heavy_libraries():
    code = (
        "import sys; from evenhand.cli.commands import app; app(['--help'], result_action='return_value');"
        "print([name for name in ('numpy', 'polars', 'sklearn', 'altair') if name in sys.modules])"
    )
    environment = {**os.environ, "COLUMNS": "80"}
    command = [sys.executable, "-c", code]
    told = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout  # noqa: S603
    assert "audit" in told
    assert told.strip().endswith("[]")


def test_the_command_is_installed():
    from importlib.metadata import entry_points

    [command] = entry_points(group="console_scripts", name="evenhand")
    assert command.value == "evenhand.__main__:main"


@pytest.fixture(scope="module")
def loans(tmp_path_factory):
    place = tmp_path_factory.mktemp("loans")
    rng = np.random.default_rng(1)
    n = 1500
    sex = rng.choice(["F", "M"], n)
    income = rng.normal(np.where(sex == "F", 0.0, 0.6), 1.0)
    job = rng.choice(["=cook", "clerk", None], n)
    paid = np.where(rng.random(n) < 1 / (1 + np.exp(-1.5 * income)), "yes", "no")
    table = pl.DataFrame({"id": range(n), "sex": sex, "income": income, "job": job, "paid": paid})
    table.head(1000).write_csv(place / "train.csv")
    table.tail(500).drop("paid").write_csv(place / "new.csv")
    return place


@pytest.mark.parametrize("method", ["post", "in"])
@pytest.mark.parametrize("aware", [[], ["--aware"]], ids=["blind", "aware"])
@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
def test_fit_verify_and_predict_from_files(loans, capsys, tmp_path, method, aware):
    model, out = tmp_path / "m.eh", tmp_path / "d.csv"
    asked = ["fit", loans / "train.csv", "--target", "paid", "--sensitive", "sex", "--difference", "0.4"]
    code, told, _ = run(capsys, *asked, "--method", method, *aware, "--out", model)
    assert code in (0, UNDECIDED)
    assert "that satisfies DemographicParity(difference=0.4)" in told
    assert "has a risk (half the error) below" in told
    assert ("this one has" in told) == (method == "post")
    code, told, _ = run(capsys, "verify", model)
    assert code == 0
    assert "complete and unaltered" in told
    code, told, _ = run(capsys, "predict", model, loans / "new.csv", "--out", out, "--rows", "120")
    assert (code, told) == (0, f"500 rows decided: {out}\n")
    decided = pl.read_csv(out)
    assert decided["id"].to_list() == list(range(1000, 1500))
    assert set(decided["decision"]) <= {"yes", "no"}
    assert decided["job"].drop_nulls().str.starts_with("'=").any()
    from evenhand import load

    new = pl.read_csv(loans / "new.csv")
    kept = load(model)
    seen = new.select([name for name in kept.feature_names_in_ if name in new.columns])
    assert (decided["decision"].to_numpy() == kept.predict(seen)).all()
    code, _, err = run(capsys, "predict", model, loans / "new.csv", "--out", out)
    assert code == FAILED
    assert "use --force" in err


def test_the_proof_is_computed_again_from_the_file_of_the_fit(loans, capsys, tmp_path):
    table = pl.read_csv(loans / "train.csv")
    table.write_parquet(tmp_path / "t.parquet")
    table.tail(600).write_csv(tmp_path / "other.csv")
    model = tmp_path / "m.eh"
    asked = ["fit", loans / "train.csv", "--target", "paid", "--sensitive", "sex", "--difference", "0.2"]
    run(capsys, *asked, "--out", model)
    for path in (loans / "train.csv", tmp_path / "t.parquet"):
        code, told, _ = run(capsys, "verify", model, "--data", path)
        assert code == 0
        assert "proof         proven on 750 rows" in told
    code, told, _ = run(capsys, "verify", model, "--data", tmp_path / "other.csv", "--json")
    assert code == VIOLATED
    assert json.loads(told)["proof"]["verdict"].endswith("there are 600 of them and not 1,000.")
    code, told, err = run(capsys, "verify", model, "--data", loans / "new.csv")
    assert (code, told) == (FAILED, "")
    assert "has no column 'paid'" in err
    run(capsys, *asked, "--out", model, "--force", "--test", tmp_path / "other.csv")
    assert "proven on 1,000 rows" in run(capsys, "verify", model, "--data", loans / "train.csv")[1]


def test_what_is_other_in_a_file_is_what_is_told(loans, capsys, tmp_path):
    table, path, model = pl.read_csv(loans / "train.csv"), tmp_path / "t.csv", tmp_path / "m.eh"
    asked = ["fit", loans / "train.csv", "--target", "paid", "--sensitive", "sex", "--difference", "0.2"]
    run(capsys, *asked, "--out", model)
    flipped = pl.when(pl.col("id") == 5).then(pl.lit("yes")).otherwise(pl.lit("no"))
    others = {
        "their labels differ": [
            table.with_columns(paid=pl.when(pl.col("id") < 20).then(flipped).otherwise(pl.col("paid"))),
            table.with_columns(paid=pl.col("paid").str.to_uppercase()),
            table.with_columns(paid=pl.lit("yes")),
            table.with_columns(paid=pl.when(pl.col("id") > 9).then(pl.col("paid"))),
        ],
        "their features differ": [table.with_columns(pl.col("income") + 1)],
        "there are 1,001 of them and not 1,000": [pl.concat([table, table.head(1)])],
        "there is no column 'job' and the fit had no column 'work'": [table.rename({"job": "work"})],
        "there is no column 'sex'": [table.drop("sex")],
        "the fit had no column 'more'": [table.with_columns(more=1)],
    }
    for message, tables in others.items():
        for other in tables:
            other.write_csv(path)
            code, told, err = run(capsys, "verify", model, "--data", path)
            assert (code, err) == (VIOLATED, "")
            assert told.endswith(f"not confirmed: these are not the rows of the fit: {message}.\n")
    table.reverse().write_csv(path)
    code, told, _ = run(capsys, "verify", model, "--data", path)
    assert code == VIOLATED
    assert "not confirmed: these are the rows of the fit in another order: sort them" in told
    table.select(reversed(table.columns)).write_csv(path)
    code, told, _ = run(capsys, "verify", model, "--data", path)
    assert code == 0
    assert "proven on 750 rows" in told


def test_a_model_of_no_file_is_proven_in_python(loans, capsys, tmp_path):
    import evenhand as eh

    table = pl.read_csv(loans / "train.csv")
    fair = eh.FairPostprocessor(constraint=eh.DemographicParity(difference=0.3), sensitive_features="sex")
    eh.save(fair.fit(table.drop("paid"), table["paid"]), tmp_path / "m.eh")
    code, _, err = run(capsys, "verify", tmp_path / "m.eh", "--data", loans / "train.csv")
    assert code == FAILED
    assert "was not made by evenhand fit" in err


def test_a_promise_and_a_report_of_a_model(loans, capsys, tmp_path):
    page = tmp_path / "r.html"
    asked = ["fit", loans / "train.csv", "--target", "paid", "--sensitive", "sex", "--difference", "0.15"]
    asked += ["--confidence", "0.9", "--aware", "--out", tmp_path / "m.eh", "--report", page, "--json"]
    _, told, _ = run(capsys, *asked)
    found = json.loads(told)
    assert found["promise"]["holds"]
    assert found["proof"]["risk"] >= found["proof"]["bound"] - 1e-9
    assert "<strong>Promised.</strong>" in page.read_text("utf-8")
    from evenhand import load

    proof, internal = found["proof"], load(tmp_path / "m.eh").promise_.internal
    assert (proof["asked"], proof["requirement"]) == ("DemographicParity(difference=0.15)", repr(internal))
    assert proof["asked"] != proof["requirement"]
    assert "tighter than what was asked for, DemographicParity(difference=0.15)" in proof["text"]


def test_test_rows_are_drawn_without_a_look_at_labels():
    """Otherwise intervals on them would not see the sampling error of the labels that were learned from."""
    X = pl.DataFrame({"id": range(100)})
    drawn = [divided(X, pl.Series(labels), 0.25)[1][0] for labels in ([0, 1] * 50, [0] * 80 + [1] * 20)]
    assert drawn[0].equals(drawn[1])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["post", "in"])
@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
def test_a_failed_promise_and_a_constant_model_are_told(capsys, tmp_path, method):
    """Nothing tells people apart, and no file is large enough for a tolerance of 0.0002."""
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], 400)
    noise, paid = rng.normal(size=400), np.where(rng.random(400) < 0.9, "yes", "no")
    pl.DataFrame({"noise": noise, "sex": sex, "paid": paid}).write_csv(tmp_path / "t.csv")
    asked = ["fit", tmp_path / "t.csv", "--target", "paid", "--sensitive", "sex", "--difference", "0.0002"]
    asked += ["--confidence", "0.9", "--method", method, "--out", tmp_path / "m.eh"]
    code, told, _ = run(capsys, *asked)
    assert code in (UNDECIDED, VIOLATED)
    assert "cannot be promised" in told
    assert "What is returned is the most careful classifier, made for" in told
    assert told.endswith("m.eh, saved although nothing can be promised of it\n")
    assert ("constant: this model decides" in told) == ("It is a constant" in told)
    assert "constant: this model decides yes for every test row" in told
    code, told, _ = run(capsys, *asked, "--force", "--json")
    found = json.loads(told)
    assert (found["constant"], found["promise"]["holds"]) == (True, False)


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
def test_of_a_trained_classifier_only_the_bound_is_told(loans, capsys, tmp_path):
    """Its certificate is of the rule that it imitates, whose risk is not its own."""
    asked = ["fit", loans / "train.csv", "--target", "paid", "--sensitive", "sex", "--difference", "0.1"]
    _, told, _ = run(capsys, *asked, "--method", "in", "--json", "--out", tmp_path / "m.eh")
    proof = json.loads(told)["proof"]
    assert (proof["risk"], proof["violation"]) == (None, None)
    assert f"below {proof['bound']:.6f}; what it attains is for an audit to say" in proof["text"]


def test_a_spoilt_model_file_is_refused(loans, capsys, tmp_path):
    bad = tmp_path / "bad.eh"
    bad.write_bytes(b"not a model")
    code, told, _ = run(capsys, "verify", bad)
    assert code == FAILED
    assert told.startswith("file")
    code, _, err = run(capsys, "predict", bad, loans / "new.csv", "--out", tmp_path / "x.csv")
    assert code == FAILED
    assert err.startswith("evenhand: ")
    assert not (tmp_path / "x.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say what is asked for: --difference or --ratio"),
        (["--difference", "0.1", "--test-share", "2"], "--test-share should be strictly between 0 and 1"),
        (["--difference", "0.1", "--sensitive", "sexe"], "did you mean 'sex'?"),
        (["--difference", "0.1", "--confidence", "1"], "confidence should be strictly between 0 and 1"),
        (["--difference", "1.5"], "from 0 to 1"),
        (["--difference", "0.1", "--ratio", "0.8"], "give --difference or --ratio, not both"),
        (["--difference", "0.1", "--test", "new.csv", "--test-share", "0.3"], "--test or --test-share"),
        (["--difference", "0.1", "--test", "none.csv"], "there is no file none.csv"),
        (["--difference", "0.1", "--test", "{loans}/new.csv"], "new.csv has no column 'paid'"),
        (["--difference", "0.1", "--sensitive", "paid"], "'paid' is both --target and --sensitive"),
        (["--difference", "0.1", "--report", "{out}"], "is named twice"),
        (["--difference", "0.1", "--report", "{loans}/train.csv", "--force"], "is read as well"),
        (["--difference", "0.1", "--method", "pots"], 'Did you mean "post"?'),
    ],
    ids=str,
)
@pytest.mark.usefixtures("only_checks")
def test_a_wrong_fit_is_one_sentence(loans, capsys, tmp_path, arguments, message):
    asked = ["fit", loans / "train.csv", "--target", "paid", "--out", tmp_path / "m.eh"]
    asked += [] if "--sensitive" in arguments else ["--sensitive", "sex"]
    given = [argument.format(loans=loans, out=tmp_path / "m.eh") for argument in arguments]
    code, _, err = run(capsys, *asked, *given)
    assert code == FAILED
    assert message in err
    assert err.count("\n") == 1
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
    asked = ["frontier", loans / "train.csv", "--target", "paid", "--sensitive", "sex"]
    code, out, err = run(capsys, *asked, *arguments)
    assert (code, out) == (FAILED, "")
    assert message in err
    assert err.count("\n") == 1


@pytest.fixture
def only_reads(monkeypatch):
    """A call that should be refused before anything is learned."""

    def fit(*_, **__):
        raise AssertionError("something was learned")

    monkeypatch.setattr("evenhand.FairPostprocessor.fit", fit)


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
    asked = [command, tmp_path / "t.csv", "--target", "paid", "--sensitive", "sex", "--out", tmp_path / "m"]
    code, out, err = run(capsys, *asked, *(["--difference", "0.4"] if command == "fit" else []))
    assert (code, out) == (FAILED, "")
    assert message in err
    assert err.count("\n") == 1


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
def test_a_file_that_cannot_be_judged_on_is_named(loans, capsys, tmp_path, change, message):
    change(pl.read_csv(loans / "train.csv")).write_csv(tmp_path / "test.csv")
    asked = ["fit", loans / "train.csv", "--target", "paid", "--sensitive", "sex", "--difference", "0.4"]
    code, _, err = run(capsys, *asked, "--test", tmp_path / "test.csv", "--out", tmp_path / "m.eh")
    assert code == FAILED
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("share", "message"),
    [("0.0001", "leaves 1 of 1,000 rows to judge on"), ("0.9999", "none to learn from")],
)
@pytest.mark.usefixtures("only_reads")
def test_both_parts_need_both_labels(loans, capsys, tmp_path, share, message):
    asked = ["fit", loans / "train.csv", "--target", "paid", "--sensitive", "sex", "--difference", "0.4"]
    code, _, err = run(capsys, *asked, "--test-share", share, "--out", tmp_path / "m.eh")
    assert code == FAILED
    assert f"--test-share {share}" in err
    assert message in err


def test_a_test_file_may_have_more_columns_in_another_order(loans, capsys, tmp_path):
    table = pl.read_csv(loans / "train.csv")
    table.select("paid", "job", pl.lit(1).alias("more"), "income", "sex", "id").write_csv(tmp_path / "t.csv")
    asked = ["fit", loans / "train.csv", "--target", "paid", "--sensitive", "sex", "--difference", "0.4"]
    code, told, _ = run(capsys, *asked, "--test", tmp_path / "t.csv", "--out", tmp_path / "m.eh")
    assert code in (0, UNDECIDED)
    assert "Audit of 1000 rows" in told.replace(",", "")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_no_rows_are_decided_as_no_rows(loans, capsys, tmp_path, suffix):
    import evenhand as eh

    table = pl.read_csv(loans / "train.csv")
    fair = eh.FairPostprocessor(constraint=eh.DemographicParity(difference=0.3), sensitive_features="sex")
    eh.save(fair.fit(table.drop("paid"), table["paid"]), tmp_path / "m.eh")
    out = tmp_path / f"d.{suffix}"
    getattr(pl.read_csv(loans / "new.csv").head(0), f"write_{suffix}")(tmp_path / f"new.{suffix}")
    code, told, _ = run(capsys, "predict", tmp_path / "m.eh", tmp_path / f"new.{suffix}", "--out", out)
    assert (code, told) == (0, f"0 rows decided: {out}\n")
    decided = getattr(pl, f"read_{suffix}")(out)
    assert decided.columns == ["id", "sex", "income", "job", "decision", "probability"]
    assert decided.height == 0
    if suffix == "parquet":
        assert decided.schema["decision"] == pl.String
        assert decided.schema["income"] == pl.Float64


def test_a_positive_label_is_found_as_it_is_written(capsys, tmp_path):
    rows = {"b": [True, False, False, True], "f": [1.0, 2.0, 2.0, 1.0], "s": ["u", "v", "u", "v"]}
    pl.DataFrame(rows).write_csv(tmp_path / "t.csv")
    for column, positive in (("b", "true"), ("b", "True"), ("f", "1"), ("f", "1.0")):
        asked = ["audit", tmp_path / "t.csv", "--prediction", column, "--sensitive", "s"]
        code, told, _ = run(capsys, *asked, "--positive", positive, "--label", column, "--json")
        assert code == 0
        assert json.loads(told)["groups"][0]["rates"]["error rate"]["value"] == 0
        assert json.loads(told)["groups"][0]["selected"] == 2


def test_the_decision_that_sorts_last_is_positive(folder, capsys, tmp_path):
    asked = ["--sensitive", "sex", "--json"]
    told = [
        run(capsys, "audit", folder / "p.csv", "--prediction", "answer", *asked, *more)[1]
        for more in ([], ["--positive", "yes"])
    ]
    assert told[0] == told[1]
    pl.DataFrame({"p": ["no", "no"], "sex": ["F", "M"]}).write_csv(tmp_path / "t.csv")
    code, _, err = run(capsys, "audit", tmp_path / "t.csv", "--prediction", "p", *asked)
    assert code == FAILED
    assert "'p' holds only 'no': say which is positive with --positive" in err


def test_names_in_quotes_are_not_options():
    with pytest.raises(InputError, match=r"^'y_true' of y_true\.csv"), in_options():
        raise InputError("'y_true' of y_true.csv is missing.")


def test_a_missing_sensitive_value_can_be_a_group(loans, capsys, tmp_path):
    page, model = tmp_path / "r.html", tmp_path / "m.eh"
    about = ["--sensitive", "job", "--difference", "0.4"]
    calls = [
        ["audit", loans / "train.csv", "--prediction", "paid", *about],
        ["fit", loans / "train.csv", "--target", "paid", *about, "--aware", "--out", model, "--report", page],
        ["frontier", loans / "train.csv", "--target", "paid", "--tolerances", "3", *about[:2]],
    ]
    for call in calls:
        code, out, err = run(capsys, *call)
        assert (code, out) == (FAILED, "")
        assert "Fill them in, drop them, or use --missing own-group.\n" in err
        assert run(capsys, *call, "--missing", "own-group")[0] in (0, UNDECIDED)
    assert "job=(missing)" in page.read_text("utf-8")


UNREAD = """
import os, sys
from evenhand.cli.running import main
read, write = os.pipe()
os.close(read)
os.dup2(write, 1)
main(sys.argv[1:])
"""


@pytest.mark.slow
def test_a_pipe_that_nobody_reads_is_no_error(folder, tmp_path):
    """As with head: the page is written all the same, and the exit code is that of the audit."""
    page = tmp_path / "r.html"
    asked = ["audit", folder / "p.csv", "--prediction", "apart", "--sensitive", "sex", "--report", page]
    command = [sys.executable, "-c", UNREAD, *map(str, asked), "--difference", "0.05"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
    assert (done.returncode, done.stderr) == (VIOLATED, f"The same as a page: {page}\n")
    assert page.exists()


def test_a_pipe_that_closes_elsewhere_has_a_code_of_its_own(folder, capsys, monkeypatch):
    def closed(*_, **__):
        raise BrokenPipeError

    monkeypatch.setattr("evenhand.cli.running.app", closed)
    assert run(capsys, "--help") == (141, "", "")


def test_a_column_may_have_a_comma_in_its_name(capsys, tmp_path):
    rows = {"p": [0, 1, 1, 0] * 5, "job, title": ["a", "b"] * 10, "sex": ["F", "M", "M", "F"] * 5}
    pl.DataFrame(rows).write_csv(tmp_path / "t.csv")
    asked = ["audit", tmp_path / "t.csv", "--prediction", "p", "--sensitive", "job, title"]
    assert "by job, title." in run(capsys, *asked)[1]
    assert "by job, title, sex." in run(capsys, *asked, "--sensitive", "sex")[1]


def test_a_test_file_instead_of_a_share(loans, capsys, tmp_path):
    asked = ["fit", loans / "train.csv", "--target", "paid", "--sensitive", "sex", "--difference", "0.4"]
    asked += ["--test", loans / "train.csv", "--out", tmp_path / "m.eh"]
    _, told, _ = run(capsys, *asked)
    assert "Audit of 1000 rows" in told.replace(",", "")


def test_a_wrong_command_suggests_the_right_one(capsys):
    code, _, err = run(capsys, "audti")
    assert code == FAILED
    assert 'Did you mean "audit"?' in err


def test_without_its_packages_the_command_says_what_to_install():
    code = "import sys; sys.modules['cyclopts'] = None; from evenhand.__main__ import main; main()"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    assert told.returncode == 1
    assert told.stderr == (
        "evenhand: this needs the package 'cyclopts'; install it with: pip install 'evenhand[cli]'\n"
    )


def test_a_full_disk_is_one_sentence(folder, capsys, tmp_path, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    asked = ["audit", folder / "p.csv", "--prediction", "apart", "--sensitive", "sex"]
    code, _, err = run(capsys, *asked, "--report", tmp_path / "a.html")
    assert code == FAILED
    assert err.endswith("evenhand: [Errno 28] No space left on device\n")
    assert list(tmp_path.iterdir()) == []


def test_probabilities_are_of_the_positive_label_also_if_it_sorts_first(loans, capsys, tmp_path):
    import evenhand as eh

    table, model, out = pl.read_csv(loans / "train.csv"), tmp_path / "m.eh", tmp_path / "d.csv"
    asked = ["fit", loans / "train.csv", "--target", "paid", "--sensitive", "sex", "--difference", "0.4"]
    run(capsys, *asked, "--positive", "no", "--aware", "--out", model)
    table.drop("paid").write_csv(tmp_path / "same.csv")
    run(capsys, "predict", model, tmp_path / "same.csv", "--out", out)
    decided, kept = pl.read_csv(out), eh.load(model)
    assert (kept.classes_.tolist(), kept.pos_label_) == (["no", "yes"], "no")
    sure = decided.filter(pl.col("probability").is_in([0.0, 1.0]))
    assert ((sure["probability"] == 1) == (sure["decision"] == "no")).all()
    assert (decided["decision"] == table["paid"]).mean() > 0.6
    code, told, _ = run(capsys, "verify", model, "--data", loans / "train.csv")
    assert (code, "proven on" in told) == (0, True)
