"""Charts of plain records, for a notebook, a page, PNG and SVG.

Each function takes a list of dicts, which a page can hold as JSON, and returns an Altair chart. The functions
are imported when they are first used, because Altair is optional.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenhand.charts.curves import frontier_chart
    from evenhand.charts.outcomes import changed_chart, rates_chart
    from evenhand.charts.prices import prices_chart
    from evenhand.charts.reliability import calibration_chart
    from evenhand.charts.rules import thresholds_chart, weights_chart
    from evenhand.charts.saving import save_chart, to_svg
    from evenhand.charts.scores import cut_off_chart, roc_chart

__all__ = [
    "calibration_chart",
    "changed_chart",
    "cut_off_chart",
    "frontier_chart",
    "prices_chart",
    "rates_chart",
    "roc_chart",
    "save_chart",
    "thresholds_chart",
    "to_svg",
    "weights_chart",
]


_MODULES = ("curves", "outcomes", "prices", "reliability", "rules", "saving", "scores")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'evenhand.charts' has no attribute {name!r}")
    for module in _MODULES:
        own = import_module(f"evenhand.charts.{module}")
        globals().update({one: vars(own)[one] for one in own.__all__})
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
