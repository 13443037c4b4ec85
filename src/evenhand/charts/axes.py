"""Axes that begin, end and are marked at round numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from evenhand.charts.drawing import alt

__all__ = ["Marks", "round_axis", "round_marks"]

_ROUNDING = 1e-9
"""Of a step: 0.3 is three steps of 0.1, though not in floating point."""


@dataclass(frozen=True)
class Marks:
    """Marks of an axis, and the number of decimals that all of them are written with."""

    values: list[float]
    digits: int


def round_marks(numbers: Iterable[float], *, most: int = 8) -> Marks:
    """Multiples of 1, 2 or 5 times a power of ten, from below the smallest number to above the largest.

    Parameters
    ----------
    numbers : iterable of float
    most : int, default=8
        Steps between marks.

    Returns
    -------
    Marks

    Examples
    --------
    >>> round_marks([0.831, 0.867])
    Marks(values=[0.83, 0.835, 0.84, 0.845, 0.85, 0.855, 0.86, 0.865, 0.87], digits=3)
    >>> round_marks([0.0, 0.172], most=4)
    Marks(values=[0.0, 0.05, 0.1, 0.15, 0.2], digits=2)
    """
    found = [*numbers] or [0.0, 1.0]
    low, high = min(found), max(found)
    if high - low <= _ROUNDING * max(abs(low), abs(high)):
        around = 0.01 * max(abs(high), 1.0)
        low, high = low - around, high + around
    power = math.floor(math.log10((high - low) / most))
    for size, more in ((1, 0), (2, 0), (5, 0), (1, 1), (2, 1), (5, 1)):
        digits = -(power + more)
        step = size * 10.0**-digits
        first, last = math.floor(low / step + _ROUNDING), math.ceil(high / step - _ROUNDING)
        if last - first <= most:
            break
    return Marks([round(k * step, digits) for k in range(first, last + 1)], max(0, digits))


def round_axis(
    numbers: Iterable[float], *, most: int = 8, space: float = 0.0, percent: bool = False
) -> dict[str, Any]:
    """Scale and axis of a channel.

    Parameters
    ----------
    numbers : iterable of float
        Everything that is drawn, and what the axis should reach.
    most : int, default=8
        Steps between marks.
    space : float, default=0.0
        Share of the axis to leave free beyond the first mark and the last, for text beside points.
    percent : bool, default=False
        Percentages without a sign, for bars to both sides of 0.

    Returns
    -------
    dict
        ``scale`` and ``axis``.

    Examples
    --------
    >>> round_axis([0.0, 0.172], most=4)["scale"].domain
    [0.0, 0.2]
    """
    marks = round_marks(numbers, most=most)
    ends = marks.values[0], marks.values[-1]
    free = space * (ends[1] - ends[0])
    words: dict[str, Any] = {"format": f".{marks.digits}f"}
    if percent:
        words = {"labelExpr": f"format(abs(datum.value), '.{max(0, marks.digits - 2)}%')"}
    return {
        "scale": alt.Scale(domain=[ends[0] - free, ends[1] + free], nice=False, zero=False),
        # Of more values than tickCount, Vega leaves out every second one.
        "axis": alt.Axis(values=marks.values, tickCount=len(marks.values), **words),
    }
