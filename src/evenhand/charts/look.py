"""How every chart looks: letters, shapes and dashes that differ in grey, and the words around it."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from evenhand.charts.colours import Look
from evenhand.charts.records import Row
from evenhand.exceptions import MissingExtraError

try:
    import altair as alt
except ImportError:
    raise MissingExtraError("altair", "report") from None

if TYPE_CHECKING:
    from altair.typing import ChartType

__all__ = [
    "DASHES",
    "NO_VALUE",
    "SIDES",
    "alt",
    "domain",
    "finished",
    "group_axis",
    "line_styles",
    "own",
    "point_marks",
    "table",
    "text_beside",
]

T = TypeVar("T")

NO_VALUE = "no value"
"""Stands where a number is missing, so that it is not taken for 0."""

_INFINITE = (math.inf, -math.inf)
SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 3], [4, 6], [10, 2, 2, 2, 2, 2])


def _many(kinds: Sequence[T], number: int) -> list[T]:
    """Repeat kinds up to a number. Colours and dashes have different periods, so that pairs differ."""
    return list(islice(cycle(kinds), number))


def line_styles(names: list[str], look: Look) -> dict[str, Row]:
    """Colour and dashes of each line, as they are put into its rows."""
    pairs = zip(_many(look.colours, len(names)), _many(DASHES, len(names)), strict=True)
    return {name: {"ink": ink, "dash": dash} for name, (ink, dash) in zip(names, pairs, strict=True)}


def point_marks(field: str, names: list[str], look: Look, legend: alt.Legend | None) -> dict[str, Any]:
    """Colour and shape of points; these make the legend."""
    channels = {"color": (alt.Color, look.colours), "shape": (alt.Shape, SHAPES)}
    return {
        key: channel(
            f"{field}:N",
            scale=alt.Scale(domain=names, range=_many(kinds, len(names))),
            sort=None,
            legend=legend,
        )
        for key, (channel, kinds) in channels.items()
    }


def table(rows: Iterable[Row]) -> Any:
    """Rows as data inside the chart; nothing is fetched from anywhere. JSON has no infinite numbers."""
    finite = ({key: None if value in _INFINITE else value for key, value in row.items()} for row in rows)
    return alt.InlineData(values=list(finite))


def domain(numbers: Iterable[float], *, include: Sequence[float] = (), margin: float = 0.04) -> list[float]:
    """Give the ends of an axis that holds all numbers, with a margin on sides that are not included as such.

    Examples
    --------
    >>> domain([0.2, 0.7], include=[0.0], margin=0.1)
    [0.0, 0.77]
    """
    there = [*numbers, *include]
    low, high = (min(there), max(there)) if there else (0.0, 1.0)
    space = margin * (high - low) or 0.01
    ends = (low if low in include else low - space, high if high in include else high + space)
    return [round(end, 6) for end in ends]


def text_beside(rows: Iterable[Row], side: Literal["left", "right"], *, gap: int) -> alt.Chart:
    """Small text that ends left, or begins right, of where its rows are."""
    ways: dict[str, Any] = {"left": {"align": "right", "dx": -gap}, "right": {"align": "left", "dx": gap}}
    chart: alt.Chart = alt.Chart(table(rows)).mark_text(fontSize=11, **ways[side])
    return chart


def group_axis(
    labels: Iterable[str], *, labelled: bool = True, grid: bool = True, gap: float = 0.25
) -> alt.Y:
    """One line per group, in the order given."""
    axis = alt.Axis(
        title=None, labelLimit=420, labels=labelled, labelPadding=8, ticks=False, domain=False, grid=grid
    )
    return alt.Y("group:N", scale=alt.Scale(domain=list(labels), paddingInner=gap), sort=None, axis=axis)


def own(field: str, *, of: str = "stroke") -> Any:
    """A channel whose values are in the rows as they are, without a scale and without a legend."""
    channels = {"stroke": alt.Stroke, "dash": alt.StrokeDash, "fill": alt.Fill}
    return channels[of](f"{field}:N", scale=None, legend=None)


def finished(chart: ChartType, look: Look, *, title: str, subtitle: str = "", description: str) -> ChartType:
    """Put the words around a chart, and dress it.

    Parameters
    ----------
    chart : altair chart
    look : Look
    title, subtitle : str
        In plain words. The subtitle is broken into lines.
    description : str
        What the chart shows, in a sentence, for those who do not see it.

    Returns
    -------
    altair chart
        On transparent paper; ``usermeta`` has the colour of the paper that it is made for.
    """
    # One call: each one copies the whole chart, data included.
    dressed: ChartType = chart.properties(
        title=alt.TitleParams(text=title, subtitle=textwrap.wrap(subtitle, 92)),
        description=description,
        usermeta={"paper": look.paper},
        config=_config(look),
    )
    return dressed


def _config(look: Look) -> alt.Config:
    letters: dict[str, Any] = {
        "labelColor": look.ink,
        "titleColor": look.ink,
        "labelFontSize": 12,
        "titleFontSize": 12,
    }
    return alt.Config(
        background="transparent",
        padding=12,
        font="Arial, Liberation Sans, Helvetica, DejaVu Sans, sans-serif",
        view=alt.ViewConfig(stroke=None),
        text=alt.MarkConfig(color=look.ink, fontSize=12),
        title=alt.TitleConfig(
            anchor="start",
            frame="bounds",
            color=look.ink,
            fontSize=16,
            subtitleColor=look.faint,
            subtitleFontSize=12,
            subtitlePadding=5,
            offset=14,
        ),
        axis=alt.AxisConfig(
            **letters,
            titleFontWeight="normal",
            titlePadding=8,
            labelFlush=False,
            gridColor=look.grid,
            domainColor=look.faint,
            tickColor=look.faint,
        ),
        legend=alt.LegendConfig(
            **letters,
            titleFontWeight="normal",
            labelLimit=340,
            symbolSize=90,
            symbolStrokeWidth=2,
        ),
    )
