"""The look of all charts: colours, titles, marks that differ in greyscale; and pictures of charts."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from evenhand.charts.records import Row
from evenhand.exceptions import MissingExtraError

try:
    import altair as alt
    from altair.typing import ChartType
except ImportError:
    raise MissingExtraError("altair", "report") from None

__all__ = ["ChartType", "alt"]  # what other modules of charts take from here besides the names below

Measure = Literal["difference", "ratio", "bound"]
"""How groups are compared; fairer is on the left of every axis, so that of ratios runs from 1 down."""

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-left")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 3], [4, 6], [10, 2, 2, 2, 2, 2])
"""Seven of each, and six colours, so that pairs differ."""

FONT = "Arial, Liberation Sans, Helvetica, Roboto, DejaVu Sans Condensed, sans-serif"
"""Charts are laid out with the widths of the first; the others are about as wide."""

SHORT = "length(datum.label) > 42 ? slice(datum.label, 0, 27) + '…' + slice(datum.label, -14) : datum.label"
"""Labels of groups, without the middle part if they are long."""

PAPER, INK, FAINT, GRID = "#ffffff", "#1b1e23", "#5b6068", "#e3e5e8"
"""Background, text, secondary text, and lines behind the data."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#B65A8E", "#9A6A00", "#555555")
"""After Okabe and Ito, made darker where the contrast with the background was too low."""
_LETTERS = {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 12}
_CONFIG = {
    "background": PAPER,
    "padding": 16,
    "font": FONT,
    "lineBreak": "\n",
    "view": {"stroke": None},
    "text": {"color": INK, "fontSize": 12},
    "title": {
        "anchor": "start",
        "frame": "bounds",
        "color": INK,
        "fontSize": 16,
        "subtitleColor": FAINT,
        "subtitleFontSize": 12,
        "subtitlePadding": 5,
        "offset": 14,
    },
    "axis": {
        **_LETTERS,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "labelFlush": False,
        "gridColor": GRID,
    },
    "header": {**_LETTERS, "titleFontWeight": "normal"},
    "legend": {
        **_LETTERS,
        "labelLimit": 340,
        "symbolStrokeWidth": 2,
        "symbolOpacity": 1,
    },
}


def line_marks(names: Sequence[str], *channels: str, points: bool = True) -> dict[str, Any]:
    """Channels that tell groups apart, with a legend of points, or lines, below the chart."""
    ranges = {"color": COLOURS, "shape": SHAPES, "strokeDash": DASHES}
    symbols = {"symbolStrokeWidth": 0} if points else {"symbolType": "stroke", "symbolStrokeWidth": 2}
    legend = alt.Legend(title=None, orient="bottom", columns=2, symbolLimit=0, labelExpr=SHORT, **symbols)
    return {name: _channel(name, "group", names, ranges[name], legend) for name in channels}


def paired_marks(kinds: tuple[str, str], *, compared: bool) -> dict[str, Any]:
    """Channels of points that tell ``when`` a value was found: its baseline, and it, by all of them.

    Without a baseline to be `compared` with, no legend is needed.
    """
    ranges = {
        "color": (COLOURS[1], COLOURS[0]),
        "fill": (PAPER, COLOURS[0]),
        "shape": ("diamond", "circle"),
    }
    if not compared:
        return {name: alt.value(two[1]) for name, two in ranges.items()}
    legend = alt.Legend(title=None, orient="top")
    return {name: _channel(name, "when", kinds, two, legend) for name, two in ranges.items()}


def notes(**encoding: Any) -> alt.Chart:
    """The ``note`` of each row in small letters, where there is nothing to draw."""
    text = alt.Chart().mark_text(align="left", fontStyle="italic", fontSize=11, color=FAINT)
    chart: alt.Chart = text.encode(x=alt.value(4), text="note:N", **encoding)
    return chart.transform_filter("datum.note")


