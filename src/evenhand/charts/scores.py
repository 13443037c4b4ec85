"""Charts of scores by group: ROC curves, impact ratios by cut-off, and calibration."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from evenhand.charts import look
from evenhand.charts.drawing import ChartType, alt
from evenhand.charts.look import between, numbers, rounded, table
from evenhand.charts.records import NO_VALUE, Row, Shown, known, read_records, shown_groups

_SIDE, _LARGE = 165, 280
"""Pixels of a panel, and of a panel if there are at most two."""


def roc_chart(
    records: Iterable[Mapping[str, Any]],
    *,
    title: str = "Do scores rank people as well in each group?",
    max_groups: int = 6,
) -> ChartType:
    """True- against false-positive rate over all cut-offs, one curve per group.

    Parameters
    ----------
    records : iterable of mappings
        One per group and point, in order: ``group``, ``false_positive_rate``, ``true_positive_rate``;
        optional ``n``, the group's number of people.
    title : str, default="Do scores rank people as well in each group?"
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
    keys = "false_positive_rate", "true_positive_rate"
    shown = _read(records, "roc_chart", keys, max_groups)
    place = {
        "x": alt.X(f"{keys[0]}:Q", title="false-positive rate", **numbers(5, [0, 1])),
        "y": alt.Y(f"{keys[1]}:Q", title="true-positive rate", **numbers(5, [0, 1])),
    }
    lines = _lines(shown, place, [dict.fromkeys(keys, 0), dict.fromkeys(keys, 1)])
    areas = {name: _area([row for row in shown.rows if row["group"] == name], *keys) for name in shown.names}
    return look.finished(
        lines.properties(width=380, height=380),
        title=title,
        subtitle=(
            "Further up and to the left is better; on the dashed line, scores tell nothing.",
            shown.without("smaller groups"),
        ),
        description=f"ROC curves. {'; '.join(f'{name}: area {area:.3f}' for name, area in areas.items())}.",
    )


def _area(rows: list[Row], across: str, up: str) -> float:
    points: list[tuple[float, float]] = [(row[across], row[up]) for row in rows if known(row, across, up)]
    return sum((right[0] - left[0]) * (right[1] + left[1]) / 2 for left, right in pairwise(points))


def cut_off_chart(
    records: Iterable[Mapping[str, Any]],
    *,
    threshold: float = 0.8,
    title: str = "Impact ratio, wherever the cut-off is",
    max_groups: int = 6,
) -> ChartType:
    """Impact ratio of each group by the share of people who are selected.

    Parameters
    ----------
    records : iterable of mappings
        One per group and cut-off: ``group``, ``share``, ``impact_ratio``; optional ``n``.
    threshold : float, default=0.8
        Where a line is drawn.
    title : str, default="Impact ratio, wherever the cut-off is"
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
    shown = _read(records, "cut_off_chart", ("share", "impact_ratio"), max_groups)
    top = max(1.0, between(shown.rows, "impact_ratio")[1])
    place = {
        "x": alt.X("share:Q", title="share of all people who are selected", **numbers(9, [0, 1])),
        "y": alt.Y("impact_ratio:Q", title="impact ratio", **numbers(6, [0, top])),
    }
    behind = [{"share": share, "impact_ratio": threshold} for share in (0, 1)]
    lines = _lines(shown, place, behind, point={"size": 46})
    return look.finished(
        lines.properties(width=560, height=320),
        title=title,
        subtitle=(
            f"Rate of a group divided by that of its reference; dashed line: {threshold:g}.",
            shown.without("smaller groups"),
        ),
        description=f"Impact ratio by share selected. {'; '.join(_lowest(shown))}.",
    )


def _lowest(shown: Shown) -> Iterable[str]:
    for name in shown.names:
        rows = [row for row in shown.rows if row["group"] == name and known(row, "impact_ratio")]
        if rows:
            worst = min(rows, key=lambda row: row["impact_ratio"])
            yield f"{name}: lowest {worst['impact_ratio']:.3f} at {worst['share']:.0%}"
        else:
            yield f"{name}: {NO_VALUE}"


def _read(records: Iterable[Mapping[str, Any]], chart: str, keys: tuple[str, str], max_groups: int) -> Shown:
    """The rows of the largest groups."""
    rows = read_records(records, chart=chart, texts=("group",), numbers=keys, optional=("n",))
    size = {row["group"]: row["n"] for row in rows}
    return shown_groups(rows, order=size.get, most=max_groups)


def _lines(shown: Shown, place: dict[str, Any], behind: list[Row], **mark: Any) -> Any:
    """A line for each group, through its rows in their order, and a dashed one behind them."""
    keys = tuple(behind[0])
    drawn = [{**row, "order": k} for k, row in enumerate(shown.rows) if known(row, *keys)]
    marks = look.line_marks(shown.names, "color", "strokeDash", points=False)
    tips = ["name:N", *rounded(*keys, form=".3f")]
    dashed = alt.Chart(table(behind)).mark_line(color=look.FAINT, strokeDash=[4, 4], strokeWidth=1)
    curves = alt.Chart(table(drawn)).mark_line(strokeWidth=2, **mark)
    return alt.layer(dashed.encode(**place), curves.encode(**place | marks, order="order:Q", tooltip=tips))


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
        One per group and bin: ``group``, ``predicted``, ``observed``; optional ``low``, ``high``, ``n``.
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
        .mark_line(color=look.FAINT, strokeDash=[4, 4], strokeWidth=1)
        .encode(x=x, y=y),
        alt.Chart()
        .mark_rule(color=look.COLOURS[0], strokeWidth=1.5, opacity=0.55)
        .encode(x=x, y="low:Q", y2="high:Q"),
        alt.Chart().mark_circle(color=look.COLOURS[0], opacity=1).encode(x=x, y=y, size=area, tooltip=words),
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
