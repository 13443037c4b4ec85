import numpy as np
import pytest
from scipy.special import expit, logit

from evenhand.calibration import fit_calibrator

RNG = np.random.default_rng(0)
TRUE = RNG.uniform(0.02, 0.98, 20_000)
HIT = (RNG.random(20_000) < TRUE).astype(int)
OVERSURE = expit(2 * logit(TRUE) + 0.5)


def pair(p):
    return np.column_stack([1 - p, p])


@pytest.mark.parametrize("how", ["sigmoid", "isotonic", "binning"])
def test_curves_bring_probabilities_back(how):
    calibrator = fit_calibrator(how, pair(OVERSURE), HIT)
    new = calibrator(pair(OVERSURE))
    assert np.allclose(new.sum(axis=1), 1)
    assert np.abs(new[:, 1] - TRUE).mean() < 0.02 < np.abs(OVERSURE - TRUE).mean()


@pytest.mark.parametrize("how", ["sigmoid", "isotonic", "binning"])
def test_weights_count_as_copies(how):
    weights = RNG.integers(0, 3, 2000)
    p, hit = pair(OVERSURE[:2000]), HIT[:2000]
    copies = fit_calibrator(how, np.repeat(p, weights, axis=0), np.repeat(hit, weights))
    weighted = fit_calibrator(how, p, hit, weights.astype(float))
    assert np.abs(copies(p) - weighted(p)).max() < (0.2 if how == "binning" else 1e-3)


@pytest.mark.parametrize("how", ["sigmoid", "isotonic", "binning"])
def test_several_classes_sum_to_one_and_empty_ones_stay(how):
    p = RNG.dirichlet([1, 1, 1, 1e-9], size=3000)
    target = RNG.integers(0, 3, 3000)
    new = fit_calibrator(how, p, target)(p)
    assert np.allclose(new.sum(axis=1), 1)
    assert (new >= 0).all()
    assert np.abs(new[:, :3] - 1 / 3).mean() < 0.05  # the classes had nothing to do with p


def test_bins_shrink_towards_what_was_predicted():
    p = np.full(5, 0.5)
    p[0] = 0.4
    calibrated = fit_calibrator("binning", pair(p), np.ones(5, int) * [1, 1, 1, 1, 0])(pair(p))
    assert calibrated[0, 1] == pytest.approx((1 + 0.4) / 2)


def test_scores_outside_what_was_seen_are_taken_to_the_nearest():
    calibrator = fit_calibrator("isotonic", pair(np.array([0.4, 0.6])), np.array([0, 1]))
    assert calibrator(pair(np.array([0.0, 1.0])))[:, 1].tolist() == [0, 1]
