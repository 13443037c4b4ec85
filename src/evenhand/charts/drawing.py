"""Charts as pictures, rendered locally: without a network and without a browser."""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, Any

from evenhand.exceptions import MissingExtraError

try:
    import altair as alt
except ImportError:
    raise MissingExtraError("altair", "report") from None

if TYPE_CHECKING:
    from altair.typing import ChartType

__all__ = ["alt", "rendered", "shown_offline", "to_svg"]


def rendered(definition: dict[str, Any], suffix: str, scale: float) -> bytes:
    """A chart as the content of a file.

    Parameters
    ----------
    definition : dict
        In Vega-Lite.
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
        import vl_convert  # noqa: PLC0415  (30 MB, not needed for JSON)
    except ImportError:
        raise MissingExtraError("vl-convert-python", "report") from None
    paper = definition.get("usermeta", {}).get("paper", "white")
    definition = {**definition, "config": {**definition.get("config", {}), "background": paper}}
    version = ".".join(alt.SCHEMA_VERSION.split(".")[:2])
    if suffix == ".svg":
        picture = vl_convert.vegalite_to_svg(definition, vl_version=version, allowed_base_urls=[])
        words = html.escape(definition.get("description", ""))
        return picture.replace("<svg", f'<svg role="img" aria-label="{words}"', 1).encode()
    return bytes(
        vl_convert.vegalite_to_png(definition, vl_version=version, scale=scale, allowed_base_urls=[])
    )


def to_svg(chart: ChartType) -> str:
    """A chart as SVG."""
    # Altair has validated every part already, when it was made.
    return rendered(chart.to_dict(validate=False), ".svg", 1.0).decode()


def shown_offline(chart: ChartType) -> ChartType:
    """Make notebooks show a chart as a picture.

    Altair's own output loads JavaScript from a network and stays empty without one. The result is still an
    Altair chart, and the renderer set for other charts does not change.

    Parameters
    ----------
    chart : altair.LayerChart or altair.FacetChart

    Returns
    -------
    altair chart
    """
    kind = _Layers if isinstance(chart, alt.LayerChart) else _Panels
    object.__setattr__(chart, "__class__", kind)  # plain assignment would set a field of the chart
    return chart


class _AsPicture:
    """A chart that notebooks show as SVG."""

    def _repr_mimebundle_(self, *args: Any, **settings: Any) -> Any:
        try:
            return {"image/svg+xml": to_svg(self), "text/plain": self.description}  # type: ignore[arg-type, attr-defined]
        except MissingExtraError:
            return super()._repr_mimebundle_(*args, **settings)  # type: ignore[misc]


class _Layers(_AsPicture, alt.LayerChart):
    pass


class _Panels(_AsPicture, alt.FacetChart):
    pass
