"""Calls of the command line."""

import os
import subprocess
import sys

import pytest

from evenhand.cli.exit_codes import FAILED

COMMAND = "import sys; from evenhand.cli.main import main; main(sys.argv[1:])"


def run(capsys, *arguments):
    """Exit code, standard output and standard error of a call in this process."""
    from evenhand.cli.main import main  # tests of files run without the command line's packages as well

    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    out = capsys.readouterr()
    return ended.value.code, out.out, out.err


def refused(capsys, *arguments):
    """The error of a call that is refused with one sentence and without a result."""
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (FAILED, "")
    assert err.startswith("evenhand: ")
    assert err.count("\n") == 1
    return err


def process(code, *arguments, redirection="", **settings):
    """Run Python code in a process of its own, whose streams a shell may redirect."""
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-c", code, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(  # noqa: S603
        command, env=environment, capture_output=True, text=True, check=False, **settings
    )