def finished(chart: ChartType, *, title: str, subtitle: Iterable[str], description: str) -> ChartType:
    """The chart with its title, subtitle and description.

    Parameters
    ----------
    chart : altair chart
    title : str
    subtitle : iterable of str
        Sentences; empty ones are dropped.
    description : str
        What the chart shows, for screen readers.

    Returns
    -------
    altair chart
        A notebook shows it as a picture, without a network.
    """
    # In one call, because each call copies the whole chart with its data.
    complete: ChartType = chart.properties(
        title=alt.TitleParams(text=title, subtitle=textwrap.wrap(" ".join(filter(None, subtitle)), 92)),
        description=description,
        config=_CONFIG,
    )
    kind = type(type(complete).__name__, (_AsPicture, type(complete)), {})
    object.__setattr__(complete, "__class__", kind)  # plain assignment would set a field of the chart
    return complete


def table(rows: Iterable[Row]) -> Any:
    """Rows as data inside the chart."""
    return alt.InlineData(values=list(rows))


def numbers(
    ticks: int, domain: Sequence[float] | None = None, *, padding: int | None = None, reverse: bool = False
) -> Row:
    """Scale and axis of a channel: about as many ticks, and both ends at one, or `padding` pixels further."""
    scale: Row = {"nice": ticks, "zero": True} if domain is None else {"nice": ticks, "domain": list(domain)}
    if padding is not None:
        scale |= {"nice": False, "padding": padding}
    if reverse:
        scale["reverse"] = True
    return {"scale": alt.Scale(**scale), "axis": alt.Axis(tickCount=ticks)}


def rounded(*keys: str, form: str = ".4f") -> list[alt.Tooltip]:
    """Numbers that a chart shows beside the pointer."""
    return [alt.Tooltip(f"{key}:Q", format=form) for key in keys]


def fairer(title: str, measure: Measure) -> str:
    """The title of an axis, with the side that is fairer.

    Examples
    --------
    >>> fairer("mean ratio, equal opportunity", "ratio"), fairer("selection rate, at most", "bound")
    ('← fairer  |  mean ratio, equal opportunity', 'selection rate, at most')
    """
    return title if measure == "bound" else f"← fairer  |  {title}"


def between(rows: Iterable[Row], *keys: str) -> list[float]:
    """The smallest and largest of the numbers under the keys."""
    found = [row[key] for row in rows for key in keys if row.get(key) is not None]
    return [min(found, default=0.0), max(found, default=1.0)]


def group_axis(names: Sequence[str]) -> alt.Y:
    """A vertical axis with one line per group."""
    axis = alt.Axis(
        title=None, labelExpr=SHORT, labelLimit=420, labelPadding=8, ticks=False, domain=False, grid=True
    )
    scale = alt.Scale(domain=list(names), paddingInner=0.25)
    return alt.Y("group:N", scale=scale, sort=None, axis=axis)


def _channel(name: str, field: str, kinds: Iterable[str], values: Iterable[Any], legend: alt.Legend) -> Any:
    scale = alt.Scale(domain=list(kinds), range=list(values))
    channel = getattr(alt, f"{name[0].upper()}{name[1:]}")
    return channel(f"{field}:N", scale=scale, sort=None, legend=legend)


def to_svg(chart: ChartType) -> str:
    """A chart as SVG."""
    try:
        import vl_convert  # noqa: PLC0415  (30 MB, not needed to make a chart)
    except ImportError:
        raise MissingExtraError("vl-convert-python", "report") from None
    definition = chart.to_dict(validate=False)  # Altair has validated every part when it was made
    version = ".".join(alt.SCHEMA_VERSION.split(".")[:2])
    picture = vl_convert.vegalite_to_svg(definition, vl_version=version, allowed_base_urls=[])
    words = html.escape(definition.get("description", ""))
    return picture.replace("<svg", f'<svg role="img" aria-label="{words}"', 1)


class _AsPicture:
    """A chart that notebooks show as SVG.

    Altair's own output loads JavaScript from a network and stays empty without one. The result is still an
    Altair chart, and the renderer set for other charts does not change.
    """

    def as_svg(self) -> str:
        return to_svg(self)  # type: ignore[arg-type]

    def _repr_mimebundle_(self, *args: Any, **settings: Any) -> Any:
        try:
            return {"image/svg+xml": self.as_svg(), "text/plain": self.description}  # type: ignore[attr-defined]
        except MissingExtraError:
            return super()._repr_mimebundle_(*args, **settings)  # type: ignore[misc]
