import numpy as np
import pytest

import evenhand as eh
from evenhand.columns import BLOCK_ROWS
from evenhand.exceptions import InputError
from evenhand.rates import count_cells

SEX = {"sex": ["F", "F", "M", "M"]}


def test_decisions_are_counted_by_group_and_label(column):
    counted = eh.cell_rates(column(["n", "y", "y", "y"]), column(["n", "y", "y", "n"]), SEX)
    assert counted.mass.tolist() == [[1, 1], [0, 2]]
    assert counted.selected.tolist() == [[0, 1], [0, 1]]
    assert counted.masses.tolist() == [[0.25, 0.25], [0, 0.5]]


def test_the_rate_of_an_empty_cell_is_undefined_not_zero():
    counted = eh.cell_rates([0, 1, 1, 1], [0, 1, 1, 0], SEX)
    assert np.isnan(counted.rates[1, 0])
    assert counted.rates[1, 1] == 0.5


def test_probabilities_and_weights_are_summed():
    counted = eh.cell_rates([0, 1, 1, 0], [0.5, 0.25, 1.0, 0.0], SEX, sample_weight=[1, 2, 3, 4])
    assert counted.mass.tolist() == [[1, 2], [4, 3]]
    assert counted.selected.tolist() == [[0.5, 0.5], [0, 3]]


def test_the_risk_prices_both_errors():
    counted = eh.cell_rates([0, 1, 1, 0], [1, 0, 1, 0], SEX)
    assert counted.risk() == 0.25
    assert counted.risk(cost=0.2) == pytest.approx(0.2 * 0.25 + 0.8 * 0.25)


def test_without_labels_there_is_no_risk():
    with pytest.raises(InputError, match="the risk needs labels"):
        eh.cell_rates(None, [1, 0, 1, 0], SEX).risk()


def test_the_positive_label_can_be_stated():
    counted = eh.cell_rates(["good", "bad", "bad", "good"], ["good"] * 4, SEX, pos_label="bad")
    assert counted.selected.sum() == 0


def test_all_lengths_are_listed():
    with pytest.raises(InputError, match="y_true has 3, y_pred has 4, sensitive_features has 4"):
        eh.cell_rates([0, 1, 1], [0, 1, 1, 0], SEX)


def test_blocks_add_up():
    rng = np.random.default_rng(0)
    n = 2 * BLOCK_ROWS + 17
    codes, positive, chosen = rng.integers(0, 3, n), rng.random(n) < 0.5, rng.random(n)
    weights = rng.random(n)
    mass, selected = count_cells(codes, 3, positive, chosen, weights)
    inside = (codes == 2) & positive
    assert mass[2, 1] == pytest.approx(weights[inside].sum())
    assert selected[2, 1] == pytest.approx((weights * chosen)[inside].sum())
    assert count_cells(codes, 3, positive, chosen > 0.5)[0].sum() == n
