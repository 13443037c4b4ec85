"""Charts of a fair rule: a threshold per group, or the table W."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from evenhand.charts.axes import round_axis
from evenhand.charts.colours import Theme, legible, look_of, mixed
from evenhand.charts.look import (
    NO_VALUE,
    SIDES,
    alt,
    finished,
    group_axis,
    notes,
    own,
    paired_marks,
    table,
    text_beside,
)
from evenhand.charts.records import known, read_records, shown_groups

if TYPE_CHECKING:
    from altair.typing import ChartType

__all__ = ["thresholds_chart", "weights_chart"]

_KINDS = ("without the requirement", "with it")


def thresholds_chart(
    records: Iterable[Mapping[str, Any]],
    *,
    title: str = "Score that a person needs to be selected",
    theme: Theme = "light",
    max_groups: int = 60,
) -> ChartType:
    """The threshold of each group, with and without the requirement.

    Groups are sorted by threshold. Of more than `max_groups`, those with the largest shift are drawn. An
    infinite threshold is written as "nobody is selected" or "everybody is selected".

    Parameters
    ----------
    records : iterable of mappings
        ``group``, ``threshold``; optional ``unconstrained``, and ``note``, shown instead of a threshold.
    title : str, default="Score that a person needs to be selected"
    theme : {"light", "dark"}, default="light"
    max_groups : int, default=60

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
    look, records = look_of(theme), list(records)
    rows = read_records(
        records,
        chart="thresholds_chart",
        texts=("group",),
        numbers=("threshold",),
        optional=("unconstrained",),
        infinite=True,
    )
    given = {row["group"]: record.get("note") for row, record in zip(rows, records, strict=True)}
    threshold = {row["group"]: row["threshold"] for row in rows}
    shift = {
        row["group"]: abs(row["threshold"] - row["unconstrained"])
        for row in rows
        if known(row, "threshold", "unconstrained")
    }
    labels, left_out = shown_groups(rows, order=threshold.get, weight=shift.get, most=max_groups)
    drawn = [
        {**row, "name": row["group"], "group": labels[row["group"]]} for row in rows if row["group"] in labels
    ]
    for row in drawn:
        row["note"] = given[row["name"]] or _in_words(row["threshold"])
        row["threshold"] = row["threshold"] if known(row, "threshold") else None
        row["label"] = f"{row['threshold']:.3f}" if known(row, "threshold") else ""
        lowered = known(row, "threshold", "unconstrained") and row["threshold"] < row["unconstrained"]
        row["side"] = "left" if lowered else "right"
    there = [row for row in drawn if known(row, "threshold")]
    both = [row for row in there if known(row, "unconstrained")]
    numbers = [row[key] for row in there for key in ("threshold", "unconstrained") if known(row, key)]
    y = group_axis(labels.values())
    x = alt.X(
        "threshold:Q",
        title="threshold on the score P(Y = 1 given the person and the group)",
        **round_axis([0, 1, *numbers], most=10, space=0.08),
    )
    words = ["name:N", *(alt.Tooltip(f"{part}:Q", format=".4f") for part in ("threshold", "unconstrained"))]
    dots = [
        {**row, "at": row[part], "kind": kind}
        for part, kind in zip(("unconstrained", "threshold"), _KINDS, strict=True)
        for row in drawn
        if known(row, part)
    ]
    layers = [
        alt.Chart(table(both))
        .mark_rule(color=look.faint, strokeWidth=1.5)
        .encode(x=x, x2="unconstrained:Q", y=y),
        alt.Chart(table(dots))
        .mark_point(size=80, strokeWidth=2, opacity=1)
        .encode(x="at:Q", y=y, tooltip=words, **paired_marks("kind", _KINDS, look, compared=bool(shift))),
        *(
            text_beside((row for row in there if row["side"] == side), side, gap=9).encode(
                x=x, y=y, text="label:N"
            )
            for side in SIDES
        ),
        *notes([row for row in drawn if row["note"]], look, y=y),
    ]
    found = sorted(there, key=lambda row: row["threshold"])
    sentence = f"Thresholds: {NO_VALUE}."
    if found:
        low, high = found[0], found[-1]
        sentence = (
            f"The threshold is {low['threshold']:.3f} ({low['name']}) at the lowest and "
            f"{high['threshold']:.3f} ({high['name']}) at the highest."
        )
    return finished(
        alt.layer(*layers).properties(width=540, height=alt.Step(24)),
        look,
        title=title,
        subtitle=(
            "A person is selected if the score is above the threshold of the group.",
            f"{left_out} groups whose threshold moved less are not drawn." if left_out else "",
        ),
        description=sentence,
    )


