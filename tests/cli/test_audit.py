"""``evenhand audit``."""

import json

import numpy as np
import polars as pl
import pytest
from tests.auditing.helpers import assert_same
from tests.cli.helpers import refused, run

import evenhand as eh
from evenhand.cli.exit_codes import UNDECIDED, VIOLATED


@pytest.mark.parametrize("name", ["p.csv", "p.parquet"])
def test_a_violated_tolerance_has_its_own_exit_code(folder, capsys, name):
    base = ["audit", folder / name, "--label", "y", "--sensitive", "sex"]
    code, out, _ = run(capsys, *base, "--prediction", "apart", "--difference", "0.05")
    assert code == VIOLATED
    assert "violated (tolerance 0.05)" in out
    code, out, _ = run(capsys, *base, "--prediction", "alike", "--difference", "0.3")
    assert code == 0
    assert "satisfied" in out
    code, _, _ = run(capsys, *base, "--prediction", "apart")
    assert code == 0  # no tolerance is set


def test_insufficient_evidence_has_its_own_exit_code(folder, capsys):
    call = ["audit", folder / "few.csv", "--prediction", "alike", "--sensitive", "sex", "--ratio", "0.8"]
    assert run(capsys, *call)[0] == UNDECIDED


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


def test_the_output_says_how_scores_become_decisions(folder, capsys):
    call = ["audit", folder / "p.csv", "--prediction", "chance", "--sensitive", "sex"]
    _, out, _ = run(capsys, *call)
    assert "probabilities of a randomised decision" in out
    _, out, _ = run(capsys, *call, "--label", "y", "--threshold", "0.9")
    assert "score is at least 0.9" in out
    _, out, _ = run(capsys, *call, "--threshold", "0.9", "--json")
    chances = pl.read_csv(folder / "p.csv")["chance"]
    assert json.loads(out)["groups"][0]["selected"] == (chances >= 0.9).sum()


def audit_of(path, label, prediction, *, before=None, weight=None, **settings):
    """The audit of a file that is read into memory."""
    rows = pl.read_csv(path) if path.suffix == ".csv" else pl.read_parquet(path)
    columns = [None if name is None else rows[name] for name in (label, prediction, before, weight)]
    return eh.audit(
        *columns[:2], rows.select("sex", "race"), before=columns[2], sample_weight=columns[3], **settings
    )


@pytest.mark.parametrize("name", ["p.csv", "p.parquet"])
@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({"label": "y", "prediction": "apart", "before": "alike"}, {}),
        ({"label": "y", "prediction": "apart", "weight": "weight"}, {"min_count": 10, "confidence": 0.9}),
        ({"label": "y", "prediction": "chance", "before": "apart", "weight": "weight"}, {}),
        ({"label": None, "prediction": "chance", "before": "alike"}, {"threshold": 0.6}),
        ({"label": "answer", "prediction": "answer"}, {}),
    ],
    ids=str,
)
def test_a_file_is_audited_as_its_rows_are(folder, capsys, name, options, settings):
    given = [(key, value) for key, value in (options | settings).items() if value is not None]
    call = ["audit", folder / name, "--sensitive", "sex,race", "--json"]
    call += [text for key, value in given for text in (f"--{key.replace('_', '-')}", value)]
    code, out, _ = run(capsys, *call)
    assert code == 0
    expected = audit_of(folder / name, **options, **settings).to_dict()
    assert_same(json.loads(out), json.loads(json.dumps(expected)))


def test_the_report_is_that_of_the_rows(folder, capsys, tmp_path):
    call = ["audit", folder / "p.parquet", "--label", "y", "--prediction", "apart", "--sensitive", "sex,race"]
    assert run(capsys, *call, "--report", tmp_path / "of_file.html")[0] == 0
    found = audit_of(folder / "p.parquet", "y", "apart")
    eh.write_report(tmp_path / "of_rows.html", found, title="Audit of p.parquet")
    assert (tmp_path / "of_file.html").read_bytes() == (tmp_path / "of_rows.html").read_bytes()


