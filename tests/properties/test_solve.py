"""The solver against a linear program on all rows, for any problem."""

import warnings

import numpy as np
import pytest
from benchmarks.exact import FiniteProblem
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import examples

import evenhand as eh
from evenhand.groups.groups import Groups
from evenhand.requirements.notions import NOTIONS
from evenhand.solver import optimize as optimize_module


@st.composite
def single(draw):
    kind = draw(st.sampled_from(NOTIONS))
    slack = draw(st.sampled_from([0.0, 1e-9, 1e-4, 0.01, 0.05, 0.2, 1.0]))
    tolerance = draw(st.sampled_from([{"difference": slack}, {"ratio": 1 - slack}]))
    return kind(**tolerance, groups=draw(st.sampled_from(["intersectional", "independent"])))


constraints = st.one_of(single(), st.tuples(single(), single()).map(lambda pair: pair[0] & pair[1]))


@st.composite
def problems(draw, most):
    """Posteriors with ties, tiny and empty cells, and weights."""
    levels = draw(st.sampled_from([(2,), (3,), (2, 2), (2, 3), (3, 4)]))
    M = int(np.prod(levels))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(2, most))
    sizes = rng.dirichlet(np.full(2 * M, draw(st.sampled_from([0.3, 1.0, 5.0]))))
    p = rng.dirichlet(np.maximum(2 * M * sizes * draw(st.sampled_from([0.1, 1.0, 5.0])), 0.02), size=n)
    if draw(st.booleans()):  # ties
        p = np.round(8 * p) / 8
    p[p < 1e-6] = 0.0
    if draw(st.booleans()):  # an empty cell
        p[:, draw(st.integers(0, 2 * M - 1))] = 0.0
    p[p.sum(axis=1) == 0] = 1.0
    p /= p.sum(axis=1, keepdims=True)
    weights = rng.exponential(size=n) + 1e-4 if draw(st.booleans()) else np.ones(n)
    groups = Groups.product({f"A{k}": range(size) for k, size in enumerate(levels)})
    return FiniteProblem(weights / weights.sum(), p.reshape(n, M, 2), groups)


def agree(problem, constraint, cost):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eh.exceptions.EvenhandWarning)
        found = eh.solve(
            problem.posteriors,
            constraint,
            cost=cost,
            sample_weight=problem.weights,
            groups=problem.groups,
            tol=1e-8,
        )
        known = problem.optimum(constraint, cost=cost)
    # Neither side can be better than the other by more than the tolerances: the bound is proven.
    assert found.certificate.objective <= known.risk + 1e-8
    assert found.certificate.bound <= known.risk + 1e-8
    assert found.certificate.gap <= 1e-8
    rates = problem.rates(found.selection)
    assert rates.risk(cost) == pytest.approx(found.certificate.objective, abs=1e-12)
    assert found.linear_constraints.violation(rates.rates) <= 1e-9
    assert np.array_equal(found.rule.selection(problem.posteriors), found.selection)
    # A ratio is right to 3e-5 wherever more than one in 1e9 is selected, a difference to 1e-9.
    for measured in constraint.measure(found.rates):
        assert np.isnan(measured.excess) or measured.excess <= (3e-5 if measured.measure == "ratio" else 1e-9)


@settings(max_examples=examples(150))
@given(problems(60), constraints, st.sampled_from([0.5, 0.3, 0.0, 1.0]))
def test_small_problems_are_solved_as_by_a_linear_program_on_all_rows(problem, constraint, cost):
    agree(problem, constraint, cost)


@settings(max_examples=examples(40))
@given(problems(1500), constraints, st.sampled_from([0.5, 0.3]))
def test_newton_with_a_few_rows_finds_the_same_optimum(problem, constraint, cost):
    before = optimize_module._SMALL
    optimize_module._SMALL = 20
    try:
        agree(problem, constraint, cost)
    finally:
        optimize_module._SMALL = before


@settings(max_examples=examples(60))
@given(st.integers(0, 2**32 - 1), st.integers(2, 300), constraints, st.booleans())
def test_known_groups_are_solved_as_by_a_linear_program(seed, n, constraint, ties):
    rng = np.random.default_rng(seed)
    M = 6
    codes, eta = rng.integers(0, M, n), rng.beta(0.7, 1.0, n)
    eta = np.round(6 * eta) / 6 if ties else eta
    dense = np.zeros((n, M, 2))
    dense[np.arange(n), codes] = np.column_stack([1 - eta, eta])
    groups = Groups.product({"A": range(2), "B": range(3)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eh.exceptions.EvenhandWarning)
        found = eh.solve(eh.GroupedScores(eta, codes, M), constraint, groups=groups, tol=1e-8)
        known = FiniteProblem(np.full(n, 1 / n), dense, groups).optimum(constraint)
    assert found.certificate.objective == pytest.approx(known.risk, abs=1e-8)
    assert found.certificate.violation <= 1e-9
