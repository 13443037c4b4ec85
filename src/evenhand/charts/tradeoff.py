"""What fairness costs: the frontier of accuracy and disparity, and the price of each group's tolerance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evenhand.charts.look import (
    DASHES,
    NO_VALUE,
    SHAPES,
    Theme,
    alt,
    domain,
    finished,
    look_of,
    many,
    table,
)
from evenhand.charts.records import Row, known, read_records, shown_groups
from evenhand.exceptions import InputError

if TYPE_CHECKING:
    from altair.typing import ChartType

__all__ = ["frontier_chart", "prices_chart"]

_WIDTH, _HEIGHT = 560, 380
_MOST_BARS = 12
"""Error bars per curve; further ones hide the curve."""

_LINES = 6
"""Lines that can be told apart; further groups are added up."""


def frontier_chart(
    records: Iterable[Mapping[str, Any]],
    *,
    x_title: str = "disparity",
    y_title: str = "accuracy",
    title: str = "What fairness costs in accuracy",
    theme: Theme = "light",
) -> ChartType:
    """Draw accuracy against disparity: curves over the tolerance, and other classifiers as points.

    Parameters
    ----------
    records : iterable of mappings
        ``curve`` (its name), ``accuracy``, ``disparity``; optional ``tolerance``, ``accuracy_low``,
        ``accuracy_high``, ``disparity_low``, ``disparity_high``, and ``kind``: "curve", or "point" for a
        classifier that is compared. Curves go by tolerance, or by disparity if they have none.
    x_title, y_title : str
        What disparity and accuracy are, such as "mean difference, demographic parity".
    title : str
    theme : {"light", "dark"}

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
    given = [dict(record) if isinstance(record, Mapping) else record for record in records]
    limits = ("accuracy_low", "accuracy_high", "disparity_low", "disparity_high")
    rows = read_records(
        given,
        chart="frontier_chart",
        texts=("curve",),
        numbers=("accuracy", "disparity"),
        optional=("tolerance", *limits),
    )
    for place, (row, record) in enumerate(zip(rows, given, strict=True)):
        row["kind"] = record.get("kind") or "curve"
        if row["kind"] not in ("curve", "point"):
            raise InputError(
                f"frontier_chart: record {place} has kind {row['kind']!r}; it must be 'curve' or 'point'"
            )
        row["order"] = row["tolerance"] if known(row, "tolerance") else row["disparity"]
    names = list(dict.fromkeys(row["curve"] for row in sorted(rows, key=lambda row: row["kind"])))
    there = [row for row in rows if known(row, "accuracy", "disparity")]
    x_domain = domain(
        [row[key] for row in there for key in ("disparity", *limits[2:]) if known(row, key)], include=[0.0]
    )
    y_domain = domain(
        [row[key] for row in there for key in ("accuracy", *limits[:2]) if known(row, key)], margin=0.08
    )
    x = alt.X("disparity:Q", scale=alt.Scale(domain=x_domain, nice=False), title=x_title)
    y = alt.Y("accuracy:Q", scale=alt.Scale(domain=y_domain, nice=False, zero=False), title=y_title)
    key = alt.Legend(title=None, orient="right")
    colour = alt.Color(
        "curve:N", scale=alt.Scale(domain=names, range=many(look.colours, len(names))), sort=None, legend=key
    )
    shape = alt.Shape(
        "curve:N", scale=alt.Scale(domain=names, range=many(SHAPES, len(names))), sort=None, legend=key
    )
    dash = alt.StrokeDash(
        "curve:N", scale=alt.Scale(domain=names, range=many(DASHES, len(names))), sort=None, legend=None
    )
    words = [
        "curve:N",
        *(alt.Tooltip(f"{key}:Q", format=".4f") for key in ("tolerance", "accuracy", "disparity", *limits)),
    ]
    lines = [row for row in rows if row["kind"] == "curve"]
    points = [row for row in there if row["kind"] == "point"]
    barred = [row for name in names for row in _some([row for row in there if row["curve"] == name])]
    layers = [
        alt.Chart(table(row for row in barred if known(row, *limits[:2])))
        .mark_rule(opacity=0.35, strokeWidth=1.5)
        .encode(x=x, y=alt.Y("accuracy_low:Q"), y2="accuracy_high:Q", color=colour),
        alt.Chart(table(row for row in barred if known(row, *limits[2:])))
        .mark_rule(opacity=0.35, strokeWidth=1.5)
        .encode(x=alt.X("disparity_low:Q"), x2="disparity_high:Q", y=y, color=colour),
        alt.Chart(table(lines))
        .mark_line(strokeWidth=2)
        .encode(x=x, y=y, color=colour, strokeDash=dash, order="order:Q"),
        alt.Chart(table(row for row in there if row["kind"] == "curve"))
        .mark_point(size=34, filled=True, opacity=1)
        .encode(x=x, y=y, color=colour, shape=shape, tooltip=words),
        alt.Chart(table(points))
        .mark_point(size=110, filled=True, opacity=1, stroke=look.paper, strokeWidth=1)
        .encode(x=x, y=y, color=colour, shape=shape, tooltip=words),
        *(
            alt.Chart(table([{**spot.row, "text": spot.text}]))
            .mark_text(align=spot.align, dx=spot.dx, dy=spot.dy, baseline="middle", fontSize=12)
            .encode(x=x, y=y, text="text:N")
            for spot in _placed(points, there, x_domain, y_domain)
        ),
    ]
    return finished(
        alt.layer(*layers).properties(width=_WIDTH, height=_HEIGHT),
        look,
        title=title,
        subtitle="Further left is fairer, further up is more accurate."
        + (" Light bars: intervals." if any(known(row, *limits[:2]) for row in there) else ""),
        description=_frontier_sentence(names, there, x_title, y_title),
    )