@pytest.mark.parametrize("name", ["p.csv", "p.parquet"])
def test_rows_are_never_all_in_memory(folder, capsys, monkeypatch, name):
    collect, heights = pl.LazyFrame.collect, []

    def recorded(self, *args, **kwargs):
        result = collect(self, *args, **kwargs)
        heights.append(len(result))
        return result

    monkeypatch.setattr(pl.LazyFrame, "collect", recorded)
    call = ["audit", folder / name, "--prediction", "answer", "--sensitive", "sex,race", "--weight", "weight"]
    for more in ([], ["--positive", "yes"], ["--label", "answer", "--before", "answer"]):
        assert run(capsys, *call, *more)[0] == 0
    assert 0 < max(heights) <= 2 * 2 * 3  # decision, sex, race


def test_the_positive_label_can_be_chosen(folder, capsys):
    call = ["audit", folder / "p.csv", "--prediction", "answer", "--sensitive", "sex", "--json"]
    yes, no = (json.loads(run(capsys, *call, "--positive", label)[1]) for label in ("yes", "no"))
    assert yes["groups"][0]["selected"] + no["groups"][0]["selected"] == 3000


def test_by_default_the_decision_that_sorts_last_is_positive(folder, capsys, tmp_path):
    options = ["--sensitive", "sex", "--json"]
    call = ["audit", folder / "p.csv", "--prediction", "answer", *options]
    assert run(capsys, *call) == run(capsys, *call, "--positive", "yes")
    pl.DataFrame({"p": ["no", "no"], "sex": ["F", "M"]}).write_csv(tmp_path / "t.csv")
    err = refused(capsys, "audit", tmp_path / "t.csv", "--prediction", "p", *options)
    assert "--prediction holds 'no' in 2 of 2 rows, but the classes are 0 and 1" in err
    assert "or name the positive one by --positive" in err


def test_a_positive_label_is_read_as_a_value_of_its_column(capsys, tmp_path):
    rows = {"b": [True, False, False, True], "f": [1.0, 2.0, 2.0, 1.0], "s": ["u", "v", "u", "v"]}
    pl.DataFrame(rows).write_csv(tmp_path / "t.csv")
    for column, positive in (("b", "true"), ("b", "True"), ("f", "1"), ("f", "1.0")):
        call = ["audit", tmp_path / "t.csv", "--prediction", column, "--sensitive", "s"]
        code, out, _ = run(capsys, *call, "--positive", positive, "--label", column, "--json")
        assert code == 0
        assert json.loads(out)["groups"][0]["rates"]["error rate"]["value"] == 0
        assert json.loads(out)["groups"][0]["selected"] == 2


def test_a_column_may_have_a_comma_in_its_name(capsys, tmp_path):
    rows = {"p": [0, 1, 1, 0] * 5, "job, title": ["a", "b"] * 10, "sex": ["F", "M", "M", "F"] * 5}
    pl.DataFrame(rows).write_csv(tmp_path / "t.csv")
    call = ["audit", tmp_path / "t.csv", "--prediction", "p", "--sensitive", "job, title"]
    assert "by job, title." in run(capsys, *call)[1]
    assert "by job, title, sex." in run(capsys, *call, "--sensitive", "sex")[1]


