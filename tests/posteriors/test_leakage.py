import warnings

import numpy as np
import pytest
from scipy.special import expit

from evenhand.exceptions import TrainingRowsWarning
from evenhand.posteriors.leakage import warn_if_seen

RNG = np.random.default_rng(0)
SCORES = RNG.normal(size=2000)
POSITIVE = RNG.random(2000) < expit(SCORES)


def test_honest_scores_raise_no_alarm():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_seen(expit(SCORES), POSITIVE)
        warn_if_seen(expit(2 * SCORES), POSITIVE)  # too sure, as models are on new rows
        warn_if_seen(np.full(2000, 0.3), POSITIVE)


@pytest.mark.parametrize(
    "eta",
    [
        expit(0.5 * SCORES),  # right more often than sure
        expit(SCORES) + (POSITIVE - expit(SCORES)).mean(),  # right on average to the last digit
        np.where(POSITIVE, 0.9, 0.1),  # by heart
    ],
    ids=["slope", "mean", "by heart"],
)
def test_scores_of_rows_that_were_seen_raise_it(eta):
    with pytest.warns(TrainingRowsWarning, match="fit with rows that it has not seen"):
        warn_if_seen(np.clip(eta, 0, 1), POSITIVE)


def test_few_rows_tell_nothing():
    warn_if_seen(np.where(POSITIVE[:100], 0.9, 0.1), POSITIVE[:100])
    warn_if_seen(expit(SCORES), np.ones(2000, bool))
