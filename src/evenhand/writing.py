"""Files that appear complete or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["written_at_once"]


@contextmanager
def written_at_once(path: Path) -> Iterator[Path]:
    """Give a place beside a file to write to, which takes the file's name when all went well.

    Whatever happens meanwhile, an old file stays whole, and nothing is left beside it unless the process is
    killed.

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
    if os.name == "posix":  # elsewhere folders cannot be opened
        folder = os.open(path.resolve().parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
