"""Chart of calibration by group."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from evenhand.charts.drawing import ChartType, alt
from evenhand.charts.look import Theme, look_of, numbers, rounded, table
from evenhand.charts.records import NO_VALUE, Row, known, read_records, shown_groups

_SIDE, _LARGE = 165, 280
"""Pixels of a panel, and of a panel if there are at most two."""


def calibration_chart(
    records: Iterable[Mapping[str, Any]],
    *,
    confidence: float | None = None,
    title: str = "Do the probabilities hold in each group?",
    theme: Theme = "light",
    max_groups: int = 12,
) -> ChartType:
    """Observed share of positive labels against predicted probability, one panel per group.

    Groups are sorted by size; of more than `max_groups`, only the largest are drawn.

    Parameters
    ----------
    records : iterable of mappings
        One per group and bin: ``group``, ``predicted``, ``observed``; optional ``low``, ``high``, ``n``.
    confidence : float, default=None
        Of the intervals, for the subtitle.
    title : str, default="Do the probabilities hold in each group?"
    theme : {"light", "dark"}, default="light"
    max_groups : int, default=12

    Returns
    -------
    altair chart

    Examples
    --------
    >>> calibration_chart([
    ...     {"group": "F", "predicted": 0.1, "observed": 0.12, "low": 0.10, "high": 0.14, "n": 900},
    ...     {"group": "F", "predicted": 0.6, "observed": 0.50, "low": 0.41, "high": 0.59, "n": 100},
    ... ]).description
    'On average over 1,000 people, predicted and observed shares differ by 0.028; most in F, by 0.028.'
    """
    look = look_of(theme)
    rows = read_records(
        records,
        chart="calibration_chart",
        texts=("group",),
        numbers=("predicted", "observed"),
        optional=("low", "high", "n"),
    )
    size: dict[str, float] = {}
    for row in rows:
        size[row["group"]] = size.get(row["group"], 0.0) + (row["n"] if known(row, "n") else 0.0)
    shown = shown_groups(rows, order=size.get, most=max_groups)
    columns = min(len(shown.names), 4)
    side = _LARGE if columns <= 2 else _SIDE
    there = [row for row in rows if known(row, "predicted", "observed")]
    drawn = {row["group"] for row in there}
    for row in shown.rows:
        count = [f"{size[row['name']]:,.0f} people"] if size[row["name"]] else []
        row["panel"] = "\n".join([*textwrap.wrap(row["group"], side // 6), *count])
        row["note"] = "" if row["name"] in drawn else NO_VALUE
        row["n"] = row["n"] or 0
        if not known(row, "predicted", "observed", "low", "high"):
            row["low"] = row["high"] = None
    axis = numbers(5, [0, 1])
    x = alt.X("predicted:Q", title="predicted probability", **axis)
    y = alt.Y("observed:Q", title="observed share", **axis)
    most = max(row["n"] for row in shown.rows) or 1.0
    area = alt.Size("n:Q", scale=alt.Scale(domain=[0, most], range=[18, 170]), legend=None)
    words = ["name:N", *rounded("predicted", "observed", "low", "high"), *rounded("n", form=",.0f")]
    layers = [
        alt.Chart(table([{"predicted": 0, "observed": 0}, {"predicted": 1, "observed": 1}]))
        .mark_line(color=look.faint, strokeDash=[4, 4], strokeWidth=1)
        .encode(x=x, y=y),
        alt.Chart()
        .mark_rule(color=look.colours[0], strokeWidth=1.5, opacity=0.55)
        .encode(x=x, y="low:Q", y2="high:Q"),
        alt.Chart().mark_circle(color=look.colours[0], opacity=1).encode(x=x, y=y, size=area, tooltip=words),
        look.notes(y=alt.value(side / 2)),
    ]
    header = alt.Header(labelAnchor="start", labelLimit=side + 10, labelAlign="left")
    panel = alt.Facet(
        "panel:N", sort=list(dict.fromkeys(row["panel"] for row in shown.rows)), title=None, header=header
    )
    return look.finished(
        alt.layer(*layers, data=table(shown.rows))
        .properties(width=side, height=side)
        .facet(panel, columns=columns, spacing=18),
        title=title,
        subtitle=(
            "On the dashed line, predicted and observed shares agree.",
            "Above it, more people have the positive label than predicted.",
            shown.bars(confidence),
            "Larger points: more people." if any(size.values()) else "",
            shown.without("smaller groups"),
        ),
        description=_sentence(there),
    )


def _sentence(rows: list[Row]) -> str:
    """The mean gap between predicted and observed shares, weighted by ``n`` if it is known."""
    counted = all(known(row, "n") for row in rows)

    def gap(part: list[Row]) -> float:
        people: list[float] = [row["n"] if counted else 1.0 for row in part]
        gaps: list[float] = [
            abs(row["predicted"] - row["observed"]) * n for row, n in zip(part, people, strict=True)
        ]
        return sum(gaps) / (sum(people) or 1.0)

    if not rows:
        return f"Calibration: {NO_VALUE}."
    by_group = {
        group: gap([row for row in rows if row["group"] == group]) for group in {r["group"] for r in rows}
    }
    worst = max(sorted(by_group), key=lambda group: by_group[group])
    who = f" over {sum(row['n'] for row in rows):,.0f} people" if counted else " over the bins"
    return (
        f"On average{who}, predicted and observed shares differ by {gap(rows):.3f}; "
        f"most in {worst}, by {by_group[worst]:.3f}."
    )
