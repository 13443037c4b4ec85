"""Charts of what fairness costs: accuracy against disparity, shadow prices, and alternative models."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from evenhand.charts import look
from evenhand.charts.look import ChartType, Measure, alt, between, fairer, numbers, rounded, table
from evenhand.charts.records import NO_VALUE, Row, known, read_records, shown_groups

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
_LINES = 6
"""Lines of prices that are drawn."""


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
        "solved", "trained" or "given".
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
    rows = [row | {"group": row["curve"]} for row in sorted(rows, key=lambda row: str(row["kind"]))]
    names = list(dict.fromkeys(row["curve"] for row in rows))
    complete = sorted((row for row in rows if known(row, *_MEASURED)), key=lambda row: row["disparity"])
    points = [row for row in complete if row["kind"] == "point"]
    measured = [row for row in complete if row["kind"] == "curve"]
    expected = [row for row in rows if row["kind"] == "curve" and known(row, *_EXPECTED)]
    line = [row | dict(zip(_MEASURED, (row[key] for key in _EXPECTED), strict=True)) for row in expected]
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
    marks = place | look.line_marks(names, "color", "shape")
    marks["tooltip"] = ["curve:N", "origin:N", *rounded("tolerance", *_MEASURED, *_UP, *_ACROSS)]
    bars = alt.Chart(table([*points, *barred])).mark_rule(opacity=0.4, clip=True)
    colour, dashes = (look.line_marks(names, key) for key in ("color", "strokeDash"))
    layers = [
        bars.encode(**place | colour | {"y": y(_UP[0]), "y2": f"{_UP[1]}:Q"}),
        bars.encode(**place | colour | {"x": x(_ACROSS[0]), "x2": f"{_ACROSS[1]}:Q"}),
        alt.Chart(table(line)).mark_line(strokeWidth=2).encode(**place | colour | dashes),
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
        description=_sentence(names, complete, x_title),
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
        ends = [f"{row['accuracy']:.3f} at {row['disparity']:.3f}" for row in rows if row["curve"] == name]
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
    easier, looser = _EASIER[measure]
    rows = read_records(records, ("group",), ("tolerance", "price"))
    there = [row for row in rows if known(row, "tolerance", "price")]
    every, binding = {row["group"] for row in there}, {row["group"] for row in there if row["price"] > 0}
    shown = shown_groups(
        [row for row in there if row["group"] in (binding or every)],
        order=lambda own: max(row["price"] for row in own),
        most=_LINES,
    )
    ends = between(there, "tolerance") if measure == "ratio" else None
    x = alt.X("tolerance:Q", title=fairer(x_title, measure), **numbers(8, ends, reverse=measure == "ratio"))
    y = alt.Y("sum(price):Q", title=f"accuracy gained by {easier}", **numbers(6))
    words = ["group:N", *rounded("tolerance"), *rounded("sum(price)", form=".5f")]
    lines = alt.Chart(table(shown.rows)).mark_line(strokeWidth=2, point={"size": 16})
    marks = look.line_marks(shown.names, "color", "strokeDash", points=False)
    sentence = f"Prices: {NO_VALUE}."
    if there:
        top = max(there, key=lambda row: row["price"])
        sentence = (
            f"The highest price is {top['price']:.4f} of accuracy for {easier}, of {top['group']} "
            f"at tolerance {top['tolerance']:.3f}."
        )
    return look.finished(
        alt.layer(lines.encode(x=x, y=y, tooltip=words, **marks)).properties(width=560, height=300),
        title=f"What {looser} would gain",
        subtitle=(
            "Shadow price of each group. Where it is 0, the group does not limit accuracy.",
            f"Groups that never bind: {len(every - binding)}." if every - binding else "",
            shown.without("groups with lower prices"),
        ),
        description=sentence,
    )


def alternatives_chart(
    candidates: Iterable[Mapping[str, Any]],
    bound: Iterable[Mapping[str, Any]],
    *,
    margin: float,
    confidence: float,
) -> ChartType:
    """Difference in accuracy against the lowest impact ratio; the bound as a curve.

    Parameters
    ----------
    candidates : iterable of mappings
        ``name``, ``kind``, ``accuracy_difference``, ``impact_ratio``, ``chosen``; optional ``accuracy_low``,
        ``accuracy_high``, ``ratio_low``, ``ratio_high``.
    bound : iterable of mappings
        ``margin``, ``impact_ratio``.
    margin : float
        Where a line is drawn.
    confidence : float
        Of the intervals, for the subtitle.

    Returns
    -------
    altair chart

    Examples
    --------
    >>> old = {"name": "incumbent", "kind": "incumbent", "accuracy_difference": 0.0, "impact_ratio": 0.6}
    >>> new = {"name": "new", "kind": "fair", "accuracy_difference": -0.002, "impact_ratio": 0.7}
    >>> bound = [{"margin": 0.0, "impact_ratio": 0.8}]
    >>> alternatives_chart([old, new], bound, margin=0.005, confidence=0.95).description
    'Lowest impact ratio and difference in accuracy. incumbent: 0.600 at 0.0000; new: 0.700 at -0.0020.'
    """
    figures = ("accuracy_difference", "impact_ratio")
    limits = ("accuracy_low", "accuracy_high", "ratio_low", "ratio_high")
    rows = [
        {**row, "group": row["kind"]}
        for row in read_records(candidates, ("name", "kind"), figures, limits, chosen="")
        if known(row, *figures)
    ]
    curve = [{"accuracy_difference": -row["margin"], "impact_ratio": row["impact_ratio"]} for row in bound]
    across = between([*rows, *curve], "impact_ratio")
    up = between([*rows, *curve, {"accuracy_difference": -1.2 * margin}], "accuracy_difference")
    place = {
        "x": alt.X(
            "impact_ratio:Q",
            title="lowest impact ratio  |  fairer →",
            **numbers(8, [across[0] - 0.02, across[1] + 0.02]),
        ),
        "y": alt.Y(
            "accuracy_difference:Q",
            title="difference in accuracy",
            **numbers(7, [up[0] - 0.002, up[1] + 0.002]),
        ),
    }
    kinds = list(dict.fromkeys(row["group"] for row in rows))
    marks = place | look.line_marks(kinds, "color", "shape")
    tips = ["name:N", *rounded("accuracy_difference", "accuracy_low", "accuracy_high", "impact_ratio")]
    named = [row for row in rows if row["kind"] == "incumbent" or row.get("chosen")]
    limited = [row for row in named if known(row, "accuracy_low", "ratio_low")]
    bars = alt.Chart(table(limited)).mark_rule(opacity=0.5, clip=True)
    text = alt.Chart(table(named)).mark_text(align="left", dx=9, dy=-9, fontSize=12, color=look.INK)
    line = alt.Chart(table([{"accuracy_difference": -margin}])).mark_rule(strokeDash=[4, 4], color=look.FAINT)
    layers = [
        line.encode(y=place["y"]),
        alt.Chart(table(curve)).mark_line(color=look.INK, strokeWidth=2, point=True).encode(**place),
        bars.encode(**place | {"y": alt.Y("accuracy_low:Q"), "y2": "accuracy_high:Q"}),
        bars.encode(**place | {"x": alt.X("ratio_low:Q"), "x2": "ratio_high:Q"}),
        alt.Chart(table(rows)).mark_point(size=80, filled=True, opacity=0.9).encode(**marks, tooltip=tips),
        text.encode(**place, text="name:N"),
    ]
    said = (f"{row['name']}: {row['impact_ratio']:.3f} at {row['accuracy_difference']:.4f}" for row in rows)
    return look.finished(
        alt.layer(*layers).properties(width=560, height=380),
        title="Alternatives to the incumbent",
        subtitle=(
            "Black line: the bound, by the learned probabilities. "
            f"Dashed: {margin:g} less accurate than the incumbent. Bars: {100 * confidence:g} % intervals.",
        ),
        description=f"Lowest impact ratio and difference in accuracy. {'; '.join(said)}.",
    )
