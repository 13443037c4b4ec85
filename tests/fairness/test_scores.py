import dask.array as da
import numpy as np
import pytest

import evenhand as eh
from evenhand.exceptions import InputError


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
