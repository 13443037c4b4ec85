import dask.array as da
import numpy as np
import pytest

import evenhand as eh
from evenhand.exceptions import InputError
from evenhand.fairness.scores import StratifiedPosteriors


def test_scores_are_not_copied():
    eta = np.array([0.1, 0.9], dtype=np.float32)
    scores = eh.GroupedScores(eta, np.array([0, 1]), 2)
    assert scores.eta is eta
    assert len(scores) == 2


@pytest.mark.parametrize(
    ("eta", "codes", "n_groups", "message"),
    [
        ([0.1, 1.2], [0, 1], 2, "outside .* in 1 of 2 rows"),
        ([0.1, np.nan], [0, 1], 2, "NaN"),
        ([0.1, 0.2], [0, 2], 2, "codes should go from 0 to 1, but go from 0 to 2"),
        ([0.1, 0.2], [-1, 0], 2, "codes should go from 0 to 1"),
        ([0.1, 0.2], [0.0, 1.0], 2, "one column of integers"),
        ([[0.1, 0.2]], [0], 1, "one column of numbers"),
        (["a", "b"], [0, 1], 2, "eta should be numbers"),
        ([0.1], [0, 1], 2, "eta has 1, codes has 2"),
    ],
)
def test_invalid_scores_are_refused(eta, codes, n_groups, message):
    with pytest.raises(InputError, match=message):
        eh.GroupedScores(np.array(eta), np.array(codes), n_groups)


def test_dask_arrays_are_taken_as_they_are():
    eta, codes = da.random.random(10, chunks=5), da.zeros(10, chunks=5, dtype=int)
    scores = eh.GroupedScores(eta, codes, 2)
    assert scores.eta is eta
    assert scores.lazy
    assert (
        repr(scores)
        == repr(eh.GroupedScores(eta[eta > 0.5], codes, 2))
        == "GroupedScores(dask arrays, 2 groups)"
    )
    with pytest.raises(InputError, match="both be dask arrays, or none"):
        eh.GroupedScores(eta, np.zeros(10, int), 2)
    with pytest.raises(InputError, match="codes one column of integers"):
        eh.GroupedScores(eta, eta, 2)
    with pytest.raises(InputError, match=r"dask arrays: call evenhand\.dask\.solve"):
        eh.solve(scores, eh.DemographicParity(difference=0.1))


def test_stratified_posteriors_are_those_of_their_own_stratum():
    values = np.random.default_rng(0).dirichlet(np.ones(4), 5).reshape(-1, 2, 2)
    strata = np.array([2, 0, 0, 1, 2])
    rows = StratifiedPosteriors(values, strata, 3)
    dense = rows.dense(np.arange(5))
    assert dense.shape == (5, 6, 2)
    assert (dense.reshape(5, 3, 2, 2)[np.arange(5), strata] == values).all()
    assert dense.sum() == pytest.approx(values.sum())
    table = np.random.default_rng(1).normal(size=(6, 2))
    assert rows.weighted(table) == pytest.approx(np.tensordot(dense, table, axes=2))
    weights = np.arange(5.0)
    assert rows.summed(weights) == pytest.approx(np.tensordot(weights, dense, axes=1))
    rule = eh.solve(
        values, eh.DemographicParity(difference=0.1, given=["level"]), control_features={"level": strata}
    ).rule
    assert rule.selection(rows) == pytest.approx(rule.selection(dense))
    with pytest.raises(InputError, match="6 groups in strata"):
        rule.selection(StratifiedPosteriors(values, strata, 4))
    with pytest.raises(InputError, match="shape"):
        StratifiedPosteriors(values[0], strata, 3)
