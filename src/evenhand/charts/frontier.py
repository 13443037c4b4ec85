"""What fairness costs: the frontier of accuracy and disparity."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from evenhand.charts.colours import Theme, look_of
from evenhand.charts.look import (
    NO_VALUE,
    alt,
    domain,
    finished,
    line_styles,
    own,
    point_marks,
    table,
)
from evenhand.charts.placement import placed
from evenhand.charts.records import Row, known, read_records, shortened
from evenhand.exceptions import InputError

if TYPE_CHECKING:
    from altair.typing import ChartType

__all__ = ["frontier_chart"]

_WIDTH, _HEIGHT = 560, 380
_MOST_BARS = 6
"""Error bars per curve; further ones hide the curve."""


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
    style = line_styles(names, look)
    for row in rows:
        row.update(style[row["curve"]])
    lines = sorted((row for row in rows if row["kind"] == "curve"), key=_along)
    curves = {name: [row for row in lines if row["curve"] == name] for name in names}
    drawn = [name for name in names if curves[name]]
    points = [row for row in there if row["kind"] == "point"]
    marks = point_marks("curve", names, look, alt.Legend(title=None, values=drawn) if lines else None)
    numbers = ("tolerance", "accuracy", "disparity", *limits)
    words = ["curve:N", *(alt.Tooltip(f"{number}:Q", format=".4f") for number in numbers)]
    barred = [*points, *(row for name in drawn for row in _some(curves[name]))]

    def pixel(row: Row) -> tuple[float, float]:
        across = (row["disparity"] - x_domain[0]) / (x_domain[1] - x_domain[0])
        return across * _WIDTH, (y_domain[1] - row["accuracy"]) / (y_domain[1] - y_domain[0]) * _HEIGHT

    short = [shortened(row["curve"], 30) for row in points]
    paths = [[pixel(row) for row in curves[name] if known(row, "accuracy", "disparity")] for name in drawn]
    ways = placed(short, [pixel(row) for row in points], paths, (_WIDTH, _HEIGHT))
    halos: list[dict[str, Any]] = [{"stroke": look.paper, "strokeWidth": 4}, {}]
    layers = [
        alt.Chart(table(row for row in barred if known(row, "disparity", *limits[:2])))
        .mark_rule(opacity=0.4)
        .encode(x=x, y="accuracy_low:Q", y2="accuracy_high:Q", stroke=own("ink")),
        alt.Chart(table(row for row in barred if known(row, "accuracy", *limits[2:])))
        .mark_rule(opacity=0.4)
        .encode(x="disparity_low:Q", x2="disparity_high:Q", y=y, stroke=own("ink")),
        alt.Chart(table(lines))
        .mark_line(strokeWidth=2)
        .encode(
            x=x, y=y, detail="curve:N", stroke=own("ink"), strokeDash=own("dash", of="dash"), order="order:Q"
        ),
        alt.Chart(table(row for row in lines if row in there))
        .mark_point(size=36, filled=True, opacity=1)
        .encode(x=x, y=y, tooltip=words, **marks),
        alt.Chart(table(points))
        .mark_point(size=110, filled=True, opacity=1)
        .encode(x=x, y=y, tooltip=words, **marks),
        *(
            alt.Chart(table([{**row, "text": name}]))
            .mark_text(baseline="middle", **way, **halo)
            .encode(x=x, y=y, text="text:N")
            for row, name, way in zip(points, short, ways, strict=True)
            for halo in halos
        ),
    ]
    return finished(
        alt.layer(*layers).properties(width=_WIDTH, height=_HEIGHT),
        look,
        title=title,
        subtitle="Further left is fairer, further up is more accurate."
        + (" Light bars: intervals." if any(known(row, *limits[:2]) for row in there) else ""),
        description=_sentence(names, there, x_title, y_title),
    )


def _some(curve: list[Row]) -> list[Row]:
    """A few rows of a curve, evenly spread over it, its ends included."""
    if len(curve) <= _MOST_BARS:
        return curve
    return [curve[round(k * (len(curve) - 1) / (_MOST_BARS - 1))] for k in range(_MOST_BARS)]


def _along(row: Row) -> float:
    """Where on its curve a row is."""
    return math.inf if row["order"] is None else float(row["order"])


def _sentence(names: list[str], rows: list[Row], x_title: str, y_title: str) -> str:
    parts = []
    for name in names:
        mine = sorted((row for row in rows if row["curve"] == name), key=lambda row: row["disparity"])
        ends = [f"{row['accuracy']:.3f} at {row['disparity']:.3f}" for row in mine]
        parts.append(f"{name}: {' to '.join(dict.fromkeys([ends[0], ends[-1]])) if ends else NO_VALUE}")
    return f"{y_title[:1].upper()}{y_title[1:]} against {x_title}. {'; '.join(parts)}."
