import numpy as np
import pytest

from evenhand.solver.conflict import find_conflict
from evenhand.solver.dense import DenseRows
from evenhand.solver.grouped import GroupedRows
from evenhand.solver.optimize import Accepted, optimize
from evenhand.solver.oracle import Oracle, Problem


def test_both_kinds_of_rows_implement_the_whole_protocol():
    wanted = {name for name in vars(Oracle) if not name.startswith("_")} | {"most"}
    for kind in (DenseRows, GroupedRows):
        assert wanted <= set(dir(kind))


class ElsewhereRows:
    """Rows that are not in memory, as far as the solver can tell: nothing but the protocol."""

    most = 10**9

    def __init__(self, rows):
        self.__rows = rows

    @property
    def n_rows(self):
        return self.__rows.n_rows

    @property
    def n_columns(self):
        return self.__rows.n_columns

    def smooth(self, v, width):
        return self.__rows.smooth(v, width)

    def sample(self, count):
        return self.__rows.sample(count)

    def near(self, v, count):
        return self.__rows.near(v, count)

    def totals(self, v, given=None, values=None):
        return self.__rows.totals(v, given, values)

    def direct(self, problem):  # noqa: ARG002
        return None

    def distinct(self):
        return None


@pytest.mark.parametrize("n", [500, 10_000, 100_000])
@pytest.mark.parametrize("ties", [False, True])
def test_an_oracle_needs_only_the_protocol(n, ties):
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(6), 40)[rng.integers(0, 40, n)] if ties else rng.dirichlet(np.ones(6), n)
    rows = DenseRows(P, rng.dirichlet(np.ones(n)))
    problem = Problem(
        np.tile([-0.5, 0.5], 3), rng.normal(size=(3, 6)), np.full(3, -0.01), np.full(3, 0.01), constant=0.5
    )
    oracle = ElsewhereRows(rows)
    found, known = optimize(oracle, problem, Accepted(1e-9)), optimize(rows, problem, Accepted(1e-9))
    assert abs(found.certificate.gap) <= 1e-9
    assert found.certificate.violation <= 1e-9
    assert found.certificate.objective == pytest.approx(known.certificate.objective, abs=1e-9)
    assert found.multipliers == pytest.approx(known.multipliers, abs=1e-6)
    assert find_conflict(oracle, problem, P.T @ rows.weights).possible


def test_known_groups_written_as_dense_rows_have_the_same_optimum():
    """Directly by thresholds, and by Newton on rows without structure."""
    rng = np.random.default_rng(1)
    n, M = 5000, 3
    eta, codes = rng.random(n), rng.integers(0, M, n)
    grouped = GroupedRows(eta, codes, M, None)
    problem = Problem(
        np.tile([-0.5, 0.5], M), rng.normal(size=(3, 2 * M)), np.full(3, -0.01), np.full(3, 0.01)
    )
    direct = grouped.direct(problem)
    assert np.array_equal(direct.totals.selection, direct.steps.selection(eta, codes))
    dense = grouped.near(problem.gain, n)
    assert dense.direct(problem) is None
    one, other = (
        optimize(grouped, problem, Accepted(1e-9)),
        optimize(ElsewhereRows(dense), problem, Accepted(1e-9)),
    )
    assert one.steps is not None
    assert other.steps is None
    assert one.certificate.objective == pytest.approx(other.certificate.objective, abs=1e-9)


def test_copies_are_collapsed_and_found_again():
    rng = np.random.default_rng(2)
    P = rng.dirichlet(np.ones(4), 7)[rng.integers(0, 7, 300)]
    weights = rng.dirichlet(np.ones(300))
    rows, kind = DenseRows(P, weights).distinct()
    assert rows.n_rows == len(np.unique(P, axis=0))
    assert np.array_equal(rows.matrix[kind], P)
    assert rows.weights.sum() == pytest.approx(1)
    assert GroupedRows(rng.random(5), np.zeros(5, int), 1, None).distinct() is None


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
