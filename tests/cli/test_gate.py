"""``evenhand audit`` in a pipeline: what fails, JUnit XML, and the tables of Local Law 144."""

import csv
import json
import re
from xml.etree import ElementTree as Xml

import numpy as np
import polars as pl
import pytest
from tests.cli.helpers import refused, run

import evenhand as eh
from evenhand.cli.exit_codes import UNDECIDED, VIOLATED

REQUIRED = {"name", "tests", "failures", "errors", "time", "timestamp", "hostname", "package", "id"}


def base(folder, prediction="apart", name="p.csv"):
    return ["audit", folder / name, "--prediction", prediction, "--sensitive", "sex"]


@pytest.mark.parametrize(
    ("file", "fail_on", "code"),
    [
        (("apart", "p.csv"), (), VIOLATED),
        (("apart", "p.csv"), ("--fail-on", "violated"), VIOLATED),
        (("apart", "p.csv"), ("--fail-on", "insufficient"), VIOLATED),
        (("alike", "few.csv"), (), UNDECIDED),
        (("alike", "few.csv"), ("--fail-on", "violated"), 0),
        (("alike", "few.csv"), ("--fail-on", "insufficient"), UNDECIDED),
        (("alike", "p.csv"), ("--fail-on", "insufficient"), 0),
    ],
    ids=str,
)
def test_what_fails_can_be_chosen(folder, capsys, file, fail_on, code):
    call = [*base(folder, *file), "--ratio", "0.8", "--against", "groups", *fail_on]
    assert run(capsys, *call)[0] == code


def junit(path):
    """The test suite of a file, checked against what the schemas of Ant and Jenkins ask for."""
    root = Xml.parse(path).getroot()  # noqa: S314  (a file of our own)
    assert (root.tag, root.attrib) == ("testsuites", {})
    [suite] = root
    assert set(suite.attrib) >= REQUIRED
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.attrib["timestamp"])
    tags = [child.tag for child in suite]
    cases = suite.findall("testcase")
    assert tags == ["properties", *["testcase"] * len(cases), "system-out", "system-err"]
    for case in cases:
        assert set(case.attrib) == {"classname", "name", "time"}
        assert case.attrib["classname"].count(".") == 2
        assert len(case) <= 1
        for result in case:
            assert result.tag in ("failure", "skipped")
            assert result.attrib["message"]
    assert len({case.attrib["name"] for case in cases}) == len(cases)
    for count, tag in (("tests", None), ("failures", "failure"), ("skipped", "skipped")):
        number = len(cases) if tag is None else len(suite.findall(f"testcase/{tag}"))
        assert suite.attrib[count] == str(number)
    return suite


def test_junit_has_a_case_for_each_requirement_and_group(folder, capsys, tmp_path):
    path = tmp_path / "j.xml"
    call = [*base(folder), "--label", "y", "--difference", "0.1", "--capacity", "0.9", "--junit", path]
    code, _, err = run(capsys, *call, "--notion", "demographic-parity", "equalized-odds")
    assert code == VIOLATED
    assert f"JUnit: {path}" in err
    suite = junit(path)
    found = {case.attrib["name"]: [part.tag for part in case] for case in suite.findall("testcase")}
    parity = "demographic parity, difference (tolerance 0.1)"
    assert found[f"{parity}: all groups"] == ["failure"]
    assert found[f"{parity}: sex=F"] == ["failure"]
    assert found["selection rate, at most 0.9: everyone"] == []
    odds = "equalized odds, difference (tolerance 0.1)"
    assert found[f"{odds}: sex=F, true-positive rate"] == ["failure"]
    assert len(found) == 3 + 5 + 1
    message = suite.find("testcase/failure").attrib["message"]
    assert message.startswith("violated: 0.195 [")
    assert "already" in refused(capsys, *call)  # not overwritten without --force
    assert run(capsys, *call, "--force")[0] == VIOLATED