def test_a_report_is_written_and_not_overwritten(folder, capsys, tmp_path):
    page = tmp_path / "audit.html"
    call = ["audit", folder / "p.csv", "--prediction", "apart", "--sensitive", "sex", "--report", page]
    code, _, err = run(capsys, *call)
    assert (code, err) == (0, f"Report: {page}\n")
    assert "<title>Audit of p.csv</title>" in page.read_text("utf-8")
    assert "use --force" in refused(capsys, *call)
    assert run(capsys, *call, "--force")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--prediction", "apart", "--sensitive", "sexx"], "has no column 'sexx'. Did you mean 'sex'?"),
        (["--prediction", "apart", "--sensitive", "SEX"], "has no column 'SEX'. Did you mean 'sex'?"),
        (["--prediction", "part", "--sensitive", "sex"], "has no column 'part'. Did you mean 'apart'"),
        (["--prediction", "zzz", "--sensitive", "sex"], "has no column 'zzz'. It has 'y', 'apart'"),
        (["--prediction", "apart", "--sensitive", " , "], "--sensitive must name columns"),
        (["--prediction", "apart", "--sensitive", "chance"], "3000 different numbers"),
        (["--prediction", "race", "--sensitive", "sex"], "'a', 'b, c' in 3,000 of 3,000 rows, but the cl"),
        (["--prediction", "id", "--sensitive", "sex"], "--prediction has more than 100 distinct values"),
        (["--prediction", "race", "--label", "y", "--sensitive", "sex"], "--prediction holds '"),
        (["--prediction", "apart", "--label", "race", "--sensitive", "sex"], "--label has 3 classes"),
        (["--prediction", "apart", "--weight", "race", "--sensitive", "sex"], "--weight must be numbers"),
        (["--prediction", "apart", "--before", "answer", "--sensitive", "sex"], "--before holds 'no'"),
        (
            ["--prediction", "apart", "--label", "y", "--sensitive", "sex", "--positive", "7"],
            "--positive '7' is not a value of --label",
        ),
        (
            ["--prediction", "apart", "--sensitive", "sex", "--difference", "0.1", "--ratio", "0.8"],
            "pass --difference or --ratio, not both",
        ),
        (["--prediction", "apart", "--sensitive", "sex", "--difference", "7"], "from 0 to 1"),
        (["--prediction", "apart", "--sensitive", "sex", "--confidence", "1"], "between 0 and 1"),
        (["--prediction", "apart", "--sensitive", "sex", "--confidence", "-1"], "between 0 and 1"),
        (["--prediction", "apart", "--sensitive", "sex", "--confidence", "nan"], "between 0 and 1"),
        (["--prediction", "apart", "--sensitive", "sex", "--min-count", "-1"], "--min-count must be"),
        (
            ["--prediction", "chance", "--sensitive", "sex", "--threshold", "nan"],
            "--threshold must be a finite number",
        ),
        (
            ["--prediction", "answer", "--sensitive", "sex", "--threshold", "0.5"],
            "--threshold is for scores, but --prediction holds no numbers",
        ),
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
    assert message in refused(capsys, "audit", folder / "p.csv", *arguments)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing.csv", "there is no file"),
        ("broken.parquet", "cannot be read"),
        ("empty.csv", "cannot be read"),
    ],
)
def test_files_that_cannot_be_read(folder, capsys, name, message):
    assert message in refused(capsys, "audit", folder / name, "--prediction", "a", "--sensitive", "b")


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_file_without_rows_is_refused(capsys, tmp_path, name):
    table = pl.DataFrame({"p": [], "s": []}, schema={"p": pl.Int64, "s": pl.String})
    (table.write_csv if name == "t.csv" else table.write_parquet)(tmp_path / name)
    err = refused(capsys, "audit", tmp_path / name, "--prediction", "p", "--sensitive", "s")
    assert err == f"evenhand: {name} has no rows.\n"


FIRST_READ = [["--label", "y"], [], ["--positive", "1"], ["--threshold", "0.5"]]
"""Options with which the prediction is first read for counts, its default, its values, or its range."""


@pytest.mark.parametrize("options", FIRST_READ, ids=str)
def test_a_column_that_changes_its_type_half_way_is_named(capsys, tmp_path, options):
    path = tmp_path / "t.csv"
    path.write_text("y,p,s\n" + "0,1,F\n1,0,M\n" * 20_000 + "1,maybe,M\n" + "0,1,F\n" * 20_000)
    err = refused(capsys, "audit", path, "--prediction", "p", "--sensitive", "s", *options)
    assert "t.csv cannot be read as a table: could not parse `maybe`" in err
    assert "'p'" in err


