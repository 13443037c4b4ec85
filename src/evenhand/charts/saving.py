"""Charts as files, rendered without a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evenhand._atomic import written_at_once
from evenhand.charts.drawing import rendered, to_svg
from evenhand.exceptions import InputError

if TYPE_CHECKING:
    from altair.typing import ChartType

__all__ = ["save_chart", "to_svg"]

_SUFFIXES = (".png", ".svg", ".json")


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