def _in_words(threshold: float | None) -> str:
    if threshold is None:
        return NO_VALUE
    if math.isfinite(threshold):
        return ""
    return "nobody is selected" if threshold > 0 else "everybody is selected"


def weights_chart(
    records: Iterable[Mapping[str, Any]],
    *,
    title: str = "Weight of each group and label in the decision",
    theme: Theme = "light",
    max_groups: int = 60,
) -> ChartType:
    """The table W of an attribute-blind rule.

    A person is selected if the sum of W[group, label] P(group, label given the person) is above 0. Groups
    keep their order. Of more than `max_groups`, those with the largest weights are drawn.

    Parameters
    ----------
    records : iterable of mappings
        ``group``, ``label``, ``weight``.
    title : str, default="Weight of each group and label in the decision"
    theme : {"light", "dark"}, default="light"
    max_groups : int, default=60

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
    look = look_of(theme)
    rows = read_records(records, chart="weights_chart", texts=("group", "label"), numbers=("weight",))
    there = [row for row in rows if known(row, "weight")]
    largest: dict[str, float] = {}
    for row in there:
        largest[row["group"]] = max(largest.get(row["group"], 0.0), abs(row["weight"]))
    labels, left_out = shown_groups(rows, order=lambda _: 0.0, weight=largest.get, most=max_groups)
    top = max(largest.values(), default=0.0) or 1.0
    drawn = []
    for row in rows:
        if row["group"] in labels:
            weight = row["weight"] if known(row, "weight") else 0.0
            behind = mixed(look.diverging[1], look.diverging[0 if weight < 0 else 2], abs(weight) / top)
            name = {"name": row["group"], "group": labels[row["group"]]}
            text = f"{weight:+.3f}" if known(row, "weight") else NO_VALUE
            drawn.append({**row, **name, "text": text, "fill": behind, "ink": legible(behind)})
    columns = sorted({row["label"] for row in rows})
    x = alt.X(
        "label:N",
        scale=alt.Scale(domain=columns),
        sort=None,
        axis=alt.Axis(orient="top", labelAngle=0, ticks=False, domain=False),
        title="label Y",
    )
    y = group_axis(labels.values(), grid=False, gap=0.08)
    words = ["name:N", "label:N", alt.Tooltip("weight:Q", format="+.6f")]
    cells = [
        alt.Chart(table(row for row in drawn if known(row, "weight")))
        .mark_rect(stroke=look.paper, strokeWidth=2)
        .encode(x=x, y=y, fill=own("fill", of="fill"), tooltip=words),
        alt.Chart(table(drawn)).mark_text().encode(x=x, y=y, text="text:N", fill=own("ink", of="fill")),
    ]
    sentence = f"Weights: {NO_VALUE}."
    if there:
        low, high = (choose(there, key=lambda row: row["weight"]) for choose in (min, max))
        ends = (f"{row['weight']:+.3f} ({row['group']}, label {row['label']})" for row in (low, high))
        sentence = f"Weights go from {' to '.join(ends)}."
    return finished(
        alt.layer(*cells).properties(width=alt.Step(150), height=alt.Step(26)),
        look,
        title=title,
        subtitle=(
            "A person is selected if the sum of weight times probability of group and label is above 0.",
            "Positive weights favour selection, negative ones count against it.",
            f"{left_out} groups with smaller weights are not drawn." if left_out else "",
        ),
        description=sentence,
    )
