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
