"""Charts of scores by group: ROC curves, impact ratios by cut-off, and calibration."""

from __future__ import annotations

import json
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from evenhand.charts import look
from evenhand.charts.look import ChartType, alt, between, numbers, rounded, table
from evenhand.charts.records import NO_VALUE, Row, Shown, known, read_records, shown_groups

_SIDE, _LARGE = 165, 280
"""Pixels of a panel, and of a panel if there are at most two."""


def roc_chart(records: Iterable[Mapping[str, Any]], *, max_groups: int = 6) -> ChartType:
    """True- against false-positive rate over all cut-offs, one curve per group.

    Parameters
    ----------
    records : iterable of mappings
        One per group and point, in order: ``group``, ``false_positive_rate``, ``true_positive_rate``;
        optional ``n``, the group's number of people.
    max_groups : int, default=6
        The largest are drawn.

    Returns
    -------
    altair chart

    Examples
    --------
    >>> roc_chart([
    ...     {"group": "F", "false_positive_rate": 0.0, "true_positive_rate": 0.0},
    ...     {"group": "F", "false_positive_rate": 0.2, "true_positive_rate": 0.8},
    ...     {"group": "F", "false_positive_rate": 1.0, "true_positive_rate": 1.0},
    ... ]).description
    'ROC curves. F: area 0.800.'
    """
    titles = {"false_positive_rate": "false-positive rate", "true_positive_rate": "true-positive rate"}
    shown, points, lines = _lines(records, titles, [(0.0, 0.0), (1.0, 1.0)], max_groups, ticks=(5, 5))
    said = []
    for name, own in points.items():
        across, up = ([row[key] for row in own] for key in titles)
        said.append(f"{name}: area {np.trapezoid(up, across):.3f}")
    return look.finished(
        lines.properties(width=380, height=380),
        title="Do scores rank people as well in each group?",
        subtitle=(
            "Further up and to the left is better; on the dashed line, scores tell nothing.",
            shown.without("smaller groups"),
        ),
        description=f"ROC curves. {'; '.join(said)}.",
    )


def cut_off_chart(records: Iterable[Mapping[str, Any]], *, max_groups: int = 6) -> ChartType:
    """Impact ratio of each group by the share of people who are selected.

    Parameters
    ----------
    records : iterable of mappings
        One per group and cut-off: ``group``, ``share``, ``impact_ratio``; optional ``n``.
    max_groups : int, default=6
        The largest are drawn.

    Returns
    -------
    altair chart

    Examples
    --------
    >>> cut_off_chart([
    ...     {"group": "F", "share": 0.1, "impact_ratio": 0.7},
    ...     {"group": "F", "share": 0.2, "impact_ratio": 0.9},
    ... ]).description
    'Impact ratio by share selected. F: lowest 0.700 at 10%.'
    """
    titles = {"share": "share of all people who are selected", "impact_ratio": "impact ratio"}
    behind = [(0.0, 0.8), (1.0, 0.8)]
    shown, points, lines = _lines(records, titles, behind, max_groups, ticks=(9, 6), point={"size": 46})
    said = []
    for name, own in points.items():
        worst = min(own, key=lambda row: row["impact_ratio"], default=None)
        lowest = f"lowest {worst['impact_ratio']:.3f} at {worst['share']:.0%}" if worst else NO_VALUE
        said.append(f"{name}: {lowest}")
    return look.finished(
        lines.properties(width=560, height=320),
        title="Impact ratio, wherever the cut-off is",
        subtitle=(
            "Rate of a group divided by that of its reference; dashed line: 0.8.",
            shown.without("smaller groups"),
        ),
        description=f"Impact ratio by share selected. {'; '.join(said)}.",
    )


def _lines(
    records: Iterable[Mapping[str, Any]],
    titles: Mapping[str, str],
    behind: list[tuple[float, float]],
    max_groups: int,
    *,
    ticks: tuple[int, int],
    **mark: Any,
) -> tuple[Shown, dict[str, list[Row]], Any]:
    """The largest groups, their points, and a line through those of each, in their order, with one behind."""
    across, up = titles
    shown = shown_groups(
        read_records(records, ("group",), (across, up), ("n",)),
        order=lambda own: own[0]["n"],
        most=max_groups,
    )
    top = max(1.0, between(shown.rows, up)[1])
    place = {
        "x": alt.X(f"{across}:Q", title=titles[across], **numbers(ticks[0], [0, 1])),
        "y": alt.Y(f"{up}:Q", title=titles[up], **numbers(ticks[1], [0, top])),
    }
    drawn = [row | {"order": k} for k, row in enumerate(shown.rows) if known(row, across, up)]
    points = {name: [row for row in drawn if row["group"] == name] for name in shown.names}
    marks = look.line_marks(shown.names, "color", "strokeDash", points=False)
    tips = ["group:N", *rounded(across, up, form=".3f")]
    ends = table({across: x, up: y} for x, y in behind)
    dashed = alt.Chart(ends).mark_line(color=look.FAINT, strokeDash=[4, 4], strokeWidth=1)
    curves = alt.Chart(table(drawn)).mark_line(strokeWidth=2, **mark)
    lines = curves.encode(**place | marks, order="order:Q", tooltip=tips)
    return shown, points, alt.layer(dashed.encode(**place), lines)


