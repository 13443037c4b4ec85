"""Where a command writes: its streams, which may be closed or full, and files, checked before any work."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from evenhand.display.text import show
from evenhand.exceptions import InputError


def print_result(text: object) -> None:
    """Print a result. If the reader has closed the pipe, the command continues without output."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        discard(sys.stdout)


def print_note(text: object) -> None:
    """Print something besides the result to standard error, if that can be written."""
    try:
        print("\n".join(map(show, str(text).splitlines())), file=sys.stderr, flush=True)
    except OSError:
        discard(sys.stderr)


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


def discard(stream: TextIO) -> None:
    """Discard output that could not be written; Python would try to write it again at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def check_paths(inputs: Sequence[Path | None], outputs: Sequence[Path | None], *, force: bool) -> None:
    """Raise an InputError for an output that cannot be written, or is an input or another output.

    Parameters
    ----------
    inputs, outputs : sequence of Path or None
        None stands for an option that is not used.
    force : bool
        Allow outputs that exist.
    """
    wanted = [path for path in outputs if path is not None]
    for k, path in enumerate(wanted):
        if any(_same(path, other) for other in inputs if other is not None):
            raise InputError(f"{path} is also an input, which is never overwritten: choose another output.")
        if any(_same(path, other) for other in wanted[:k]):
            raise InputError(f"{path} is named for two outputs: each needs a file of its own.")
        check_output(path, force=force)


def check_output(path: Path, *, force: bool) -> None:
    """Raise an InputError for an output that exists already or cannot be written."""
    folder = path.resolve().parent
    if path.exists() and not path.is_file():  # a folder; or a device or a pipe, which a rename would replace
        raise InputError(f"{path} is a folder or no regular file: choose another name.")
    if path.exists() and not force:
        raise InputError(f"{path} exists already: use --force to overwrite it.")
    if not folder.is_dir():
        raise InputError(f"there is no folder {path.parent} to write {path.name} to.")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{path.parent} is not writable: choose another folder.")


def _same(path: Path, other: Path) -> bool:
    """Whether two paths lead to one file, links included."""
    both = path.exists() and other.exists()
    return path.samefile(other) if both else path.resolve() == other.resolve()
