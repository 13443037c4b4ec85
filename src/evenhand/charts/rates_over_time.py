"""Chart of rates over time, with the evidence that a monitor has."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from evenhand.charts import look
from evenhand.charts.drawing import ChartType, alt
from evenhand.charts.look import numbers, rounded, table
from evenhand.charts.records import known, read_records, shown_groups

_MOST = 6
"""Groups that are drawn."""
_LOWEST, _HIGHEST = 0.01, 1e6
"""Evidence outside is drawn at the end of the axis."""


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
