"""Problems built to be hard are solved, and their certificates hold."""

import warnings

import numpy as np
import pytest
from benchmarks.exact import FiniteProblem
from benchmarks.hostile import compare, exact_certificate, hostile_problem, shortfall
from tests.conftest import often

import evenhand as eh
from evenhand.requirements.notions import NOTIONS

# A linear program within the tolerances of HiGHS fails on these.
HARDEST = [33, 102, 123, 132, 136, 145, 154, 172, 189, 201, 245, 251, 281, 287, 358, 1085, 1398, 1706]
HARDEST += [1773, 1832, 2017, 2269, 2402, 2469, 3164]

# A bound may be broken by 1e-9, or less where few are selected: a ratio is right to this, down to one in 1e9.
RATIO_PRECISION = 3e-5


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eh.exceptions.EvenhandWarning)
        yield


@pytest.mark.parametrize("seed", often(HARDEST, 10))
def test_problems_beyond_the_tolerances_of_highs_are_solved_by_refinement(seed):
    hostile = hostile_problem(seed)
    found = hostile.solve()
    assert abs(found.certificate.gap) <= 1e-8
    assert shortfall(hostile.constraint, found) <= RATIO_PRECISION
    assert compare(hostile, found) != "is better"


@pytest.mark.parametrize("first", often(range(0, 200, 25), 3))
def test_certificates_hold_in_rational_numbers(first):
    for seed in range(first, first + 25):
        hostile = hostile_problem(seed, most_rows=60)
        found = hostile.solve()
        exact = exact_certificate(hostile, found)
        if exact is not None:
            gap, violation = exact
            # The solver widens bounds by 1e-14, which changes the objective by that times the multipliers.
            assert abs(gap) <= 1e-8 + 1e-13 * sum(map(abs, found.multipliers.values())), seed
            assert violation <= 1.1e-9, seed
        assert shortfall(hostile.constraint, found) <= RATIO_PRECISION, seed
        assert np.array_equal(found.rule.selection(hostile.rows), found.selection), seed


@pytest.mark.parametrize("notion", NOTIONS)
@pytest.mark.parametrize("ratio", [0.6, 0.9, 1.0])
def test_rates_near_0_and_1_meet_the_required_ratio(notion, ratio):
    """Errors of one kind cost so much more that the optimum is nearly constant."""
    for seed in range(8):
        problem = FiniteProblem.random(20, levels=(2, 3), seed=seed)
        for cost in (0.05, 0.95):
            constraint = notion(ratio=ratio)
            found = eh.solve(
                problem.posteriors,
                constraint,
                cost=cost,
                sample_weight=problem.weights,
                groups=problem.groups,
            )
            inner = found.selection[(found.selection > 0) & (found.selection < 1)]
            assert ((inner > 1e-13) & (inner < 1 - 1e-13)).all()
            assert shortfall(constraint, found) <= RATIO_PRECISION
            again = problem.rates(found.selection).risk(cost)
            assert again == pytest.approx(found.certificate.objective, abs=1e-12)
