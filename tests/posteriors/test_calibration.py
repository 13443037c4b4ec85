import numpy as np
import pytest
from scipy.special import expit, logit

from evenhand.posteriors.calibration import fit_calibrator

RNG = np.random.default_rng(0)
TRUE = RNG.uniform(0.02, 0.98, 20_000)
HIT = (RNG.random(20_000) < TRUE).astype(int)
OVERSURE = expit(2 * logit(TRUE) + 0.5)


def pair(p):
    return np.column_stack([1 - p, p])


@pytest.mark.parametrize("how", ["sigmoid", "isotonic", "binning", "dirichlet"])
def test_overconfident_probabilities_are_corrected(how):
    calibrator = fit_calibrator(how, pair(OVERSURE), HIT)
    new = calibrator(pair(OVERSURE))
    assert np.allclose(new.sum(axis=1), 1)
    assert np.abs(new[:, 1] - TRUE).mean() < 0.02 < np.abs(OVERSURE - TRUE).mean()


@pytest.mark.parametrize("how", ["sigmoid", "isotonic", "binning", "dirichlet"])
def test_weights_count_as_copies(how):
    weights = RNG.integers(0, 3, 2000)
    p, hit = pair(OVERSURE[:2000]), HIT[:2000]
    copies = fit_calibrator(how, np.repeat(p, weights, axis=0), np.repeat(hit, weights))
    weighted = fit_calibrator(how, p, hit, weights.astype(float))
    assert np.abs(copies(p) - weighted(p)).max() < (0.2 if how == "binning" else 1e-3)


@pytest.mark.parametrize("how", ["sigmoid", "isotonic", "binning", "dirichlet"])
def test_probabilities_of_several_classes_are_corrected_and_sum_to_one(how):
    p = RNG.dirichlet([1, 1, 1, 1e-9], size=3000)
    target = RNG.integers(0, 3, 3000)
    new = fit_calibrator(how, p, target)(p)
    assert np.allclose(new.sum(axis=1), 1)
    assert (new >= 0).all()
    assert np.abs(new[:, :3] - 1 / 3).mean() < 0.05  # the classes had nothing to do with p


def test_bins_shrink_towards_the_prediction():
    p = np.full(5, 0.5)
    p[0] = 0.4
    calibrated = fit_calibrator("binning", pair(p), np.ones(5, int) * [1, 1, 1, 1, 0])(pair(p))
    assert calibrated[0, 1] == pytest.approx((1 + 0.4) / 2)


def test_scores_outside_the_fitted_range_are_clipped():
    calibrator = fit_calibrator("isotonic", pair(np.array([0.4, 0.6])), np.array([0, 1]))
    assert calibrator(pair(np.array([0.0, 1.0])))[:, 1].tolist() == [0, 1]


def cells(rng, n, bend=0.0):
    """True posteriors of two groups, and ones that misjudge the group where the label is likely."""
    eta, group = rng.beta(2, 2, n), rng.beta(3, 3, n)
    wrong = expit(logit(group) + bend * logit(eta))
    first, second = (
        np.column_stack([(1 - g) * (1 - eta), (1 - g) * eta, g * (1 - eta), g * eta]) for g in (group, wrong)
    )
    return first, second, (first.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)


@pytest.mark.parametrize(("how", "small"), [("dirichlet", 0.01), ("sigmoid", 0.03)])
def test_errors_that_depend_on_the_label_are_corrected_by_all_cells_jointly(how, small):
    truth, p, target = cells(np.random.default_rng(1), 40_000, bend=0.6)
    new = fit_calibrator(how, p, target)(p)
    error = np.abs(new - truth).mean()
    assert (error < small) == (how == "dirichlet")
    assert error < np.abs(p - truth).mean()


def test_few_rows_change_little():
    truth, p, target = cells(np.random.default_rng(2), 40)
    assert np.abs(fit_calibrator("dirichlet", p, target)(p) - truth).mean() < 0.08


