"""The look of all charts: fonts, shapes and dashes that differ in greyscale, titles and notes."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from evenhand.charts.colours import Look
from evenhand.charts.drawing import alt, shown_offline
from evenhand.charts.lettering import width
from evenhand.charts.records import Row

if TYPE_CHECKING:
    from altair.typing import ChartType

__all__ = [
    "DASHES",
    "NO_VALUE",
    "SIDES",
    "alt",
    "finished",
    "group_axis",
    "intervals_note",
    "line_styles",
    "notes",
    "own",
    "paired_marks",
    "point_marks",
    "table",
    "text_beside",
    "text_over",
]

T = TypeVar("T")

_LABEL, _WIDEST = 12, 420
"""Font size of labels, and the largest width of a group's name."""

NO_VALUE = "no value"
"""Shown where a number is missing, so that it is not taken for 0."""

SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-left")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 3], [4, 6], [10, 2, 2, 2, 2, 2])


def _repeated(kinds: Sequence[T], number: int) -> list[T]:
    """Kinds repeated up to a number. Shapes and dashes have another period than colours, so pairs differ."""
    return list(islice(cycle(kinds), number))


def line_styles(names: list[str], look: Look) -> dict[str, Row]:
    """Colour and dashes of each line, for its rows."""
    pairs = zip(_repeated(look.colours, len(names)), _repeated(DASHES, len(names)), strict=True)
    return {name: {"ink": ink, "dash": dash} for name, (ink, dash) in zip(names, pairs, strict=True)}


def point_marks(field: str, names: list[str], look: Look, legend: alt.Legend | None) -> dict[str, Any]:
    """Channels for colour and shape of points, which make the legend."""
    channels = {"color": (alt.Color, look.colours), "shape": (alt.Shape, SHAPES)}
    return {
        key: channel(
            f"{field}:N",
            scale=alt.Scale(domain=names, range=_repeated(kinds, len(names))),
            sort=None,
            legend=legend,
        )
        for key, (channel, kinds) in channels.items()
    }


def table(rows: Iterable[Row]) -> Any:
    """Rows as data inside the chart."""
    return alt.InlineData(values=list(rows))


def text_beside(rows: Iterable[Row], side: Literal["left", "right"], *, gap: int) -> alt.Chart:
    """Small text to the left or right of its rows."""
    ways: dict[str, Any] = {"left": {"align": "right", "dx": -gap}, "right": {"align": "left", "dx": gap}}
    chart: alt.Chart = alt.Chart(table(rows)).mark_text(fontSize=11, **ways[side])
    return chart


def text_over(
    rows: Iterable[Row], look: Look, encoding: Mapping[str, Any], **mark: Any
) -> tuple[alt.Chart, alt.Chart]:
    """Text that is legible on top of lines: with an outline in the background colour."""
    data = table(rows)
    outline = alt.Chart(data).mark_text(stroke=look.paper, strokeWidth=4, **mark).encode(**encoding)
    return outline, alt.Chart(data).mark_text(**mark).encode(**encoding)


def notes(rows: Iterable[Row], look: Look, **encoding: Any) -> tuple[alt.Chart, alt.Chart]:
    """The ``note`` of each row in small letters, where there is nothing to draw."""
    mark = {"align": "left", "fontStyle": "italic", "fontSize": 11, "color": look.faint}
    return text_over(rows, look, {"x": alt.value(4), "text": "note:N", **encoding}, **mark)


def paired_marks(field: str, kinds: tuple[str, str], look: Look, *, compared: bool) -> dict[str, Any]:
    """Channels that distinguish a value from its baseline by colour, filling and shape.

    Parameters
    ----------
    field : str
        Holds one of the kinds in each row.
    kinds : (str, str)
        The baseline and the value.
    look : Look
    compared : bool
        Whether there is a baseline; otherwise no legend is needed.

    Returns
    -------
    dict
        Channels of points.
    """
    channels = {
        "color": (alt.Color, (look.colours[1], look.colours[0])),
        "fill": (alt.Fill, (look.paper, look.colours[0])),
        "shape": (alt.Shape, ("diamond", "circle")),
    }
    if not compared:
        return {name: alt.value(values[1]) for name, (_, values) in channels.items()}
    legend = alt.Legend(title=None, orient="top")
    return {
        name: channel(
            f"{field}:N", scale=alt.Scale(domain=list(kinds), range=list(values)), sort=None, legend=legend
        )
        for name, (channel, values) in channels.items()
    }


def intervals_note(confidence: float | None, *, there: bool) -> str:
    """What the bars are, if there are any."""
    level = "" if confidence is None else f"{100 * confidence:g} % "
    return f"Bars: {level}intervals." if there else ""


def group_axis(
    labels: Iterable[str], *, labelled: bool = True, grid: bool = True, gap: float = 0.25
) -> alt.Y:
    """A vertical axis with one line per group."""
    names = list(labels)
    # The renderer may lack fonts for other scripts and then reserves too little space.
    widest = max((width(name, _LABEL) for name in names), default=0.0)
    axis = alt.Axis(
        title=None,
        labelLimit=_WIDEST,
        minExtent=math.ceil(min(widest, _WIDEST)) + 8 if labelled else 0,
        labels=labelled,
        labelPadding=8,
        ticks=False,
        domain=False,
        grid=grid,
    )
    return alt.Y("group:N", scale=alt.Scale(domain=names, paddingInner=gap), sort=None, axis=axis)


def own(field: str, *, of: str = "stroke") -> Any:
    """A channel that takes its values from the rows, without scale and legend."""
    channels = {"stroke": alt.Stroke, "dash": alt.StrokeDash, "fill": alt.Fill}
    return channels[of](f"{field}:N", scale=None, legend=None)


def finished(
    chart: ChartType, look: Look, *, title: str, subtitle: Iterable[str], description: str
) -> ChartType:
    """The chart with its title, subtitle, description and theme.

    Parameters
    ----------
    chart : altair chart
    look : Look
    title : str
    subtitle : iterable of str
        Sentences; empty ones are dropped.
    description : str
        What the chart shows, for screen readers.

    Returns
    -------
    altair chart
        With a transparent background; ``usermeta`` holds the intended one. A notebook shows it as a picture,
        without a network.
    """
    # In one call, because each call copies the whole chart with its data.
    complete: ChartType = chart.properties(
        title=alt.TitleParams(text=title, subtitle=textwrap.wrap(" ".join(filter(None, subtitle)), 92)),
        description=description,
        usermeta={"paper": look.paper},
        config=_config(look),
    )
    return shown_offline(complete)


def _config(look: Look) -> alt.Config:
    letters: dict[str, Any] = {
        "labelColor": look.ink,
        "titleColor": look.ink,
        "labelFontSize": _LABEL,
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