def test_cases_of_strata_say_which(folder, capsys, tmp_path):
    table = pl.read_csv(folder / "p.csv").with_columns(level=pl.Series([1, 2, 3] * 1000))
    table.write_csv(tmp_path / "levels.csv")
    call = ["audit", tmp_path / "levels.csv", "--prediction", "apart", "--sensitive", "sex"]
    call += ["--given", "level", "--difference", "0.05", "--junit", tmp_path / "j.xml"]
    assert run(capsys, *call)[0] == VIOLATED
    whole, *groups = junit(tmp_path / "j.xml").findall("testcase")
    asked = "demographic parity, difference given level (tolerance 0.05)"
    assert [case.attrib["name"] for case in groups] == [
        f"{asked}: sex={sex} given level={level}" for level in (1, 2, 3) for sex in ("F", "M")
    ]
    for case in (whole, *groups):
        assert re.search(r" given level=[123]$", case[0].attrib["message"])


@pytest.mark.parametrize(("fail_on", "tag"), [("violated", "skipped"), ("insufficient", "failure")])
def test_insufficient_evidence_is_skipped_or_a_failure(folder, capsys, tmp_path, fail_on, tag):
    path = tmp_path / "j.xml"
    call = [*base(folder, "alike", "few.csv"), "--ratio", "0.8", "--fail-on", fail_on, "--junit", path]
    code, _, _ = run(capsys, *call)
    suite = junit(path)
    assert {part.tag for case in suite.findall("testcase") for part in case} == {tag}
    assert bool(code) == (int(suite.attrib["failures"]) > 0)


def test_a_case_of_a_group_agrees_with_the_whole(folder, capsys, tmp_path):
    """All groups are satisfied if the requirement is, and some group fails if it does."""
    for k, tolerance in enumerate(np.linspace(0.01, 0.5, 12)):
        path = tmp_path / f"{k}.xml"
        call = ["audit", folder / "p.csv", "--prediction", "apart", "--sensitive", "sex,race"]
        code, _, _ = run(capsys, *call, "--difference", f"{tolerance:.3f}", "--junit", path)
        whole, *groups = junit(path).findall("testcase")
        kinds = {part.attrib["type"] for case in groups for part in case}
        expected = {0: set(), VIOLATED: {"violated"}, UNDECIDED: {"insufficient evidence"}}[code]
        assert {part.attrib["type"] for part in whole} == expected
        assert expected <= kinds
        assert kinds <= ({"insufficient evidence"} | expected if code else set())


@pytest.mark.parametrize("requirement", [(), ("--ratio", "0.8")], ids=["alone", "with a requirement"])
def test_flags_of_significance_are_cases_of_their_own(folder, capsys, tmp_path, requirement):
    path = tmp_path / "j.xml"
    call = [*base(folder, "alike"), "--reference", "sex=M", *requirement, "--junit", path]
    run(capsys, *call)
    cases = {case.attrib["name"]: case for case in junit(path).findall("testcase")}
    own = {name: case for name, case in cases.items() if case.attrib["classname"].endswith(".significance")}
    table = pl.read_csv(folder / "p.csv")
    people = table.select("sex")
    [test] = eh.audit(None, table["alike"], people, reference={"sex": "M"}).significance().tests
    flags = {"impact ratio at least 0.8": test.practical, "p-value at least 0.05": test.statistical}
    assert {name: bool(len(case)) for name, case in own.items()} == {
        f"sex=F beside sex=M: {name}": flag for name, flag in flags.items()
    }
    assert (len(cases) > len(own)) is bool(requirement)
    other = tmp_path / "k.xml"
    run(capsys, *base(folder), "--reference", "sex=M", "--junit", other)  # far apart: both are flagged
    found = junit(other).findall("testcase/failure")
    assert [case.attrib["type"] for case in found] == ["flagged", "flagged"]


