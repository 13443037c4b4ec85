"""Charts of what is decided by group: rates, also over time, shares of actions, and thresholds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from evenhand.charts import look
from evenhand.charts.look import ChartType, alt, between, group_axis, numbers, rounded, table
from evenhand.charts.records import NO_VALUE, Row, known, read_records, shown_groups

_WHEN = ("before", "after")
_MOST = 6
"""Groups whose rates over time are drawn."""
_LOWEST, _HIGHEST = 0.01, 1e6
"""Evidence outside is drawn at the end of the axis."""


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
    whole = {row["quantity"]: row["value"] for row in everyone if row["when"] != "before"}

    def disparity(own: list[Row]) -> float | None:
        pairs = [(row["value"], whole.get(row["quantity"])) for row in own if row["when"] != "before"]
        return max((abs(a - b) for a, b in pairs if a is not None and b is not None), default=None)

    def first(own: list[Row]) -> float | None:
        now = (row for row in own if row["when"] != "before" and row["quantity"] == quantities[0])
        return next((row["value"] for row in now), None)

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
    marks = look.paired_marks(_WHEN, compared=paired)
    dashes = alt.condition("datum.when == 'before'", alt.value([6, 3]), alt.value([1, 0]))
    words = ["group:N", "quantity:N", "when:N", *rounded("value", "low", "high")]

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
        description=" ".join(_rates_sentence(quantity, rows) for quantity in quantities),
    )


def actions_chart(records: Iterable[Mapping[str, Any]], *, max_groups: int = 60) -> ChartType:
    """The share of each group that gets each action, stacked.

    Parameters
    ----------
    records : iterable of mappings
        ``group``, ``quantity``, the action, and ``value``, its share. They are stacked in their order.
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
    rows = read_records(records, ("group", "quantity"), ("value",))
    actions = list(dict.fromkeys(row["quantity"] for row in rows))
    shown = shown_groups(rows, order=lambda own: own[0]["value"], most=max_groups)
    legend = alt.Legend(title=None, orient="bottom", columns=4, symbolStrokeWidth=0)
    scale = alt.Scale(domain=actions, range=list(look.COLOURS))
    bars = alt.Chart(table({**row, "rank": actions.index(row["quantity"])} for row in shown.rows))
    bars = bars.mark_bar().encode(
        x=alt.X("value:Q", title=None, axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
        y=group_axis(shown.names),
        color=alt.Color("quantity:N", sort=None, scale=scale, legend=legend),
        order="rank:Q",
        tooltip=["group:N", "quantity:N", *rounded("value")],
    )
    return look.finished(
        alt.layer(bars).properties(width=560, height=alt.Step(24)),
        title="Actions of each group",
        subtitle=[shown.without("further groups")],
        description=" ".join(_rates_sentence(action, rows) for action in actions),
    )


def _rates_sentence(quantity: str, rows: list[Row]) -> str:
    """The lowest and the highest rate of a group, and that of everyone."""
    there = [row for row in rows if row["quantity"] == quantity and known(row, "value")]
    now = [row for row in there if row.get("when") != "before"] or there
    groups = sorted((row for row in now if row["group"] != "everyone"), key=lambda row: row["value"]) or now
    head = f"{quantity[:1].upper()}{quantity[1:]}"
    if not groups:
        return f"{head}: {NO_VALUE}."
    low, high = groups[0], groups[-1]
    whole = "".join(f", everyone {row['value']:.3f}" for row in now if row["group"] == "everyone")
    return f"{head}: {low['value']:.3f} ({low['group']}) to {high['value']:.3f} ({high['group']}){whole}."


def thresholds_chart(
    records: Iterable[Mapping[str, Any]], *, unconstrained: float | None = None
) -> ChartType:
    """The threshold of each group.

    Groups are sorted by threshold.

    Parameters
    ----------
    records : iterable of mappings
        ``group``, ``threshold``; optional ``note``, shown where there is no threshold.
    unconstrained : float, default=None
        The threshold without the requirement, drawn as a line.

    Returns
    -------
    altair chart

    Examples
    --------
    >>> thresholds_chart([
    ...     {"group": "F", "threshold": 0.31},
    ...     {"group": "M", "threshold": 0.62},
    ... ], unconstrained=0.5).description
    'The threshold is 0.310 (F) at the lowest and 0.620 (M) at the highest.'
    """
    rows = read_records(records, ("group",), ("threshold",), note="")
    shown = shown_groups(rows, order=lambda own: own[0]["threshold"])
    there = [row for row in shown.rows if known(row, "threshold")]
    for row in shown.rows:
        row["note"] = "" if row in there else row["note"] or NO_VALUE
    line = [] if unconstrained is None else [{"threshold": unconstrained}]
    ends = between([*there, *line, {"threshold": 0.0}, {"threshold": 1.0}], "threshold")
    title_x = "threshold on the score P(Y = 1 given the person and the group)"
    x = alt.X("threshold:Q", title=title_x, **numbers(8, ends, padding=45))
    y = group_axis(shown.names)
    points = alt.Chart(table(there)).encode(x=x, y=y, tooltip=["group:N", *rounded("threshold")])
    layers = [
        alt.Chart(table(line)).mark_rule(color=look.FAINT, strokeDash=[4, 4]).encode(x=x),
        points.mark_point(size=80, filled=True, opacity=1, color=look.COLOURS[0]),
        points.mark_text(fontSize=11, align="left", dx=9).encode(text=alt.Text("threshold:Q", format=".3f")),
        look.notes(y=y),
    ]
    sentence = f"Thresholds: {NO_VALUE}."
    if there:
        high, low = (f"{row['threshold']:.3f} ({row['group']})" for row in (there[0], there[-1]))
        sentence = f"The threshold is {low} at the lowest and {high} at the highest."
    return look.finished(
        alt.layer(*layers, data=table(shown.rows)).properties(width=540, height=alt.Step(24)),
        title="Score that a person needs to be selected",
        subtitle=(
            "A person is selected if the score is above the threshold of the group.",
            "Dashed line: without the requirement." if line else "",
            shown.without("groups with lower thresholds"),
        ),
        description=sentence,
    )


def history_chart(
    records: Iterable[Mapping[str, Any]],
    *,
    alarm_at: float = 20.0,
    alarm: int | None = None,
    confidence: float | None = None,
) -> ChartType:
    """Rates of the groups in each period with their bands, and the evidence against the requirement below.

    Parameters
    ----------
    records : iterable of mappings
        From :meth:`evenhand.Monitor.history`: ``batch``, the last of the period, ``group``, ``statistic``,
        ``rate``, ``evidence``; optional ``low`` and ``high``.
    alarm_at : float, default=20.0
        The evidence at which an alarm is raised.
    alarm : int, default=None
        The batch of the alarm.
    confidence : float, default=None
        Of the bands, for the subtitle.

    Returns
    -------
    altair chart

    Examples
    --------
    >>> history_chart([
    ...     {"batch": 1, "group": "F", "statistic": "selection rate", "rate": 0.3, "evidence": 1.0},
    ...     {"batch": 2, "group": "F", "statistic": "selection rate", "rate": 0.1, "evidence": 31.0},
    ... ], alarm=2).description
    'Rates in 2 periods. Evidence is 31 at the end; the alarm was raised at batch 2.'
    """
    rows = read_records(
        records, ("group", "statistic"), ("batch", "rate", "evidence"), optional=("low", "high")
    )
    shown = shown_groups(rows, order=lambda _: 0.0, most=_MOST)
    marks = look.line_marks(shown.names, "color", "strokeDash", points=False)
    last = max(row["batch"] for row in rows)
    axis = numbers(10, [min(row["batch"] for row in rows), last])
    x = alt.X("batch:Q", **axis)
    rule = alt.Chart(table([{"batch": alarm}])).mark_rule(color=look.INK, strokeDash=[4, 3]).encode(x=x)
    panels = []
    for name in dict.fromkeys(row["statistic"] for row in rows):
        mine = alt.Chart(table(row for row in shown.rows if row["statistic"] == name and known(row, "rate")))
        y = alt.Y("rate:Q", title=name, **numbers(6))
        words = ["batch:Q", "group:N", *rounded("rate", "low", "high")]
        bands = mine.mark_area(opacity=0.13).encode(x=x, y="low:Q", y2="high:Q", color=marks["color"])
        lines = mine.mark_line(strokeWidth=2, point=True).encode(x=x, y=y, tooltip=words, **marks)
        panels.append(alt.layer(bands, lines, *([rule] if alarm else [])).properties(width=560, height=190))
    evidence = {
        row["batch"]: {"batch": row["batch"], "evidence": min(row["evidence"], _HIGHEST)} for row in rows
    }
    ends = [_LOWEST, max(_HIGHEST / 1e3, alarm_at, *(one["evidence"] for one in evidence.values()))]
    log = alt.Y(
        "evidence:Q",
        title="evidence",
        scale=alt.Scale(type="log", domain=ends, clamp=True),
        axis=alt.Axis(values=[10.0**k for k in range(-2, 7, 2)], format="~g"),
    )
    line = alt.Chart(table(evidence.values())).mark_line(color=look.INK, strokeWidth=2)
    level = alt.Chart(table([{"evidence": alarm_at}])).mark_rule(color=look.COLOURS[1], strokeWidth=2)
    below = line.encode(x=x, y=log)
    panels.append(
        alt.layer(below, level.encode(y=log), *([rule] if alarm else [])).properties(width=560, height=130)
    )
    now = evidence[last]["evidence"]
    at = "no alarm" if alarm is None else f"the alarm was raised at batch {alarm}"
    band = "" if confidence is None else f"{100 * confidence:g} % intervals of each period by itself. "
    return look.finished(
        alt.vconcat(*panels, spacing=14),
        title="Decisions over time",
        subtitle=(
            f"Bands: {band}" if any(known(row, "low") for row in rows) else "",
            f"Below: evidence against the requirement; an alarm is raised at {alarm_at:g}.",
            shown.without("other groups"),
        ),
        description=(f"Rates in {len(evidence)} periods. Evidence is {math.floor(now):,} at the end; {at}."),
    )
