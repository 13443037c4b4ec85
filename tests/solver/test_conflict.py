import numpy as np

from evenhand.solver.conflict import find_conflict
from evenhand.solver.dense import DenseRows
from evenhand.solver.oracle import Problem


def problem(lo, hi):
    """Bounds on the sums of each of two columns that always sum to the share of selected rows."""
    return Problem(np.zeros(2), np.eye(2), np.array(lo), np.array(hi))


ROWS = DenseRows(np.random.default_rng(0).dirichlet(np.ones(2), 500), None)
MASSES = ROWS.matrix.mean(axis=0)


def test_bounds_that_a_constant_meets_are_not_in_conflict():
    found = find_conflict(ROWS, problem([0.1, 0.1], [0.4, 0.4]), MASSES)
    assert found.possible
    assert not found.proven


def test_bounds_that_only_a_selection_meets_are_not_in_conflict():
    found = find_conflict(ROWS, problem([0.30, 0.0], [0.31, 0.1]), MASSES)
    assert found.possible
    assert not found.proven


def test_a_conflict_is_proven_and_its_bounds_are_identified():
    found = find_conflict(ROWS, problem([0.45, 0.0], [0.46, 0.1]), MASSES)
    assert found.proven
    assert not found.possible
    assert (found.multipliers != 0).all()
    one = find_conflict(ROWS, problem([0.0, 0.9], [1.0, 1.0]), MASSES).multipliers
    assert one[0] == 0
    assert one[1] > 0
