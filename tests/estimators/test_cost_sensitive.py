import numpy as np
import pytest
from benchmarks.exact import GaussianProblem
from sklearn.tree import DecisionTreeClassifier

import evenhand as eh
from evenhand.estimators.cost_sensitive import RateEstimator, measured, standard_errors
from evenhand.optimum.problem import FairnessProblem
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.posteriors import GroupedScores, StratifiedPosteriors
from evenhand.requirements.rates import CellRates

PROBLEM = GaussianProblem.random(levels=(3,), seed=1)
UNLIKE = GaussianProblem(
    np.full((3, 2), 1 / 6), np.array([[-1.5, -0.5], [-0.5, 0.5], [0.5, 1.5]]), PROBLEM.groups
)
PARITY = eh.DemographicParity(difference=0.05)


def estimator_for(sample, posteriors, weights=None, groups=PROBLEM.groups):
    problem = FairnessProblem.read(posteriors, PARITY, sample_weight=weights, groups=groups)
    codes = sample.sensitive["A1"]
    examples = Examples(sample.X, codes, sample.y == 1, len(PROBLEM.groups))
    return RateEstimator(problem, examples, weights)


def test_with_true_posteriors_the_rates_of_a_memorised_classifier_are_those_on_new_rows():
    """Its decisions on the rows of fit repeat their labels, which say nothing of new rows."""
    errors, naive = [], []
    for seed in range(20):
        sample, new = PROBLEM.sample(1500, seed=seed), PROBLEM.sample(20_000, seed=1000 + seed)
        tree = DecisionTreeClassifier(random_state=0).fit(sample.X, sample.y)
        decided = tree.predict(sample.X)
        estimated = estimator_for(sample, PROBLEM.posteriors(sample.X)).rates(decided).rates
        true = eh.cell_rates(new.y, tree.predict(new.X), new.sensitive).rates
        errors.append(estimated - true)
        naive.append(eh.cell_rates(sample.y, decided, sample.sensitive).rates - true)
    assert np.abs(np.mean(errors, axis=0)).max() < 0.02
    assert np.abs(np.mean(naive, axis=0)).max() > 0.3


def test_groups_that_the_posteriors_get_wrong_are_counted():
    """Posteriors that know the label but not the group say that all groups are treated alike."""
    sample = UNLIKE.sample(6000, seed=0)
    p = UNLIKE.posteriors(sample.X)
    label, share = p.sum(axis=1, keepdims=True), p.mean(axis=0) / p.mean(axis=0).sum(axis=0)
    estimator = estimator_for(sample, label * share)
    decided = (sample.X[:, 0] > 0).astype(float)
    counted = eh.cell_rates(sample.y, decided, sample.sensitive)
    [blind] = PARITY.measure(
        CellRates(PROBLEM.groups, estimator.problem.masses, estimator.by_posteriors(decided))
    )
    [told] = measured(PARITY, estimator.rates(decided))
    [true] = PARITY.measure(counted)
    assert true.difference > 0.15
    assert blind.difference < 0.01
    assert told.difference == pytest.approx(true.difference, abs=0.02)


def test_where_posteriors_are_right_counting_groups_changes_little():
    """The noise of counts is shrunk: the estimate is nearer to the truth than counts are."""
    by_counts, combined, big = [], [], PROBLEM.sample(200_000, seed=99)
    true = eh.cell_rates(big.y, big.X[:, 0] > 0.3, big.sensitive).rates
    for seed in range(40):
        sample = PROBLEM.sample(400, seed=seed)
        estimator = estimator_for(sample, PROBLEM.posteriors(sample.X))
        decided = sample.X[:, 0] > 0.3
        combined.append(estimator.rates(decided).rates - true)
        by_counts.append(eh.cell_rates(sample.y, decided, sample.sensitive).rates - true)
    assert np.mean(np.square(combined)) < 0.95 * np.nanmean(np.square(by_counts))


def test_known_groups_need_no_counting():
    sample = PROBLEM.sample(500, seed=0)
    codes = sample.sensitive["A1"]
    scores = GroupedScores(PROBLEM.scores(sample.X, codes), codes, 3)
    estimator, decided = estimator_for(sample, scores), sample.X[:, 0] > 0
    assert np.array_equal(estimator.rates(decided).selected, estimator.by_posteriors(decided))