def test_weights_do_not_bias_the_correction():
    truth, p, target = cells(np.random.default_rng(2), 60_000, bend=0.6)
    weights = np.where(np.arange(len(p)) % 2, 1.0, 3.0)
    new = fit_calibrator("dirichlet", p, target, weights)(p)
    assert np.abs(new - truth).mean() < 0.01


def test_with_very_many_cells_only_the_score_of_the_label_is_a_feature():
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.ones(40), size=5000)
    target = (p.cumsum(axis=1) < rng.random((5000, 1))).sum(axis=1)
    calibrator = fit_calibrator("dirichlet", p, target)
    assert calibrator.B.shape == (2, 40)
    assert np.allclose(calibrator(p).sum(axis=1), 1)
    assert np.abs(calibrator(p) - p).mean() < 0.005


def test_alternating_classes_and_rare_classes_are_represented():
    rng = np.random.default_rng(4)
    n = 60_000
    target = 2 * (np.arange(n) % 2) + (rng.random(n) < 0.4)
    target[:50] = 4  # a rare class
    p = rng.dirichlet(np.ones(5), n)
    new = fit_calibrator("dirichlet", p, target)(p)
    assert np.abs(new.mean(axis=0) - np.bincount(target) / n).max() < 1e-6
    weights = (np.arange(n) % 2).astype(float)  # even rows do not count
    new = fit_calibrator("dirichlet", p, target, weights)(p)
    assert abs((new[:, 3] / new[:, 2:4].sum(axis=1)).mean() - 0.4) < 0.01


@pytest.mark.parametrize("K", [4, 18])
def test_every_class_has_its_observed_share(K):
    # The derivative by an intercept is the predicted minus the observed share: zero at the minimum.
    rng = np.random.default_rng(5)
    n = 60_000
    p = rng.dirichlet(np.linspace(0.2, 2, K), n)
    target = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, K - 1)
    weights = np.where(rng.random(n) < 0.2, 0.0, rng.lognormal(size=n))
    new = fit_calibrator("dirichlet", p, target, weights)(p)
    shares = np.bincount(target, weights=weights, minlength=K) / weights.sum()
    assert np.abs(np.average(new, axis=0, weights=weights) - shares).max() < 1e-6


def test_the_slopes_are_at_the_minimum_over_all_rows():
    # The derivative by B is the sum of (predicted - observed) z plus the ridge penalty of 100 B.
    _, p, target = cells(np.random.default_rng(6), 60_000, bend=0.6)
    calibrator = fit_calibrator("dirichlet", p, target)
    z = (np.log(p) - calibrator.center) / calibrator.scale
    excess = calibrator(p) - np.equal.outer(target, np.arange(4))
    np.testing.assert_allclose(z.T @ excess, -100 * calibrator.B[:-1], atol=1e-3)


@pytest.mark.parametrize("least", [0.0, 1e-320, 1e-40])
def test_a_class_of_negligible_weight_is_not_changed(least):
    p = np.random.default_rng(7).dirichlet(np.ones(4), 30_000)
    target = np.arange(30_000) % 4
    new = fit_calibrator("dirichlet", p, target, np.where(target == 2, least, 1.0))(p)
    np.testing.assert_array_equal(new[:, 2], p[:, 2])
    assert np.allclose(new.sum(axis=1), 1)
    few = np.where(np.arange(30_000) < 40, 1.0, least)  # nearly all rows have negligible weight
    assert np.allclose(fit_calibrator("dirichlet", p, target, few)(p).sum(axis=1), 1)


def test_weights_may_have_any_size():
    _, p, target = cells(np.random.default_rng(8), 3000, bend=0.6)
    large = [fit_calibrator("dirichlet", p, target, np.full(3000, size))(p) for size in (1e12, 1e16)]
    np.testing.assert_allclose(*large, atol=1e-6)
