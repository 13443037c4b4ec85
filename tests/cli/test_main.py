"""The command line as a program: how it starts, how it ends, what it prints where."""

import os
from importlib.metadata import entry_points

import pytest
from tests.cli.helpers import COMMAND, process, refused, run

from evenhand.cli.exit_codes import FAILED, VIOLATED
from evenhand.cli.messages import audit_parameters, in_options, with_options
from evenhand.exceptions import InputError


def test_help_is_quick_and_needs_none_of_the_heavy_libraries():
    code = (
        "import sys; from evenhand.cli.commands import app; app(['--help'], result_action='return_value');"
        "print([name for name in ('numpy', 'polars', 'sklearn', 'altair') if name in sys.modules])"
    )
    out = process(code).stdout
    assert "audit" in out
    assert out.strip().endswith("[]")


def test_the_command_is_installed():
    [command] = entry_points(group="console_scripts", name="evenhand")
    assert command.value == "evenhand.__main__:main"


def test_without_its_packages_the_command_says_what_to_install():
    done = process("import sys; sys.modules['cyclopts'] = None; from evenhand.__main__ import main; main()")
    assert done.returncode == 1
    assert done.stderr == (
        "evenhand: this needs the package 'cyclopts'; install it with: pip install 'evenhand[cli]'\n"
    )


def test_without_the_library_of_tables_a_command_says_what_to_install():
    done = process(
        "import sys; sys.modules['polars'] = None; " + COMMAND, *["audit", "t.csv", "--sensitive", "s"]
    )
    assert done.returncode == FAILED
    assert done.stderr.endswith(
        "this needs the package 'polars'; install it with: pip install 'evenhand[cli]'\n"
    )


def test_an_audit_does_not_wait_for_scikit_learn(folder):
    code = f"import atexit; atexit.register(lambda: print('sklearn' in sys.modules)); {COMMAND}"
    done = process(
        f"import sys; {code}", "audit", folder / "p.csv", *["--prediction", "apart", "--sensitive", "sex"]
    )
    assert done.stdout.splitlines()[-1] == "False"


def test_a_misspelt_command_is_corrected(capsys):
    assert 'Did you mean "audit"?' in refused(capsys, "audti")


@pytest.mark.parametrize("command", [["audit", "--prediction"], ["fit", "--out", "m.eh", "--target"]])
def test_an_age_is_not_a_group(capsys, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{k % 53 + 18},{k % 2},{k % 7}\n" for k in range(530))
    (tmp_path / "t.csv").write_text(f"age,y,x\n{rows}")
    name, *options = command
    more = ["--difference", "0.1", "--sensitive", "age"]
    err = refused(capsys, name, "t.csv", *options, "y", *more)
    assert "'age' has 53 different numbers, each a group of its own: pass bands" in err
    assert list(tmp_path.iterdir()) == [tmp_path / "t.csv"]


AUDITED = audit_parameters(label="y", prediction="p q", before="b")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("'y_true' of y_true.csv is missing.", "'y_true' of y_true.csv is missing."),
        ("before=yes has no rows.", "before=yes has no rows."),
        (
            "prediction 'p q' and earlier prediction 'b' should agree.",
            "--prediction and --before should agree.",
        ),
        ("label 'y', of label 'x', is a label.", "--label, of label 'x', is a label."),
        ("y_true (or sample_weight) is missing:", "--label (or --weight) is missing:"),
        ("pos_label='a b' is not there; set pos_label.", "--positive 'a b' is not there; set --positive."),
        ("use groups='independent'.", "use --groups independent."),
    ],
)
def test_errors_name_options_and_leave_names_of_data_alone(message, expected):
    with pytest.raises(InputError) as raised, in_options(AUDITED):
        raise InputError(message)
    assert str(raised.value) == expected


def test_ordinary_words_are_parameters_only_in_an_audit():
    assert with_options("check the threshold before you fit.") == "check the threshold before you fit."


PIPE_CLOSED = """
import os, sys
from evenhand.cli.main import main
read, write = os.pipe()
os.close(read)
os.dup2(write, 1)
main(sys.argv[1:])
"""


@pytest.mark.slow
def test_a_closed_pipe_is_no_error(folder, tmp_path):
    """As with head: the report is written all the same, and the exit code is that of the audit."""
    page = tmp_path / "r.html"
    call = ["audit", folder / "p.csv", "--prediction", "apart", "--sensitive", "sex", "--report", page]
    done = process(PIPE_CLOSED, *call, "--difference", "0.05")
    assert (done.returncode, done.stderr) == (VIOLATED, f"Report: {page}\n")
    assert page.exists()


def test_a_pipe_that_closes_during_the_help_has_its_own_exit_code(capsys, monkeypatch):
    def closed(*_, **__):
        raise BrokenPipeError

    monkeypatch.setattr("evenhand.cli.main.app", closed)
    assert run(capsys, "--help") == (141, "", "")


def test_a_full_disk_is_one_sentence(folder, capsys, tmp_path, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    call = ["audit", folder / "p.csv", "--prediction", "apart", "--sensitive", "sex"]
    code, _, err = run(capsys, *call, "--report", tmp_path / "a.html")
    assert code == FAILED
    assert err.endswith("evenhand: [Errno 28] No space left on device\n")
    assert list(tmp_path.iterdir()) == []
