"""Charts of decisions by group: rates before and after, and changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from evenhand.charts.axes import round_axis
from evenhand.charts.colours import Look, Theme, look_of
from evenhand.charts.look import (
    DASHES,
    NO_VALUE,
    SIDES,
    alt,
    finished,
    group_axis,
    intervals_note,
    notes,
    own,
    paired_marks,
    table,
    text_beside,
)
from evenhand.charts.records import Row, known, read_records, shown_groups

if TYPE_CHECKING:
    from altair.typing import ChartType

__all__ = ["changed_chart", "rates_chart"]

_COLUMNS = 4
_WHEN = ("before", "after")


def rates_chart(
    records: Iterable[Mapping[str, Any]],
    *,
    overall: str = "everyone",
    confidence: float | None = None,
    limits: Iterable[Mapping[str, Any]] = (),
    title: str = "Rates of each group",
    theme: Theme = "light",
    max_groups: int = 60,
) -> ChartType:
    """Rates of groups with their intervals, one panel per quantity.

    Groups are sorted by the current value of the first quantity. Of more than `max_groups`, those furthest
    from everyone are drawn, and the subtitle says so.

    Parameters
    ----------
    records : iterable of mappings
        ``group``, ``quantity``, ``value``; optional ``low``, ``high`` and ``when`` ("before" or "after").
    overall : str, default="everyone"
        The group of all rows, drawn as a line.
    confidence : float, default=None
        Of the intervals, for the subtitle.
    limits : iterable of mappings, default=()
        ``quantity`` and ``value`` of what is required of a rate, drawn as a dotted line.
    title : str, default="Rates of each group"
    theme : {"light", "dark"}, default="light"
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
    look = look_of(theme)
    rows = read_records(
        records,
        chart="rates_chart",
        texts=("group", "quantity"),
        numbers=("value",),
        optional=("low", "high"),
        choices={"when": ("after", "before")},
    )
    bounds = [
        row
        for row in _read_limits(limits)
        if known(row, "value") and any(row["quantity"] == one["quantity"] for one in rows)
    ]
    paired = any(row["when"] == "before" for row in rows)
    quantities = list(dict.fromkeys(row["quantity"] for row in rows))
    everyone = [row for row in rows if row["group"] == overall]
    groups = [row for row in rows if row["group"] != overall] or rows
    latest = {(row["group"], row["quantity"]): row["value"] for row in rows if row["when"] != "before"}

    def disparity(group: str) -> float | None:
        gaps = [
            abs(latest[group, quantity] - latest[overall, quantity])
            for quantity in quantities
            if latest.get((group, quantity)) is not None and latest.get((overall, quantity)) is not None
        ]
        return max(gaps, default=None)

    labels, left_out = shown_groups(
        groups, order=lambda group: latest.get((group, quantities[0])), weight=disparity, most=max_groups
    )
    drawn = [
        {**row, "name": row["group"], "group": labels[row["group"]]}
        for row in groups
        if row["group"] in labels
    ]
    columns = min(len(quantities), _COLUMNS)
    panels = [
        _rates_panel(
            quantity,
            [row for row in drawn if row["quantity"] == quantity],
            [row for row in everyone if row["quantity"] == quantity],
            list(labels.values()),
            look,
            bounds=[row for row in bounds if row["quantity"] == quantity],
            paired=paired,
            labelled=place % columns == 0,
            width=max(150, 640 // columns - 20),
        )
        for place, quantity in enumerate(quantities)
    ]
    return finished(
        alt.concat(*panels, columns=columns, spacing=22),
        look,
        title=title,
        subtitle=(
            "Vertical lines: everyone." if everyone else "",
            "Dotted lines: bounds." if bounds else "",
            intervals_note(confidence, there=any(known(row, "low", "high") for row in drawn)),
            f"{left_out} groups nearer to everyone are not drawn." if left_out else "",
        ),
        description=" ".join(_rates_sentence(quantity, groups, everyone) for quantity in quantities),
    )


def _read_limits(limits: Iterable[Mapping[str, Any]]) -> list[Row]:
    given = list(limits)
    if not given:
        return []
    return read_records(given, chart="rates_chart", texts=("quantity",), numbers=("value",))


def _rates_panel(
    quantity: str,
    rows: list[Row],
    everyone: list[Row],
    labels: list[str],
    look: Look,
    *,
    bounds: list[Row],
    paired: bool,
    labelled: bool,
    width: int,
) -> Any:
    for row in (*rows, *everyone):
        first = paired and row["when"] == "before"
        row["ink"], row["dash"] = (look.colours[1], DASHES[1]) if first else (look.colours[0], DASHES[0])
    there = [row for row in rows if known(row, "value")]
    ends = [
        row[key]
        for row in (*there, *everyone, *bounds)
        for key in ("value", "low", "high")
        if known(row, key)
    ]
    axis = round_axis([0.0, *ends], most=min(8, width // 45))
    x = alt.X("value:Q", title=quantity, **axis)
    y = group_axis(labels, labelled=labelled)
    across = {"yOffset": alt.YOffset("when:N", scale=alt.Scale(domain=list(_WHEN)), sort=None)}
    place: dict[str, Any] = {"y": y, **(across if paired else {})}
    words = ["name:N", "quantity:N", "when:N", alt.Tooltip("value:Q", format=".4f")]
    words += [alt.Tooltip(f"{end}:Q", format=".4f") for end in ("low", "high")]
    layers = [
        alt.Chart(table(row for row in everyone if known(row, "value")))
        .mark_rule(strokeWidth=1.5)
        .encode(x=x, stroke=own("ink"), strokeDash=own("dash", of="dash"), tooltip=words),
        alt.Chart(table(row for row in there if known(row, "low", "high")))
        .mark_rule(strokeWidth=2, opacity=0.55)
        .encode(x=alt.X("low:Q", scale=axis["scale"]), x2="high:Q", stroke=own("ink"), **place),
        alt.Chart(table(there))
        .mark_point(size=60, strokeWidth=2, opacity=1)
        .encode(x=x, tooltip=words, **place, **paired_marks("when", _WHEN, look, compared=paired)),
        *notes([{**row, "note": NO_VALUE} for row in rows if not known(row, "value")], look, **place),
    ]
    if bounds:
        layers.append(
            alt.Chart(table(bounds))
            .mark_rule(strokeWidth=2, strokeDash=[2, 3], color=look.ink)
            .encode(x=x, tooltip=["quantity:N", alt.Tooltip("value:Q", title="bound", format=".4f")])
        )
    return alt.layer(*layers).properties(width=width, height=alt.Step(14 if paired else 22))


def _rates_sentence(quantity: str, groups: list[Row], everyone: list[Row]) -> str:
    def now(rows: list[Row]) -> list[Row]:
        there = [row for row in rows if row["quantity"] == quantity and known(row, "value")]
        return [row for row in there if row["when"] != "before"] or there

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
    theme: Theme = "light",
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
    theme : {"light", "dark"}, default="light"
    max_groups : int, default=60

    Returns
    -------
    altair chart

    Examples
    --------
    >>> changed_chart([{"group": "F", "up": 12, "down": 3, "same": 85}]).description
    'Newly selected: at most 12.0 % of a group (F). No longer selected: at most 3.0 % (F).'
    """
    look = look_of(theme)
    rows = read_records(records, chart="changed_chart", texts=("group",), numbers=("up", "down", "same"))
    shares = {row["group"]: _shares(row) for row in rows}
    labels, left_out = shown_groups(
        rows,
        order=lambda group: None if (found := shares[group]) is None else found[0] - found[1],
        weight=lambda group: None if (found := shares[group]) is None else found[0] + found[1],
        most=max_groups,
    )
    parts, missing = [], []
    for row in rows:
        share = shares[row["group"]]
        if row["group"] not in labels:
            continue
        name = {"name": row["group"], "group": labels[row["group"]]}
        if share is None:
            missing.append({**name, "note": NO_VALUE})
            continue
        for place, (change, side) in enumerate((("newly selected", "right"), ("no longer selected", "left"))):
            people = row[("up", "down")[place]]
            part = {"change": change, "side": side, "at": share[place] if side == "right" else -share[place]}
            label = f"{share[place]:.1%} ({people:,.0f})" if people or not any(share) else ""
            parts.append({**name, **part, "people": people, "label": label})
    widest = max((abs(part["at"]) for part in parts), default=0.0) or 0.01
    x = alt.X(
        "at:Q",
        title="← no longer selected · share of the group · newly selected →",
        **round_axis([-widest, widest], space=0.2, percent=True),
    )
    y = group_axis(labels.values(), grid=False)
    colour = alt.Color(
        "change:N",
        scale=alt.Scale(
            domain=["no longer selected", "newly selected"], range=[look.colours[1], look.colours[0]]
        ),
        legend=None,
    )
    bars = (
        alt.Chart(table(parts))
        .mark_bar(height={"band": 0.62})
        .encode(x=x, y=y, color=colour, tooltip=["name:N", "change:N", "people:Q"])
    )
    numbers = [
        text_beside((part for part in parts if part["side"] == side), side, gap=5).encode(
            x="at:Q", y=y, text="label:N"
        )
        for side in SIDES
    ]
    zero = alt.Chart(table([{"at": 0}])).mark_rule(color=look.ink).encode(x="at:Q")
    chart = alt.layer(bars, *numbers, zero, *notes(missing, look, y=y)).properties(
        width=540, height=alt.Step(24)
    )
    return finished(
        chart,
        look,
        title=title,
        subtitle=(
            "Share of each group, and number of people.",
            f"{left_out} groups with fewer changes are not drawn." if left_out else "",
        ),
        description=_changed_sentence(shares),
    )


def _shares(row: Row) -> tuple[float, float] | None:
    if not known(row, "up", "down", "same"):
        return None
    people = row["up"] + row["down"] + row["same"]
    return (row["up"] / people, row["down"] / people) if people > 0 else None


def _changed_sentence(shares: dict[str, tuple[float, float] | None]) -> str:
    there = {group: share for group, share in shares.items() if share is not None}
    if not there:
        return f"Changes of decisions: {NO_VALUE}."
    up, down = (max(there, key=lambda group: there[group][part]) for part in (0, 1))
    return (
        f"Newly selected: at most {100 * there[up][0]:.1f} % of a group ({up}). "
        f"No longer selected: at most {100 * there[down][1]:.1f} % ({down})."
    )
