"""The Gaussian problem's posteriors, rates and optimum are the true ones."""

import numpy as np
import pytest
from benchmarks.exact import FiniteProblem, GaussianProblem
from scipy.optimize import brentq
from scipy.stats import norm

import evenhand as eh
from evenhand.exceptions import InputError
from evenhand.groups.groups import Groups


@pytest.fixture
def problem() -> GaussianProblem:
    return GaussianProblem.random(levels=(2, 2), seed=0)


def test_posteriors_are_bayes_formula(problem):
    x = np.array([-1.0, 0.3, 4.0])
    joint = problem.masses * norm.pdf(x[:, None, None], problem.means, problem.scale)
    assert problem.posteriors(x) == pytest.approx(joint / joint.sum(axis=(1, 2), keepdims=True))
    codes = np.array([0, 3, 1])
    own = joint[np.arange(3), codes]
    assert problem.scores(x, codes) == pytest.approx(own[:, 1] / own.sum(axis=1))


@pytest.mark.parametrize("aware", [False, True])
def test_rates_of_any_rule_are_those_of_a_large_sample(problem, aware):
    W = np.random.default_rng(3).normal([-0.5, 0.5], size=(4, 2))
    drawn = problem.sample(400_000, seed=1)
    posteriors = problem.posteriors(drawn.X)
    if aware:
        posteriors = posteriors * (np.arange(4) == drawn.codes[:, None])[:, :, None]
    chosen = np.tensordot(posteriors, W, axes=2) > 0
    counted = eh.cell_rates(drawn.y, chosen, drawn.sensitive)
    assert counted.rates == pytest.approx(problem.rates(W, aware=aware).rates, abs=8e-3)


def test_the_plain_bayes_rule_has_its_textbook_rates():
    """Two classes at -1 and 1 with equal masses in one group: the rule is x > 0."""
    means = np.array([[-1.0, 1.0], [-1.0, 1.0]])
    problem = GaussianProblem(np.full((2, 2), 0.25), means, Groups.product({"g": [0, 1]}))
    found = problem.optimum(eh.DemographicParity(difference=1))
    assert found.risk == pytest.approx(0.5 * norm.cdf(-1), abs=1e-12)
    assert found.rates.rates == pytest.approx(np.tile(norm.cdf([-1, 1]), (2, 1)), abs=1e-12)


@pytest.mark.slow
def test_exact_parity_when_the_group_is_known_has_its_textbook_thresholds():
    """Exact parity of two equally large groups: one threshold is free, the other follows from it."""
    s = 0.6
    means = np.array([[-1.0, 1.0], [-1.0, 1.0]]) + np.array([[-s], [s]])
    masses = np.array([[0.3, 0.2], [0.2, 0.3]])
    problem = GaussianProblem(masses, means, Groups.product({"g": [0, 1]}))
    found = problem.optimum(eh.DemographicParity(difference=0.0), aware=True)

    def share(t, m):
        """Share of group m above its centre plus t."""
        return 2 * (masses[m] * norm.sf(t, loc=[-1, 1])).sum()

    def risk(t0):
        t1 = brentq(lambda t: share(t, 1) - share(t0, 0), -9, 9, xtol=1e-14)
        missed = masses[0, 1] * norm.cdf(t0, loc=1) + masses[1, 1] * norm.cdf(t1, loc=1)
        false = masses[0, 0] * norm.sf(t0, loc=-1) + masses[1, 0] * norm.sf(t1, loc=-1)
        return 0.5 * (missed + false)

    best = min(risk(t0) for t0 in np.linspace(-1, 1, 4001))
    assert found.risk == pytest.approx(best, abs=1e-7)
    assert found.rates.masses.sum() == pytest.approx(1)


@pytest.mark.parametrize("measure", [{"difference": 0.05}, {"ratio": 0.85}])
def test_the_blind_optimum_is_that_of_a_fine_discretisation(problem, notion, measure):
    edges = np.linspace(-8, 8, 4001)
    inside = np.diff(norm.cdf(edges[:, None, None], problem.means, problem.scale), axis=0) * problem.masses
    weights = inside.sum(axis=(1, 2))
    fine = FiniteProblem(weights, inside / weights[:, None, None], problem.groups)
    found = problem.optimum(notion(**measure))
    assert found.risk == pytest.approx(fine.optimum(notion(**measure)).risk, abs=2e-6)
    linear = notion(**measure).linear(problem.masses, problem.groups)
    assert linear.violation(found.rates.rates) < 1e-7


@pytest.mark.parametrize("aware", [False, True])
@pytest.mark.parametrize("measure", [{"difference": 0.05}, {"ratio": 0.85}])
def test_the_optimum_is_not_at_the_edge_of_its_precision(problem, notion, measure, aware):
    """It is accepted at 1e-8: what barely reaches that here fails on a machine that rounds differently."""
    found = problem.optimum(notion(**measure), aware=aware)
    linear = notion(**measure).linear(problem.masses, problem.groups)
    assert linear.violation(found.rates.rates) < 1e-11


def test_exact_parity_is_found_where_intervals_appear_and_vanish():
    """H touches 0 at the optimum: an interval narrower than the grid must not be overlooked."""
    problem = GaussianProblem.random(levels=(2,), seed=1)
    exact = eh.DemographicParity(difference=0.0)
    found = problem.optimum(exact)
    assert exact.linear(problem.masses, problem.groups).violation(found.rates.rates) < 1e-8


def test_an_interval_between_two_points_of_the_grid_is_found():
    """H has the sign of a sqrt(e) - cosh(x), so it is positive where |x| < 0.001 at this a."""
    means = np.array([[-1.0, 1.0], [0.0, 0.0], [3.3, 3.3]])  # the last so that 0 is no point of the grid
    problem = GaussianProblem(np.full((3, 2), 1 / 6), means, Groups.product({"g": [0, 1, 2]}))
    a = np.exp(-0.5) * np.cosh(1e-3)
    rates = problem.rates([[-1.0, -1.0], [a, a], [0.0, 0.0]]).rates
    assert rates[1, 0] == pytest.approx(2 * norm.cdf(1e-3) - 1, rel=1e-6)


def test_knowing_the_group_never_hurts(problem, notion):
    blind = problem.optimum(notion(difference=0.08), cost=0.4)
    aware = problem.optimum(notion(difference=0.08), cost=0.4, aware=True)
    assert aware.risk <= blind.risk + 1e-9


@pytest.mark.slow
def test_a_randomised_optimum_is_refused():
    """Exact accuracy parity makes H vanish in a whole group, which no threshold can express."""
    problem = GaussianProblem.random(levels=(2,), seed=0)
    with pytest.raises(InputError, match="may be randomised"):
        problem.optimum(eh.AccuracyParity(difference=0.0), aware=True)


def test_masses_that_do_not_fit_are_refused():
    groups = Groups.product({"g": [0, 1]})
    with pytest.raises(InputError, match="positive and sum to 1"):
        GaussianProblem(np.full((2, 2), 0.3), np.zeros((2, 2)), groups)
    with pytest.raises(InputError, match="shape"):
        GaussianProblem(np.full((3, 2), 1 / 6), np.zeros((2, 2)), groups)
    with pytest.raises(InputError, match="scale positive"):
        GaussianProblem(np.full((2, 2), 0.25), np.zeros((2, 2)), groups, scale=0.0)