def calibration_chart(
    records: Iterable[Mapping[str, Any]],
    *,
    confidence: float | None = None,
    title: str = "Do the probabilities hold in each group?",
    max_groups: int = 12,
) -> ChartType:
    """Observed share of positive labels against predicted probability, one panel per group.

    Groups are sorted by size; of more than `max_groups`, only the largest are drawn.

    Parameters
    ----------
    records : iterable of mappings
        One per group and bin: ``group``, ``predicted``, ``observed``, ``n``, the number of people in it;
        optional ``low`` and ``high``.
    confidence : float, default=None
        Of the intervals, for the subtitle.
    title : str, default="Do the probabilities hold in each group?"
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
    rows = read_records(records, ("group",), ("predicted", "observed", "n"), ("low", "high"))
    size: defaultdict[str, float] = defaultdict(float)
    for row in rows:
        row["n"] = row["n"] or 0.0
        size[row["group"]] += row["n"]
    shown = shown_groups(rows, order=lambda own: size[own[0]["group"]], most=max_groups)
    columns = min(len(shown.names), 4)
    side = _LARGE if columns <= 2 else _SIDE
    there = [row for row in rows if known(row, "predicted", "observed")]
    drawn = {row["group"] for row in there}
    heads = {}
    for name, people in size.items():
        short = name if len(name) <= 42 else f"{name[:27]}…{name[-14:]}"  # as look.SHORT
        heads[name] = "\n".join([*textwrap.wrap(short, side // 6), f"{people:,.0f} people"])
    for row in shown.rows:
        row["note"] = "" if row["group"] in drawn else NO_VALUE
        if not known(row, "predicted", "observed", "low", "high"):
            row["low"] = row["high"] = None
    axis = numbers(5, [0, 1])
    x = alt.X("predicted:Q", title="predicted probability", **axis)
    y = alt.Y("observed:Q", title="observed share", **axis)
    most = max(row["n"] for row in shown.rows) or 1.0
    area = alt.Size("n:Q", scale=alt.Scale(domain=[0, most], range=[18, 170]), legend=None)
    words = ["group:N", *rounded("predicted", "observed", "low", "high"), *rounded("n", form=",.0f")]
    layers = [
        alt.Chart(table([{"predicted": 0, "observed": 0}, {"predicted": 1, "observed": 1}]))
        .mark_line(color=look.FAINT, strokeDash=[4, 4], strokeWidth=1)
        .encode(x=x, y=y),
        alt.Chart()
        .mark_rule(color=look.COLOURS[0], strokeWidth=1.5, opacity=0.55)
        .encode(x=x, y="low:Q", y2="high:Q"),
        alt.Chart().mark_circle(color=look.COLOURS[0], opacity=1).encode(x=x, y=y, size=area, tooltip=words),
        look.notes(y=alt.value(side / 2)),
    ]
    label = f"{json.dumps(heads)}[datum.label]"
    header = alt.Header(labelAnchor="start", labelLimit=side + 10, labelAlign="left", labelExpr=label)
    panel = alt.Facet("group:N", sort=shown.names, title=None, header=header)
    return look.finished(
        alt.layer(*layers, data=table(shown.rows))
        .properties(width=side, height=side)
        .facet(panel, columns=columns, spacing=18),
        title=title,
        subtitle=(
            "On the dashed line, predicted and observed shares agree.",
            "Above it, more people have the positive label than predicted.",
            shown.bars(confidence),
            "Larger points: more people.",
            shown.without("smaller groups"),
        ),
        description=_sentence(there),
    )


def _sentence(rows: list[Row]) -> str:
    """The mean distance between predicted and observed shares, over people."""
    if not rows:
        return f"Calibration: {NO_VALUE}."

    def gap(part: list[Row]) -> float:
        apart = sum(row["n"] * abs(row["predicted"] - row["observed"]) for row in part)
        return float(apart / (sum(row["n"] for row in part) or 1.0))

    groups = sorted({row["group"] for row in rows})
    gaps = {group: gap([row for row in rows if row["group"] == group]) for group in groups}
    worst = max(groups, key=gaps.__getitem__)
    return (
        f"On average over {sum(row['n'] for row in rows):,.0f} people, predicted and observed shares differ "
        f"by {gap(rows):.3f}; most in {worst}, by {gaps[worst]:.3f}."
    )
