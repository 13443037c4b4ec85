"""Whether rows that lack a sensitive value differ in what is seen."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from evenhand.estimators.missingness import _auc, compare_missing
from evenhand.exceptions import GroupError, InputError

rng = np.random.default_rng(0)
N = 4_000
X = rng.normal(size=(N, 2))
Y = (rng.random(N) < 0.4).astype(int)
S = rng.choice(["a", "b"], size=N).astype(object)


def hidden(where):
    found = S.copy()
    found[where] = None
    return found


def compared(where, **settings):
    [found] = compare_missing(X, Y, {"s": hidden(where)}, estimator=LogisticRegression(), **settings)
    return found


def test_values_that_are_missing_by_chance_are_not_seen_to_differ():
    found = compared(np.random.default_rng(1).random(N) < 0.5)
    assert not found.differs
    assert found.auc[1] < 0.5 < found.auc[2]
    assert "are not seen to differ" in str(found)


def test_values_that_are_missing_by_features_differ():
    """P(missing) is logistic in the first column: the area is that of a known score."""
    chance = 1 / (1 + np.exp(-2 * X[:, 0]))
    gone = np.random.default_rng(2).random(N) < chance
    found = compared(gone)
    assert found.differs
    assert found.auc[1] <= roc_auc_score(gone, chance) <= found.auc[2]


def test_values_that_are_missing_by_label_differ():
    gone = np.random.default_rng(3).random(N) < np.where(Y == 1, 0.6, 0.3)
    found = compared(gone)
    assert found.differs
    assert found.missing == gone.sum()
    assert found.label_known[0] == Y[~gone].mean()
    assert found.label_missing[0] == Y[gone].mean()
    assert found.label_difference[0] == pytest.approx(Y[gone].mean() - Y[~gone].mean())
    assert found.label_difference[1] > 0
    assert found.auc[0] > 0.55  # the label alone tells that


def test_the_interval_of_the_area_has_its_coverage():
    """Scores of two normal distributions one apart: the area is Phi(1 / sqrt 2)."""
    draws = np.random.default_rng(4)
    true, inside = norm.cdf(1 / np.sqrt(2)), 0
    lacking = np.arange(300) < 100
    for _ in range(400):
        _, low, high = _auc(draws.normal(loc=lacking.astype(float)), lacking, 1.96)
        inside += low <= true <= high
    assert inside / 400 > 0.92
    scores = draws.normal(loc=lacking.astype(float)).round(1)  # with ties
    assert _auc(scores, lacking, 1.96)[0] == pytest.approx(roc_auc_score(lacking, scores))


def test_every_feature_has_its_line_and_columns_of_x_are_not_used():
    table = pl.DataFrame({"x": X[:, 0], "s": list(hidden(np.arange(N) % 2 == 0))})
    found = compare_missing(
        table, Y, {"s": table["s"], "t": np.where(Y == 1, "u", "v")}, estimator=LogisticRegression()
    )
    assert [one.feature for one in found] == ["s", "t"]
    assert found[0].auc[0] < 0.55  # it would be 1 if the column were seen
    assert str(found[1]) == "t: no row lacks it"
    assert np.isnan(found[1].auc[0])
    frame = found.to_frame()
    assert isinstance(frame, pl.DataFrame)
    assert frame["missing"].to_list() == [N / 2, 0]
    assert isinstance(found.to_frame(backend="pandas"), pd.DataFrame)
    assert "t: no row lacks it." in repr(found)
    assert "<table" in found._repr_html_()
    assert len(found[:1]) == 1


def test_a_single_missing_value_has_no_area():
    found = compared(np.arange(N) == 0)
    assert found.missing == 1
    assert np.isnan(found.auc[0])
    assert "AUC of unknown" in str(found)


def test_bad_inputs_are_told():
    with pytest.raises(GroupError, match="'s' is missing in every row"):
        compared(slice(None))
    with pytest.raises(InputError, match="cv must be an integer of at least 2, got 1"):
        compared([0], cv=1)
    with pytest.raises(InputError, match="confidence must be"):
        compared([0], confidence=95)
    with pytest.raises(InputError, match="rows"):
        compare_missing(X[:5], Y, {"s": S})
