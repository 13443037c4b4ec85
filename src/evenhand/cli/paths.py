"""Paths of a call, checked before any work."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from evenhand.exceptions import InputError


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
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a file in it.")
    if path.exists() and not path.is_file():  # a device or a pipe, which a rename would replace
        raise InputError(f"{path} is not a regular file: choose another name.")
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
