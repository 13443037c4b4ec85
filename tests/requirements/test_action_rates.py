"""Rates of several actions in the cells of group and label."""

import numpy as np
import pytest

import evenhand as eh
from evenhand.requirements.action_rates import ActionStatistic

ACTIONS = ["low", "mid", "top"]
Y = np.array(["low", "low", "mid", "mid", "top", "low"])
TAKEN = np.array(["low", "mid", "mid", "mid", "low", "top"])
COUNTED = eh.cell_rates(Y, TAKEN, {"g": list("aaaabb")}, actions=ACTIONS)


def test_rates_are_shares_of_cells_and_of_groups():
    assert COUNTED.mass.tolist() == [[2, 2, 0], [1, 0, 1]]
    assert COUNTED.by_group.tolist() == [[0.25, 0.75, 0], [0.5, 0, 0.5]]
    assert COUNTED.rates[0, 0].tolist() == [0.5, 0.5, 0]
    assert np.isnan(COUNTED.rates[0, 2]).all()
    assert COUNTED.masses.sum() == pytest.approx(1)
    assert np.isnan(COUNTED.among(np.array([True, False])).by_group[1]).all()
    assert "g=a" in repr(COUNTED)
    assert "0.7500" in repr(COUNTED)


def test_a_statistic_is_linear_in_the_rates_and_undefined_without_its_labels():
    of_top = ActionStatistic("top among top", np.array([0.0, 0.0, 1.0]), np.tile([0.0, 0.0, 1.0], (3, 1)))
    members = COUNTED.groups.members().matrix
    A, k = of_top.linear(COUNTED.masses, members)
    values = np.tensordot(A, np.nan_to_num(COUNTED.rates), axes=3) + k
    assert values == pytest.approx(of_top.values(COUNTED, members), nan_ok=True)
    assert np.isnan(values).tolist() == [True, False]
    assert of_top.needs_labels
    assert of_top.range == (0.0, 1.0)
