"""The optimum for several actions, against a linear program with a variable for every row and action."""

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import eye_array, kron

from evenhand.solver import action_optimum as module
from evenhand.solver.action_optimum import find_conflict, optimize_actions
from evenhand.solver.action_rows import ActionRows, on_simplex
from evenhand.solver.dense import DenseRows
from evenhand.solver.optimize import Accepted, optimize
from evenhand.solver.oracle import Problem


def random_problem(seed, n=None, weightless=0):
    """Rows with weights, a cost table, and parity of every action's rate; in a third of them with copies."""
    rng = np.random.default_rng(seed)
    M, L, K = (int(size) for size in rng.integers(2, 6, 3))
    n = int(rng.integers(20, 200)) if n is None else n
    P = rng.dirichlet(np.full(M * L, rng.choice([0.3, 1.0])), n).reshape(n, M, L)
    if seed % 3 == 0:
        P = np.round(6 * P) + 0.01
        P /= P.sum(axis=(1, 2), keepdims=True)
    weights = rng.random(n)
    weights[:weightless] = 0.0
    weights /= weights.sum()
    sizes = np.einsum("i,iml->m", weights, P)
    A = np.zeros((M, K, M, L, K))
    for m in range(M):
        for a in range(K):
            A[m, a, :, :, a] = 1.0
            A[m, a, m, :, a] -= 1 / sizes[m]
    A = A.reshape(M * K, -1)
    slack = float(rng.choice([0.0, 0.01, 0.1]))
    gain = -np.tile(rng.random((L, K)), (M, 1)).ravel()
    return P, weights, Problem(gain, A, np.full(len(A), -slack), np.full(len(A), slack)), K


def full_program(P, weights, problem, K):
    n, D = len(P), P[0].size
    rows = n * weights[:, None] * P.reshape(n, D)
    worth = np.einsum("nd,jdk->nkj", rows, problem.A.reshape(-1, D, K)).reshape(n * K, -1)
    gain = (rows @ problem.gain.reshape(D, K)).ravel()
    one = kron(eye_array(n), np.ones((1, K))).tocsr()
    limits = n * np.concatenate([problem.hi, -problem.lo])
    found = linprog(-gain, np.vstack([worth.T, -worth.T]), limits, one, np.ones(n), bounds=(0, None))
    return found.fun / n


@pytest.mark.parametrize("seed", range(40))
def test_the_optimum_is_that_of_the_full_program(seed):
    P, weights, problem, K = random_problem(seed)
    found = optimize_actions(ActionRows(P, weights, K), problem, Accepted(1e-8))
    assert abs(found.certificate.gap) < 1e-12
    assert found.certificate.violation < 1e-12
    assert found.certificate.objective == pytest.approx(full_program(P, weights, problem, K), abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_newton_and_the_program_on_all_rows_agree(seed, monkeypatch):
    P, weights, problem, K = random_problem(seed, n=400)
    by_newton = optimize_actions(ActionRows(P, weights, K), problem, Accepted(1e-8))
    monkeypatch.setattr(module, "_SMALL", 1000)
    by_program = optimize_actions(ActionRows(P, weights, K), problem, Accepted(1e-8))
    assert by_newton.certificate.objective == pytest.approx(by_program.certificate.objective, abs=1e-12)


@pytest.mark.parametrize("n", [300, 3_000, 90_000])
def test_two_actions_are_the_sign_of_their_difference(n):
    rng = np.random.default_rng(n)
    P, A = rng.dirichlet(np.ones(6), n), rng.normal(size=(3, 6))
    gain, ends = np.tile([-0.5, 0.5], 3), np.full(3, 0.01)
    binary = optimize(DenseRows(P, None), Problem(gain, A, -ends, ends), Accepted(1e-9))
    stretch = np.array([0.0, 1.0])
    several = Problem(np.kron(gain, stretch), np.kron(A, stretch), -ends, ends)
    found = optimize_actions(ActionRows(P, None, 2), several, Accepted(1e-9))
    assert found.certificate.objective == pytest.approx(binary.certificate.objective, abs=1e-12)
    assert found.multipliers == pytest.approx(binary.multipliers, abs=1e-6)


def test_smoothing_has_the_gradient_and_the_curvature_it_says():
    P, weights, problem, K = random_problem(1, n=60)
    rows, v, width = ActionRows(P, weights, K), problem.gain + 0.1 * problem.A[0], 0.5
    found, step = rows.smooth(v, width), 1e-6
    for place in (0, 3, 7):
        moved = v.copy()
        moved[place] += step
        there = rows.smooth(moved, width)
        assert (there.value - found.value) / step == pytest.approx(found.sums[place], abs=1e-5)
        assert (there.sums - found.sums) / step == pytest.approx(found.hessian[place], abs=1e-4)


def test_smoothing_of_two_actions_is_that_of_the_ramp():
    rng = np.random.default_rng(0)
    P, v = rng.dirichlet(np.ones(4), 50), rng.normal(size=4)
    ramp = DenseRows(P, None).smooth(v, 0.3)
    both = ActionRows(P, None, 2).smooth(np.kron(v, [0.0, 1.0]), 0.3)
    assert both.value == pytest.approx(ramp.value, abs=1e-12)
    assert both.sums[1::2] == pytest.approx(ramp.sums, abs=1e-12)
    assert both.hessian[1::2, 1::2] == pytest.approx(ramp.hessian, abs=1e-9)


def test_projection_onto_the_simplex_is_the_nearest_point():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 200))
    found = on_simplex(x)
    assert found.sum(axis=0) == pytest.approx(np.ones(200))
    assert found.min() >= 0
    others = rng.dirichlet(np.ones(4), 500).T
    nearest = ((x[:, :, None] - others[:, None, :]) ** 2).sum(axis=0).min(axis=1)
    assert (((x - found) ** 2).sum(axis=0) <= nearest + 1e-12).all()
    assert on_simplex(x + 1e17).sum(axis=0) == pytest.approx(np.ones(200))  # 1 is less than the rounding


