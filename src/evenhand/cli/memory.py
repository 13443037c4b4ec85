"""How much memory a file would take, and how much there is."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from evenhand.cli import table_files

__all__ = ["SHARE", "available_memory", "memory_of"]

SHARE = 0.25
"""A file that takes more than this share of the available memory is read in batches.

A fit in memory holds the table two or three times: as it was read, split and encoded.
"""
_FIRST_ROWS = 1000
_SMALL = 10_000_000


def memory_of(path: Path) -> int:
    """About how many bytes the rows of a file take in memory, from its first rows and their number.

    A CSV file below 10 MB is not counted, but taken for ten times its size.
    """
    size = path.stat().st_size
    if not table_files.is_parquet(path) and size < _SMALL:
        return 10 * size
    first = table_files.read_first(path, _FIRST_ROWS)
    return round(first.estimated_size() / max(1, len(first)) * table_files.count_rows(path))


def available_memory() -> int | None:
    """Bytes of memory that this process may still take; None where the system does not tell."""
    found = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        [line] = [line for line in lines if line.startswith("MemAvailable:")]
        found.append(1024 * int(line.split()[1]))
    with contextlib.suppress(OSError, ValueError):  # of a container; "max" is no limit
        folder = Path("/sys/fs/cgroup")
        limit = int((folder / "memory.max").read_text())
        found.append(max(0, limit - int((folder / "memory.current").read_text())))
    if not found and hasattr(os, "sysconf"):
        with contextlib.suppress(OSError, ValueError):
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(found) if found else None
