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
        ``group``, ``action`` and ``share``; actions are stacked in the order in which they come.
    title : str, default="Actions of each group"
    max_groups : int, default=60

    Returns
    -------
    altair chart

    Examples
    --------
    >>> actions_chart([
    ...     {"group": "F", "action": "approve", "share": 0.6},
    ...     {"group": "F", "action": "review", "share": 0.4},
    ...     {"group": "M", "action": "approve", "share": 0.7},
    ...     {"group": "M", "action": "review", "share": 0.3},
    ... ]).description
    'Approve: 0.600 (F) to 0.700 (M). Review: 0.300 (M) to 0.400 (F).'
    """
    rows = read_records(records, chart="actions_chart", texts=("group", "action"), numbers=("share",))
    actions = list(dict.fromkeys(row["action"] for row in rows))
    order = {row["group"]: row["share"] for row in rows if row["action"] == actions[0]}
    shown = shown_groups(rows, order=order.get, most=max_groups)
    for row in shown.rows:
        row["rank"] = actions.index(row["action"])
    colours = list(islice(cycle(look.COLOURS), len(actions)))
    colour = alt.Color(
        "action:N",
        sort=None,
        scale=alt.Scale(domain=actions, range=colours),
        legend=alt.Legend(title=None, orient="bottom", columns=4, symbolStrokeWidth=0),
    )
    bars = (
        alt.Chart(table(shown.rows))
        .mark_bar()
        .encode(
            x=alt.X("share:Q", title=None, axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
            y=group_axis(shown.names),
            color=colour,
            order=alt.Order("rank:Q"),
            tooltip=["name:N", "action:N", *rounded("share")],
        )
        .properties(width=560, height=alt.Step(24))
    )
    sentences = []
    for action in actions:
        own = sorted((row for row in rows if row["action"] == action), key=lambda row: row["share"])
        low, high = own[0], own[-1]
        name = f"{action[:1].upper()}{action[1:]}"
        sentences.append(
            f"{name}: {low['share']:.3f} ({low['group']}) to {high['share']:.3f} ({high['group']})."
        )
    return look.finished(
        alt.layer(bars),
        title=title,
        subtitle=[shown.without("further groups")],
        description=" ".join(sentences),
    )