def test_names_of_groups_cannot_break_the_xml(tmp_path, capsys):
    table = pl.DataFrame({"s": ["<&\x1b\x00", 'a"b', "a.b"] * 40, "d": [0, 1, 1] * 40})
    table.write_csv(tmp_path / "p.csv")
    call = ["audit", tmp_path / "p.csv", "--prediction", "d", "--sensitive", "s", "--difference", "0.1"]
    run(capsys, *call, "--junit", tmp_path / "j.xml")
    names = [case.attrib["name"] for case in junit(tmp_path / "j.xml").findall("testcase")]
    assert any("s=<&\\x1b" in name for name in names)


@pytest.mark.parametrize(
    ("column", "what"), [("apart", "predictions"), ("alike", "earlier predictions")], ids=["now", "before"]
)
def test_a_gate_cannot_be_passed_by_conditioning_on_the_decision(folder, capsys, column, what):
    call = [*base(folder), "--before", "alike", "--difference", "0.1"]
    said = refused(capsys, *call, "--given", column)
    assert f"--given has '{column}', which is the column of {what}" in said


def test_a_gate_that_nothing_can_fail_is_refused(folder, capsys, tmp_path):
    assert "--fail-on needs something that can fail" in refused(
        capsys, *base(folder), "--fail-on", "violated"
    )
    assert "--junit needs something" in refused(capsys, *base(folder), "--junit", tmp_path / "j.xml")
    message = refused(capsys, *base(folder), "--ratio", "0.8", "--junit", folder / "p.csv")
    assert "is also an input" in message
    for option, value in (("--fail-on", "always"), ("--format", "eeoc"), ("--threshold", "mean")):
        code, out, err = run(capsys, *base(folder), "--ratio", "0.8", option, value)
        assert (code, out) == (2, "")
        assert value in err


# Local Law 144


def test_the_tables_of_a_file(folder, capsys, tmp_path):
    call = ["audit", folder / "p.csv", "--prediction", "apart", "--sensitive", "sex,race"]
    call += ["--format", "ll144", "--data-date", "2026-01", "--data-source", "simulated"]
    outputs = ["--csv", tmp_path / "t.csv", "--report", tmp_path / "r.html"]
    code, out, err = run(capsys, *call, *outputs)
    rows = pl.read_csv(folder / "p.csv")
    expected = eh.audit(None, rows["apart"], rows.select("sex", "race")).impact_ratios(
        date="2026-01", source="simulated"
    )
    assert (code, out) == (0, f"{expected}\n")
    assert "CSV: " in err
    assert (tmp_path / "t.csv").read_text() == expected.to_csv()
    lines = list(csv.DictReader((tmp_path / "t.csv").read_text().splitlines()))
    women = rows.filter(pl.col("sex") == "F")
    assert int(lines[0]["selected"]) == women["apart"].sum()
    assert "Impact ratios by Local Law 144" in (tmp_path / "r.html").read_text()
    _, out, _ = run(capsys, *call, "--json")
    assert json.loads(out) == expected.to_dict()


def test_scoring_rates_and_verdicts_of_a_file(folder, capsys):
    call = [*base(folder, "chance"), "--format", "ll144"]
    assert "--threshold median for scoring rates" in refused(capsys, *call)
    code, out, err = run(capsys, *call, "--threshold", "median", "--ratio", "0.8", "--against", "groups")
    rows = pl.read_csv(folder / "p.csv")
    above = int((rows["chance"] > rows["chance"].median()).sum())
    assert "scoring rate" in out
    assert above == 1500
    assert "demographic parity, ratio between groups: " in err
    assert code == 0


def test_options_of_the_tables_need_the_format(folder, capsys, tmp_path):
    for option, value in (("--csv", tmp_path / "t.csv"), ("--data-date", "2026"), ("--data-source", "x")):
        assert f"{option} is for the tables of --format ll144" in refused(
            capsys, *base(folder), option, value
        )
    assert "--min-count hides small numbers" in refused(
        capsys, *base(folder), "--format", "ll144", "--min-count", "5"
    )
    assert "audit without --weight" in refused(
        capsys, *base(folder), "--format", "ll144", "--weight", "weight"
    )
