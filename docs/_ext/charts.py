"""Charts of Altair on the site: live in the page, a picture as the thumbnail, and nothing from a network."""

from __future__ import annotations

import html
import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import altair as alt
import vl_convert

from evenhand.charts import look

if TYPE_CHECKING:
    from sphinx.application import Sphinx

BUNDLE = "vega.js"
_VERSION = ".".join(alt.SCHEMA_VERSION.split(".")[:2])
_numbers = itertools.count()


@alt.theme.register("site", enable=False)
def site_theme() -> alt.theme.ThemeConfig:
    """Plain charts of Altair in the fonts and colours of evenhand's own."""
    letters = {"labelColor": look.INK, "titleColor": look.INK, "labelFontSize": 12, "titleFontSize": 12}
    return {
        "config": {
            "background": look.PAPER,
            "mark": {"color": look.COLOURS[0]},
            "padding": 12,
            "font": look.FONT,
            "view": {"stroke": None},
            "range": {"category": list(look.COLOURS)},
            "title": {
                "anchor": "start",
                "frame": "bounds",
                "color": look.INK,
                "fontSize": 16,
                "offset": 14,
                "subtitleColor": look.FAINT,
                "subtitleFontSize": 12,
                "subtitlePadding": 5,
            },
            "axis": {
                **letters,
                "titleFontWeight": "normal",
                "titlePadding": 8,
                "labelLimit": 250,
                "labelFlush": False,
                "gridColor": look.GRID,
                "domainColor": look.FAINT,
                "tickColor": look.FAINT,
            },
            "axisY": {"domain": False, "ticks": False},
            "legend": {**letters, "titleFontWeight": "normal", "labelLimit": 340, "symbolSize": 90},
            "header": {
                "labelFontSize": 12,
                "titleFontWeight": "normal",
                "labelColor": look.INK,
                "titleColor": look.INK,
            },
        }
    }


def chart_html(chart: alt.TopLevelMixin) -> str:
    """A chart as HTML that ``charts.js`` draws with the one bundle of Vega on the site."""
    definition = chart.to_dict()
    words = html.escape(str(definition.get("description", "Chart")), quote=True)
    # "</" would end the script element, and browsers read no NaN.
    text = json.dumps(definition, ensure_ascii=False, allow_nan=False).replace("</", "<\\/")
    return (
        f'<div class="evenhand-chart" id="chart-{next(_numbers)}" role="figure" aria-label="{words}">'
        f'<script type="application/json">{text}</script></div>'
    )


def save_picture(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the chart that the last line of a block returns as PNG, for the thumbnail of the example.

    The page shows it live, so nothing is added to it.
    """
    names = block_vars["example_globals"]
    shown = names.get("___")  # where sphinx-gallery keeps it, until another block returns something
    if isinstance(shown, alt.TopLevelMixin) and shown is not names.get("_saved_chart"):
        names["_saved_chart"] = shown
        # On white also where the page is dark, as charts in pages are.
        definition = _narrow(shown.to_dict())
        picture = vl_convert.vegalite_to_png(definition, vl_version=_VERSION, scale=2.0)
        Path(next(block_vars["image_path_iterator"])).write_bytes(picture)
    return ""


def _narrow(definition: Any) -> Any:
    """The same chart at half its width and height: letters can be read in a thumbnail."""
    if isinstance(definition, list):
        return [_narrow(part) for part in definition]
    if not isinstance(definition, dict):
        return definition
    return {
        name: part / 2
        if name in {"width", "height"} and isinstance(part, int | float)
        else part
        if name in {"config", "datasets", "data"}
        else _narrow(part)
        for name, part in definition.items()
    }


def write_bundle(app: Sphinx) -> None:
    """Put Vega, Vega-Lite and Vega-Embed beside the other static files, as one script."""
    if app.builder.format == "html":
        static = Path(app.outdir, "_static")
        static.mkdir(parents=True, exist_ok=True)
        # A page opened from disk may not load modules; in a function, names stay apart from other scripts.
        script = f"(() => {{{vl_convert.javascript_bundle(vl_version=_VERSION)}}})();"
        (static / BUNDLE).write_text(script, encoding="utf-8")


def load_bundle(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Have only pages with charts load the bundle."""
    if 'class="evenhand-chart"' in context.get("body", ""):
        app.add_js_file(BUNDLE, loading_method="defer")
        app.add_js_file("charts.js", loading_method="defer")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx, and have sphinx-gallery show charts that the last line of a block returns."""
    alt.TopLevelMixin._repr_html_ = chart_html
    alt.theme.enable("site")
    app.connect("builder-inited", write_bundle)
    app.connect("html-page-context", load_bundle)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