def _some(rows: list[Row]) -> list[Row]:
    """At most a dozen rows of a curve, evenly spread over it."""
    rows = sorted(rows, key=lambda row: row["order"])
    step = max(1, math.ceil(len(rows) / _MOST_BARS))
    return rows[::step]


@dataclass(frozen=True)
class _Spot:
    """Where the name of a point stands."""

    row: Row
    text: str
    align: Any
    dx: int
    dy: int


def _placed(points: list[Row], rows: list[Row], x: list[float], y: list[float]) -> list[_Spot]:
    """Put names right, left, above or below their points, wherever they hide least of names and points."""

    def pixel(row: Row) -> tuple[float, float]:
        across = (row["disparity"] - x[0]) / (x[1] - x[0]) * _WIDTH
        return across, (y[1] - row["accuracy"]) / (y[1] - y[0]) * _HEIGHT

    marks = [pixel(row) for row in rows]
    taken: list[tuple[float, float, float, float]] = []
    spots = []
    for row in points:
        text = row["curve"] if len(row["curve"]) <= 30 else f"{row['curve'][:29]}…"
        across, down = pixel(row)
        wide, high = 6.6 * len(text), 14.0
        sides = {
            ("left", 10, 0): (across + 8, down - high / 2),
            ("right", -10, 0): (across - 8 - wide, down - high / 2),
            ("center", 0, -15): (across - wide / 2, down - 15 - high / 2),
            ("center", 0, 16): (across - wide / 2, down + 16 - high / 2),
            ("left", 8, -15): (across + 8, down - 15 - high / 2),
            ("left", 8, 16): (across + 8, down + 16 - high / 2),
            ("right", -8, -15): (across - 8 - wide, down - 15 - high / 2),
            ("right", -8, 16): (across - 8 - wide, down + 16 - high / 2),
        }

        def hidden(corner: tuple[float, float], wide: float = wide, high: float = high) -> float:
            left, top = corner
            names = sum(
                left < box[2] and box[0] < left + wide and top < box[3] and box[1] < top + high
                for box in taken
            )
            dots = sum(left - 5 < a < left + wide + 5 and top - 5 < d < top + high + 5 for a, d in marks)
            outside = left < 0 or left + wide > _WIDTH or top < 0 or top + high > _HEIGHT
            return 10 * names + 3 * outside + dots

        side = min(sides, key=lambda side: hidden(sides[side]))
        left, top = sides[side]
        taken.append((left, top, left + wide, top + high))
        spots.append(_Spot(row, text, *side))
    return spots


