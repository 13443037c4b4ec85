"""The fit is compared with many steps of scipy's L-BFGS on an independent implementation of the loss."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from evenhand.posteriors import multinomial
from evenhand.posteriors.multinomial import Regression


def problem(n, K, *, seed=0, F=None, spread=2.0, weights=None):
    """Classes drawn from known probabilities, and wrong log-probabilities of them; the last is the rarest."""
    rng = np.random.default_rng(seed)
    x, W = rng.normal(size=(n, 4)), rng.normal(scale=0.6, size=(4, K))
    truth = softmax(x @ W - np.linspace(0, spread, K), axis=1)
    target = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, K - 1)
    logs = log_softmax(x @ (1.3 * W + rng.normal(scale=0.2, size=W.shape)), axis=1)
    features = logs if F is None else x[:, :F]
    w = np.ones(n) if weights is None else weights(rng, n)
    F = features.shape[1]
    ridge = np.concatenate([[1.0], np.full(F * K, 100.0), np.full(K, 1e-3)]) / n
    center, scale = features.mean(axis=0), features.std(axis=0)
    return Regression(logs, features, center, scale, target, w / w.sum(), ridge)


def written_out(of, point):
    """Loss and gradient, in one piece."""
    z = np.column_stack([(of.features - of.center) / of.scale, np.ones(len(of.target))])
    hit = np.equal.outer(of.target, np.arange(of.offset.shape[1]))
    log_p = log_softmax((1 + point[0]) * of.offset + z @ point[1:].reshape(z.shape[1], -1), axis=1)
    residual = of.weights[:, None] * (np.exp(log_p) - hit)
    gradient = np.append((residual * of.offset).sum(), z.T @ residual) + of.ridge * point
    value = -of.weights @ log_p[hit] + 0.5 * of.ridge @ point**2
    return value, gradient, np.exp(log_p)


SOME = {
    "few rows": problem(60, 3),
    "one block": problem(500, 6, seed=1),
    "16 classes": problem(3000, 16, seed=2),
    "40 classes, one feature": problem(4000, 40, seed=3, F=1),
    "many rows": problem(25_000, 6, seed=4),
    "sampled first, a rare class": problem(30_000, 5, seed=5, spread=9.0),
    "weights, some of them zero": problem(
        25_000, 4, seed=6, weights=lambda rng, n: rng.integers(0, 3, n) * rng.lognormal(size=n)
    ),
}


@pytest.mark.parametrize("of", SOME.values(), ids=SOME.keys())
def test_the_minimum_is_that_of_all_rows(of):
    point = multinomial.fit(of)
    value, gradient, p = written_out(of, point)
    slow = minimize(
        lambda at: written_out(of, at)[:2],
        np.zeros(len(of.ridge)),
        jac=True,
        method="L-BFGS-B",
        options={"ftol": 0.0, "gtol": 1e-9, "maxiter": 3000, "maxfun": 6000, "maxcor": 50},
    )
    assert value <= slow.fun * (1 + 1e-12)
    assert value == pytest.approx(slow.fun, rel=1e-10)
    assert np.abs(p - written_out(of, slow.x)[2]).max() < 1e-6
    assert np.abs(gradient).max() < 1e-9


def test_second_derivatives_are_differences_of_gradients():
    of = SOME["one block"]
    at = np.random.default_rng(0).normal(scale=0.3, size=len(of.ridge))
    near = 1e-5 * np.eye(len(at))
    rows = [(of.loss(at + h)[1] - of.loss(at - h)[1]) / 2e-5 for h in near]
    np.testing.assert_allclose(of.hessian(at), rows, atol=1e-8)


def test_blocks_do_not_affect_the_result(monkeypatch):
    of = SOME["many rows"]
    p = written_out(of, multinomial.fit(of))[2]
    np.testing.assert_array_equal(p, written_out(of, multinomial.fit(of))[2])
    monkeypatch.setattr(multinomial, "_BLOCK", 20_000)
    np.testing.assert_allclose(p, written_out(of, multinomial.fit(of))[2], rtol=0, atol=1e-9)


def test_steps_that_would_increase_the_loss_are_shortened():
    rng = np.random.default_rng(0)
    target = rng.integers(0, 4, 2000)
    sure = np.full((2000, 4), -20.0)
    sure[np.arange(2000), np.where(rng.random(2000) < 0.5, target, (target + 1) % 4)] = 0.0
    ridge = np.full(1 + 5 * 4, 1e-4)
    of = Regression(sure, sure, sure.mean(axis=0), sure.std(axis=0), target, np.full(2000, 1 / 2000), ridge)
    at_start = np.zeros(len(ridge))
    step = -np.linalg.solve(of.hessian(at_start), of.loss(at_start)[1])
    assert of.loss(step)[0] > of.loss(at_start)[0]  # otherwise nothing needs to be shortened
    assert np.abs(of.loss(multinomial.fit(of))[1]).max() < 1e-9


def test_the_number_of_steps_is_limited(monkeypatch):
    of = SOME["one block"]
    monkeypatch.setattr(multinomial, "_MOST_STEPS", 1)
    point = multinomial.fit(of)
    assert of.loss(point)[0] < of.loss(np.zeros(len(point)))[0]
