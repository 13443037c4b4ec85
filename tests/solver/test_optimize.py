import numpy as np
import pytest

from evenhand.solver import optimize as module
from evenhand.solver.dense import DenseRows
from evenhand.solver.linear import Program
from evenhand.solver.optimize import Accepted, optimize
from evenhand.solver.oracle import Problem


def problem(rng, J=3, D=6):
    return Problem(np.tile([-0.5, 0.5], D // 2), rng.normal(size=(J, D)), np.full(J, -0.01), np.full(J, 0.01))


@pytest.mark.parametrize("n", [500, 30_000, 120_000])
def test_each_size_of_problem_is_proven(n):
    rng = np.random.default_rng(0)
    rows = DenseRows(rng.dirichlet(np.ones(6), n), None)
    found = optimize(rows, problem(rng), Accepted(1e-9))
    assert abs(found.certificate.gap) < 1e-12
    assert found.certificate.violation < 1e-12


def test_all_algorithms_find_the_same_optimum(monkeypatch):
    rng = np.random.default_rng(1)
    rows, task = DenseRows(rng.dirichlet(np.ones(6), 4000), None), problem(rng)
    by_newton = optimize(rows, task, Accepted(1e-9))
    monkeypatch.setattr(module, "_SMALL", 10_000)
    by_program = optimize(rows, task, Accepted(1e-9))
    monkeypatch.setattr(module, "METHODS", ("ipm",))
    by_interior_point = optimize(rows, task, Accepted(1e-9))
    for other in (by_program, by_interior_point):
        assert other.certificate.objective == pytest.approx(by_newton.certificate.objective, abs=1e-12)
        assert other.multipliers == pytest.approx(by_newton.multipliers, abs=1e-7)


def test_without_bounds_the_sign_of_the_gain_decides():
    rows = DenseRows(np.array([[0.2, 0.8], [0.7, 0.3]]), None)
    free = Problem(np.array([-0.5, 0.5]), np.empty((0, 2)), np.empty(0), np.empty(0))
    assert optimize(rows, free, Accepted(1e-9)).totals.selection.tolist() == [1.0, 0.0]


def test_nothing_unproven_is_returned(monkeypatch):
    rng = np.random.default_rng(2)
    rows, task = DenseRows(rng.dirichlet(np.ones(6), 300), None), problem(rng)
    monkeypatch.setattr(Program, "solve", lambda *_: None)
    assert optimize(rows, task, Accepted(1e-9)).certificate.gap <= 1e-9  # iterative refinement is left
    monkeypatch.setattr(Program, "refined", lambda *_: None)
    assert optimize(rows, task, Accepted(1e-9)) is None


def test_a_wrong_answer_of_the_linear_program_is_rejected(monkeypatch):
    rng = np.random.default_rng(3)
    rows, task = DenseRows(rng.dirichlet(np.ones(6), 300), None), problem(rng)
    solve = Program.solve

    def wrong(self, method="simplex"):
        answer = solve(self, method)
        answer.duals[:] *= 1.1
        return answer

    monkeypatch.setattr(Program, "solve", wrong)
    assert optimize(rows, task, Accepted(1e-9)).certificate.gap <= 1e-9
    monkeypatch.setattr(Program, "refined", lambda *_: None)
    assert optimize(rows, task, Accepted(1e-9)) is None


def test_a_bound_on_a_rare_group_is_not_noise():
    """Its entries are as large as the group is rare, but <A, p> has enough digits all the same."""
    rng = np.random.default_rng(5)
    rare = 1e-10 * (0.5 + 1e-5 * rng.random((60, 1)))
    rows = DenseRows(np.hstack([rare, 1 - rare]), None)
    mean = rows.matrix.mean(axis=0)
    task = Problem(
        np.array([0.0, 1.0]), np.array([[1 / mean[0], -1 / mean[1]]]), np.array([-1e-9]), np.array([1e-9])
    )
    assert np.array_equal(module.without_noise(rows, task).A, task.A)
    noise = Problem(task.gain, np.array([[1 / mean[0], 0.0], [0.0, 0.0]]), np.zeros(2), np.ones(2))
    assert np.array_equal(module.without_noise(rows, noise).A, noise.A)
