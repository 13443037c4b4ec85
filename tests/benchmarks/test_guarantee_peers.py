"""The machinery of the comparison with peers' guarantees."""

import numpy as np
import pytest
from benchmarks.guarantee_peers import candidates, choose, choose_multiplier, draw, quantiles, violation


def test_the_probability_of_a_violation_is_that_of_two_beta_variables():
    rng = np.random.default_rng(0)
    k0, n0, k1, n1 = 10, 60, 60, 400
    simulated = np.abs(rng.beta(k0, n0 - k0 + 1, 100_000) - rng.beta(k1, n1 - k1 + 1, 100_000)) > 0.1
    found = violation(quantiles(np.array([k0]), n0), np.array([k1]), n1, 0.1)
    assert found[0] == pytest.approx(simulated.mean(), abs=0.004)


def test_candidates_are_the_pairs_below_the_level():
    n, level = (30, 40), 0.2
    low, high = candidates(n, 0.15, level)
    of_other = quantiles(np.arange(1, 31), 30)
    allowed = np.column_stack([violation(of_other, np.full(30, k), 40, 0.15) <= level for k in range(1, 41)])
    assert allowed.any()
    assert not allowed.all()
    k = np.arange(1, 41)
    np.testing.assert_array_equal(allowed, (low[:, None] <= k) & (k <= high[:, None]))


def test_thresholds_follow_the_error_and_there_are_none_without_enough_positives():
    rng = np.random.default_rng(1)
    scores = {(y, a): np.sort(rng.normal(2.0 * y, 1.0, 400)) for y in (0, 1) for a in (0, 1)}
    found = choose(scores, 0.2, 0.05)
    assert found is not None
    assert np.abs(np.array(found) - 1.0).max() < 0.5  # halfway between the labels
    assert choose({cell: some[:2] for cell, some in scores.items()}, 0.2, 0.05) is None


def test_a_multiplier_is_no_larger_than_the_margin_asks_for():
    rng = np.random.default_rng(2)
    n, level = 20_000, 0.05
    scores = {(y, a): np.sort(rng.beta(2 + 2 * y + a, 3 - a, n)) for y in (0, 1) for a in (0, 1)}
    margin = 2 * np.sqrt(np.log(4 / level) / (2 * n))

    def gap(at):
        return np.mean(scores[1, 1] > at[1]) - np.mean(scores[1, 0] > at[0])

    assert gap((0.5, 0.5)) > 0.1
    found = choose_multiplier(scores, np.array([0.25, 0.25]), 0.1, level)
    assert gap(found) == pytest.approx(0.1 - margin, abs=1e-3)
    assert found[0] < 0.5 < found[1]
    assert choose_multiplier(scores, np.array([0.25, 0.25]), 0.9, level) == (0.5, 0.5)
    assert choose_multiplier(scores, np.array([0.25, 0.25]), margin / 2, level) is None


def test_all_methods_are_judged_on_the_same_draw():
    outcomes = draw(600, 0, uneven=False)
    assert set(outcomes) == {"evenhand", "FaiREE", "uniform margin", "not guaranteed"}
    assert all(0.5 < outcome.accuracy < 1 for outcome in outcomes.values())
