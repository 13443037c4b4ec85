"""Chart of models beside the incumbent: accuracy against the lowest impact ratio, with the bound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from evenhand.charts import look
from evenhand.charts.drawing import ChartType, alt
from evenhand.charts.look import between, numbers, rounded, table
from evenhand.charts.records import known, read_records


def alternatives_chart(
    candidates: Iterable[Mapping[str, Any]],
    bound: Iterable[Mapping[str, Any]],
    *,
    margin: float,
    confidence: float,
) -> ChartType:
    """Difference in accuracy against the lowest impact ratio; the bound as a curve.

    Parameters
    ----------
    candidates : iterable of mappings
        ``name``, ``kind``, ``accuracy_difference``, ``impact_ratio``, ``chosen``; optional ``accuracy_low``,
        ``accuracy_high``, ``ratio_low``, ``ratio_high``.
    bound : iterable of mappings
        ``margin``, ``impact_ratio``.
    margin : float
        Where a line is drawn.
    confidence : float
        Of the intervals, for the subtitle.

    Returns
    -------
    altair chart

    Examples
    --------
    >>> old = {"name": "incumbent", "kind": "incumbent", "accuracy_difference": 0.0, "impact_ratio": 0.6}
    >>> new = {"name": "new", "kind": "fair", "accuracy_difference": -0.002, "impact_ratio": 0.7}
    >>> bound = [{"margin": 0.0, "impact_ratio": 0.8}]
    >>> alternatives_chart([old, new], bound, margin=0.005, confidence=0.95).description
    'Lowest impact ratio and difference in accuracy. incumbent: 0.600 at 0.0000; new: 0.700 at -0.0020.'
    """
    figures = ("accuracy_difference", "impact_ratio")
    limits = ("accuracy_low", "accuracy_high", "ratio_low", "ratio_high")
    rows = [
        {**row, "group": row["kind"]}
        for row in read_records(candidates, ("name", "kind"), figures, limits, chosen="")
        if known(row, *figures)
    ]
    curve = [{"accuracy_difference": -row["margin"], "impact_ratio": row["impact_ratio"]} for row in bound]
    across = between([*rows, *curve], "impact_ratio")
    up = between([*rows, *curve, {"accuracy_difference": -1.2 * margin}], "accuracy_difference")
    place = {
        "x": alt.X(
            "impact_ratio:Q",
            title="lowest impact ratio  |  fairer →",
            **numbers(8, [across[0] - 0.02, across[1] + 0.02]),
        ),
        "y": alt.Y(
            "accuracy_difference:Q",
            title="difference in accuracy",
            **numbers(7, [up[0] - 0.002, up[1] + 0.002]),
        ),
    }
    kinds = list(dict.fromkeys(row["group"] for row in rows))
    marks = place | look.line_marks(kinds, "color", "shape")
    tips = ["name:N", *rounded("accuracy_difference", "accuracy_low", "accuracy_high", "impact_ratio")]
    named = [row for row in rows if row["kind"] == "incumbent" or row.get("chosen")]
    limited = [row for row in named if known(row, "accuracy_low", "ratio_low")]
    bars = alt.Chart(table(limited)).mark_rule(opacity=0.5, clip=True)
    text = alt.Chart(table(named)).mark_text(align="left", dx=9, dy=-9, fontSize=12, color=look.INK)
    line = alt.Chart(table([{"accuracy_difference": -margin}])).mark_rule(strokeDash=[4, 4], color=look.FAINT)
    layers = [
        line.encode(y=place["y"]),
        alt.Chart(table(curve)).mark_line(color=look.INK, strokeWidth=2, point=True).encode(**place),
        bars.encode(**place | {"y": alt.Y("accuracy_low:Q"), "y2": "accuracy_high:Q"}),
        bars.encode(**place | {"x": alt.X("ratio_low:Q"), "x2": "ratio_high:Q"}),
        alt.Chart(table(rows)).mark_point(size=80, filled=True, opacity=0.9).encode(**marks, tooltip=tips),
        text.encode(**place, text="name:N"),
    ]
    said = (f"{row['name']}: {row['impact_ratio']:.3f} at {row['accuracy_difference']:.4f}" for row in rows)
    return look.finished(
        alt.layer(*layers).properties(width=560, height=380),
        title="Alternatives to the incumbent",
        subtitle=(
            "Black line: the bound, by the learned probabilities. "
            f"Dashed: {margin:g} less accurate than the incumbent. Bars: {100 * confidence:g} % intervals.",
        ),
        description=f"Lowest impact ratio and difference in accuracy. {'; '.join(said)}.",
    )