def test_weights_and_strata_count():
    sample, rng = PROBLEM.sample(800, seed=0), np.random.default_rng(0)
    p, decided = PROBLEM.posteriors(sample.X), sample.X[:, 0] > 0
    twice = rng.integers(1, 3, 800).astype(float)
    weighted = estimator_for(sample, p, twice).rates(decided)
    rows = np.repeat(np.arange(800), twice.astype(int))
    copies = Examples(sample.X[rows], sample.sensitive["A1"][rows], sample.y[rows] == 1, 3)
    problem = FairnessProblem.read(p[rows], PARITY, groups=PROBLEM.groups)
    copied = RateEstimator(problem, copies, None).by_posteriors(decided[rows])
    estimator = estimator_for(sample, p, twice)
    assert estimator.by_posteriors(decided) == pytest.approx(copied)
    assert (weighted.selected <= weighted.mass + 1e-12).all()

    strata = rng.integers(0, 2, 800)
    groups = eh.Groups.product({"A1": range(3)})
    inside = StratifiedPosteriors(p, strata, 2)
    both = FairnessProblem.read(
        inside, PARITY, groups=eh.Groups.product({"stratum": range(2), "A1": range(3)})
    )
    examples = Examples(sample.X, sample.sensitive["A1"], sample.y == 1, 3, strata=strata)
    stratified = RateEstimator(both, examples, None).rates(decided)
    first = strata == 0
    alone = RateEstimator(
        FairnessProblem.read(p[first], PARITY, groups=groups),
        Examples(sample.X[first], sample.sensitive["A1"][first], sample.y[first] == 1, 3),
        None,
    ).rates(decided[first])
    assert stratified.rates[:3] == pytest.approx(alone.rates, abs=2e-3)


def test_posteriors_that_are_wrong_about_the_size_of_groups_are_corrected_in_both_parts_of_a_rate():
    """As they are if learned with other weights; a decision for everybody has a rate of 1."""
    sample = UNLIKE.sample(4000, seed=0)
    p = UNLIKE.posteriors(sample.X) * np.array([5.0, 1.0, 1.0])[:, None]
    estimator = estimator_for(sample, p / p.sum(axis=(1, 2), keepdims=True))
    assert estimator.rates(np.ones(4000)).rates == pytest.approx(1.0)
    assert estimator.rates(np.zeros(4000)).rates == pytest.approx(0.0)
    decided = sample.X[:, 0] > 0
    counted = eh.cell_rates(sample.y, decided, sample.sensitive).rates
    assert estimator.rates(decided).rates == pytest.approx(counted, abs=0.1)


def test_with_labels_the_risk_is_that_of_the_labels_whatever_the_posteriors_say():
    sample = UNLIKE.sample(2000, seed=0)
    p = UNLIKE.posteriors(sample.X)
    wrong = p * np.array([3.0, 1.0])  # far too sure of label 0
    blind = estimator_for(sample, wrong / wrong.sum(axis=(1, 2), keepdims=True))
    codes = sample.sensitive["A1"]
    known = estimator_for(sample, GroupedScores(p[np.arange(2000), codes, 1] / 2, codes, 3))
    for estimator in (blind, known):
        rates = estimator.with_labels(0.5).rates(sample.X[:, 0] > 0.3)
        counted = eh.cell_rates(sample.y, sample.X[:, 0] > 0.3, sample.sensitive)
        assert rates.risk() == pytest.approx(counted.risk(), abs=2e-3)
        assert abs(estimator.rates(sample.X[:, 0] > 0.3).risk() - counted.risk()) > 0.01
    assert known.with_labels(0.5).rates(sample.X[:, 0] > 0.3).rates == pytest.approx(counted.rates)


def test_the_standard_error_of_a_difference_is_that_of_counts():
    groups = eh.Groups.product({"A1": range(2)})
    masses = np.full((2, 2), 0.25)
    linear = PARITY.linear(masses, groups)
    errors = standard_errors(linear, np.full((2, 2), 0.5), np.full((2, 2), 100))
    # q - q_g = (q_other - q_g) / 2, each a mean of 200 rows
    assert errors == pytest.approx(0.5 * np.sqrt(2 * 0.25 / 200), rel=0.01)
