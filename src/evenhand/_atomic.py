"""Atomic writing of files."""

from __future__ import annotations

import contextlib
import glob
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ABANDONED = 24 * 3600
"""Age in seconds at which a temporary file counts as abandoned."""


@contextmanager
def written_at_once(path: Path) -> Iterator[Path]:
    """A temporary path in the same folder, which replaces the file if the block succeeds.

    If the block fails, an existing file is unchanged and the temporary one is removed. If the process is
    killed, the temporary file remains until the same file is written again a day or more later.

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
    if os.name == "posix":  # folders cannot be opened elsewhere
        folder = os.open(path.resolve().parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _clear(path: Path) -> None:
    for beside in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 8}.tmp"):
        with contextlib.suppress(OSError):  # another process may have removed it
            if time.time() - beside.lstat().st_mtime > _ABANDONED:
                beside.unlink()
