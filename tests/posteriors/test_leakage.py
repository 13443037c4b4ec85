import numpy as np
import pytest
from scipy.special import expit

from evenhand.exceptions import TrainingRowsWarning
from evenhand.posteriors.leakage import warn_if_seen

RNG = np.random.default_rng(0)
SCORES = RNG.normal(size=2000)
POSITIVE = RNG.random(2000) < expit(SCORES)


@pytest.mark.parametrize(
    "eta",
    [expit(SCORES), expit(2 * SCORES), np.full(2000, 0.3)],
    ids=["calibrated", "overconfident, as on new rows", "constant"],
)
def test_scores_of_new_rows_cause_no_warning(eta):
    assert not warn_if_seen(eta, POSITIVE)


@pytest.mark.parametrize(
    "eta",
    [
        expit(0.5 * SCORES),
        expit(SCORES) + (POSITIVE - expit(SCORES)).mean(),
        np.where(POSITIVE, 0.9, 0.1),
    ],
    ids=["underconfident", "mean equal to the share of positives", "labels separated"],
)
def test_scores_of_training_rows_cause_a_warning(eta):
    with pytest.warns(TrainingRowsWarning, match="fit with rows that it has not seen"):
        assert warn_if_seen(np.clip(eta, 0, 1), POSITIVE)


def test_few_rows_or_a_single_label_cause_no_warning():
    assert not warn_if_seen(np.where(POSITIVE[:100], 0.9, 0.1), POSITIVE[:100])
    assert not warn_if_seen(expit(SCORES), np.ones(2000, bool))
