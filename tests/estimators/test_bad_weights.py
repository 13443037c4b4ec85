"""Repeated rows and sample weights of FairPostprocessor."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from tests.estimators.small_fits import (
    FROZEN,
    FROZEN_GROUP,
    PLAIN,
    SEX,
    TABLE,
    N,
    X,
    Y,
    fair,
    fit,
    some,
)

from evenhand.exceptions import (
    InputError,
)

# Repeated rows


@pytest.mark.parametrize("aware", [False, True])
def test_a_row_twice_is_the_same_as_weight_two(aware):
    times = np.random.default_rng(0).integers(1, 4, N)
    rows = np.repeat(np.arange(N), times)
    settings = {"estimator": FROZEN, "group_estimator": FROZEN_GROUP, "aware": aware}
    weighted = fit(weights=times, **settings)
    repeated = fit(X[rows], Y[rows], SEX[rows], **settings)
    assert weighted.certificate_.objective == pytest.approx(repeated.certificate_.objective, abs=1e-7)
    assert np.allclose(weighted.rates_.masses, repeated.rates_.masses)


# Sample weights


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (some(np.ones(N), -1.0), "sample_weight is negative, NaN or infinite in 3 of 200 rows"),
        (some(np.ones(N), np.nan), "sample_weight is negative, NaN or infinite in 3 of 200 rows"),
        (some(np.ones(N), np.inf), "sample_weight is negative, NaN or infinite in 3 of 200 rows"),
        (np.zeros(N), "sample_weight is zero in every row"),
        (some(np.ones(N), None), "sample_weight must be numbers without missing values"),
        (["1"] * N, "sample_weight must be numbers"),
        (np.ones((N, 2)), r"sample_weight must be one column, got shape \(200, 2\)"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(weights, message):
    with pytest.raises(InputError, match=message):
        fit(weights=weights)


def test_weights_reach_the_models_and_the_requirement():
    heavy = np.where(X[:, 1] > 0, 9.0, 1.0)
    model = fair(aware=True, **PLAIN).fit(TABLE, Y, sensitive_features=SEX, sample_weight=heavy)
    with_group = np.column_stack([X, SEX == "F", SEX == "M"])
    expected = LogisticRegression().fit(with_group, Y, sample_weight=heavy)
    assert np.allclose(model.posterior_model_.label.model.coef_, expected.coef_, atol=1e-3)
    share = np.average(SEX == "F", weights=heavy)
    assert model.rates_.masses[0].sum() == pytest.approx(share)