def _frontier_sentence(names: list[str], rows: list[Row], x_title: str, y_title: str) -> str:
    parts = []
    for name in names:
        mine = sorted((row for row in rows if row["curve"] == name), key=lambda row: row["disparity"])
        ends = [f"{row['accuracy']:.3f} at {row['disparity']:.3f}" for row in mine]
        parts.append(f"{name}: {' to '.join(dict.fromkeys([ends[0], ends[-1]])) if ends else NO_VALUE}")
    return f"{y_title[:1].upper()}{y_title[1:]} against {x_title}. {'; '.join(parts)}."


def prices_chart(
    records: Iterable[Mapping[str, Any]],
    *,
    x_title: str = "tolerance",
    title: str = "What more tolerance would buy",
    theme: Theme = "light",
) -> ChartType:
    """Draw shadow prices over the tolerance: the accuracy that one more point (0.01) of it buys, by group.

    Six lines can be told apart. With more groups, the five with the highest prices have lines, and the
    others are added up: prices of groups add.

    Parameters
    ----------
    records : iterable of mappings
        ``tolerance``, ``group``, ``price`` (0 where the group does not bind).
    x_title : str
        What the tolerance is of.
    title : str
    theme : {"light", "dark"}

    Returns
    -------
    altair chart

    Examples
    --------
    >>> prices_chart([
    ...     {"tolerance": 0.01, "group": "F", "price": 0.004},
    ...     {"tolerance": 0.05, "group": "F", "price": 0.001},
    ... ]).description
    'The highest price is 0.0040 of accuracy per 0.01 of tolerance, of F at tolerance 0.010.'
    """
    look = look_of(theme)
    rows = read_records(records, chart="prices_chart", texts=("group",), numbers=("tolerance", "price"))
    there = [row for row in rows if known(row, "tolerance", "price")]
    highest: dict[str, float] = {}
    for row in there:
        highest[row["group"]] = max(highest.get(row["group"], row["price"]), row["price"])
    number = len({row["group"] for row in rows})
    labels, left_out = shown_groups(
        rows, order=highest.get, weight=highest.get, most=_LINES if number <= _LINES else _LINES - 1
    )
    drawn = [
        {**row, "name": row["group"], "group": labels[row["group"]]} for row in rows if row["group"] in labels
    ]
    names = list(labels.values())
    if left_out:
        others = f"{left_out} other groups together"
        names.append(others)
        sums: dict[float, float] = {}
        for row in there:
            if row["group"] not in labels:
                sums[row["tolerance"]] = sums.get(row["tolerance"], 0.0) + row["price"]
        drawn += [{"tolerance": t, "price": p, "name": others, "group": others} for t, p in sums.items()]
    key = alt.Legend(title=None, orient="bottom", columns=2, symbolStrokeWidth=2)
    x = alt.X("tolerance:Q", scale=alt.Scale(zero=True, nice=False), title=x_title)
    y = alt.Y("price:Q", scale=alt.Scale(zero=True), title="accuracy gained per 0.01 of tolerance")
    colour = alt.Color(
        "group:N", scale=alt.Scale(domain=names, range=many(look.colours, len(names))), sort=None, legend=key
    )
    dash = alt.StrokeDash(
        "group:N", scale=alt.Scale(domain=names, range=many(DASHES, len(names))), sort=None, legend=None
    )
    shape = alt.Shape(
        "group:N", scale=alt.Scale(domain=names, range=many(SHAPES, len(names))), sort=None, legend=key
    )
    words = ["name:N", alt.Tooltip("tolerance:Q", format=".4f"), alt.Tooltip("price:Q", format=".5f")]
    lines = alt.Chart(table(drawn)).mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash)
    dots = (
        alt.Chart(table(row for row in drawn if known(row, "tolerance", "price")))
        .mark_point(size=40, filled=True, opacity=1)
        .encode(x=x, y=y, color=colour, shape=shape, tooltip=words)
    )
    sentence = f"Prices: {NO_VALUE}."
    if there:
        top = max(there, key=lambda row: row["price"])
        sentence = (
            f"The highest price is {top['price']:.4f} of accuracy per 0.01 of tolerance, of {top['group']} "
            f"at tolerance {top['tolerance']:.3f}."
        )
    return finished(
        alt.layer(lines, dots).properties(width=_WIDTH, height=300),
        look,
        title=title,
        subtitle="Shadow price of each group that binds. At 0 the group does not hold accuracy back.",
        description=sentence,
    )
