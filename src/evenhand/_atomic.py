"""Atomic writing of files."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_at_once(path: Path) -> Iterator[Path]:
    """A temporary path in the same folder, which replaces the file if the block succeeds.

    If the block fails, an existing file is unchanged and the temporary one is removed. If the process is
    killed, the temporary file remains.

    Parameters
    ----------
    path : Path

    Yields
    ------
    Path
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
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
