"""The solver's optimum is the true one, and has the form that the paper's theorems give it."""

import numpy as np
import pytest
from benchmarks.exact import FiniteProblem, GaussianProblem

import evenhand as eh

KINDS = [eh.DemographicParity, eh.EqualOpportunity, eh.PredictiveEquality, eh.AccuracyParity]


def paper_symbols(kind, pi):
    """a_m and b_m^y of the paper's table; pi[m, y] = P(E_{y,m})."""
    y = np.array([0, 1])
    P_S, P_Y_given_S = pi.sum(axis=1), pi / pi.sum(axis=1, keepdims=True)
    if kind is eh.DemographicParity:
        return P_S, P_Y_given_S
    if kind is eh.EqualOpportunity:
        return pi[:, 1] / pi[:, 1].sum(), np.tile(y, (len(pi), 1))
    if kind is eh.PredictiveEquality:
        return pi[:, 0] / pi[:, 0].sum(), np.tile(1 - y, (len(pi), 1))
    return P_S, (1 - 2 * y) * P_Y_given_S


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("measure", ["difference", "ratio"])
def test_decisions_are_those_of_the_papers_rule(kind, measure):
    """H(x) = eta - c - sum b (lambda_m - Lambda a_m) gamma for MD; for MR with delta Lambda a_m.

    The paper's Lagrangian is R - sum lambda_m R_m, ours gain + lambda . (A s - bound), so lambda is the same
    with the opposite sign in front of R_m: R_m = q - q_g enters W as + lambda (A_overall - A_g).
    """
    delta, c = (0.03, 0.4) if measure == "difference" else (0.9, 0.4)
    problem = GaussianProblem.random(levels=(2, 2), seed=2)
    posteriors = problem.posteriors(problem.sample(3000).X)
    found = eh.solve(posteriors, kind(**{measure: delta}), cost=c)
    lam = np.array(list(found.multipliers.values()))
    pi = posteriors.mean(axis=0)
    a, b = paper_symbols(kind, pi)
    gamma = posteriors / pi
    eta = posteriors[:, :, 1].sum(axis=1)
    factor = 1 if measure == "difference" else delta
    H = eta - c - (b * (lam - factor * lam.sum() * a)[:, None] * gamma).sum(axis=(1, 2))
    assert found.rule.decision(posteriors) == pytest.approx(H, abs=1e-10)
    clear = np.abs(H) > 1e-8
    assert np.array_equal(found.selection[clear], (H > 0)[clear])


@pytest.mark.parametrize("measure", [{"difference": 0.04}, {"ratio": 0.85}])
@pytest.mark.parametrize("aware", [False, True])
def test_large_samples_approach_the_known_optimum(notion, measure, aware):
    problem = GaussianProblem.random(levels=(2, 2), seed=3)
    constraint = notion(**measure)
    known = problem.optimum(constraint, aware=aware)
    drawn = problem.sample(200_000, seed=0)
    if aware:
        rows = eh.GroupedScores(problem.scores(drawn.X, drawn.codes), drawn.codes, 4)
    else:
        rows = problem.posteriors(drawn.X)
    found = eh.solve(rows, constraint, groups=problem.groups)
    assert found.certificate.objective == pytest.approx(known.risk, abs=2e-3)
    assert found.certificate.gap < 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_known_groups_are_solved_like_dense_posteriors(notion, seed):
    rng = np.random.default_rng(seed)
    n, M = 400, 3
    eta, codes = np.round(rng.random(n), seed + 1), rng.integers(0, M, n)
    dense = np.zeros((n, M, 2))
    dense[np.arange(n), codes] = np.column_stack([1 - eta, eta])
    weights = rng.random(n)
    for constraint in (notion(difference=0.02), notion(ratio=0.95)):
        aware = eh.solve(eh.GroupedScores(eta, codes, M), constraint, sample_weight=weights)
        blind = eh.solve(dense, constraint, sample_weight=weights)
        assert aware.certificate.objective == pytest.approx(blind.certificate.objective, abs=1e-10)


@pytest.mark.parametrize("n", [1500, 6000])
def test_the_optimum_is_convex_and_decreasing_in_the_tolerance(notion, n):
    problem = GaussianProblem.random(levels=(3,), seed=4)
    posteriors = problem.posteriors(problem.sample(n).X)
    deltas = np.linspace(0.0, 0.2, 12)
    risks = np.array([eh.solve(posteriors, notion(difference=d)).certificate.objective for d in deltas])
    assert (np.diff(risks) <= 1e-12).all()
    assert (np.diff(risks, 2) >= -1e-10).all()


@pytest.mark.parametrize("n", [1500, 6000])
@pytest.mark.parametrize(("measure", "tolerance"), [("difference", 0.03), ("ratio", 0.9)])
def test_shadow_prices_are_the_slope_of_the_risk_in_the_tolerance(notion, n, measure, tolerance):
    problem = GaussianProblem.random(levels=(3,), seed=5)
    posteriors = problem.posteriors(problem.sample(n).X)
    step = 1e-6

    def risk(t):
        return eh.solve(posteriors, notion(**{measure: t}), tol=1e-9).certificate.objective

    here = eh.solve(posteriors, notion(**{measure: tolerance}), tol=1e-9)
    below = (risk(tolerance) - risk(tolerance - step)) / step
    above = (risk(tolerance + step) - risk(tolerance)) / step
    price = sum(here.shadow_prices.values())
    assert min(below, above) - 1e-5 <= price <= max(below, above) + 1e-5
    assert below == pytest.approx(above, rel=0.05, abs=1e-6)
    signs = np.sign(list(here.shadow_prices.values()))
    assert set(signs) <= ({-1, 0} if measure == "difference" else {1, 0})
    sizes = [abs(value) for value in here.multipliers.values()]
    if measure == "difference":
        assert sizes == pytest.approx([-value for value in here.shadow_prices.values()])


def test_the_prices_of_one_notion_are_those_of_its_own_tolerance():
    problem = GaussianProblem.random(levels=(2, 2), seed=2)
    posteriors = problem.posteriors(problem.sample(3000).X)

    def both(t):
        return eh.DemographicParity(difference=t) & eh.EqualOpportunity(ratio=0.95)

    here = eh.solve(posteriors, both(0.02), tol=1e-9)
    slope = eh.solve(posteriors, both(0.02 + 1e-6), tol=1e-9).certificate.objective
    slope = (slope - here.certificate.objective) / 1e-6
    mine = sum(price for name, price in here.shadow_prices.items() if name.notion == "demographic parity")
    assert mine == pytest.approx(slope, rel=0.02, abs=1e-6)


def test_a_loose_tolerance_gives_the_plain_bayes_rule(notion):
    problem = GaussianProblem.random(levels=(2, 2), seed=6)
    posteriors = problem.posteriors(problem.sample(5000).X)
    found = eh.solve(posteriors, notion(difference=1.0), cost=0.3)
    eta = posteriors[:, :, 1].sum(axis=1)
    assert np.array_equal(found.selection, eta > 0.3)
    assert not any(found.multipliers.values())


def test_independent_requirements_are_weaker_than_intersectional_ones():
    problem = FiniteProblem.random(60, levels=(2, 3), seed=7)
    both = [
        eh.solve(
            problem.posteriors,
            eh.DemographicParity(difference=0.01, groups=mode),
            sample_weight=problem.weights,
            groups=problem.groups,
        )
        for mode in ("independent", "intersectional")
    ]
    assert both[0].certificate.objective < both[1].certificate.objective
