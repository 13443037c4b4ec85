"""Chart of accuracy against disparity."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evenhand.charts.axes import round_axis
from evenhand.charts.colours import Look, Theme, look_of
from evenhand.charts.look import (
    NO_VALUE,
    alt,
    finished,
    line_styles,
    own,
    point_marks,
    table,
    text_over,
)
from evenhand.charts.placement import Pixel, placed, spaced
from evenhand.charts.records import Row, known, read_records, shortened

if TYPE_CHECKING:
    from altair.typing import ChartType

__all__ = ["frontier_chart"]

_WIDTH, _HEIGHT = 560, 380
_UP, _ACROSS = ("accuracy_low", "accuracy_high"), ("disparity_low", "disparity_high")
_MEASURED = ("accuracy", "disparity")
_EXPECTED = ("expected_accuracy", "expected_disparity")


def frontier_chart(
    records: Iterable[Mapping[str, Any]],
    *,
    x_title: str = "disparity",
    y_title: str = "accuracy",
    confidence: float | None = None,
    title: str = "What fairness costs in accuracy",
    note: str = "Further left is fairer, further up is more accurate.",
    theme: Theme = "light",
) -> ChartType:
    """Accuracy against disparity: a curve over the tolerances, and other classifiers as points.

    A curve is the optimum by the posteriors. A few points with intervals, far enough apart to be told from
    each other, show what was measured on test rows. They are not joined: neighbours differ more by chance
    than by tolerance, and a line through them would zigzag. Where nothing is expected, as of trained
    classifiers, all points are drawn, without a line.

    Parameters
    ----------
    records : iterable of mappings
        ``curve`` (its name), ``accuracy``, ``disparity``; optional ``tolerance``, ``accuracy_low``,
        ``accuracy_high``, ``disparity_low``, ``disparity_high``, ``expected_accuracy``,
        ``expected_disparity``; ``kind``: "curve", or "point" for another classifier; and ``origin``:
        "solved", "mixture", "trained" or "given". Mixtures appear only as part of the line. Curves are
        ordered by tolerance, or by disparity if they have none.
    x_title : str, default="disparity"
    y_title : str, default="accuracy"
        Axis titles, such as "mean difference, demographic parity". Less disparity is fairer.
    confidence : float, default=None
        Of the intervals, for the subtitle.
    title : str, default="What fairness costs in accuracy"
    note : str, default="Further left is fairer, further up is more accurate."
        First line of the subtitle: how to read the two axes.
    theme : {"light", "dark"}, default="light"

    Returns
    -------
    altair chart

    Examples
    --------
    >>> frontier_chart([
    ...     {"curve": "blind", "tolerance": 0.00, "accuracy": 0.83, "disparity": 0.01},
    ...     {"curve": "blind", "tolerance": 0.10, "accuracy": 0.85, "disparity": 0.11},
    ... ]).description
    'Accuracy against disparity. blind: 0.830 at 0.010 to 0.850 at 0.110.'
    """
    look = look_of(theme)
    rows = read_records(
        records,
        chart="frontier_chart",
        texts=("curve",),
        numbers=("accuracy", "disparity"),
        optional=("tolerance", *_UP, *_ACROSS, *_EXPECTED),
        choices={"kind": ("curve", "point"), "origin": ("solved", "mixture", "trained", "given")},
    )
    names = list(dict.fromkeys(row["curve"] for row in sorted(rows, key=lambda row: str(row["kind"]))))
    style = line_styles(names, look)
    for row in rows:
        order = row["disparity"] if row["tolerance"] is None else row["tolerance"]
        row.update(style[row["curve"]], order=order)
    complete = [row for row in rows if known(row, *_MEASURED)]
    points = [row for row in complete if row["kind"] == "point"]
    lines = sorted((row for row in rows if row["kind"] == "curve"), key=_along)
    curves = [name for name in names if any(row["curve"] == name for row in lines)]
    line = [row for row in lines if known(row, *_EXPECTED)]
    measured = [row for row in lines if known(row, *_MEASURED) and row["origin"] != "mixture"]
    drawn = [*measured, *points]
    up, across = (
        _reach([row[key] for row in drawn] + [row[expected] for row in line], drawn, limits)
        for key, expected, limits in zip(_MEASURED, _EXPECTED, (_UP, _ACROSS), strict=True)
    )
    x, y = round_axis([0.0, *across], most=10), round_axis(up, most=7)
    place = {"x": alt.X("disparity:Q", title=x_title, **x), "y": alt.Y("accuracy:Q", title=y_title, **y)}
    plane = _Plane(x=x["scale"].domain, y=y["scale"].domain)
    barred = plane.spaced([[row for row in measured if row["curve"] == name] for name in curves], points)
    smooth = {row["curve"] for row in line}
    counted = [row for row in measured if row in barred or row["curve"] not in smooth]
    legend = alt.Legend(title=None, values=curves) if curves else None
    numbers = ("tolerance", "accuracy", "disparity", *_UP, *_ACROSS)
    marks = {
        **place,
        **point_marks("curve", names, look, legend),
        "tooltip": ["curve:N", "origin:N", *(alt.Tooltip(f"{number}:Q", format=".4f") for number in numbers)],
    }
    layers = [
        *_bars([*points, *barred], place),
        alt.Chart(table(_expected(row) for row in line))
        .mark_line(strokeWidth=2)
        .encode(
            detail="curve:N", stroke=own("ink"), strokeDash=own("dash", of="dash"), order="order:Q", **place
        ),
        alt.Chart(table(counted)).mark_point(size=46, filled=True, opacity=1).encode(**marks),
        alt.Chart(table(points)).mark_point(size=110, filled=True, opacity=1).encode(**marks),
        *_names(points, _paths(line, counted, plane), plane, place, look),
    ]
    return finished(
        alt.layer(*layers).properties(width=_WIDTH, height=_HEIGHT),
        look,
        title=title,
        subtitle=(
            note,
            "Curves: optimum by the posteriors." if line else "",
            f"Points: test rows{_level(complete, confidence)}." if complete else "",
        ),
        description=_sentence(names, complete, x_title, y_title),
    )


@dataclass(frozen=True)
class _Plane:
    """The ranges of both axes."""

    x: list[float]
    y: list[float]

    def pixel(self, row: Row) -> tuple[float, float]:
        """Position of a row in pixels from the upper left."""
        across = (row["disparity"] - self.x[0]) / (self.x[1] - self.x[0])
        return across * _WIDTH, (self.y[1] - row["accuracy"]) / (self.y[1] - self.y[0]) * _HEIGHT

    def spaced(self, curves: list[list[Row]], taken: list[Row]) -> list[Row]:
        """Rows of curves that are far enough from each other, and from those that are drawn anyway."""
        pixels = [[self.pixel(row) for row in curve] for curve in curves]
        chosen = spaced(pixels, [self.pixel(row) for row in taken])
        return [curve[k] for curve, places in zip(curves, chosen, strict=True) for k in places]


def _bars(rows: list[Row], place: dict[str, Any]) -> list[alt.Chart]:
    """Intervals of both coordinates."""
    up = {**place, "y": alt.Y(f"{_UP[0]}:Q"), "y2": f"{_UP[1]}:Q"}
    across = {**place, "x": alt.X(f"{_ACROSS[0]}:Q"), "x2": f"{_ACROSS[1]}:Q"}
    return [
        alt.Chart(table(row for row in rows if known(row, other, *limits)))
        .mark_rule(opacity=0.4, clip=True)
        .encode(stroke=own("ink"), **encoding)
        for limits, other, encoding in ((_UP, "disparity", up), (_ACROSS, "accuracy", across))
    ]


def _names(
    points: list[Row], paths: list[list[Pixel]], plane: _Plane, place: dict[str, Any], look: Look
) -> list[alt.Chart]:
    """The names beside the points."""
    names = [shortened(row["curve"], 30) for row in points]
    ways = placed(names, [plane.pixel(row) for row in points], paths, (_WIDTH, _HEIGHT))
    return [
        layer
        for row, name, way in zip(points, names, ways, strict=True)
        for layer in text_over([{**row, "text": name}], look, {**place, "text": "text:N"}, **way)
    ]


def _paths(line: list[Row], counted: list[Row], plane: _Plane) -> list[list[Pixel]]:
    """What names should not cover: lines and points."""
    by_curve: dict[str, list[Pixel]] = {}
    for row in line:
        by_curve.setdefault(row["curve"], []).append(plane.pixel(_expected(row)))
    return [*by_curve.values(), *([plane.pixel(row)] * 2 for row in counted)]


def _expected(row: Row) -> Row:
    """The row at its expected accuracy and disparity."""
    expected = dict(zip(_MEASURED, (row[key] for key in _EXPECTED), strict=True))
    return {key: row[key] for key in ("curve", "order", "ink", "dash")} | expected


def _reach(values: list[float], rows: list[Row], limits: tuple[str, str]) -> list[float]:
    """What an axis should reach: all values, and intervals up to a quarter of their range beyond.

    An interval from 0 to 1, of a group with few rows, would leave no room for the curve.
    """
    if not values:
        return []
    low, high = min(values), max(values)
    ends = [row[key] for row in rows for key in limits if known(row, key)]
    room = max((high - low) / 4, 0.01)
    return [*values, *(min(max(end, low - room), high + room) for end in ends)]


def _level(rows: list[Row], confidence: float | None) -> str:
    """What the bars of points are, if there are any."""
    if not any(known(row, *_UP) or known(row, *_ACROSS) for row in rows):
        return ""
    return ", with intervals" if confidence is None else f", {100 * confidence:g} % intervals"


def _along(row: Row) -> float:
    """Position of a row along its curve."""
    return math.inf if row["order"] is None else float(row["order"])


def _sentence(names: list[str], rows: list[Row], x_title: str, y_title: str) -> str:
    parts = []
    for name in names:
        mine = sorted((row for row in rows if row["curve"] == name), key=lambda row: row["disparity"])
        ends = [f"{row['accuracy']:.3f} at {row['disparity']:.3f}" for row in mine]
        parts.append(f"{name}: {' to '.join(dict.fromkeys([ends[0], ends[-1]])) if ends else NO_VALUE}")
    return f"{y_title[:1].upper()}{y_title[1:]} against {x_title}. {'; '.join(parts)}."
