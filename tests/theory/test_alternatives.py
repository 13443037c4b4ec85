"""Alternatives on a population whose truth is known: intervals cover, and the choice overstates nothing."""

import numpy as np
import pytest
from scipy.special import expit

import evenhand as eh
from evenhand.less_discriminatory.paired_comparison import Comparison, Decider, Rows, judged

SLOPES, MOVED, CUT = np.array([1.0, 0.8, 0.5]), np.array([0.2, 0.7, 0.9]), 1.35
MARGIN, N, DRAWS = 0.01, 1_000, 200
NAMES = eh.Groups.product({"sex": ["F", "M"]}).members("independent").names


def drawn(n, rng):
    sex = rng.random(n) < 0.5
    X = rng.normal(size=(n, 3)) + np.outer(sex, MOVED)
    return X, sex, rng.random(n) < expit(X @ SLOPES - 1.6)


def weights(count=12):
    rng = np.random.default_rng(5)
    return [SLOPES * np.clip(1 + rng.normal(size=3) * [0.15, 0.4, 0.7], 0, 2.5) for _ in range(count)]


def rows_of(sex, y):
    return Rows(y, np.array([~sex, sex]), NAMES, np.array([1, 1]))


@pytest.fixture(scope="module")
def truth():
    """Accuracy and impact ratio of every score at the incumbent's approval rate, from 400,000 rows."""
    X, sex, y = drawn(400_000, np.random.default_rng(99))
    share, rows = float((X @ SLOPES > CUT).mean()), rows_of(sex, y)
    figures = [Decider(X @ w).figures(rows, rows.once, share) for w in [SLOPES, *weights()]]
    return np.array([[one[0], one[3] / one[4]] for one in figures])


def compared(seed):
    """All scores on rows of a sample, and the place of the one that others of its rows choose."""
    X, sex, y = drawn(2 * N, np.random.default_rng(seed))
    deciders = [Decider(X @ SLOPES, (X @ SLOPES > CUT).astype(float)), *(Decider(X @ w) for w in weights())]
    found = []
    for half, draws in ((np.arange(N), 0), (np.arange(N, 2 * N), DRAWS)):
        own = [one.take(half) for one in deciders]
        beside = Comparison(rows_of(sex, y).take(half), own, None, draws, seed, 0.95)
        found.append([beside.compared(k, str(k), "given", "unknown") for k in range(len(own))])
    chosen = judged(found[0], MARGIN)[0]
    return found[1], None if chosen is None else int(chosen)


@pytest.mark.slow
def test_intervals_cover_and_the_chosen_is_not_overstated(truth):
    covered, of_chosen, excess = [], [], []
    for seed in range(40):
        found, chosen = compared(seed)
        for k, one in enumerate(found):
            accuracy, ratio = truth[k] - truth[0]
            inside = [one.ratio_low <= truth[k, 1] <= one.ratio_high]
            if k:
                inside += [
                    one.accuracy_low <= accuracy <= one.accuracy_high,
                    one.difference_low <= ratio <= one.difference_high,
                ]
            covered.append(np.mean(inside))
        if chosen is not None:
            of_chosen.append(found[chosen].ratio_low <= truth[chosen, 1] <= found[chosen].ratio_high)
            excess.append(found[chosen].impact_ratio - truth[chosen, 1])
    error = np.std(excess) / len(excess) ** 0.5
    assert 0.92 < np.mean(covered) < 0.99
    assert np.mean(of_chosen) > 0.85
    assert abs(np.mean(excess)) < 3 * error


@pytest.mark.slow
def test_no_score_beats_the_bound_of_the_true_probabilities(truth):
    X, _, _ = drawn(50_000, np.random.default_rng(98))
    eta, male = expit(X @ SLOPES - 1.6), expit(X @ MOVED - MOVED @ MOVED / 2)
    cells = [np.column_stack([s * (1 - eta), s * eta]) for s in (1 - male, male)]
    rows = np.stack(cells, axis=1)
    share = float((X @ SLOPES > CUT).mean())
    own = X @ SLOPES > CUT
    accuracy = float(np.where(own, eta, 1 - eta).mean())
    kept = eh.RateBound("selection rate", at_least=share, at_most=share)
    notion = eh.DemographicParity(ratio=1, against={"sex": "M"})
    groups = eh.Groups.product({"sex": ["F", "M"]})
    for loss in (0.002, 0.005, 0.01, 0.02):
        floor = eh.RateBound("accuracy", at_least=accuracy - loss)
        found = eh.solve(rows, kept & floor, objective=notion, groups=groups)
        best = 1 - found.certificate.bound
        within = truth[1:][truth[1:, 0] >= truth[0, 0] - loss]
        assert (within[:, 1] <= best + 0.01).all()  # the truth has an error of its own
        assert best > truth[0, 1]
