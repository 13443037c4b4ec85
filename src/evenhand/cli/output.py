"""Standard output and standard error: results, notes, and streams that are closed or full."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO

from evenhand.display.text import show


def visible(text: object) -> str:
    """Text with control characters made visible: names of files and columns may hold any."""
    return show(str(text))


def print_result(text: object) -> None:
    """Print a result. If the reader has closed the pipe, the command continues without output."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        discard_output()


def print_note(text: object) -> None:
    """Print something besides the result to standard error, if that can be written."""
    try:
        print("\n".join(map(visible, str(text).splitlines())), file=sys.stderr, flush=True)
    except OSError:
        _discard(sys.stderr)


def discard_output() -> None:
    """Discard output that could not be written; Python would try to write it again at exit."""
    _discard(sys.stdout)


def replace_closed_streams() -> None:
    """Point streams that the caller closed to the null device.

    Python sets them to None, and the next file opened would get their descriptor.
    """
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_WRONLY)
            with contextlib.suppress(OSError):
                os.fstat(number)
                number = null  # noqa: PLW2901  (another file has the descriptor already)
            if null != number:
                os.dup2(null, number)
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", closefd=False))


def _discard(stream: TextIO) -> None:
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
