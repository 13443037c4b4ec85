import numpy as np
import pytest

import evenhand as eh
from evenhand.datasets import FiniteProblem
from evenhand.exceptions import InfeasibleError


class Benefit(eh.Notion):
    """Everybody whose label is positive benefits, and so does everybody who is selected."""

    label = "benefit"
    statistics = (eh.Statistic("benefit", slope=(1, 1), intercept=(0, 1)),)


@pytest.fixture
def posteriors():
    """Two groups with very different shares of positives, and features that hardly distinguish them."""
    rng = np.random.default_rng(0)
    group = np.array([0.5, 0.5]) + 0.01 * rng.normal(size=(3000, 1)) * [1, -1]
    label = np.array([[0.95, 0.05], [0.05, 0.95]])
    return group[:, :, None] * label


def test_the_conflict_is_named_and_the_smallest_tolerance_works(posteriors):
    with pytest.raises(InfeasibleError, match="these cannot hold together: benefit: group=") as caught:
        eh.solve(posteriors, Benefit(difference=0.1))
    assert {str(name) for name in caught.value.conflict} <= {
        "benefit: group=0",
        "benefit: group=1",
    }
    works = caught.value.works
    assert 0.1 < works.difference < 1
    eh.solve(posteriors, works)
    with pytest.raises(InfeasibleError):
        eh.solve(posteriors, Benefit(difference=works.difference - 1e-4))


def test_contradictions_between_notions_are_found(posteriors):
    with pytest.raises(InfeasibleError) as caught:
        eh.solve(posteriors, Benefit(ratio=0.9) & eh.DemographicParity(difference=0.001))
    assert "ratio" in str(caught.value.works)


def test_infeasibility_is_proven_on_many_rows(posteriors):
    with pytest.raises(InfeasibleError, match="It can be satisfied from"):
        eh.solve(np.tile(posteriors, (10, 1, 1)), Benefit(difference=0.1))


def test_the_message_says_if_no_tolerance_works():
    class Fiftyfold(eh.Notion):
        label = "fiftyfold"
        statistics = (eh.Statistic("fiftyfold", slope=(0.01, 0.01), intercept=(0, 50)),)

    problem = FiniteProblem.random(30, levels=(2,), seed=0, concentration=0.1)
    with pytest.raises(InfeasibleError, match="No tolerance makes it possible"):
        eh.solve(problem.posteriors, Fiftyfold(difference=0.1))


def test_built_in_notions_are_always_possible(notion):
    problem = FiniteProblem.random(20, levels=(2, 2), seed=1)
    everything = notion(difference=0) & eh.AccuracyParity(ratio=1) & eh.DemographicParity(difference=0)
    assert (
        eh.solve(problem.posteriors, everything, sample_weight=problem.weights).certificate.violation < 1e-9
    )


@pytest.mark.slow
def test_the_suggested_tolerance_works_on_many_rows_with_a_rare_group():
    n = 21_000
    rng = np.random.default_rng(0)
    codes = np.zeros(n, int)
    codes[5] = 1
    eta = np.where(codes == 1, 1.0, 0.01 * rng.random(n))
    posteriors = np.zeros((n, 2, 2))
    posteriors[np.arange(n), codes] = np.column_stack([1 - eta, eta])
    with pytest.raises(InfeasibleError) as caught:
        eh.solve(posteriors, Benefit(difference=0.005) & eh.EqualOpportunity(difference=0.1))
    assert eh.solve(posteriors, caught.value.works).certificate.violation < 1e-9
