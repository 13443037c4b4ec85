"""Charts of mean curves, one picture per table."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import altair as alt

from benchmarks.paper.comparison import mean_curve
from benchmarks.paper.kept import Kept
from benchmarks.paper.methods import METHODS
from benchmarks.paper.plan import asked_of
from benchmarks.paper.tables import TABLES, Table

__all__ = ["draw"]

COLOURS = {
    "post": "#0b5fa5",
    "in": "#d1495b",
    "in, mixture": "#f0a3a9",
    "plain trees": "#111111",
    "plain logistic": "#777777",
    "ThresholdOptimizer": "#2e933c",
    "LinearPost": "#8f5db7",
    "LinearPost, our posteriors": "#c9a6e0",
    "bias score": "#e0a100",
    "ExponentiatedGradient": "#00a6a6",
    "ExponentiatedGradient, unlimited": "#8fd9d9",
}


def draw(kept: Kept, folder: Path) -> Iterable[str]:
    """Draw every table into the folder, and give the Markdown that shows the pictures."""
    yield (
        "Mean accuracy and mean disparity over splits on test rows, MD or 1 - MR: up and to the left is "
        "better. Ours are `post`, `in` and `in, mixture`. Plain logistic regression is not shown where it is "
        "so far below all others that they could not be told apart; its figures are among [the "
        "comparisons](verdicts.md).\n"
    )
    for table in TABLES.values():
        chart = _chart(kept, table)
        if chart is not None:
            name = "-".join(table.name.lower().replace(",", "").split()) + ".svg"
            chart.save(folder / name)
            yield f"## {table.name}\n\n![Accuracy against disparity on {table.name}]({name})\n"


def _chart(kept: Kept, table: Table) -> alt.VConcatChart | None:
    rows = []
    for asked in asked_of(table):
        pair = []
        for setting in ("blind", "aware"):
            values = _without_outlier(
                [
                    {"method": method, "accuracy": accuracy, "disparity": disparity, "order": k}
                    for method in METHODS
                    for k, (accuracy, disparity) in enumerate(
                        mean_curve(kept, table.name, method, setting, str(asked), missing=())
                    )
                ]
            )
            if values:
                pair.append(_panel(values, f"{asked}, {setting}", asked.measure))
        if pair:
            rows.append(alt.hconcat(*pair))
    return alt.vconcat(*rows).resolve_scale(color="shared") if rows else None


def _without_outlier(values: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out plain logistic regression if it is below all others by more than these are apart."""
    others = [value for value in values if value["method"] != "plain logistic"]
    heights = [value["accuracy"] for value in others]
    plain = min((value["accuracy"] for value in values), default=0.0)
    return others if heights and min(heights) - plain > max(heights) - min(heights) else values


def _panel(values: list[dict[str, Any]], title: str, measure: str) -> alt.LayerChart:
    color = alt.Color("method:N", scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())))
    base = alt.Chart(alt.Data(values=values), title=title, width=300, height=190).encode(
        x=alt.X("disparity:Q", title="MD" if measure == "difference" else "1 - MR"),
        y=alt.Y("accuracy:Q", scale=alt.Scale(zero=False), title="accuracy"),
        color=color,
    )
    return base.mark_line(strokeWidth=1.3).encode(order="order:O") + base.mark_point(filled=True, size=28)
