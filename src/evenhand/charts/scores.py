"""Charts of scores by group: ROC curves, and impact ratios by cut-off."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from evenhand.charts.drawing import ChartType, alt
from evenhand.charts.look import Look, Theme, between, look_of, numbers, rounded, table
from evenhand.charts.records import NO_VALUE, Row, Shown, known, read_records, shown_groups


def roc_chart(
    records: Iterable[Mapping[str, Any]],
    *,
    title: str = "Do scores rank people as well in each group?",
    theme: Theme = "light",
    max_groups: int = 6,
) -> ChartType:
    """True- against false-positive rate over all cut-offs, one curve per group.

    Parameters
    ----------
    records : iterable of mappings
        One per group and point, in order: ``group``, ``false_positive_rate``, ``true_positive_rate``;
        optional ``n``, the group's number of people.
    title : str, default="Do scores rank people as well in each group?"
    theme : {"light", "dark"}, default="light"
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
    lines = _lines(shown, place, [dict.fromkeys(keys, 0), dict.fromkeys(keys, 1)], look_of(theme))
    areas = {name: _area([row for row in shown.rows if row["group"] == name], *keys) for name in shown.names}
    return look_of(theme).finished(
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
    theme: Theme = "light",
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
    theme : {"light", "dark"}, default="light"
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
    lines = _lines(shown, place, behind, look_of(theme), point={"size": 46})
    return look_of(theme).finished(
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


def _lines(shown: Shown, place: dict[str, Any], behind: list[Row], look: Look, **mark: Any) -> Any:
    """A line for each group, through its rows in their order, and a dashed one behind them."""
    keys = tuple(behind[0])
    drawn = [{**row, "order": k} for k, row in enumerate(shown.rows) if known(row, *keys)]
    marks = look.line_marks(shown.names, "color", "strokeDash", points=False)
    tips = ["name:N", *rounded(*keys, form=".3f")]
    dashed = alt.Chart(table(behind)).mark_line(color=look.faint, strokeDash=[4, 4], strokeWidth=1)
    curves = alt.Chart(table(drawn)).mark_line(strokeWidth=2, **mark)
    return alt.layer(dashed.encode(**place), curves.encode(**place | marks, order="order:Q", tooltip=tips))
