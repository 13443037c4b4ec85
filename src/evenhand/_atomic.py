"""Files that appear complete or not at all."""

from __future__ import annotations

import contextlib
import glob
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["written_at_once"]

_ABANDONED = 24 * 3600
"""Seconds after which nobody is writing any more."""


@contextmanager
def written_at_once(path: Path) -> Iterator[Path]:
    """Give a place beside a file to write to, which takes the file's name when all went well.

    Whatever happens meanwhile, an old file stays whole, and nothing is left beside it unless the process is
    killed. What such a process left is removed a day later, when the same file is written again.

    Parameters
    ----------
    path : Path

    Yields
    ------
    Path
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    _clear(path)
    try:
        yield beside
        with beside.open("rb+") as file:
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    if os.name == "posix":  # elsewhere folders cannot be opened
        folder = os.open(path.resolve().parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _clear(path: Path) -> None:
    for beside in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 8}.tmp"):
        with contextlib.suppress(OSError):  # another process may be quicker
            if time.time() - beside.lstat().st_mtime > _ABANDONED:
                beside.unlink()
