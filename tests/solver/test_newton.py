import numpy as np
import pytest
from scipy.optimize import minimize

from evenhand.solver.dense import DenseRows
from evenhand.solver.newton import descend
from evenhand.solver.oracle import Problem


@pytest.fixture
def setting():
    rng = np.random.default_rng(0)
    rows = DenseRows(rng.dirichlet(np.ones(6), 3000), None)
    A = rng.normal(size=(4, 6))
    problem = Problem(np.tile([-0.5, 0.5], 3), A, np.full(4, -0.03), np.full(4, 0.03))
    return rows, problem


def test_the_smoothed_dual_is_minimised(setting):
    rows, problem = setting
    width = 0.05

    def dual(lam):
        return rows.smooth(problem.direction(lam), width).value + problem.penalty(lam)

    found = descend(rows, problem, np.zeros(4), width=width, precision=1e-13)
    other = min(minimize(dual, start, method="Powell").fun for start in (np.zeros(4), found.point + 0.1))
    assert dual(found.point) <= other + 1e-9
    assert not found.stopped


def test_a_multiplier_of_zero_has_a_slope_within_its_bounds(setting):
    rows, problem = setting
    lam = descend(rows, problem, np.zeros(4), width=0.05, precision=1e-14).point
    slope = problem.A @ rows.smooth(problem.direction(lam), 0.05).sums
    assert slope[lam > 0] == pytest.approx(problem.lo[lam > 0], abs=1e-6)
    assert slope[lam < 0] == pytest.approx(problem.hi[lam < 0], abs=1e-6)
    assert (np.abs(slope) <= 0.03 + 1e-6).all()


def test_a_descent_ends_where_its_rows_no_longer_represent_all(setting):
    rows, problem = setting
    found = descend(
        rows,
        problem,
        np.zeros(4),
        width=0.05,
        precision=1e-12,
        trusted=lambda v: bool(np.abs(v - problem.gain).max() < 1e-3),
    )
    assert found.stopped
    assert np.abs(found.point).max() > 0
    assert np.abs(problem.direction(found.point) - problem.gain).max() < 1e-3
