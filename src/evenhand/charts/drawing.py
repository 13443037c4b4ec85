"""Charts as pictures, made on this machine: nothing is fetched from a network, and no browser is needed."""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, Any

from evenhand.charts.lettering import fitted
from evenhand.exceptions import MissingExtraError

try:
    import altair as alt
except ImportError:
    raise MissingExtraError("altair", "report") from None

if TYPE_CHECKING:
    from altair.typing import ChartType

__all__ = ["alt", "rendered", "shown_offline", "to_svg"]


def rendered(definition: dict[str, Any], suffix: str, scale: float) -> bytes:
    """Draw a chart as the content of a file.

    Parameters
    ----------
    definition : dict
        Vega-Lite.
    suffix : {".json", ".svg", ".png"}
    scale : float
        Pixels of a PNG per pixel of the chart.

    Returns
    -------
    bytes
    """
    if suffix == ".json":
        return json.dumps(definition, ensure_ascii=False, allow_nan=False, indent=1).encode()
    try:
        import vl_convert  # noqa: PLC0415  (30 MB that JSON does not need)
    except ImportError:
        raise MissingExtraError("vl-convert-python", "report") from None
    paper = definition.get("usermeta", {}).get("paper", "white")
    definition = {**definition, "config": {**definition.get("config", {}), "background": paper}}
    version = ".".join(alt.SCHEMA_VERSION.split(".")[:2])
    if suffix == ".svg":
        picture = fitted(vl_convert.vegalite_to_svg(definition, vl_version=version, allowed_base_urls=[]))
        words = html.escape(definition.get("description", ""))
        return picture.replace("<svg", f'<svg role="img" aria-label="{words}"', 1).encode()
    return bytes(
        vl_convert.vegalite_to_png(definition, vl_version=version, scale=scale, allowed_base_urls=[])
    )


def to_svg(chart: ChartType) -> str:
    """Draw a chart as SVG."""
    return rendered(chart.to_dict(), ".svg", 1.0).decode()


def shown_offline(chart: ChartType) -> ChartType:
    """Make a notebook show a chart as a picture.

    Altair's own way loads its JavaScript from a network, and leaves an empty space where there is none. The
    chart stays an Altair chart, and the renderer that a person has chosen for other charts stays as it is.

    Parameters
    ----------
    chart : altair.LayerChart or altair.ConcatChart

    Returns
    -------
    altair chart
    """
    kinds: dict[type, type] = {alt.LayerChart: _Layers, alt.ConcatChart: _Panels}
    object.__setattr__(chart, "__class__", kinds[type(chart)])  # Altair takes what is set for a field
    return chart


class _AsPicture:
    """How a notebook shows a chart."""

    def _repr_mimebundle_(self, *args: Any, **settings: Any) -> Any:
        try:
            return {"image/svg+xml": to_svg(self), "text/plain": self.description}  # type: ignore[arg-type, attr-defined]
        except MissingExtraError:
            return super()._repr_mimebundle_(*args, **settings)  # type: ignore[misc]


class _Layers(_AsPicture, alt.LayerChart):
    pass


class _Panels(_AsPicture, alt.ConcatChart):
    pass
