"""Charts over the tolerance: accuracy against disparity, and shadow prices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from evenhand.charts import look
from evenhand.charts.drawing import ChartType, alt
from evenhand.charts.look import Measure, between, fairer, numbers, rounded, table
from evenhand.charts.records import NO_VALUE, Row, Shown, known, read_records, shown_groups

_UP, _ACROSS = ("accuracy_low", "accuracy_high"), ("disparity_low", "disparity_high")
_MEASURED = ("accuracy", "disparity")
_EXPECTED = ("expected_accuracy", "expected_disparity")
_ALONG, _BESIDE = 0.17, 0.08
"""Shares of the axes between two points of one curve, and to any other point."""
_EASIER: dict[Measure, tuple[str, str]] = {
    "difference": ("0.01 more tolerance", "more tolerance"),
    "ratio": ("a ratio lower by 0.01", "a lower ratio"),
    "bound": ("a bound easier by 0.01", "an easier bound"),
}
_LINES, _SHAPES = 6, 10
"""Most lines in a chart; shapes that tell a line from others."""


def frontier_chart(
    records: Iterable[Mapping[str, Any]],
    *,
    x_title: str = "disparity",
    measure: Measure = "difference",
    confidence: float | None = None,
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
        "solved", "trained" or "given". Curves are ordered by tolerance, or by disparity if they have none.
    x_title : str, default="disparity"
        Axis title, such as "mean difference, demographic parity".
    measure : {"difference", "ratio", "bound"}, default="difference"
        What the disparity is. Fairer is on the left: less of a difference, more of a ratio. The rate of a
        bound has no fairer side.
    confidence : float, default=None
        Of the intervals, for the subtitle.

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
    optional = ("tolerance", *_UP, *_ACROSS, *_EXPECTED)
    rows = read_records(records, ("curve",), _MEASURED, optional, kind="curve", origin="solved")
    rows.sort(key=lambda row: str(row["kind"]))
    for row in rows:
        row["group"] = row["curve"]
        row["order"] = row["disparity"] if row["tolerance"] is None else row["tolerance"]
    shown = shown_groups(rows, order=lambda _: 0.0, most=len(rows))
    complete = [row for row in shown.rows if known(row, *_MEASURED)]
    points = [row for row in complete if row["kind"] == "point"]
    curves = [row for row in shown.rows if row["kind"] == "curve"]
    curves.sort(key=lambda row: math.inf if row["order"] is None else row["order"])
    expected = [row for row in curves if known(row, *_EXPECTED)]
    line = [row | dict(zip(_MEASURED, (row[key] for key in _EXPECTED), strict=True)) for row in expected]
    measured = [row for row in curves if known(row, *_MEASURED)]
    across, up = (
        _reach([*measured, *points, *line], key, limits)
        for key, limits in (("disparity", _ACROSS), ("accuracy", _UP))
    )
    by_ratio = measure == "ratio"
    across = [across[0], max(1.0, across[1])] if by_ratio else [min(0.0, across[0]), across[1]]
    barred = _spaced(measured, points, across[1] - across[0], up[1] - up[0])
    smooth = {row["curve"] for row in line}

    def x(field: str) -> Any:
        return alt.X(f"{field}:Q", title=fairer(x_title, measure), **numbers(8, across, reverse=by_ratio))

    def y(field: str) -> Any:
        return alt.Y(f"{field}:Q", title="accuracy", **numbers(7, up))

    place = {"x": x("disparity"), "y": y("accuracy")}
    marks = place | look.line_marks(shown.names, "color", "shape")
    marks["tooltip"] = ["curve:N", "origin:N", *rounded("tolerance", *_MEASURED, *_UP, *_ACROSS)]
    bars = alt.Chart(table([*points, *barred])).mark_rule(opacity=0.4, clip=True)
    colour, dashes = (look.line_marks(shown.names, key) for key in ("color", "strokeDash"))
    layers = [
        bars.encode(**place | colour | {"y": y(_UP[0]), "y2": f"{_UP[1]}:Q"}),
        bars.encode(**place | colour | {"x": x(_ACROSS[0]), "x2": f"{_ACROSS[1]}:Q"}),
        alt.Chart(table(line)).mark_line(strokeWidth=2).encode(**place | colour | dashes, order="order:Q"),
        *(
            alt.Chart(table(drawn)).mark_point(size=size, filled=True, opacity=1).encode(**marks)
            for size, drawn in (
                (46, [row for row in measured if row in barred or row["curve"] not in smooth]),
                (110, points),
            )
        ),
    ]
    level = "" if confidence is None else f", {100 * confidence:g} % intervals"
    return look.finished(
        alt.layer(*layers).properties(width=560, height=380),
        title=f"What {'a bound' if measure == 'bound' else 'fairness'} costs in accuracy",
        subtitle=(
            f"{'' if measure == 'bound' else 'Further left is fairer. '}Further up is more accurate.",
            "Curves: optimum by the posteriors." if line else "",
            f"Points: test rows{level}." if complete else "",
        ),
        description=_sentence(list(dict.fromkeys(row["name"] for row in shown.rows)), complete, x_title),
    )


def _spaced(rows: list[Row], taken: list[Row], across: float, up: float) -> list[Row]:
    """Rows of curves that are far enough from each other: the ends of a curve first, then along it."""

    def gap(one: Row, other: Row) -> float:
        return math.hypot(
            (one["disparity"] - other["disparity"]) / across, (one["accuracy"] - other["accuracy"]) / up
        )

    chosen: list[Row] = []
    for name in dict.fromkeys(row["curve"] for row in rows):
        mine = [row for row in rows if row["curve"] == name]
        for row in [mine[0], mine[-1], *mine[1:-1]]:
            far = {True: _ALONG, False: _BESIDE}
            if all(gap(row, other) >= far[other["curve"] == name] for other in (*taken, *chosen)):
                chosen.append(row)
    return chosen


def _reach(rows: list[Row], key: str, limits: tuple[str, str]) -> list[float]:
    """What an axis should reach: all values, and intervals up to a quarter of their range beyond.

    An interval from 0 to 1, of a group with few rows, would leave no room for the curve.
    """
    low, high = between(rows, key)
    room = max((high - low) / 4, 0.01)
    if low == high:
        return [low - room, high + room]
    ends = between(rows, key, *limits)
    return [max(ends[0], low - room), min(ends[1], high + room)]


def _sentence(names: list[str], rows: list[Row], x_title: str) -> str:
    parts = []
    for name in names:
        mine = sorted((row for row in rows if row["curve"] == name), key=lambda row: row["disparity"])
        ends = [f"{row['accuracy']:.3f} at {row['disparity']:.3f}" for row in mine]
        parts.append(f"{name}: {' to '.join(dict.fromkeys([ends[0], ends[-1]])) if ends else NO_VALUE}")
    return f"Accuracy against {x_title}. {'; '.join(parts)}."


def prices_chart(
    records: Iterable[Mapping[str, Any]], *, x_title: str = "tolerance", measure: Measure = "difference"
) -> ChartType:
    """Shadow prices over the tolerance: the accuracy gained by 0.01 more, by group.

    Ratios read the other way: less is easier, and gains.

    With more than six groups, the six with the highest prices are drawn.

    Parameters
    ----------
    records : iterable of mappings
        ``tolerance``, ``group``, ``price`` (0 where the group does not bind). Prices with the same group and
        tolerance are added.
    x_title : str, default="tolerance"
    measure : {"difference", "ratio", "bound"}, default="difference"
        What the tolerance is of. Fairer is on the left.

    Returns
    -------
    altair chart

    Examples
    --------
    >>> prices_chart([
    ...     {"tolerance": 0.01, "group": "F", "price": 0.004},
    ...     {"tolerance": 0.05, "group": "F", "price": 0.001},
    ... ]).description
    'The highest price is 0.0040 of accuracy for 0.01 more tolerance, of F at tolerance 0.010.'
    """
    easier = _EASIER[measure]
    rows = _added(read_records(records, ("group",), ("tolerance", "price")))
    there = [row for row in rows if known(row, "tolerance", "price")]
    every, binding = {row["group"] for row in rows}, {row["group"] for row in rows if row["price"] != 0}
    shown = shown_groups(
        [row for row in rows if row["group"] in (binding or every)],
        order=lambda own: max((row["price"] for row in own if row["price"] is not None), default=None),
        most=_LINES,
    )
    place = {
        "x": alt.X(
            "tolerance:Q",
            title=fairer(x_title, measure),
            **numbers(8, between(there, "tolerance"), reverse=True) if measure == "ratio" else numbers(8),
        ),
        "y": alt.Y("price:Q", title=f"accuracy gained by {easier[0]}", **numbers(6)),
    }
    words = ["name:N", *rounded("tolerance"), *rounded("price", form=".5f")]
    layers = [
        alt.Chart(table(shown.rows))
        .mark_line(strokeWidth=2)
        .encode(**place, **look.line_marks(shown.names, "color", "strokeDash")),
        alt.Chart(table(_some(shown)))
        .mark_point(size=40, filled=True, opacity=1)
        .encode(**place, **look.line_marks(shown.names, "color", "shape"), tooltip=words),
    ]
    sentence = f"Prices: {NO_VALUE}."
    if there:
        top = max(there, key=lambda row: row["price"])
        sentence = (
            f"The highest price is {top['price']:.4f} of accuracy for {easier[0]}, of {top['group']} "
            f"at tolerance {top['tolerance']:.3f}."
        )
    return look.finished(
        alt.layer(*layers).properties(width=560, height=300),
        title=f"What {easier[1]} would gain",
        subtitle=(
            "Shadow price of each group. Where it is 0, the group does not limit accuracy.",
            f"Groups that never bind: {len(every - binding)}." if every - binding else "",
            shown.without("groups with lower prices"),
        ),
        description=sentence,
    )


def _some(shown: Shown) -> Iterator[Row]:
    """Evenly spaced rows of each line, for its shapes."""
    for name in shown.names:
        mine = shown.of(name, "tolerance", "price")
        yield from mine[:: math.ceil(len(mine) / _SHAPES) or 1]


def _added(rows: list[Row]) -> list[Row]:
    """Prices added by group and tolerance; a sum with a missing part is missing."""
    found: dict[tuple[str, float | None], Row] = {}
    for row in rows:
        one = found.setdefault((row["group"], row["tolerance"]), row | {"price": 0.0})
        one["price"] = one["price"] + row["price"] if known(one, "price") and known(row, "price") else None
    return list(found.values())
