"""Rows of weight 0 decide nothing."""

import numpy as np
import pytest
from benchmarks.exact import FiniteProblem

import evenhand as eh

NOTIONS = [eh.DemographicParity, eh.EqualOpportunity, eh.EqualizedOdds]


@pytest.mark.parametrize("seed", range(12))
def test_copies_of_weight_0_change_neither_rule_nor_rates(seed):
    """Rows on the boundary, some of whose copies have no weight, in any order."""
    rng = np.random.default_rng(seed)
    problem = FiniteProblem.random(6, levels=(2,), seed=seed)
    posteriors = problem.posteriors[rng.integers(0, 6, 60)]
    weights = rng.choice([0.0, 1.0, 3.0], 60)
    constraint = NOTIONS[seed % 3](difference=0.02)
    found = eh.solve(posteriors, constraint, sample_weight=weights)
    chosen = found.rule.selection(posteriors)
    np.testing.assert_allclose(chosen[weights > 0], found.selection[weights > 0], atol=1e-9)
    rates = found.linear_constraints.values(
        _rates(posteriors, weights * chosen) / _rates(posteriors, weights)
    )
    excess = np.maximum(found.linear_constraints.lo - rates, rates - found.linear_constraints.hi)
    assert excess.max() < 1e-9

    without = eh.solve(posteriors[weights > 0], constraint, sample_weight=weights[weights > 0])
    np.testing.assert_allclose(
        without.rule.selection(posteriors[weights > 0]), chosen[weights > 0], atol=1e-7
    )


def test_scores_of_weight_0_do_not_widen_what_is_randomised():
    """Between scores of a known group that count, others do not change the thresholds."""
    rng = np.random.default_rng(0)
    eta, codes = rng.uniform(size=300), rng.integers(0, 2, 300)
    weights = rng.choice([0.0, 1.0], 300)
    scores, counted = eh.GroupedScores(eta, codes, 2), weights > 0
    found = eh.solve(scores, eh.DemographicParity(difference=0.0), sample_weight=weights)
    alone = eh.solve(eh.GroupedScores(eta[counted], codes[counted], 2), eh.DemographicParity(difference=0.0))
    assert np.count_nonzero((found.selection > 0) & (found.selection < 1)) <= 2
    for here, there in zip(found.rule.steps.edges, alone.rule.steps.edges, strict=True):
        np.testing.assert_allclose(here, there, atol=1e-9)


def _rates(posteriors, weights):
    return np.tensordot(weights, posteriors, axes=1)
