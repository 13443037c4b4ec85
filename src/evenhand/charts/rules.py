"""Charts of a fair rule: a threshold per group, or the table W."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from evenhand.charts import look
from evenhand.charts.drawing import ChartType, alt
from evenhand.charts.look import beside, between, group_axis, numbers, rounded, table
from evenhand.charts.records import NO_VALUE, Row, known, read_records, shown_groups

_KINDS = ("without the requirement", "with it")


def thresholds_chart(records: Iterable[Mapping[str, Any]]) -> ChartType:
    """The threshold of each group, with and without the requirement.

    Groups are sorted by threshold. Of more than `max_groups`, those with the largest shift are drawn. An
    infinite threshold is written as "no one is selected" or "everyone is selected".

    Parameters
    ----------
    records : iterable of mappings
        ``group``, ``threshold``; optional ``unconstrained``, and ``note``, shown instead of a threshold.

    Returns
    -------
    altair chart

    Examples
    --------
    >>> thresholds_chart([
    ...     {"group": "F", "threshold": 0.31, "unconstrained": 0.5},
    ...     {"group": "M", "threshold": 0.62, "unconstrained": 0.5},
    ... ]).description
    'The threshold is 0.310 (F) at the lowest and 0.620 (M) at the highest.'
    """
    records = list(records)
    rows = read_records(records, ("group",), ("threshold",), ("unconstrained",))
    for row, record in zip(rows, records, strict=True):
        row["note"] = record.get("note") or _in_words(record["threshold"])
        both = known(row, "threshold", "unconstrained")
        row["shift"] = row["threshold"] - row["unconstrained"] if both else None
    shown = shown_groups(
        rows,
        order=lambda own: own[0]["threshold"],
        weight=lambda own: None if own[0]["shift"] is None else abs(own[0]["shift"]),
    )
    there = sorted((row for row in shown.rows if known(row, "threshold")), key=lambda row: row["threshold"])
    for row in there:
        row["label"] = f"{row['threshold']:.3f}"
        row["side"] = "left" if (row["shift"] or 0.0) < 0 else "right"
    ends = between([*there, {"threshold": 0.0}, {"threshold": 1.0}], "threshold", "unconstrained")
    title_x = "threshold on the score P(Y = 1 given the person and the group)"
    x = alt.X("threshold:Q", title=title_x, **numbers(8, ends, padding=45))
    y = group_axis(shown.names)
    words = ["name:N", *rounded("threshold", "unconstrained")]
    dots = [
        {**row, "at": row[part], "kind": kind}
        for part, kind in zip(("unconstrained", "threshold"), _KINDS, strict=True)
        for row in shown.rows
        if known(row, part)
    ]
    layers = [
        alt.Chart()
        .mark_rule(color=look.FAINT, strokeWidth=1.5)
        .encode(x=x, x2="unconstrained:Q", y=y)
        .transform_filter("isValid(datum.threshold) && isValid(datum.unconstrained)"),
        alt.Chart(table(dots))
        .mark_point(size=80, strokeWidth=2, opacity=1)
        .encode(
            x="at:Q",
            y=y,
            tooltip=words,
            **look.paired_marks("kind", _KINDS, compared=any(known(row, "shift") for row in rows)),
        ),
        beside(gap=9, x=x, y=y),
        look.notes(y=y),
    ]
    sentence = f"Thresholds: {NO_VALUE}."
    if there:
        low, high = (f"{row['threshold']:.3f} ({row['name']})" for row in (there[0], there[-1]))
        sentence = f"The threshold is {low} at the lowest and {high} at the highest."
    return look.finished(
        alt.layer(*layers, data=table(shown.rows)).properties(width=540, height=alt.Step(24)),
        title="Score that a person needs to be selected",
        subtitle=(
            "A person is selected if the score is above the threshold of the group.",
            shown.without("groups whose threshold moved less"),
        ),
        description=sentence,
    )


def _in_words(threshold: float | None) -> str:
    if threshold is None or math.isnan(threshold):
        return NO_VALUE
    if math.isfinite(threshold):
        return ""
    return "no one is selected" if threshold > 0 else "everyone is selected"


def weights_chart(records: Iterable[Mapping[str, Any]]) -> ChartType:
    """The table W of an attribute-blind rule.

    A person is selected if the sum of W[group, label] P(group, label given the person) is above 0. Groups
    keep their order. Of more than `max_groups`, those with the largest weights are drawn.

    Parameters
    ----------
    records : iterable of mappings
        ``group``, ``label``, ``weight``.

    Returns
    -------
    altair chart

    Examples
    --------
    >>> weights_chart([
    ...     {"group": "F", "label": 0, "weight": -0.4},
    ...     {"group": "F", "label": 1, "weight": 0.6},
    ... ]).description
    'Weights go from -0.400 (F, label 0) to +0.600 (F, label 1).'
    """
    rows = read_records(records, ("group", "label"), ("weight",))
    there = [row for row in rows if known(row, "weight")]

    def largest(own: list[Row]) -> float:
        return max((abs(row["weight"]) for row in own if known(row, "weight")), default=0.0)

    shown = shown_groups(rows, order=lambda _: 0.0, weight=largest)
    top = largest(rows) or 1.0
    for row in shown.rows:
        row["text"] = f"{row['weight']:+.3f}" if known(row, "weight") else NO_VALUE
    x = alt.X(
        "label:N",
        scale=alt.Scale(domain=sorted({row["label"] for row in rows})),
        sort=None,
        axis=alt.Axis(orient="top", labelAngle=0, ticks=False, domain=False),
        title="label Y",
    )
    y = group_axis(shown.names, grid=False, gap=0.08)
    shades = alt.Scale(domain=[-top, 0, top], range=look.DIVERGING, interpolate="rgb")
    layers = [
        alt.Chart()
        .mark_rect(stroke=look.PAPER, strokeWidth=2)
        .encode(
            x=x,
            y=y,
            fill=alt.Fill("weight:Q", scale=shades, legend=None),
            tooltip=["name:N", "label:N", *rounded("weight", form="+.6f")],
        )
        .transform_filter("isValid(datum.weight)"),
        alt.Chart().mark_text().encode(x=x, y=y, text="text:N"),
    ]
    sentence = f"Weights: {NO_VALUE}."
    if there:
        low, high = (choose(there, key=lambda row: row["weight"]) for choose in (min, max))
        ends = (f"{row['weight']:+.3f} ({row['group']}, label {row['label']})" for row in (low, high))
        sentence = f"Weights go from {' to '.join(ends)}."
    return look.finished(
        alt.layer(*layers, data=table(shown.rows)).properties(width=alt.Step(150), height=alt.Step(26)),
        title="Weight of each group and label in the decision",
        subtitle=(
            "A person is selected if the sum of weight times probability of group and label is above 0.",
            "Positive weights favour selection, negative ones count against it.",
            shown.without("groups with smaller weights"),
        ),
        description=sentence,
    )