@pytest.mark.parametrize("options", FIRST_READ, ids=str)
def test_damage_in_the_middle_of_a_file_is_one_sentence(capsys, tmp_path, options):
    path, rng = tmp_path / "t.parquet", np.random.default_rng(0)
    columns = {name: rng.integers(0, 2, 100_000) for name in ("y", "p", "s")}
    pl.DataFrame(columns).write_parquet(path, row_group_size=10_000)
    content = path.read_bytes()
    half = len(content) // 2
    path.write_bytes(content[:half] + bytes(10_000) + content[half + 10_000 :])
    err = refused(capsys, "audit", path, "--prediction", "p", "--sensitive", "s", *options)
    assert err.startswith("evenhand: t.parquet cannot be read as a table: ")


def test_a_reference_adds_tests_of_significance(folder, capsys):
    call = ["audit", folder / "p.csv", "--prediction", "apart", "--sensitive", "sex,race"]
    code, out, _ = run(capsys, *call, "--reference", "race=b, c,sex=M", "--json")
    assert code == 0
    rows = pl.read_csv(folder / "p.csv")
    reference = {"race": "b, c", "sex": "M"}
    expected = eh.audit(None, rows["apart"], rows.select("sex", "race"), reference=reference).significance()
    assert_same(json.loads(out)["significance"], json.loads(json.dumps(expected.to_dict())))
    _, out, _ = run(capsys, *call, "--reference", "sex=M")
    assert "four-fifths rule" in out
    assert "odds ratio" in out


def test_strata_of_the_command_line_reach_the_tests(folder, capsys):
    call = ["audit", folder / "p.csv", "--prediction", "apart", "--sensitive", "sex", "--given", "race"]
    _, out, _ = run(capsys, *call, "--reference", "sex=M", "--json")
    [test] = json.loads(out)["significance"]["groups"]
    assert test["strata"] == 3
    assert test["cmh_p_value"] < 1e-6


def test_scores_are_audited_with_or_without_decisions(folder, capsys):
    call = ["audit", folder / "p.csv", "--score", "chance", "--label", "y", "--sensitive", "sex"]
    code, out, _ = run(capsys, *call, "--reference", "sex=M", "--json")
    assert code == 0
    rows = pl.read_csv(folder / "p.csv")
    expected = eh.audit_scores(rows["y"], rows["chance"], rows.select("sex"), reference={"sex": "M"})
    assert_same(json.loads(out)["scores"], json.loads(json.dumps(expected.to_dict())))
    code, out, _ = run(capsys, *call, "--prediction", "apart", "--difference", "0.05")
    assert code == VIOLATED
    assert "violated" in out
    assert "difference of AUC" in out
    _, out, _ = run(capsys, *call[:4], "--sensitive", "sex")
    assert "AUC" not in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--prediction", "apart", "--reference", "sex=m"], "no group has sex='m'. Did you mean 'M'?"),
        (["--prediction", "apart", "--reference", "M"], "--reference must name values of features"),
        (["--prediction", "apart", "--reference", "id=7"], "'id' is not a sensitive feature"),
        (["--prediction", "apart", "--weight", "weight", "--reference", "sex=M"], "audit without --weight"),
        (["--prediction", "apart", "--min-count", "5", "--reference", "sex=M"], "--min-count hides"),
        (["--score", "answer"], "--score must be numbers"),
        (["--score", "chance", "--difference", "0.1"], "--score alone has no decisions"),
        ([], "pass the column of decisions as --prediction"),
    ],
)
def test_references_and_scores_that_cannot_be_read(folder, capsys, options, message):
    error = refused(capsys, "audit", folder / "p.csv", "--sensitive", "sex", *options)
    assert message in error
