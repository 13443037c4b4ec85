"""What the command line says: in the words of its options, and with control characters made visible."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import TextIO

from evenhand.exceptions import EvenhandError

__all__ = ["drop_output", "in_options", "open_streams", "say", "tell", "visible", "with_options"]

_OPTIONS = {
    r"make the groups with missing='own_group'": "use --missing own-group",
    r", or make the groups with unseen='pooled'": "",
    r"(?<!['\w])y_true(?!['\w]|\.\w)": "--label",
    r"(?<!['\w])y_pred(?!['\w]|\.\w)": "--prediction",
    r"(?<!['\w])before(?= (has|holds|is|should) )": "--before",
    r"(?<!['\w])sample_weight(?!['\w]|\.\w)": "--weight",
    r"(?<!['\w])threshold(?= (is|should) )": "--threshold",
    r"Pool rare groups \(min_size or min_group_size\), or use groups='independent'": (
        "Use --min-group-size, or --groups independent"
    ),
    r"(?<!['\w])aware=True(?!['\w])": "--aware",
    r"(?<!['\w])pos_label=": "--positive ",
    r"(?<!['\w])pos_label(?!['\w]|\.\w)": "--positive",
}
"""How the library names its parameters, outside of quotes, and what the options are called."""


@contextlib.contextmanager
def in_options() -> Iterator[None]:
    """Let errors name options where the library names parameters."""
    try:
        yield
    except EvenhandError as error:
        error.args = (with_options(str(error)),)
        raise


def with_options(text: str) -> str:
    """A message of the library in the words of the options.

    Examples
    --------
    >>> with_options("y_true has 3 missing values; aware=True may help.")
    '--label has 3 missing values; --aware may help.'
    """
    for pattern, option in _OPTIONS.items():
        text = re.sub(pattern, option, text)
    return text


def visible(text: object) -> str:
    """Make control characters visible: names of files and columns are written by others."""
    return str(import_module("evenhand.display.text").show(str(text)))


def tell(text: object) -> None:
    """Say something beside the result. Where it cannot be written, the exit code alone tells."""
    try:
        print("\n".join(map(visible, str(text).splitlines())), file=sys.stderr, flush=True)
    except OSError:
        _drop(sys.stderr)


def say(text: object) -> None:
    """Print a result. Where nobody reads on, the command goes on in silence, and its exit code counts."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        drop_output()


def drop_output() -> None:
    """Let go of output that could not be written, which Python would try again at its end."""
    _drop(sys.stdout)


def open_streams() -> None:
    """Put nowhere in the place of streams that the caller closed: no output of that kind is wanted.

    Otherwise Python has None for them, and the next file that is opened would get their number.
    """
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            with contextlib.suppress(OSError):
                os.fstat(number)
                number = nowhere  # noqa: PLW2901  (another file has the number already)
            if nowhere != number:
                os.dup2(nowhere, number)
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", closefd=False))


def _drop(stream: TextIO) -> None:
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
