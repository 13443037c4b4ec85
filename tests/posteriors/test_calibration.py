import numpy as np
import pytest
from scipy.special import expit, logit

from evenhand.posteriors.calibration import Softmax, fit_calibrator, fit_group_calibrator
from evenhand.posteriors.examples import Examples

RNG = np.random.default_rng(0)
TRUE = RNG.uniform(0.02, 0.98, 20_000)
HIT = RNG.random(20_000) < TRUE
OVERSURE = expit(2 * logit(TRUE) + 0.5)


def pair(p):
    return np.column_stack([1 - p, p])


def of_one_group(p, positive, weights=None):
    """A calibrator where there is one group, so that only the label has to be corrected."""
    return fit_calibrator(pair(p), Examples(None, np.zeros(len(p), int), positive, 1, weights=weights))


def of_cells(p, target, weights=None, levels=None):
    rows = Examples(None, target // 2, target % 2 == 1, p.shape[1] // 2, weights=weights)
    return fit_calibrator(p, rows, levels=levels)


def label(p):
    return p.reshape(len(p), -1, 2).sum(axis=1)[:, 1]


def test_overconfident_probabilities_of_the_label_are_corrected():
    new = of_one_group(OVERSURE, HIT)(pair(OVERSURE))
    assert np.allclose(new.sum(axis=1), 1)
    assert np.abs(new[:, 1] - TRUE).mean() < 0.02 < np.abs(OVERSURE - TRUE).mean()


def test_probabilities_that_rows_do_not_contradict_stay_as_they_are():
    """A test at level 0.01 is wrong about right probabilities once in a hundred draws."""
    rng = np.random.default_rng(1)
    changed = 0
    for _ in range(100):
        p = rng.beta(1, 3, 400)
        found = of_one_group(p, rng.random(400) < p)
        changed += found.label is not None
        if found.label is None:
            np.testing.assert_allclose(found(pair(p))[:, 1], p, rtol=1e-15)
    assert changed <= 4


def test_known_groups_are_corrected_only_if_rows_contradict_their_probabilities():
    rng = np.random.default_rng(2)
    codes, p = rng.integers(0, 3, 6000), rng.uniform(0.05, 0.95, 6000)
    positive = rng.random(6000) < np.where(codes == 1, p**2, p)
    found = fit_group_calibrator(pair(p), Examples(None, codes, positive, 4))
    new = found(pair(p), codes)[:, 1]
    assert np.abs(new - p**2)[codes == 1].mean() < 0.03
    assert np.abs(new - p)[codes != 1].mean() < 0.03
    assert found.groups[1] is not None
    assert found.groups[3] is None  # no rows
    right = fit_group_calibrator(pair(p), Examples(None, codes, rng.random(6000) < p, 3))
    assert (right.overall, right.groups) == (None, (None, None, None))


def test_certain_probabilities_that_are_wrong_are_corrected():
    """A forest says 0 where none of its trees says 1."""
    rng = np.random.default_rng(3)
    p = rng.choice([0.0, 0.5, 1.0], 3000)
    new = of_one_group(p, rng.random(3000) < 0.25 + 0.5 * p)(pair(p))[:, 1]
    assert [new[p == value].mean() for value in (0, 0.5, 1)] == pytest.approx([0.25, 0.5, 0.75], abs=0.03)


def test_weights_count_as_copies():
    weights = RNG.integers(0, 3, 2000)
    p, hit = OVERSURE[:2000], HIT[:2000]
    copies = of_one_group(np.repeat(p, weights), np.repeat(hit, weights))
    weighted = of_one_group(p, hit, weights.astype(float))
    assert np.abs(copies(pair(p)) - weighted(pair(p))).mean() < 5e-4


def test_groups_that_have_nothing_to_do_with_their_probabilities():
    rng = np.random.default_rng(4)
    p = rng.dirichlet(np.ones(6), size=6000)
    target = 2 * rng.integers(0, 3, 6000) + (rng.random(6000) < label(p))
    new = of_cells(p, target)(p)
    assert np.allclose(new.sum(axis=1), 1)
    assert (new >= 0).all()
    given = new.reshape(-1, 3, 2) / new.reshape(-1, 3, 2).sum(axis=1, keepdims=True)
    assert np.abs(given - 1 / 3).mean() < 0.05


@pytest.mark.parametrize("M", [3, 12])
def test_the_label_is_corrected_by_itself_whatever_the_groups_are(M):
    """Groups are noise, and differ; the label's probability after calibration is the same function of it."""
    rng = np.random.default_rng(5)
    n = 1500
    codes, positive = rng.integers(0, M, n), HIT[:n]
    found = []
    for concentration in (0.05, 5.0):
        groups = rng.dirichlet(np.full(M, concentration), size=(n, 2)).transpose(0, 2, 1)
        p = (groups * pair(OVERSURE[:n])[:, None, :]).reshape(n, -1)
        found.append(label(fit_calibrator(p, Examples(None, codes, positive, M))(p)))
    alone = of_one_group(OVERSURE[:n], positive)(pair(OVERSURE[:n]))[:, 1]
    assert np.abs(alone - OVERSURE[:n]).max() > 0.05
    for own in found:
        np.testing.assert_allclose(own, alone, atol=1e-12)


def cells(rng, n, bend=0.0):
    """True posteriors of two groups, and ones that misjudge the group where the label is likely."""
    eta, group = rng.beta(2, 2, n), rng.beta(3, 3, n)
    wrong = expit(logit(group) + bend * logit(eta))
    first, second = (
        np.column_stack([(1 - g) * (1 - eta), (1 - g) * eta, g * (1 - eta), g * eta]) for g in (group, wrong)
    )
    return first, second, (first.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)


def test_errors_that_depend_on_the_label_are_corrected_by_all_cells_jointly():
    truth, p, target = cells(np.random.default_rng(1), 40_000, bend=0.6)
    new = of_cells(p, target)(p)
    assert np.abs(new - truth).mean() < 0.01 < np.abs(p - truth).mean()


def test_few_rows_change_little():
    truth, p, target = cells(np.random.default_rng(2), 40)
    assert np.abs(of_cells(p, target)(p) - truth).mean() < 0.08


def test_weights_do_not_bias_the_correction():
    truth, p, target = cells(np.random.default_rng(2), 60_000, bend=0.6)
    weights = np.where(np.arange(len(p)) % 2, 1.0, 3.0)
    new = of_cells(p, target, weights)(p)
    assert np.abs(new - truth).mean() < 0.01


def given_labels(found):
    """The corrections of the groups, for either label."""
    curves = [chain[0][0] for chain in found.features]
    assert all(isinstance(curve, Softmax) for curve in curves)
    return curves


def test_with_very_many_cells_only_the_scores_of_label_and_features_matter():
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.ones(40), size=5000)
    target = (p.cumsum(axis=1) < rng.random((5000, 1))).sum(axis=1)
    levels = np.column_stack([np.arange(20) // 5, np.arange(20) % 5])
    for given, features in ((None, 1), (levels, 1 + 3 + 4)):
        found = of_cells(p, target, levels=given)
        assert [curve.B.shape for curve in given_labels(found)] == [(features + 1, 20)] * 2
        assert np.allclose(found(p).sum(axis=1), 1)
        assert np.abs(found(p) - p).mean() < 0.005


@pytest.mark.parametrize("K", [4, 18])
def test_every_group_has_its_observed_share_given_the_label(K):
    # The derivative by an intercept is the predicted minus the observed number of rows, plus the ridge of 1.
    rng = np.random.default_rng(5)
    n = 60_000
    p = rng.dirichlet(np.linspace(0.2, 2, K), n)
    target = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, K - 1)
    weights = np.where(rng.random(n) < 0.2, 0.0, rng.lognormal(size=n))
    new = of_cells(p, target, weights)(p)
    for y in (0, 1):
        own = target % 2 == y
        given = new[own, y::2] / new[own, y::2].sum(axis=1, keepdims=True)
        count = np.bincount(target[own] // 2, weights=weights[own], minlength=K // 2)
        assert np.abs(weights[own] @ given - count).max() < 2


def test_the_slopes_are_at_the_minimum_over_all_rows():
    # The derivative by B is the sum of (predicted - observed) z plus the ridge penalty of 100 B.
    _, p, target = cells(np.random.default_rng(6), 60_000, bend=0.6)
    found = of_cells(p, target)
    new = found(p)
    for y, curve in enumerate(given_labels(found)):
        own = target % 2 == y
        z = (np.log(p[own]) - curve.center) / curve.scale
        given = new[own, y::2] / new[own, y::2].sum(axis=1, keepdims=True)
        excess = given - np.equal.outer(target[own] // 2, np.arange(2))
        np.testing.assert_allclose(z.T @ excess, -100 * curve.B[:-1], atol=1e-3)


@pytest.mark.parametrize("least", [0.0, 1e-320, 1e-40])
def test_a_group_of_negligible_weight_is_not_changed(least):
    p = np.random.default_rng(7).dirichlet(np.ones(6), 30_000)
    target = np.arange(30_000) % 6
    found = of_cells(p, target, np.where(target == 2, least, 1.0))
    new = found(p)
    np.testing.assert_allclose(new[:, 2] / (1 - label(new)), p[:, 2] / (1 - label(p)), rtol=1e-9)
    assert np.allclose(new.sum(axis=1), 1)
    few = np.where(np.arange(30_000) < 40, 1.0, least)  # nearly all rows have negligible weight
    assert np.allclose(of_cells(p, target, few)(p).sum(axis=1), 1)


def test_weights_may_have_any_size():
    _, p, target = cells(np.random.default_rng(8), 3000, bend=0.6)
    large = [of_cells(p, target, np.full(3000, size))(p) for size in (1e12, 1e16)]
    np.testing.assert_allclose(*large, atol=1e-6)
