"""What was measured, one line of JSON per cell, so that an interrupted run goes on where it was."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.record import RESULTS

__all__ = ["CELLS", "Kept", "Key", "fingerprint_of"]

CELLS = RESULTS / "paper-cells.jsonl"
Key = tuple[Any, ...]
"""Table, method, setting, what is asked, split."""


def fingerprint_of(*settings: Any) -> str:
    """Tell settings apart: what was measured with others is measured anew."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()[:10]


@dataclass(frozen=True, eq=False)
class Kept:
    """The cells of a file, by key."""

    path: Path
    cells: dict[Key, dict[str, Any]]

    @classmethod
    def read(cls, path: Path = CELLS) -> Kept:
        """Read a file; a line that was cut off is not counted."""
        cells = {}
        if path.exists():
            for line in path.read_text("utf-8").splitlines():
                try:
                    key, cell = json.loads(line)
                except ValueError:
                    continue
                cells[tuple(key)] = cell
        return cls(path, cells)

    def has(self, key: Key, fingerprint: str) -> bool:
        """Whether a cell was measured with these settings."""
        return self.cells.get(key, {}).get("of") == fingerprint

    def add(self, key: Key, cell: dict[str, Any]) -> None:
        """Keep a cell."""
        self.cells[key] = cell
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([key, cell]) + "\n")

    def tidy(self) -> None:
        """Write every cell once, in order, instead of cell after cell."""
        cells = Kept.read(self.path).cells  # with what another process may have added
        lines = (json.dumps([key, cells[key]]) + "\n" for key in sorted(cells, key=str))
        fresh = self.path.with_suffix(".new")
        fresh.write_text("".join(lines), encoding="utf-8")
        fresh.replace(self.path)
