import numpy as np
import pytest
from scipy.optimize import linprog

from evenhand.solver.master import mix_columns
from evenhand.solver.oracle import Problem


def random_problem(seed, *, J=3, D=4, T=6, width=0.05):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(J, D))
    return Problem(
        gain=rng.normal(size=D), A=A, lo=np.full(J, -width), hi=np.full(J, width), constant=1.0
    ), rng.random((T, D))


@pytest.mark.parametrize("seed", range(20))
def test_the_mixture_is_that_of_a_second_solver(seed):
    problem, columns = random_problem(seed)
    price, (T, J) = 3.0, (len(columns), len(problem.A))
    values = columns @ problem.A.T
    cost = np.concatenate([-columns @ problem.gain, np.full(J, price)])
    upper = np.block([[values.T, -np.eye(J)], [-values.T, -np.eye(J)]])
    sums_to_1 = np.concatenate([np.ones(T), np.zeros(J)])[None]
    second = linprog(cost, upper, np.concatenate([problem.hi, -problem.lo]), sums_to_1, [1.0])
    found = mix_columns(problem, columns, price)
    at = values.T @ found.weights
    broken = np.maximum(np.maximum(problem.lo - at, at - problem.hi), 0.0).sum()
    assert -problem.gain @ found.sums + price * broken == pytest.approx(second.fun, abs=1e-8)
    assert found.weights.sum() == pytest.approx(1.0)
    assert np.count_nonzero(found.weights) <= J + 1
    assert found.sums == pytest.approx(found.weights @ columns)


@pytest.mark.parametrize("seed", range(20))
def test_no_column_of_the_mixture_could_gain_and_those_in_it_are_level(seed):
    problem, columns = random_problem(seed)
    found = mix_columns(problem, columns, 3.0)
    gains = np.array([found.gain(problem, column) for column in columns])
    assert gains.max() == pytest.approx(0.0, abs=1e-9)
    assert gains[found.weights > 0] == pytest.approx(0.0, abs=1e-8)


def test_a_column_with_a_gain_improves_the_mixture_and_one_without_does_not():
    problem, columns = random_problem(4)
    rng, price = np.random.default_rng(0), 3.0

    def value(found):
        at = problem.A @ found.sums
        broken = np.maximum(np.maximum(problem.lo - at, at - problem.hi), 0.0).sum()
        return problem.objective(found.sums) + price * broken

    before, better, worse = mix_columns(problem, columns, price), 0, 0
    for new in rng.random((40, columns.shape[1])):
        gain = before.gain(problem, new)
        after = mix_columns(problem, np.vstack([columns, new]), price)
        better, worse = better + (gain > 1e-6), worse + (gain < -1e-6)
        assert value(after) <= value(before) + 1e-9
        assert value(before) - value(after) <= max(gain, 0.0) + 1e-9
    assert better
    assert worse


def test_scalars_are_free():
    """Two rates within 0.1 of each other, wherever they are: l <= q <= l + 0.1."""
    A = np.array([[1.0, 0.0, -1.0], [0.0, 1.0, -1.0]])
    problem = Problem(np.array([1.0, 1.0, 0.0]), A, np.zeros(2), np.full(2, 0.1), scalars=1)
    columns = np.array([[0.8, 0.75], [1.0, 0.5], [0.0, 0.0]])
    found = mix_columns(problem, columns, 10.0)
    assert found.violation == pytest.approx(0.0, abs=1e-9)
    assert np.ptp(found.sums) <= 0.1 + 1e-9
    assert found.sums.sum() > 1.5


def test_bounds_that_nothing_meets_are_broken_as_little_as_the_price_asks():
    problem = Problem(np.array([1.0]), np.array([[1.0]]), np.array([2.0]), np.array([3.0]))
    columns = np.array([[0.2], [0.7]])
    found = mix_columns(problem, columns, 10.0)
    assert found.weights == pytest.approx([0.0, 1.0])
    assert found.violation == pytest.approx(1.3)
    assert abs(found.multipliers[0]) == pytest.approx(10.0)