def test_rows_know_the_mass_of_their_columns():
    rng = np.random.default_rng(1)
    P, weights = rng.dirichlet(np.ones(6), 300).reshape(-1, 2, 3), rng.random(300)
    rows = ActionRows(P, weights, 4)
    assert rows.masses == pytest.approx(weights @ P.reshape(300, 6))
    near = rows.near(rng.normal(size=24), 50)
    assert near.masses == pytest.approx(rows.masses)


def test_actions_that_cost_the_same_are_told_apart_by_the_second_score():
    """The third action costs what the first does: every row is tied, and none may be remembered."""
    P, weights, problem, _ = random_problem(2, n=800)
    M, L = P.shape[1:]
    cost = np.random.default_rng(0).random((L, 2))[:, [0, 1, 0]]
    sizes = np.einsum("i,iml->m", weights, P)
    A = np.zeros((M, M, L, 3))
    for m in range(M):
        A[m, :, :, 2] = 1.0
        A[m, m, :, 2] -= 1 / sizes[m]
    problem = Problem(-np.tile(cost, (M, 1)).ravel(), A.reshape(M, -1), np.zeros(M), np.zeros(M))
    capacity = np.zeros((1, M, L, 3))
    capacity[..., 2] = 1.0
    problem = Problem(
        problem.gain,
        np.vstack([problem.A, capacity.reshape(1, -1)]),
        np.append(problem.lo, 0.2),
        np.append(problem.hi, 0.3),
    )

    def score(rows):
        return -np.log(0.01 + rows.reshape(len(rows), M, L).sum(axis=1) @ (cost + np.array([0.0, 0.0, 0.1])))

    found = optimize_actions(ActionRows(P, weights, 3), problem, Accepted(1e-9, score=score))
    assert abs(found.certificate.gap) < 1e-12
    assert found.certificate.violation < 1e-12
    V = (found.tie_multipliers @ problem.A).reshape(-1, 3)
    table = problem.direction(found.multipliers).reshape(-1, 3)
    flat = P.reshape(len(P), -1)
    h, second = flat @ table, score(flat) + flat @ V
    best = np.where(h >= h.max(axis=1, keepdims=True) - 1e-9, second, -np.inf)
    chosen = found.totals.selection.dense()
    same = chosen[np.arange(len(P)), best.argmax(axis=1)] == 1.0
    assert np.count_nonzero(~same) <= len(problem.lo)  # at most one row is mixed for each bound


def test_bounds_that_contradict_each_other_are_proven_to():
    P, weights, problem, K = random_problem(4)
    D = P[0].size
    rates = np.zeros((2, D, K))
    rates[0, :, 0] = rates[1, :, 1] = 1.0
    impossible = Problem(problem.gain, rates.reshape(2, -1), np.array([0.7, 0.6]), np.ones(2))
    rows = ActionRows(P, weights, K)
    found = find_conflict(rows, impossible)
    assert found.proven
    assert found.slack == pytest.approx(0.3, abs=1e-9)
    assert (found.multipliers > 0).all()
    assert optimize_actions(rows, impossible, Accepted(1e-6)) is None
    possible = Problem(problem.gain, rates.reshape(2, -1), np.array([0.4, 0.6]), np.ones(2))
    assert find_conflict(rows, possible).possible


def test_rows_without_weight_take_their_best_action():
    P, weights, problem, K = random_problem(5, weightless=7)
    found = optimize_actions(ActionRows(P, weights, K), problem, Accepted(1e-8))
    table = problem.direction(found.multipliers).reshape(-1, K)
    best = (P[:7].reshape(7, -1) @ table).argmax(axis=1)
    assert found.totals.selection.dense()[:7].argmax(axis=1).tolist() == best.tolist()
