import numpy as np
import pytest

from evenhand.solver.program import Problem

PROBLEM = Problem(
    np.array([-0.5, 0.5]), np.array([[1.0, 2.0]]), np.array([-0.1]), np.array([0.3]), constant=0.25
)


def test_bound_objective_and_violation():
    assert PROBLEM.direction(np.array([2.0])).tolist() == [1.5, 4.5]
    assert PROBLEM.penalty(np.array([2.0])) == pytest.approx(0.2)
    assert PROBLEM.penalty(np.array([-2.0])) == pytest.approx(0.6)
    assert PROBLEM.objective(np.array([0.2, 0.4])) == pytest.approx(0.15)
    assert PROBLEM.bound(np.array([2.0]), 0.7) == pytest.approx(0.25 - 0.7 - 0.2)
    assert PROBLEM.violation(np.array([0.2, 0.4])) == pytest.approx(0.7)
    assert PROBLEM.violation(np.array([0.1, 0.05])) == 0


def test_scaling_a_bound_divides_its_multiplier():
    scaled = PROBLEM.scaled(np.array([4.0]))
    assert scaled.direction(np.array([0.5])) == pytest.approx(PROBLEM.direction(np.array([2.0])))
    assert scaled.penalty(np.array([0.5])) == pytest.approx(PROBLEM.penalty(np.array([2.0])))
