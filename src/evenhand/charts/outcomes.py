"""Charts of decisions by group: rates before and after, and changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from evenhand.charts import look
from evenhand.charts.drawing import ChartType, alt
from evenhand.charts.look import beside, group_axis, numbers, rounded, table
from evenhand.charts.records import NO_VALUE, Row, known, read_records, shown_groups

_WHEN = ("before", "after")
_CHANGES, _SIDES = ("newly selected", "no longer selected"), (("right", 1), ("left", -1))


def rates_chart(
    records: Iterable[Mapping[str, Any]],
    *,
    confidence: float | None = None,
    limits: Iterable[Mapping[str, Any]] = (),
    title: str = "Rates of each group",
    max_groups: int = 60,
) -> ChartType:
    """Rates of groups with their intervals, one panel per quantity.

    Groups are sorted by the current value of the first quantity. Of more than `max_groups`, those furthest
    from everyone are drawn, and the subtitle says so.

    Parameters
    ----------
    records : iterable of mappings
        ``group``, ``quantity``, ``value``; optional ``low``, ``high`` and ``when`` ("before" or "after").
        The group "everyone", of all rows, is drawn as a line.
    confidence : float, default=None
        Of the intervals, for the subtitle.
    limits : iterable of mappings, default=()
        ``quantity`` and ``value`` of what is required of a rate, drawn as a dotted line.
    title : str, default="Rates of each group"
    max_groups : int, default=60

    Returns
    -------
    altair chart

    Examples
    --------
    >>> chart = rates_chart([
    ...     {"group": "everyone", "quantity": "selection rate", "value": 0.24},
    ...     {"group": "F", "quantity": "selection rate", "value": 0.11, "low": 0.10, "high": 0.12},
    ...     {"group": "M", "quantity": "selection rate", "value": 0.30, "low": 0.29, "high": 0.31},
    ... ])
    >>> chart.description
    'Selection rate: 0.110 (F) to 0.300 (M), everyone 0.240.'
    """
    rows = read_records(records, ("group", "quantity"), ("value",), ("low", "high"), when="after")
    quantities = list(dict.fromkeys(row["quantity"] for row in rows))
    bounds = [dict(limit) for limit in limits if limit["quantity"] in quantities]
    paired = any(row["when"] == "before" for row in rows)
    everyone = [row for row in rows if row["group"] == "everyone"]
    groups = [row for row in rows if row["group"] != "everyone"] or rows
    latest = {(row["group"], row["quantity"]): row["value"] for row in rows if row["when"] != "before"}

    def disparity(own: list[Row]) -> float | None:
        pairs = ((latest.get((own[0]["group"], one)), latest.get(("everyone", one))) for one in quantities)
        return max((abs(a - b) for a, b in pairs if a is not None and b is not None), default=None)

    def first(own: list[Row]) -> float | None:
        return latest.get((own[0]["group"], quantities[0]))

    shown = shown_groups(groups, order=first, weight=disparity, most=max_groups)
    for row in shown.rows:
        row["note"] = "" if known(row, "value") else NO_VALUE
        if row["note"] or not known(row, "low", "high"):
            row["low"] = row["high"] = None
    parts = {"group": shown.rows, "everyone": everyone, "bound": bounds}
    data = table({**row, "part": part} for part, rows in parts.items() for row in rows)
    columns = min(len(quantities), 4)
    width = max(150, 640 // columns - 20)
    x = alt.X("value:Q", title=None, **numbers(min(8, width // 45)))
    place: dict[str, Any] = {"y": group_axis(shown.names)}
    if paired:
        place["yOffset"] = alt.YOffset("when:N", scale=alt.Scale(domain=list(_WHEN)), sort=None)
    marks = look.paired_marks("when", _WHEN, compared=paired)
    dashes = alt.condition("datum.when == 'before'", alt.value([6, 3]), alt.value([1, 0]))
    words = ["name:N", "quantity:N", "when:N", *rounded("value", "low", "high")]

    def layer(part: str) -> Any:
        return alt.Chart().transform_filter(f"datum.part == '{part}'")

    layers = [
        layer("everyone").mark_rule(strokeWidth=1.5).encode(x=x, color=marks["color"], strokeDash=dashes),
        layer("group")
        .mark_rule(strokeWidth=2, opacity=0.55)
        .encode(x="low:Q", x2="high:Q", color=marks["color"], **place),
        layer("group")
        .mark_point(size=60, strokeWidth=2, opacity=1)
        .encode(x=x, tooltip=words, **place, **marks),
        layer("bound").mark_rule(strokeWidth=2, strokeDash=[2, 3], color=look.INK).encode(x=x),
        look.notes(**place),
    ]
    panel = alt.Facet(
        "quantity:N", sort=quantities, title=None, header=alt.Header(labelOrient="bottom", labelPadding=4)
    )
    return look.finished(
        alt.layer(*layers, data=data)
        .properties(width=width, height=alt.Step(14 if paired else 22))
        .facet(panel, columns=columns, spacing=22)
        .resolve_scale(x="independent"),
        title=title,
        subtitle=(
            "Vertical lines: everyone." if everyone else "",
            "Dotted lines: bounds." if bounds else "",
            shown.bars(confidence),
            shown.without("groups nearer to everyone"),
        ),
        description=" ".join(_rates_sentence(quantity, groups, everyone) for quantity in quantities),
    )


def actions_chart(
    records: Iterable[Mapping[str, Any]], *, title: str = "Actions of each group", max_groups: int = 60
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
    groups = [row for row in rows if row["group"] != "everyone"] or rows
    legend = alt.Legend(title=None, orient="bottom", columns=4, symbolStrokeWidth=0)
    scale = alt.Scale(domain=actions, range=list(look.COLOURS))
    bars = alt.Chart(table({**row, "rank": actions.index(row["quantity"])} for row in shown.rows))
    bars = bars.mark_bar().encode(
        x=alt.X("value:Q", title=None, axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
        y=group_axis(shown.names),
        color=alt.Color("quantity:N", sort=None, scale=scale, legend=legend),
        order="rank:Q",
        tooltip=["name:N", "quantity:N", *rounded("value")],
    )
    return look.finished(
        alt.layer(bars).properties(width=560, height=alt.Step(24)),
        title=title,
        subtitle=[shown.without("further groups")],
        description=" ".join(_rates_sentence(action, groups, []) for action in actions),
    )


def _rates_sentence(quantity: str, groups: list[Row], everyone: list[Row]) -> str:
    def now(rows: list[Row]) -> list[Row]:
        there = [row for row in rows if row["quantity"] == quantity and known(row, "value")]
        return [row for row in there if row.get("when") != "before"] or there

    found = sorted(now(groups), key=lambda row: row["value"])
    head = f"{quantity[:1].upper()}{quantity[1:]}"
    if not found:
        return f"{head}: {NO_VALUE}."
    low, high = found[0], found[-1]
    whole = "".join(f", everyone {row['value']:.3f}" for row in now(everyone)[:1])
    return f"{head}: {low['value']:.3f} ({low['group']}) to {high['value']:.3f} ({high['group']}){whole}."


def changed_chart(
    records: Iterable[Mapping[str, Any]],
    *,
    title: str = "Whose decision changed",
    max_groups: int = 60,
) -> ChartType:
    """Shares of each group that are newly selected and no longer selected.

    Groups are sorted by the difference of the two. Of more than `max_groups`, those with the largest shares
    are drawn.

    Parameters
    ----------
    records : iterable of mappings
        ``group`` and the counts ``up`` (selected now, not before), ``down`` (the reverse) and ``same``.
    title : str, default="Whose decision changed"
    max_groups : int, default=60

    Returns
    -------
    altair chart

    Examples
    --------
    >>> changed_chart([{"group": "F", "up": 12, "down": 3, "same": 85}]).description
    'Newly selected: at most 12.0 % of a group (F). No longer selected: at most 3.0 % (F).'
    """
    keys = ("up", "down", "same")
    rows = read_records(records, ("group",), keys)
    for row in rows:
        people = sum(row[key] for key in keys) if known(row, *keys) else 0
        row["shares"] = (row["up"] / people, row["down"] / people) if people else None
    shown = shown_groups(
        rows,
        order=lambda own: (found := own[0]["shares"]) and found[0] - found[1],
        weight=lambda own: (found := own[0]["shares"]) and sum(found),
        most=max_groups,
    )
    parts: list[Row] = []
    for row in shown.rows:
        name = {"name": row["name"], "group": row["group"]}
        if row["shares"] is None:
            parts.append(name | {"note": NO_VALUE})
        for share, key, change, (side, sign) in zip(
            row["shares"] or (), keys, _CHANGES, _SIDES, strict=False
        ):
            label = f"{share:.1%} ({row[key]:,.0f})" if row[key] or not any(row["shares"]) else ""
            bar = {"change": change, "side": side, "at": sign * share, "people": row[key], "label": label}
            parts.append(name | bar)
    widest = max((abs(part.get("at", 0.0)) for part in parts), default=0.0) or 0.01
    axis = alt.Axis(format="%", labelExpr="replace(datum.label, '\u2212', '')", tickCount=8)
    x = alt.X(
        "at:Q",
        stack=None,
        title="← no longer selected · share of the group · newly selected →",
        **numbers(8, [-widest, widest], padding=90) | {"axis": axis},
    )
    y = group_axis(shown.names, grid=False)
    colour = alt.Color("change:N", scale=alt.Scale(domain=_CHANGES, range=look.COLOURS[:2]), legend=None)
    layers = [
        alt.Chart()
        .mark_bar(height={"band": 0.62})
        .encode(x=x, y=y, color=colour, tooltip=["name:N", "change:N", "people:Q"]),
        beside(gap=5, x=x, y=y),
        alt.Chart(table([{"at": 0}])).mark_rule(color=look.INK).encode(x=x),
        look.notes(y=y),
    ]
    sentence, there = f"Changes of decisions: {NO_VALUE}.", [row for row in rows if row["shares"]]
    if there:
        up, down = (max(there, key=lambda row: row["shares"][part]) for part in (0, 1))
        sentence = (
            f"Newly selected: at most {100 * up['shares'][0]:.1f} % of a group ({up['group']}). "
            f"No longer selected: at most {100 * down['shares'][1]:.1f} % ({down['group']})."
        )
    return look.finished(
        alt.layer(*layers, data=table(parts)).properties(width=540, height=alt.Step(24)),
        title=title,
        subtitle=(
            "Share of each group, and number of people.",
            shown.without("groups with fewer changes"),
        ),
        description=sentence,
    )
