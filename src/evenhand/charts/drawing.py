"""Charts as pictures, rendered locally: without a network and without a browser."""

from __future__ import annotations

import html
from typing import Any

from evenhand.exceptions import MissingExtraError

try:
    import altair as alt
    from altair.typing import ChartType
except ImportError:
    raise MissingExtraError("altair", "report") from None

__all__ = ["ChartType", "alt", "shown_offline", "to_svg"]


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
    kind = type(type(chart).__name__, (_AsPicture, type(chart)), {})
    object.__setattr__(chart, "__class__", kind)  # plain assignment would set a field of the chart
    return chart


class _AsPicture:
    """A chart that notebooks show as SVG."""

    def as_svg(self) -> str:
        return to_svg(self)  # type: ignore[arg-type]

    def _repr_mimebundle_(self, *args: Any, **settings: Any) -> Any:
        try:
            return {"image/svg+xml": self.as_svg(), "text/plain": self.description}  # type: ignore[attr-defined]
        except MissingExtraError:
            return super()._repr_mimebundle_(*args, **settings)  # type: ignore[misc]
