"""Charts as files, made on this machine without a browser."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.charts.look import alt
from evenhand.exceptions import InputError, MissingExtraError
from evenhand.writing import written_at_once

if TYPE_CHECKING:
    from altair.typing import ChartType

__all__ = ["save_chart", "to_svg"]

_SUFFIXES = (".png", ".svg", ".json")


def save_chart(chart: ChartType, path: str | Path, *, scale: float = 2.0) -> Path:
    """Write a chart as PNG, SVG or JSON, by the suffix of the file's name.

    Pictures get the paper of their theme as background, and nothing is fetched from a network: a chart that
    refers to data elsewhere is refused. JSON is the Vega-Lite definition with the data in it. The file is
    there complete or not at all.

    Parameters
    ----------
    chart : altair chart
    path : str or Path
        Ends in ``.png``, ``.svg`` or ``.json``.
    scale : float
        Pixels of a PNG per pixel of the chart; 2 prints well.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> from evenhand.charts import changed_chart, save_chart
    >>> chart = changed_chart([{"group": "F", "up": 12, "down": 3, "same": 85}])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_chart(chart, f"{folder}/changed.svg").read_text(encoding="utf-8")[:4]
    '<svg'
    """
    path = Path(path)
    if path.suffix.lower() not in _SUFFIXES:
        raise InputError(f"{path.name!r} must end in .png, .svg or .json; charts are written as one of these")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {str(path.parent)!r} to write {path.name!r} to; make it first")
    content = _rendered(chart.to_dict(validate=False), path.suffix.lower(), scale)
    with written_at_once(path) as unfinished:
        unfinished.write_bytes(content)
    return path


def _rendered(definition: dict[str, Any], suffix: str, scale: float) -> bytes:
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
        picture = vl_convert.vegalite_to_svg(definition, vl_version=version, allowed_base_urls=[])
        words = html.escape(definition.get("description", ""))
        return picture.replace("<svg", f'<svg role="img" aria-label="{words}"', 1).encode()
    return bytes(
        vl_convert.vegalite_to_png(definition, vl_version=version, scale=scale, allowed_base_urls=[])
    )


def to_svg(chart: ChartType) -> str:
    """Give a chart as SVG."""
    return _rendered(chart.to_dict(), ".svg", 1.0).decode()
