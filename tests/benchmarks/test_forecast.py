"""The machinery of `benchmarks.forecast`."""

import pytest
from benchmarks import forecast


def cell(method, asked, split, measured, accuracy):
    where = {"data": "COMPAS", "size": 0, "notion": "DP", "learner": "logistic"}
    found = {"forecast": measured, "measured": measured, "corrected": measured, "accuracy": accuracy}
    return {**where, "method": method, "asked": asked, "split": split, **found}


def test_margins_are_compared_with_the_default_on_the_same_splits():
    curve = [(0.0, 0.02, 0.7), (0.01, 0.03, 0.71), (0.03, 0.05, 0.73), (0.06, 0.08, 0.76)]
    cells = [cell("blind", asked, 0, measured, accuracy) for asked, measured, accuracy in curve]
    margins = zip(forecast.TOLERANCES, (0.04, 0.041, 0.042), strict=True)
    cells += [cell("blind, margin", asked, 0, measured, 0.681 + measured) for asked, measured in margins]
    alone = [
        cell("blind", asked, 1, 0.5 + asked, 0.9) for asked in forecast.TOLERANCES
    ]  # a split without margins
    assert forecast._behind(cells + alone, "blind") == pytest.approx([0.1] * 3)
    shown = forecast.summary(cells + alone)
    assert shown["three tables: blind, margin, DP"]["corrected without it"] == pytest.approx(0.0533)
    assert shown["three tables: blind, DP"]["its standard error over splits"] == 0.0
