"""Chart of accuracy against disparity."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evenhand.charts.colours import Look, Theme, look_of
from evenhand.charts.look import (
    NO_VALUE,
    alt,
    domain,
    finished,
    intervals_note,
    line_styles,
    own,
    point_marks,
    table,
    text_over,
)
from evenhand.charts.placement import Pixel, placed
from evenhand.charts.records import Row, known, read_records, shortened

if TYPE_CHECKING:
    from altair.typing import ChartType

__all__ = ["frontier_chart"]

_WIDTH, _HEIGHT = 560, 380
_UP, _ACROSS = ("accuracy_low", "accuracy_high"), ("disparity_low", "disparity_high")
_EXPECTED = ("expected_accuracy", "expected_disparity")
_MOST_BARS = 6
"""Points with error bars per curve; more would overlap."""


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

    The line of a curve shows what the posteriors predict. A few points with intervals show what was measured
    on test rows. They are not joined: neighbours differ more by chance than by tolerance, and a line through
    them would zigzag. A curve without expected values has no line and shows all its points.

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
    complete = [row for row in rows if known(row, "accuracy", "disparity")]
    points = [row for row in complete if row["kind"] == "point"]
    lines = sorted((row for row in rows if row["kind"] == "curve"), key=_along)
    curves = {name: found for name in names if (found := [row for row in lines if row["curve"] == name])}
    line = [row for row in lines if known(row, *_EXPECTED)]
    smooth = {row["curve"] for row in line}
    counted = [row for name, curve in curves.items() for row in (_spread(curve) if name in smooth else curve)]
    barred = [*points, *(row for curve in curves.values() for row in _spread(curve))]
    drawn = [row for row in (*counted, *points) if known(row, "accuracy", "disparity")]
    up, across = (
        [row[key] for row in drawn for key in keys if known(row, key)] + [row[expected] for row in line]
        for keys, expected in zip((("accuracy", *_UP), ("disparity", *_ACROSS)), _EXPECTED, strict=True)
    )
    plane = _Plane(x=domain(across, include=[0.0]), y=domain(up, margin=0.08))
    place = {
        "x": alt.X(
            "disparity:Q",
            scale=alt.Scale(domain=plane.x, nice=False),
            axis=alt.Axis(tickCount=8, format="~g"),
            title=x_title,
        ),
        "y": alt.Y(
            "accuracy:Q",
            scale=alt.Scale(domain=plane.y, nice=False, zero=False),
            axis=alt.Axis(tickCount=8, format="~g"),
            title=y_title,
        ),
    }
    legend = alt.Legend(title=None, values=list(curves)) if curves else None
    numbers = ("tolerance", "accuracy", "disparity", *_UP, *_ACROSS)
    marks = {
        **place,
        **point_marks("curve", names, look, legend),
        "tooltip": ["curve:N", "origin:N", *(alt.Tooltip(f"{number}:Q", format=".4f") for number in numbers)],
    }
    layers = [
        *_bars(barred, place),
        alt.Chart(table(_expected(row) for row in line))
        .mark_line(strokeWidth=2)
        .encode(
            detail="curve:N", stroke=own("ink"), strokeDash=own("dash", of="dash"), order="order:Q", **place
        ),
        alt.Chart(table(row for row in counted if known(row, "accuracy", "disparity")))
        .mark_point(size=46, filled=True, opacity=1)
        .encode(**marks),
        alt.Chart(table(points)).mark_point(size=110, filled=True, opacity=1).encode(**marks),
        *_names(points, _paths(line, counted, plane), plane, place, look),
    ]
    return finished(
        alt.layer(*layers).properties(width=_WIDTH, height=_HEIGHT),
        look,
        title=title,
        subtitle=(
            note,
            "Lines: the best for each tolerance, as predicted by the learned probabilities." if line else "",
            "Points: measured on test rows." if line and counted else "",
            intervals_note(
                confidence, there=any(known(row, *_UP) or known(row, *_ACROSS) for row in complete)
            ),
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


def _bars(rows: list[Row], place: dict[str, Any]) -> list[alt.Chart]:
    """Intervals of both coordinates."""
    up = {**place, "y": alt.Y(f"{_UP[0]}:Q"), "y2": f"{_UP[1]}:Q"}
    across = {**place, "x": alt.X(f"{_ACROSS[0]}:Q"), "x2": f"{_ACROSS[1]}:Q"}
    return [
        alt.Chart(table(row for row in rows if known(row, other, *limits)))
        .mark_rule(opacity=0.4)
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
    dots = [[plane.pixel(row)] * 2 for row in counted if known(row, "accuracy", "disparity")]
    return [*by_curve.values(), *dots]


def _expected(row: Row) -> Row:
    """The row at its expected accuracy and disparity."""
    expected = dict(zip(("accuracy", "disparity"), (row[key] for key in _EXPECTED), strict=True))
    return {key: row[key] for key in ("curve", "order", "ink", "dash")} | expected


def _spread(curve: list[Row]) -> list[Row]:
    """A few evenly spaced rows of a curve without mixtures, including both ends."""
    curve = [row for row in curve if row["origin"] != "mixture"]
    if len(curve) <= _MOST_BARS:
        return curve
    return [curve[round(k * (len(curve) - 1) / (_MOST_BARS - 1))] for k in range(_MOST_BARS)]


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
