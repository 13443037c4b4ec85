"""A chart inside other HTML, if the packages for it are installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evenhand.exceptions import MissingExtraError

__all__ = ["inline_svg"]


def inline_svg(draw: Callable[[], Any]) -> str:
    """SVG of the chart that `draw` makes; empty without the extra ``report``."""
    try:
        from evenhand.charts.drawing import to_svg  # noqa: PLC0415  (needs the extra)

        return to_svg(draw())
    except MissingExtraError:
        return ""
