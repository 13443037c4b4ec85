import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import evenhand as eh
from evenhand.data.columns import BLOCK_ROWS
from evenhand.exceptions import InputError
from evenhand.requirements.rates import sum_cells

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


def test_the_risk_weighs_both_errors():
    counted = eh.cell_rates([0, 1, 1, 0], [1, 0, 1, 0], SEX)
    assert counted.risk() == 0.25
    assert counted.risk(cost=0.2) == pytest.approx(0.2 * 0.25 + 0.8 * 0.25)


def test_without_labels_there_is_no_risk():
    with pytest.raises(InputError, match="the risk cannot be computed without labels"):
        eh.cell_rates(None, [1, 0, 1, 0], SEX).risk()


def test_the_positive_label_can_be_stated():
    counted = eh.cell_rates(["good", "bad", "bad", "good"], ["good"] * 4, SEX, pos_label="bad")
    assert counted.selected.sum() == 0


def test_all_lengths_are_listed():
    with pytest.raises(InputError, match=r"y_true has 3, y_pred has 4, sensitive_features\['sex'\] has 4"):
        eh.cell_rates([0, 1, 1], [0, 1, 1, 0], SEX)


def test_blocks_add_up():
    rng = np.random.default_rng(0)
    n = 2 * BLOCK_ROWS + 17
    codes, positive, chosen = rng.integers(0, 3, n), rng.random(n) < 0.5, rng.random(n)
    weights = rng.random(n)
    mass, selected = sum_cells(codes, 3, positive, lambda k: [weights[k], weights[k] * chosen[k]])
    inside = (codes == 2) & positive
    assert mass[2, 1] == pytest.approx(weights[inside].sum())
    assert selected[2, 1] == pytest.approx((weights * chosen)[inside].sum())
    assert sum_cells(codes, 3, positive, lambda k: [None, chosen[k] > 0.5])[0].sum() == n


def test_without_labels_there_are_no_masses_and_rates_of_cells():
    counted = eh.cell_rates(None, [1, 0, 1, 0], SEX)
    for part in ("masses", "rates"):
        with pytest.raises(InputError, match="cannot be computed without labels"):
            getattr(counted, part)


def test_the_classes_are_kept():
    counted = eh.cell_rates(["n", "y", "y", "n"], ["y"] * 4, SEX)
    assert counted.classes.tolist() == ["n", "y"]


def test_without_labels_the_positive_decision_can_be_stated():
    counted = eh.cell_rates(None, ["hire", "reject", "hire", "reject"], SEX, pos_label="hire")
    assert counted.selected[:, 0].tolist() == [1, 1]


def test_the_positive_label_may_be_false():
    y = np.array([False, True, True, False])
    assert eh.cell_rates(y, y, SEX, pos_label=False).risk() == 0


def test_a_cost_outside_the_unit_interval_is_refused():
    with pytest.raises(InputError, match="cost must be a number from 0 to 1"):
        eh.cell_rates([0, 1, 1, 0], [0, 1, 1, 0], SEX).risk(cost=3)


@pytest.mark.parametrize(
    ("sensitive", "message"),
    [
        ("sex", "got str"),
        (pl.LazyFrame({"sex": ["F"] * 4}), "collect"),
        (pd.DataFrame([["F", "A"]] * 4, columns=["s", "s"]), "columns of the same name: s"),
        (pa.table([["F"] * 4] * 2, names=["s", "s"]), "columns of the same name: s"),
    ],
)
def test_invalid_sensitive_features_are_refused(sensitive, message):
    with pytest.raises(InputError, match=message):
        eh.cell_rates([0, 1, 1, 0], [0, 1, 1, 0], sensitive)
