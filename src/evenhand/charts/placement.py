"""Which points of curves are drawn, and where names beside points stand, without overlaps."""

from __future__ import annotations

import itertools
import math
from typing import Any

__all__ = ["Pixel", "placed", "spaced"]

Pixel = tuple[float, float]
"""Right and down."""

_Box = tuple[float, float, float, float]
_POSITIONS: tuple[tuple[str, int, int], ...] = (
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
"""Positions of a name relative to its point: alignment, pixels right and down. Best ones first."""

_LETTER = 6.6
"""Average width of a letter of 12 pixels."""

_ALONG, _BESIDE = 96.0, 40.0
"""Pixels between two points of one curve, and to any other point."""


def spaced(curves: list[list[Pixel]], taken: list[Pixel]) -> list[list[int]]:
    """Points of curves that are far enough from each other: the ends of a curve first, then along it.

    Parameters
    ----------
    curves : list of lists of (right, down)
        In pixels.
    taken : list of (right, down)
        Other points that are drawn.

    Returns
    -------
    list of lists of int
        Their places in each curve, in order.

    Examples
    --------
    >>> spaced([[(0, 50), (60, 40), (120, 30), (300, 0)], [(0, 55), (200, 0)]], [])
    [[0, 2, 3], [1]]
    """
    taken, chosen = [*taken], []
    for curve in curves:
        mine: list[int] = []
        for k in dict.fromkeys([0, len(curve) - 1, *range(1, len(curve) - 1)] if curve else []):
            along = all(math.dist(curve[k], curve[other]) >= _ALONG for other in mine)
            if along and all(math.dist(curve[k], other) >= _BESIDE for other in taken):
                mine.append(k)
        taken += [curve[k] for k in mine]
        chosen.append(sorted(mine))
    return chosen


def placed(
    names: list[str], points: list[Pixel], paths: list[list[Pixel]], size: tuple[int, int]
) -> list[dict[str, Any]]:
    """Positions of names around their points where they cover least.

    Parameters
    ----------
    names : list of str
    points : list of (right, down)
        In pixels.
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
    covered = [*points]
    for (a, b), (c, d) in (pair for path in paths for pair in itertools.pairwise(path)):
        covered += [(a + k / 8 * (c - a), b + k / 8 * (d - b)) for k in range(9)]
    taken: list[_Box] = []
    positions = []
    for name, (right, down) in zip(names, points, strict=True):
        boxes = [_box(right + dx, down + dy, align, _LETTER * len(name)) for align, dx, dy in _POSITIONS]
        best = min(
            range(len(_POSITIONS)), key=[_penalty(box, taken, covered, size) for box in boxes].__getitem__
        )
        taken.append(boxes[best])
        positions.append(dict(zip(("align", "dx", "dy"), _POSITIONS[best], strict=True)))
    return positions


def _box(right: float, down: float, align: str, width: float) -> _Box:
    left = right - {"left": 0.0, "center": 0.5, "right": 1.0}[align] * width
    return left, down - 7, left + width, down + 7


def _penalty(box: _Box, taken: list[_Box], covered: list[Pixel], size: tuple[int, int]) -> int:
    """Penalty for covering other names, leaving the chart, and covering points and lines."""
    left, top, right, bottom = box
    names = sum(left < c and a < right and top < d and b < bottom for a, b, c, d in taken)
    outside = left < 0 or right > size[0] or top < 0 or bottom > size[1]
    dots = sum(left - 4 < a < right + 4 and top - 4 < b < bottom + 4 for a, b in covered)
    return 100 * names + 50 * outside + dots
