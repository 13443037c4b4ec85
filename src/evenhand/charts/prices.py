"""Chart of shadow prices: the accuracy that an easier requirement would gain."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from evenhand.charts.drawing import ChartType, alt
from evenhand.charts.look import Measure, Theme, between, fairer, look_of, numbers, rounded, table
from evenhand.charts.records import NO_VALUE, Row, known, read_records, shown_groups

_EASIER: dict[Measure, tuple[str, str]] = {
    "difference": ("0.01 more tolerance", "more tolerance"),
    "ratio": ("a ratio lower by 0.01", "a lower ratio"),
    "bound": ("a bound easier by 0.01", "an easier bound"),
}
_LINES, _SHAPES = 6, 10
"""Most lines in a chart, further groups are added up; shapes that tell a line from others."""


def prices_chart(
    records: Iterable[Mapping[str, Any]],
    *,
    x_title: str = "tolerance",
    measure: Measure = "difference",
    title: str | None = None,
    theme: Theme = "light",
) -> ChartType:
    """Shadow prices over the tolerance: the accuracy gained by 0.01 more, by group.

    Ratios read the other way: less is easier, and gains.

    With more than six groups, the five with the highest prices get lines of their own, and the prices of the
    others are added.

    Parameters
    ----------
    records : iterable of mappings
        ``tolerance``, ``group``, ``price`` (0 where the group does not bind). Prices with the same group and
        tolerance are added.
    x_title : str, default="tolerance"
    measure : {"difference", "ratio", "bound"}, default="difference"
        What the tolerance is of. Fairer is on the left.
    title : str, default=None
        By default what would gain: more tolerance, a lower ratio or an easier bound.
    theme : {"light", "dark"}, default="light"

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
    look, easier = look_of(theme), _EASIER[measure]
    rows = _added(
        read_records(records, chart="prices_chart", texts=("group",), numbers=("tolerance", "price"))
    )
    there = [row for row in rows if known(row, "tolerance", "price")]
    highest: dict[str, float] = {}
    idle = {row["group"] for row in rows} - {row["group"] for row in rows if row["price"] != 0}
    if len(idle) < len({row["group"] for row in rows}):
        rows = [row for row in rows if row["group"] not in idle]
    for row in there:
        highest[row["group"]] = max(highest.get(row["group"], row["price"]), row["price"])
    number = len({row["group"] for row in rows})
    shown = shown_groups(rows, order=highest.get, most=_LINES if number <= _LINES else _LINES - 1)
    drawn, names = shown.rows, shown.names
    if shown.left_out:
        names = [*names, f"{shown.left_out} other groups together"]
        own = {row["name"] for row in drawn}
        drawn = drawn + _added([{**row, "group": names[-1]} for row in rows if row["group"] not in own])
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
        alt.Chart(table(drawn))
        .mark_line(strokeWidth=2)
        .encode(**place, **look.line_marks(names, "color", "strokeDash")),
        alt.Chart(table(_some(drawn, names)))
        .mark_point(size=40, filled=True, opacity=1)
        .encode(**place, **look.line_marks(names, "color", "shape"), tooltip=words),
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
        title=title or f"What {easier[1]} would gain",
        subtitle=(
            "Shadow price of each group. Where it is 0, the group does not limit accuracy.",
            f"Groups that never bind: {len(idle)}." if idle else "",
        ),
        description=sentence,
    )


def _some(rows: list[Row], names: list[str]) -> Iterator[Row]:
    """Evenly spaced rows of each line, for its shapes."""
    for name in names:
        mine = [row for row in rows if row["group"] == name and known(row, "tolerance", "price")]
        yield from mine[:: math.ceil(len(mine) / _SHAPES) or 1]


def _added(rows: list[Row]) -> list[Row]:
    """Prices added by group and tolerance; a sum with a missing part is missing."""
    parts: dict[tuple[str, float | None], list[float | None]] = {}
    for row in rows:
        parts.setdefault((row["group"], row["tolerance"]), []).append(row["price"])
    return [
        {
            "group": group,
            "name": group,
            "tolerance": at,
            "price": None if None in prices else sum(price for price in prices if price is not None),
        }
        for (group, at), prices in parts.items()
    ]
