"""Tables and numbers as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["markdown_table", "points_apart", "told_point", "with_interval"]


def markdown_table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A table with a line of heads."""
    lines = [list(map(str, head)), *(list(map(str, row)) for row in rows)]
    rule = ["---"] * len(lines[0])
    return "\n".join("| " + " | ".join(line) + " |" for line in [lines[0], rule, *lines[1:]]) + "\n"


def told_point(pair: Sequence[float]) -> str:
    """Accuracy @ disparity."""
    return f"{pair[0]:.4f} @ {pair[1]:.4f}"


def with_interval(mean: float, half: float) -> str:
    """A mean and the ends of its interval."""
    return f"{mean:.4f} ({mean - half:.4f}, {mean + half:.4f})"


def points_apart(mean: float, half: float) -> str:
    """A difference in points of a hundred, with half of its interval if there is one."""
    return f"{100 * mean:+.2f}" + ("" if math.isnan(half) else f" ± {100 * half:.2f}")
