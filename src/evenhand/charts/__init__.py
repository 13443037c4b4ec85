"""Charts of plain records, for a notebook, a page, PNG and SVG.

Each function takes a list of dicts, which a page can hold as JSON, and returns an Altair chart, which
Altair's own ``chart.save("rates.png")`` writes as PNG, SVG, HTML or JSON. They need the extra ``report``.
"""

from evenhand.charts.by_group import actions_chart, history_chart, rates_chart, thresholds_chart
from evenhand.charts.curves import alternatives_chart, frontier_chart, prices_chart
from evenhand.charts.look import to_svg
from evenhand.charts.scores import calibration_chart, cut_off_chart, roc_chart

__all__ = [
    "actions_chart",
    "alternatives_chart",
    "calibration_chart",
    "cut_off_chart",
    "frontier_chart",
    "history_chart",
    "prices_chart",
    "rates_chart",
    "roc_chart",
    "thresholds_chart",
    "to_svg",
]
