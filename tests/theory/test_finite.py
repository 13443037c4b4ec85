"""The finite problem's optimum is the true one."""

import itertools

import numpy as np
import pytest
from benchmarks.exact import FiniteProblem

import evenhand as eh
from evenhand.exceptions import InputError
from evenhand.groups.groups import Groups


def best_vertex(problem, constraint, cost):
    """The smallest risk over all vertices of the feasible set, by enumeration.

    A vertex sets all but r atoms to 0 or 1 and makes r constraints tight on the others.
    """
    n = len(problem.weights)
    linear = constraint.linear(problem.masses, problem.groups)
    effect = np.array([linear.values(problem.rates(np.eye(n)[a]).rates) - linear.k for a in range(n)]).T
    sides = [(j, bound) for j in range(len(linear)) for bound in (linear.lo[j], linear.hi[j])]
    best = np.inf
    for r in range(min(n, len(linear)) + 1):
        for free in itertools.combinations(range(n), r):
            fixed = [a for a in range(n) if a not in free]
            for tight in itertools.combinations(sides, r):
                lines = [j for j, _ in tight]
                A = effect[np.ix_(lines, free)]
                if r and np.linalg.matrix_rank(A) < r:
                    continue
                for corner in itertools.product([0.0, 1.0], repeat=len(fixed)):
                    f = np.zeros(n)
                    f[fixed] = corner
                    if r:
                        goal = [bound - linear.k[j] for j, bound in tight]
                        f[list(free)] = np.linalg.solve(A, goal - effect[lines] @ f)
                    if (f < -1e-10).any() or (f > 1 + 1e-10).any():
                        continue
                    rates = problem.rates(f)
                    if linear.violation(rates.rates) <= 1e-10:
                        best = min(best, rates.risk(cost))
    return best


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("measure", [{"difference": 0.05}, {"ratio": 0.8}, {"difference": 0.0}])
def test_the_optimum_is_the_best_vertex(notion, measure, seed):
    problem = FiniteProblem.random(5, levels=(2,), seed=seed)
    constraint = notion(**measure)
    expected = best_vertex(problem, constraint, cost=0.4)
    if np.isinf(expected):
        with pytest.raises(InputError, match="no classifier that satisfies"):
            problem.optimum(constraint, cost=0.4)
    else:
        assert problem.optimum(constraint, cost=0.4).risk == pytest.approx(expected, abs=1e-9)
        found = eh.solve(problem.posteriors, constraint, cost=0.4, sample_weight=problem.weights)
        assert found.certificate.objective == pytest.approx(expected, abs=1e-9)


def test_a_loose_tolerance_gives_the_bayes_classifier(notion):
    problem = FiniteProblem.random(30, levels=(2, 3), seed=4)
    found = problem.optimum(notion(difference=1), cost=0.3)
    eta = problem.posteriors[:, :, 1].sum(axis=1)
    assert found.risk == pytest.approx(problem.rates(eta > 0.3).risk(0.3), abs=1e-12)


def test_the_optimum_is_convex_and_decreasing_in_the_tolerance(notion):
    problem = FiniteProblem.random(30, levels=(2, 2), seed=5)
    deltas = np.linspace(0.02, 0.5, 25)
    risks = np.array([problem.optimum(notion(difference=delta)).risk for delta in deltas])
    assert (np.diff(risks) <= 1e-10).all()
    assert (np.diff(risks, 2) >= -1e-10).all()


def test_samples_have_the_problems_probabilities():
    problem = FiniteProblem.random(6, levels=(2, 3), seed=0)
    drawn = problem.sample(200_000, seed=1)
    groups, _ = Groups.fit(drawn.sensitive)
    assert groups.features == ("A1", "A2")
    selection = np.random.default_rng(2).random(6)
    counted = eh.cell_rates(drawn.y, selection[drawn.X[:, 0].astype(int)], drawn.sensitive)
    assert counted.masses == pytest.approx(problem.masses, abs=5e-3)
    assert counted.rates == pytest.approx(problem.rates(selection).rates, abs=2e-2)


def test_probabilities_that_do_not_fit_are_refused():
    groups = Groups.product({"g": [0, 1]})
    with pytest.raises(InputError, match="sum to 1"):
        FiniteProblem(np.ones(1), np.full((1, 2, 2), 0.3), groups)
    with pytest.raises(InputError, match="shape"):
        FiniteProblem(np.ones(1), np.full((2, 2, 2), 0.25), groups)
    with pytest.raises(InputError, match="weights of the atoms"):
        FiniteProblem(np.ones(2), np.full((2, 2, 2), 0.25), groups)


def test_samples_keep_values_of_several_types_apart():
    problem = FiniteProblem(np.ones(1), np.full((1, 2, 2), 0.25), Groups.product({"g": [1, "1"]}))
    assert set(problem.sample(50).sensitive["g"]) == {1, "1"}
