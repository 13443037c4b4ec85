"""Rows with h = 0 are decided by a second score."""

import numpy as np
import pytest

from evenhand.solver.dense import DenseRows, is_tie
from evenhand.solver.optimize import Accepted, optimize
from evenhand.solver.oracle import Problem

RATES = np.array([0.3, 0.5])


def region(n, seed=0):
    """Two kinds of rows with their own columns; both rates of the second kind are fixed, so h = 0 there."""
    rng = np.random.default_rng(seed)
    eta, second = rng.uniform(0.02, 0.98, n), np.arange(n) % 2 == 1
    rows = np.zeros((n, 4))
    rows[~second, :2] = np.column_stack([1 - eta, eta])[~second]
    rows[second, 2:] = np.column_stack([1 - eta, eta])[second]
    masses = rows.mean(axis=0)
    A = np.diag(1 / masses)[2:]
    return DenseRows(rows, None), Problem(np.array([-0.5, 0.5] * 2), A, RATES, RATES, constant=0.25)


def log_odds(rows):
    eta = rows[:, 1::2].sum(axis=1)
    return np.log(eta / (1 - eta))


@pytest.mark.parametrize("n", [60, 1000, 6000])
def test_of_all_optima_the_one_that_a_second_score_decides(n):
    rows, problem = region(n)
    any_optimum = optimize(rows, problem, Accepted(1e-6))
    found = optimize(rows, problem, Accepted(1e-6, score=log_odds))
    assert found.certificate.objective == pytest.approx(any_optimum.certificate.objective, abs=1e-9)
    assert found.certificate.violation < 1e-9
    assert abs(found.certificate.gap) < 1e-6

    v = problem.direction(found.multipliers)
    assert is_tie(rows.matrix @ v, rows.matrix, v).sum() >= n // 2  # the whole second kind
    V = found.tie_multipliers @ problem.A
    decided = np.where(np.arange(n) % 2 == 1, log_odds(rows.matrix) + rows.matrix @ V, rows.matrix @ v) > 0
    assert (found.totals.selection != decided).sum() <= 2  # as many as bounds
    assert found.totals.selection @ log_odds(rows.matrix) >= any_optimum.totals.selection @ log_odds(
        rows.matrix
    )


def test_the_choice_does_not_depend_on_the_order_of_rows_and_columns():
    rows, problem = region(500)
    order = np.random.default_rng(1).permutation(500)
    columns = np.array([2, 3, 0, 1])
    turned = DenseRows(rows.matrix[order][:, columns], None)
    again = Problem(problem.gain[columns], problem.A[:, columns], problem.lo, problem.hi, constant=0.25)
    found, other = (
        optimize(*each, Accepted(1e-6, score=log_odds)) for each in ((rows, problem), (turned, again))
    )
    np.testing.assert_allclose(other.totals.selection, found.totals.selection[order], atol=1e-7)


def test_without_ties_nothing_changes():
    rows, problem = region(500)
    loose = Problem(problem.gain, problem.A, RATES - 2, RATES + 2, constant=0.25)
    assert optimize(rows, loose, Accepted(1e-6, score=log_odds)).tie_multipliers is None
