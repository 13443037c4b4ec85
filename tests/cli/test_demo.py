"""``evenhand demo``."""

import re
import subprocess
import sys

import pytest
from tests.cli.helpers import refused


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The demo as a user runs it, its output piped."""
    place = tmp_path_factory.mktemp("demo")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "evenhand", "demo"],
        capture_output=True,
        text=True,
        check=True,
        cwd=place,
    )
    assert done.stderr == ""
    return done.stdout, place / "evenhand-demo.html"


@pytest.mark.slow
def test_the_demo_fits_on_a_screen_and_a_half(demo):
    lines = demo[0].splitlines()
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 80


@pytest.mark.slow
def test_fairer_models_are_fairer_and_cost_accuracy(demo):
    found = {
        " ".join(name): [float(number) for number in re.findall(r"\d\.\d{3}\b", line)]
        for line in demo[0].splitlines()
        for name in re.findall(r"^(plain|blind|aware) +(0\.\d\d)?  ", line)
    }
    forecast = {name: row.pop(0) for name, row in found.items() if name != "plain "}
    found["plain"] = found.pop("plain ")
    assert list(found) == ["blind 0.05", "blind 0.02", "aware 0.05", "aware 0.02", "plain"]
    disparity, accuracy = ({name: row[k] for name, row in found.items()} for k in (0, 3))
    for name, expected in forecast.items():
        assert abs(expected - disparity[name]) < abs(float(name.split()[1]) - disparity[name])
    for kind in ("blind", "aware"):
        loose, tight = f"{kind} 0.05", f"{kind} 0.02"
        assert disparity["plain"] > disparity[loose] > disparity[tight]
        assert accuracy["plain"] > accuracy[loose] > accuracy[tight]
    assert accuracy["aware 0.02"] >= accuracy["blind 0.02"]
    for accuracy_low, accuracy_high in ((row[4], row[5]) for row in found.values()):
        assert 0 < accuracy_high - accuracy_low < 0.03


@pytest.mark.slow
def test_every_model_of_the_demo_is_proven_and_priced(demo):
    [gap] = re.findall(r"exceed\s+it\s+by\s+at\s+most\s+<?(\S+)\.$", demo[0], re.MULTILINE)
    assert float(gap) < 1e-6  # solved, not mixed
    assert demo[0].rstrip().endswith("evenhand-demo.html")


@pytest.mark.slow
def test_the_page_of_the_demo_is_the_full_report(demo):
    page = demo[1].read_text("utf-8")
    for part in ('id="tolerance"', ">Proof<", ">Charts<", ">What it cost<", "race=Black, sex=Female"):
        assert part in page


def test_a_file_that_out_names_is_not_overwritten(tmp_path, capsys):
    page = tmp_path / "mine.html"
    page.write_text("mine")
    assert "use --force" in refused(capsys, "demo", "--out", page)
    assert page.read_text() == "mine"
