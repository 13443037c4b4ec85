"""Charts as pictures and files, rendered locally: without a network and without a browser."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

from evenhand._atomic import written_at_once
from evenhand.exceptions import InputError, MissingExtraError

try:
    import altair as alt
    from altair.typing import ChartType
except ImportError:
    raise MissingExtraError("altair", "report") from None

__all__ = ["ChartType", "alt", "rendered", "save_chart", "shown_offline", "to_svg"]

_SUFFIXES = (".png", ".svg", ".json")


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


def save_chart(chart: ChartType, path: str | Path, *, scale: float = 2.0) -> Path:
    """Write a chart as PNG, SVG or JSON, by the suffix of the file's name.

    Pictures get the background of their theme. Nothing is fetched from a network: a chart that refers to data
    elsewhere is refused. JSON is the Vega-Lite definition with its data. The file is written completely or
    not at all.

    Parameters
    ----------
    chart : altair chart
    path : str or Path
        Ends in ``.png``, ``.svg`` or ``.json``.
    scale : float, default=2.0
        Pixels of a PNG per pixel of the chart; 2 is enough for print.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> from evenhand.charts import changed_chart
    >>> from evenhand.charts import save_chart
    >>> chart = changed_chart([{"group": "F", "up": 12, "down": 3, "same": 85}])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_chart(chart, f"{folder}/changed.svg").read_text(encoding="utf-8")[:4]
    '<svg'
    """
    path = Path(path)
    if path.suffix.lower() not in _SUFFIXES:
        raise InputError(f"{path.name!r} must end in .png, .svg or .json")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {str(path.parent)!r} for {path.name!r}; make it first")
    content = rendered(chart.to_dict(validate=False), path.suffix.lower(), scale)
    with written_at_once(path) as unfinished:
        unfinished.write_bytes(content)
    return path


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
    kinds = {alt.LayerChart: _Layers, alt.FacetChart: _Panels, alt.VConcatChart: _Stack}
    kind = next(own for theirs, own in kinds.items() if isinstance(chart, theirs))
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


class _Layers(_AsPicture, alt.LayerChart):
    pass


class _Panels(_AsPicture, alt.FacetChart):
    pass


class _Stack(_AsPicture, alt.VConcatChart):
    pass
