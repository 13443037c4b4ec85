"""Stacked chart of the share of each action in each group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import cycle, islice
from typing import Any

from evenhand.charts import look
from evenhand.charts.drawing import ChartType, alt
from evenhand.charts.look import group_axis, rounded, table
from evenhand.charts.records import read_records, shown_groups


def actions_chart(
    records: Iterable[Mapping[str, Any]],
    *,
    title: str = "Actions of each group",
    max_groups: int = 60,
) -> ChartType:
    """The share of each group that gets each action, stacked.

    Parameters
    ----------
    records : iterable of mappings
        ``group``, ``quantity``, the action, and ``value``, its share. They are stacked in their order.
    title : str, default="Actions of each group"
    max_groups : int, default=60

    Returns
    -------
    altair chart

    Examples
    --------
    >>> actions_chart([
    ...     {"group": "F", "quantity": "approve", "value": 0.6},
    ...     {"group": "F", "quantity": "review", "value": 0.4},
    ...     {"group": "M", "quantity": "approve", "value": 0.7},
    ...     {"group": "M", "quantity": "review", "value": 0.3},
    ... ]).description
    'Approve: 0.600 (F) to 0.700 (M). Review: 0.300 (M) to 0.400 (F).'
    """
    rows = read_records(records, chart="actions_chart", texts=("group", "quantity"), numbers=("value",))
    actions = list(dict.fromkeys(row["quantity"] for row in rows))
    shown = shown_groups(rows, order=lambda own: own[0]["value"], most=max_groups)
    for row in shown.rows:
        row["rank"] = actions.index(row["quantity"])
    colours = list(islice(cycle(look.COLOURS), len(actions)))
    colour = alt.Color(
        "quantity:N",
        sort=None,
        scale=alt.Scale(domain=actions, range=colours),
        legend=alt.Legend(title=None, orient="bottom", columns=4, symbolStrokeWidth=0),
    )
    bars = (
        alt.Chart(table(shown.rows))
        .mark_bar()
        .encode(
            x=alt.X("value:Q", title=None, axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
            y=group_axis(shown.names),
            color=colour,
            order=alt.Order("rank:Q"),
            tooltip=["name:N", "quantity:N", *rounded("value")],
        )
        .properties(width=560, height=alt.Step(24))
    )
    sentences = []
    for action in actions:
        own = sorted((row for row in rows if row["quantity"] == action), key=lambda row: row["value"])
        low, high = own[0], own[-1]
        name = f"{action[:1].upper()}{action[1:]}"
        sentences.append(
            f"{name}: {low['value']:.3f} ({low['group']}) to {high['value']:.3f} ({high['group']})."
        )
    return look.finished(
        alt.layer(bars),
        title=title,
        subtitle=[shown.without("further groups")],
        description=" ".join(sentences),
    )
