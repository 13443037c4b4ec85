"""Charts of plain records, for a notebook, a page, PNG and SVG.

Each function takes a list of dicts, which a page can hold as JSON, and returns an Altair chart. They need the
extra ``report``.
"""

from evenhand.charts.curves import frontier_chart
from evenhand.charts.drawing import save_chart, to_svg
from evenhand.charts.history import history_chart
from evenhand.charts.outcomes import changed_chart, rates_chart
from evenhand.charts.prices import prices_chart
from evenhand.charts.reliability import calibration_chart
from evenhand.charts.rules import thresholds_chart, weights_chart
from evenhand.charts.scores import cut_off_chart, roc_chart

__all__ = [
    "calibration_chart",
    "changed_chart",
    "cut_off_chart",
    "frontier_chart",
    "history_chart",
    "prices_chart",
    "rates_chart",
    "roc_chart",
    "save_chart",
    "thresholds_chart",
    "to_svg",
    "weights_chart",
]
