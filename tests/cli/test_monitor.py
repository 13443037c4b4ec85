"""``evenhand monitor``."""

import json

import numpy as np
import polars as pl
import pytest
from tests.cli.helpers import refused, run

import evenhand as eh
from evenhand.cli.exit_codes import VIOLATED


@pytest.fixture
def days(tmp_path):
    """Files of four days; on the last, women are refused. A new group's values would be read as numbers."""
    rng = np.random.default_rng(0)
    for number in range(4):
        sex, age = rng.choice(["01", "02"], 600), rng.integers(20, 70, 600)
        y = rng.random(600) < 0.5
        decided = (rng.random(600) < 0.4) & ~((number == 3) & (sex == "01"))
        table = pl.DataFrame({"sex": sex, "age": age, "decision": decided.astype(int)})
        table.write_csv(tmp_path / f"{number}.csv")
        table.with_columns(y=pl.Series(y.astype(int))).write_csv(tmp_path / f"{number}_labels.csv")
    return tmp_path


FIRST = ("--sensitive", "sex", "--prediction", "decision", "--difference", "0.1")


@pytest.mark.filterwarnings("always::evenhand.exceptions.MonitorWarning")
def test_one_line_for_each_batch_and_an_exit_code_for_an_alarm(days, capsys):
    state = days / "state.json"
    call = ["monitor", state]
    code, out, _ = run(capsys, *call, days / "0.csv", *FIRST, "--time", "2026-01-01")
    assert (code, out.count("\n")) == (0, 1)
    assert out.startswith("batch 1 (2026-01-01): 600 rows in all, evidence ")
    assert out.endswith("of 20; no alarm\n")
    code, out, err = run(capsys, *call, days / "0.csv")
    assert (code, out[:7]) == (0, "batch 1")
    assert "was counted before" in err
    for number in (1, 2):
        assert run(capsys, *call, days / f"{number}.csv", "--fail-on", "alarm")[0] == 0
    assert run(capsys, *call, days / "3.csv")[0] == 0
    code, out, _ = run(capsys, *call, "--fail-on", "alarm", "--json")
    found = json.loads(out)
    assert code == VIOLATED
    assert (found["batch"], found["rows"], found["alarm"]["batch"]) == (4, 2400, 4)
    assert {one["group"] for one in found["disparities"]} == {"sex=01", "sex=02"}
    code, out, _ = run(capsys, *call)
    assert "ALARM at batch 4" in out
    assert "demographic parity" in out
    assert found == eh.Monitor.load(state).to_dict()


def test_labels_are_counted_when_they_are_there_or_later(days, capsys):
    state = days / "state.json"
    first = (
        "--sensitive",
        "sex",
        "--prediction",
        "decision",
        "--label",
        "y",
        "--notion",
        "equal-opportunity",
    )
    run(capsys, "monitor", state, days / "0_labels.csv", *first, "--ratio", "0.8")
    run(capsys, "monitor", state, days / "1.csv")
    rows = sum(one.rows for one in eh.Monitor.load(state).disparities() if one.group == "sex=01")
    run(capsys, "monitor", state, days / "1_labels.csv", "--late")
    monitor = eh.Monitor.load(state)
    assert sum(one.rows for one in monitor.disparities() if one.group == "sex=01") > 1.5 * rows
    assert "no column 'y'" in refused(capsys, "monitor", state, days / "2.csv", "--late")


def test_bands(days, capsys):
    state = days / "state.json"
    run(
        capsys,
        *(
            "monitor",
            state,
            days / "0.csv",
            "--sensitive",
            "age",
            "--bands",
            "age=45",
            "--prediction",
            "decision",
        ),
        *("--ratio", "0.8", "--against", "groups", "--confidence", "0.9"),
    )
    code, out, _ = run(capsys, "monitor", state, days / "1.csv")
    assert (code, out[:7]) == (0, "batch 2")
    monitor = eh.Monitor.load(state)
    assert (monitor.rows, monitor.confidence) == (1200, 0.9)
    assert "age=45 and over" in {one.group for one in monitor.disparities()}


def test_wrong_calls_are_told_in_a_sentence(days, capsys):
    state = days / "state.json"
    assert "to make it, pass" in refused(capsys, "monitor", state, days / "0.csv")
    assert "to make it, pass" in refused(capsys, "monitor", state)
    assert "or --sensitive and a requirement" in refused(
        capsys, "monitor", state, days / "0.csv", "--prediction", "decision"
    )
    assert "no column 'decisions'" in refused(
        capsys, "monitor", state, days / "0.csv", *FIRST[:3], "decisions", *FIRST[4:]
    )
    assert not state.exists()
    run(capsys, "monitor", state, days / "0.csv", *FIRST)
    assert "has its requirement and columns" in refused(capsys, "monitor", state, days / "1.csv", *FIRST)
    assert "also an input" in refused(capsys, "monitor", days / "1.csv", days / "1.csv")
