"""Where names stand beside points without hiding each other."""

from __future__ import annotations

import itertools
from typing import Any

__all__ = ["Pixel", "placed"]

Pixel = tuple[float, float]
"""Right and down."""

_Box = tuple[float, float, float, float]
_WAYS: tuple[tuple[str, int, int], ...] = (
    ("left", 9, -11),
    ("right", -9, -11),
    ("left", 9, 13),
    ("right", -9, 13),
    ("center", 0, -16),
    ("center", 0, 18),
    ("left", 12, 0),
    ("right", -12, 0),
    ("left", 4, -27),
    ("right", -4, -27),
    ("left", 4, 29),
    ("right", -4, 29),
)
"""How a name can stand to its point: alignment, and pixels to the right and down. The first are preferred."""

_LETTER = 6.6
"""Width of a letter of 12 pixels, on average."""


def placed(
    names: list[str], points: list[Pixel], paths: list[list[Pixel]], size: tuple[int, int]
) -> list[dict[str, Any]]:
    """Put names beside, above or below their points, wherever they hide least.

    Parameters
    ----------
    names : list of str
    points : list of (right, down)
        Where they belong.
    paths : list of lists of (right, down)
        Lines that should stay visible.
    size : (width, height)
        Of the chart.

    Returns
    -------
    list of dict
        ``align``, ``dx`` and ``dy`` of each name.

    Examples
    --------
    >>> placed(["one", "two"], [(50, 50), (50, 52)], [], (100, 100))
    [{'align': 'left', 'dx': 9, 'dy': -11}, {'align': 'right', 'dx': -9, 'dy': -11}]
    """
    marks = [*points]
    for (a, b), (c, d) in (pair for path in paths for pair in itertools.pairwise(path)):
        marks += [(a + k / 8 * (c - a), b + k / 8 * (d - b)) for k in range(9)]
    taken: list[_Box] = []
    ways = []
    for name, (right, down) in zip(names, points, strict=True):
        boxes = [_box(right + dx, down + dy, align, _LETTER * len(name)) for align, dx, dy in _WAYS]
        best = min(range(len(_WAYS)), key=[_hidden(box, taken, marks, size) for box in boxes].__getitem__)
        taken.append(boxes[best])
        ways.append(dict(zip(("align", "dx", "dy"), _WAYS[best], strict=True)))
    return ways


def _box(right: float, down: float, align: str, width: float) -> _Box:
    left = right - {"left": 0.0, "center": 0.5, "right": 1.0}[align] * width
    return left, down - 7, left + width, down + 7


def _hidden(box: _Box, taken: list[_Box], marks: list[Pixel], size: tuple[int, int]) -> int:
    """How bad a place is: over another name, off the chart, over points and lines."""
    left, top, right, bottom = box
    names = sum(left < c and a < right and top < d and b < bottom for a, b, c, d in taken)
    outside = left < 0 or right > size[0] or top < 0 or bottom > size[1]
    dots = sum(left - 4 < a < right + 4 and top - 4 < b < bottom + 4 for a, b in marks)
    return 100 * names + 50 * outside + dots
