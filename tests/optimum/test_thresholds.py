import numpy as np
import pytest

import evenhand as eh
from evenhand.optimum.group_thresholds import group_thresholds
from evenhand.optimum.rule import Rule


@pytest.mark.parametrize(
    ("weights", "threshold", "note", "steps"),
    [
        ([-0.3, 0.7], 0.3, None, None),
        ([0.1, 0.7], None, "everyone is selected", None),
        ([-0.1, -0.7], None, "no one is selected", None),
        ([0.3, -0.2], None, "selected below a score", "chance 1 below 0.600, 0 from 0.600 on"),
        ([-2.8e-16, 2.2e-16], None, "no one is selected", None),
    ],
)
def test_weights_are_read_as_thresholds(weights, threshold, note, steps):
    rule = Rule(np.array([weights, [-0.5, 0.5]]))
    found, other = group_thresholds(rule)
    assert (found.threshold, found.note, found.steps) == (threshold, note, steps)
    assert other.threshold == 0.5
    scores = eh.GroupedScores(np.array([0.05, 0.45, 0.75, 0.95]), np.zeros(4, int), 2)
    selection = rule.selection(scores)
    if threshold is not None:
        np.testing.assert_array_equal(selection, scores.eta > threshold)
    elif note == "selected below a score":
        np.testing.assert_array_equal(selection, scores.eta < 0.6)
    else:
        expected = {"everyone is selected": 1.0, "no one is selected": 0.0}[note]
        np.testing.assert_array_equal(selection, expected)
