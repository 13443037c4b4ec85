"""How every chart looks: colours that differ for all eyes, shapes that differ in grey, words around it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from evenhand.charts.records import Row
from evenhand.exceptions import InputError, MissingExtraError

try:
    import altair as alt
except ImportError:
    raise MissingExtraError("altair", "report") from None

if TYPE_CHECKING:
    from altair.typing import ChartType

__all__ = [
    "DASHES",
    "NO_VALUE",
    "SHAPES",
    "SIDES",
    "Look",
    "Theme",
    "alt",
    "domain",
    "finished",
    "group_axis",
    "look_of",
    "many",
    "table",
    "text_beside",
]

Theme = Literal["light", "dark"]
T = TypeVar("T")

NO_VALUE = "no value"
"""Stands where a number is missing, so that it is not taken for 0."""

SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 3])


@dataclass(frozen=True)
class Look:
    """Colours of a theme.

    Attributes
    ----------
    paper, ink, faint, grid : str
        Background, text, secondary text, and lines behind the data.
    colours : tuple of str
        After Okabe and Ito, made darker or lighter where they would not stand out from the paper.
    diverging : tuple of str
        Below, at and above 0.
    """

    paper: str
    ink: str
    faint: str
    grid: str
    colours: tuple[str, ...]
    diverging: tuple[str, str, str]


_LOOKS = {
    "light": Look(
        paper="#ffffff",
        ink="#1b1e23",
        faint="#5b6068",
        grid="#e3e5e8",
        colours=("#0072B2", "#D55E00", "#009E73", "#B65A8E", "#9A6A00", "#555555"),
        diverging=("#C75400", "#f4f4f2", "#0067A3"),
    ),
    "dark": Look(
        paper="#15181d",
        ink="#eceef0",
        faint="#a9b0b8",
        grid="#343a42",
        colours=("#56B4E9", "#E69F00", "#35C79A", "#E08FBF", "#F0E442", "#BBBBBB"),
        diverging=("#E69F00", "#262b32", "#56B4E9"),
    ),
}


def look_of(theme: str) -> Look:
    """Give the colours of a theme by its name."""
    if theme not in _LOOKS:
        raise InputError(f"theme is {theme!r}; it must be one of {[*_LOOKS]}")
    return _LOOKS[theme]


def many(kinds: Sequence[T], number: int) -> list[T]:
    """Repeat kinds up to a number. Colours and dashes have different periods, so that pairs differ."""
    return list(islice(cycle(kinds), number))


def table(rows: Iterable[Row]) -> Any:
    """Rows as data inside the chart; nothing is fetched from anywhere."""
    return alt.InlineData(values=list(rows))


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
    align: Literal["left", "right"] = "right" if side == "left" else "left"
    return alt.Chart(table(rows)).mark_text(align=align, dx=-gap if side == "left" else gap, fontSize=11)


def group_axis(labels: Iterable[str], *, labelled: bool = True) -> Any:
    """One line per group, in the order given."""
    axis = alt.Axis(title=None, labelLimit=420, labels=labelled, ticks=False, domain=False, grid=True)
    return alt.Y("group:N", scale=alt.Scale(domain=list(labels)), sort=None, axis=axis)


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
    words = alt.TitleParams(text=title, subtitle=textwrap.wrap(subtitle, 92))
    dressed: ChartType = (
        chart.properties(title=words, description=description, usermeta={"paper": look.paper})
        .configure(
            background="transparent",
            padding=12,
            font="Arial, Liberation Sans, Helvetica, DejaVu Sans, sans-serif",
        )
        .configure_view(stroke=None)
        .configure_title(
            anchor="start",
            frame="bounds",
            color=look.ink,
            fontSize=16,
            subtitleColor=look.faint,
            subtitleFontSize=12,
            subtitlePadding=5,
            offset=14,
        )
        .configure_axis(
            labelColor=look.ink,
            titleColor=look.ink,
            labelFontSize=12,
            titleFontSize=12,
            titleFontWeight="normal",
            titlePadding=8,
            gridColor=look.grid,
            domainColor=look.faint,
            tickColor=look.faint,
        )
        .configure_legend(
            labelColor=look.ink,
            titleColor=look.ink,
            labelFontSize=12,
            titleFontSize=12,
            titleFontWeight="normal",
            labelLimit=340,
            symbolSize=90,
            symbolStrokeWidth=2,
        )
        .configure_text(color=look.ink, fontSize=12)
    )
    return dressed
