"""Charts of plain records, one definition for a notebook, a page, PNG and SVG.

Each function takes a list of dicts, so that a page can hold the same data as JSON, and returns an Altair
chart. The functions are loaded when they are first used: Altair is an optional package.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "calibration_chart": "reliability",
    "changed_chart": "outcomes",
    "frontier_chart": "frontier",
    "prices_chart": "prices",
    "rates_chart": "outcomes",
    "save_chart": "saving",
    "thresholds_chart": "rules",
    "to_svg": "saving",
    "weights_chart": "rules",
}

if TYPE_CHECKING:
    from evenhand.charts.frontier import frontier_chart
    from evenhand.charts.outcomes import changed_chart, rates_chart
    from evenhand.charts.prices import prices_chart
    from evenhand.charts.reliability import calibration_chart
    from evenhand.charts.rules import thresholds_chart, weights_chart
    from evenhand.charts.saving import save_chart, to_svg

__all__ = [
    "calibration_chart",
    "changed_chart",
    "frontier_chart",
    "prices_chart",
    "rates_chart",
    "save_chart",
    "thresholds_chart",
    "to_svg",
    "weights_chart",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'evenhand.charts' has no attribute {name!r}")
    value = getattr(import_module(f"evenhand.charts.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
