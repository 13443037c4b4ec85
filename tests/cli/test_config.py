"""Options from a TOML file."""

from pathlib import Path

import polars as pl
import pytest
from tests.cli.helpers import refused, run

from evenhand.cli.exit_codes import FAILED, VIOLATED
from evenhand.datasets import load_adult

EXAMPLE = Path(__file__).parents[2] / "docs" / "run.toml"
AUDIT = 'table = "p.csv"\nprediction = "apart"\nsensitive = ["sex", "race"]\n'


@pytest.fixture
def options_file(folder, tmp_path, monkeypatch):
    """A function that writes a file of options, for commands that run beside p.csv."""
    monkeypatch.chdir(folder)

    def write(text):
        path = tmp_path / "run.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_a_file_replaces_options(options_file, folder, capsys):
    path = options_file(
        f'[audit]\n{AUDIT}difference = 0.05\nmin-count = 5\nnotion = ["demographic-parity"]\n'
    )
    from_file = run(capsys, "audit", "--config", path)
    options = ["--prediction", "apart", "--sensitive", "sex,race", "--difference", "0.05", "--min-count", "5"]
    assert from_file == run(capsys, "audit", folder / "p.csv", *options)
    assert from_file[0] == VIOLATED


def test_options_of_the_call_take_precedence(options_file, capsys):
    call = ["audit", "--config", options_file(f"[audit]\n{AUDIT}difference = 0.05\n")]
    code, out, _ = run(capsys, *call, "--difference", "0.6")
    assert code == 0
    assert "tolerance 0.6" in out


def test_tables_of_other_commands_are_ignored(options_file, capsys):
    path = options_file(f'[fit]\nout = "m.eh"\n\n[audit]\n{AUDIT}json = true\n')
    assert run(capsys, "audit", "--config", path)[0] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"[audit]\n{AUDIT}diference = 0.1\n", "Did you mean --difference?"),
        (f"[audit]\n{AUDIT}zzz = 0.1\n", "zzz"),
        (f'[audit]\n{AUDIT}difference = "small"\n', 'run.toml: unable to convert "small" into float'),
        (f"[audit]\n{AUDIT}difference = [0.1, 0.2]\n", "difference"),
        (f"[audit]\n{AUDIT}json = 7\n", 'unable to convert "7" into bool'),
        (f"[audit]\n{AUDIT}min_count = 2.7\n", "must be an integer, got 2.7."),
        (f"[audit]\n{AUDIT}min-count = 2.7\n", "must be an integer, got 2.7."),
        (f"[audit]\n{AUDIT}min-count = true\n", "must be an integer, got True."),
        (f"[audit]\n{AUDIT}capacity = true\n", 'unable to convert "True" into float'),
        (f"[audit]\n{AUDIT}difference = 0.1\nratio = 0.8\n", "pass --difference or --ratio, not both"),
        (f'[audit]\n{AUDIT}notion = "parity"\n', "notion"),
        ("[audit]\nsensitive = 'sex'\n", "requires an argument"),
        (f"[audti]\n{AUDIT}", "options of audit go below [audit]"),
        (AUDIT, "options of audit go below [audit]"),
        ("[fit]\n", "has no table [audit]"),
        ("[predict]\n", "options of audit go below [audit]"),
        ("", "has no table [audit]"),
        ("[audit\n", "cannot be read as TOML"),
        (b"[audit]\nlabel = '\xff'\n", "cannot be read as TOML"),
    ],
    ids=str,
)
def test_a_wrong_file_is_one_sentence(options_file, capsys, text, message):
    assert message in refused(capsys, "audit", "--config", options_file(text))


@pytest.mark.parametrize(
    "call",
    [
        "audit p.csv --sensitive sex --min-count",
        "fit p.csv --target y --sensitive sex --out m.eh --min-group-size",
        "fit p.csv --target y --sensitive sex --out m.eh --max-samples",
        "frontier p.csv --target y --sensitive sex --tolerances",
        "predict m.eh p.csv --out d.csv --rows",
    ],
)
@pytest.mark.parametrize("value", ["2.7", "2.0", "true", "1e3"])
def test_every_integer_is_one_in_the_call_too(capsys, call, value):
    assert f"must be an integer, got {value}." in refused(capsys, *call.split(), value)


@pytest.mark.parametrize("value", ["0.5", "1", '"median"'])
def test_a_threshold_is_a_number_or_a_word(options_file, capsys, value):
    text = AUDIT.replace("apart", "chance")
    assert run(capsys, "audit", "--config", options_file(f"[audit]\n{text}threshold = {value}\n"))[0] == 0


def test_a_monitor_reads_its_options_from_a_file(options_file, capsys, tmp_path):
    path = options_file('[monitor]\nprediction = "apart"\nsensitive = "sex"\ndifference = 0.05\n')
    assert run(capsys, "monitor", tmp_path / "s.json", "p.csv", "--config", path)[0] == 0
    assert "requirement and columns" in refused(
        capsys, "monitor", tmp_path / "s.json", "p.csv", "--config", path
    )


def test_a_search_for_alternatives_reads_its_options_from_a_file(options_file, capsys):
    path = options_file('[alternatives]\ntable = "p.csv"\ntarget = "y"\nsensitive = "sex"\n')
    assert "pass the model's decisions as --prediction" in refused(capsys, "alternatives", "--config", path)


@pytest.mark.parametrize("option", ["--junit", "--report", "--csv"])
@pytest.mark.parametrize("spelling", ["run.toml", "./run.toml", "link.toml", "../{}/run.toml"])
def test_the_file_of_options_is_never_overwritten(options_file, capsys, monkeypatch, option, spelling):
    path = options_file(f"[audit]\n{AUDIT}difference = 0.6\nformat = 'll144'\n".replace("p.csv", "t.csv"))
    before = path.read_text()
    monkeypatch.chdir(path.parent)
    (path.parent / "t.csv").write_text("apart,sex,race\n0,F,a\n1,M,a\n")
    (path.parent / "link.toml").symlink_to(path)
    output = spelling.format(path.parent.name)
    err = refused(capsys, "audit", "--config", "run.toml", option, output, "--force")
    assert "is also an input, which is never overwritten" in err
    assert path.read_text() == before


@pytest.mark.parametrize(
    ("command", "option"), [("fit", "--out"), ("fit", "--report"), ("frontier", "--out")]
)
def test_nor_is_it_by_a_fit(options_file, capsys, command, option):
    text = '"\ntable = "p.csv"\ntarget = "y"\nsensitive = "sex"\n'
    path = options_file(f'[fit]\nout = "m.eh{text}difference = 0.5\n[frontier]\nid = "id{text}')
    assert "is also an input" in refused(capsys, command, "--config", path, option, path, "--force")


def test_a_file_that_does_not_exist(capsys, tmp_path):
    err = refused(capsys, "frontier", "--config", tmp_path / "no.toml")
    assert err == f"evenhand: there is no file {tmp_path / 'no.toml'}.\n"


@pytest.mark.slow
def test_the_example_of_the_documentation_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    adult = load_adult()
    table = pl.concat([adult.features, adult.sensitive, adult.label.to_frame("income")], how="horizontal")
    table.head(1200).write_parquet("train.parquet")
    code, out, err = run(capsys, "fit", "--config", EXAMPLE)
    assert code != FAILED, err
    assert "tolerance 0.05" in out
    assert Path("model.eh").exists()
    assert Path("fit.html").exists()
    code, out, err = run(capsys, "frontier", "--config", EXAMPLE, "--tolerances", "3")
    assert code == 0, err
    assert Path("frontier.html").exists()
