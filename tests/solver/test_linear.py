from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from evenhand.solver.linear import METHODS, Program


@pytest.mark.parametrize("method", METHODS)
def test_values_and_multipliers_are_those_of_another_solver(method):
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(60, 4))
    cost = rng.normal(size=60)
    program = Program(cost, matrix, np.full(4, -0.1), np.full(4, 0.1), elastic=4, price=1e3)
    answer = program.solve(method)
    other = linprog(cost, A_ub=np.vstack([matrix.T, -matrix.T]), b_ub=np.full(8, 0.1), bounds=(0, 1))
    assert cost @ answer.values == pytest.approx(other.fun, abs=1e-9)
    assert not answer.slack.any()
    reduced = cost - matrix @ answer.duals
    assert np.abs(reduced[(answer.values > 0) & (answer.values < 1)]).max() < 1e-12
    assert np.abs(answer.values @ matrix).max() <= 0.1 + 1e-14


def test_bounds_that_cannot_be_met_are_broken_at_a_price():
    program = Program(np.zeros(2), np.ones((2, 1)), np.array([3.0]), np.array([4.0]), elastic=1, price=10.0)
    answer = program.solve()
    assert answer.slack == pytest.approx([1.0])
    assert abs(answer.duals[0]) == pytest.approx(10.0)


def test_an_infeasible_program_has_no_answer():
    program = Program(np.zeros(2), np.ones((2, 1)), np.array([3.0]), np.array([4.0]), elastic=0, price=1.0)
    assert program.solve() is None


def knapsack(sizes, worth, capacity):
    """Exact optimum: the best items per size, in rational numbers; also the price of capacity."""
    left, x = Fraction(capacity), [Fraction(0)] * len(sizes)
    rates = [Fraction(value) / Fraction(size) for value, size in zip(worth, sizes, strict=True)]
    for i in sorted(range(len(sizes)), key=lambda i: -rates[i]):
        x[i] = min(Fraction(1), left / Fraction(sizes[i]))
        left -= x[i] * Fraction(sizes[i])
        if left == 0:
            return x, rates[i]
    return x, Fraction(0)


@pytest.mark.parametrize("seed", range(8))
def test_knapsacks_over_twelve_orders_of_magnitude_are_filled_to_the_last_digit(seed):
    rng = np.random.default_rng(seed)
    sizes = 10.0 ** rng.uniform(-12, 0, 40)
    worth = sizes * rng.uniform(0.5, 2.0, 40)
    capacity = float(rng.uniform(0.1, 0.9) * sizes.sum())
    exact, price = knapsack(sizes.tolist(), worth.tolist(), capacity)
    answer = Program(-worth, sizes[:, None], np.zeros(1), np.array([capacity]), 0, 0.0).refined()
    x, duals = answer.values, answer.duals
    assert x == pytest.approx([float(value) for value in exact], rel=1e-13, abs=0)
    assert duals == pytest.approx([-float(price)], rel=1e-14)
    used = sum(Fraction(float(value)) * Fraction(size) for value, size in zip(x, sizes.tolist(), strict=True))
    assert abs(float(used - Fraction(capacity))) <= 4e-16


def test_two_bounds_that_nearly_coincide_are_distinguished():
    """x + y <= 1 and x + (1 + d) y <= 1 + d / 2 meet at y = 1/2, known to 1e-4 where bounds hold to 1e-10."""
    d = 2.0**-20
    matrix, upper = np.array([[1.0, 1.0], [1.0, 1.0 + d]]), np.array([1.0, 1.0 + d / 2])
    answer = Program(np.array([-1.0, -1.0 - d / 3]), matrix, np.full(2, -9.0), upper, 0, 0.0).refined()
    assert answer.values == pytest.approx([0.5, 0.5], abs=1e-15)
    assert answer.duals == pytest.approx([-2 / 3, -1 / 3], rel=1e-9)  # as far as the cost itself is rounded


def test_an_infeasible_program_cannot_be_refined():
    program = Program(np.ones(2), np.ones((2, 1)), np.array([3.0]), np.array([4.0]), 0, 0.0)
    assert program.refined() is None
