import numpy as np
import pytest

from evenhand.solver.dense import DenseRows
from evenhand.solver.finish import finish
from evenhand.solver.oracle import Problem


def test_equal_rows_are_treated_alike():
    P = np.repeat([[0.3, 0.7], [0.6, 0.4]], 10, axis=0)
    problem = Problem(np.array([-0.5, 0.5]), np.array([[1.0, 1.0]]), np.array([0.0]), np.array([0.3]))
    done = finish(DenseRows(P, None), problem, price=1e3)
    assert done.selection == pytest.approx([0.6] * 10 + [0.0] * 10)
    assert done.slack == 0
    # The bound on the share of selected rows binds, and its multiplier makes h of the first kind 0.
    assert problem.direction(done.multipliers) @ [0.3, 0.7] == pytest.approx(0, abs=1e-15)


def test_too_few_rows_show_in_the_slack():
    P = np.array([[0.3, 0.7]])
    problem = Problem(np.array([-0.5, 0.5]), np.array([[1.0, 1.0]]), np.array([0.0]), np.array([0.3]))
    few = DenseRows(P, np.array([0.1]), base=np.array([0.2, 0.4]))
    assert finish(few, problem, price=1e3).slack == pytest.approx(0.3)


@pytest.mark.parametrize("settings", [{"price": 1e3}, {"tolerance": 1e-9}], ids=["plain", "refined"])
def test_rows_without_weight_are_decided_by_their_sign(settings):
    """The program says nothing of them, and what it happens to answer would become a part of the rule."""
    P = np.random.default_rng(0).dirichlet(np.ones(2), 60)
    weights = np.where(np.arange(60) < 30, 1 / 30, 0.0)
    problem = Problem(np.array([-0.5, 0.5]), np.ones((1, 2)), np.array([0.3]), np.array([0.3]))
    done = finish(DenseRows(P, weights), problem, **settings)
    h = P @ problem.direction(done.multipliers)
    assert (done.selection[30:] == (h[30:] > 0)).all()
    assert done.selection[30:].any()
    assert weights @ done.selection == pytest.approx(0.3)
