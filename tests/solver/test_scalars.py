import numpy as np
import pytest

from evenhand.solver.conflict import find_conflict
from evenhand.solver.dense import DenseRows
from evenhand.solver.grouped import GroupedRows
from evenhand.solver.optimize import Accepted, optimize
from evenhand.solver.oracle import Oracle, Problem
from evenhand.solver.partitioned import PartitionedRows, Sizes
from evenhand.solver.partitions import ThreadedPartitions
from evenhand.solver.scalars import RowsWithScalars, without_scalars

V = np.array([-0.3, 0.5, -0.2, 0.4, 0.1, -0.05])


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return DenseRows(rng.dirichlet(np.ones(4), 3000), rng.dirichlet(np.ones(3000)))


@pytest.fixture
def written_out(rows):
    """The same rows and two scalars, all of them written out."""
    matrix = np.zeros((3002, 6))
    matrix[:3000, :4] = rows.matrix
    matrix[3000:, 4:] = np.eye(2)
    return DenseRows(matrix, np.concatenate([rows.weights, [1.0, 1.0]]))


def between_groups(rows, spread, M=2):
    """Selection rates of M groups within a spread of each other; the lowest is a scalar."""
    masses = rows.weights_of(slice(None)) @ rows.take(np.arange(rows.n_rows))
    A = np.zeros((M, 2 * M + 1))
    for m in range(M):
        A[m, 2 * m : 2 * m + 2] = 1 / masses[2 * m : 2 * m + 2].sum()
    A[:, -1] = -1.0
    gain = np.concatenate([np.tile([-0.5, 0.5], M), [0.0]])
    return Problem(gain, A, np.zeros(M), np.full(M, spread), constant=0.5, scalars=1)


def test_it_implements_the_whole_protocol(rows):
    wanted = {name for name in vars(Oracle) if not name.startswith("_")} | {"most"}
    assert wanted <= set(dir(RowsWithScalars(rows, 1)))


def test_all_sums_are_those_of_rows_written_out(rows, written_out):
    extended = RowsWithScalars(rows, 2)
    for width in (1.0, 0.08, 1e-3):
        one, other = extended.smooth(V, width), written_out.smooth(V, width)
        assert one.value == pytest.approx(other.value, abs=1e-12)
        assert one.sums == pytest.approx(other.sums, abs=1e-12)
        assert one.hessian == pytest.approx(other.hessian, abs=1e-9 / width)
    one, other = extended.totals(V), written_out.totals(V)
    assert one.positive_part == pytest.approx(other.positive_part, abs=1e-12)
    assert one.sums == pytest.approx(other.sums, abs=1e-12)


def test_given_values_reach_rows_and_scalars(rows, written_out):
    extended = RowsWithScalars(rows, 2)
    near = extended.near(V, 50)
    values = np.linspace(0, 1, near.n_rows)
    found = extended.totals(V, near, values)
    known = written_out.totals(V, near, values)
    assert found.sums == pytest.approx(known.sums, abs=1e-12)
    assert len(found.selection) == 3000
    assert np.array_equal(found.selection, known.selection[:3000])
    ordinary, which = without_scalars(near, 4)
    assert which.sum() == ordinary.n_rows == near.n_rows - 2
    assert np.array_equal(ordinary.matrix, rows.matrix[ordinary.index])


@pytest.mark.parametrize("spread", [0.0, 0.05, 1.0])
@pytest.mark.parametrize("n", [300, 5000])
@pytest.mark.parametrize("kind", ["dense", "copies", "grouped", "partitioned"])
def test_groups_are_within_the_spread_at_the_optimum_of_the_full_program(kind, n, spread):
    rng = np.random.default_rng(n)
    eta, codes = rng.beta(1, 2, n), rng.integers(0, 2, n)
    P = np.zeros((n, 4))
    P[np.arange(n), 2 * codes], P[np.arange(n), 2 * codes + 1] = 1 - eta, eta
    if kind in ("dense", "partitioned"):
        P = 0.7 * P + 0.3 * rng.dirichlet(np.ones(4), n)
    if kind == "copies":
        P = P[rng.integers(0, 40, n)]
    dense = DenseRows(P, None)
    inner = {
        "grouped": GroupedRows(eta, codes, 2, None),
        "partitioned": PartitionedRows(
            ThreadedPartitions(lambda k: DenseRows(np.array_split(P, 3)[k], None), 3, 2),
            Sizes(tuple(map(len, np.array_split(P, 3))), float(n)),
        ),
    }.get(kind, dense)
    problem = between_groups(dense, spread)
    found = optimize(RowsWithScalars(inner, 1), problem, Accepted(1e-9))
    assert abs(found.certificate.gap) <= 1e-9
    assert found.certificate.violation <= 1e-9
    rates = problem.A[:, :4] @ found.totals.sums[:4]
    assert np.ptp(rates) <= spread + 1e-9
    # All pairs written out, without a scalar.
    pairs = Problem(
        problem.gain[:4], problem.A[:1, :4] - problem.A[1:, :4], np.array([-spread]), np.array([spread]), 0.5
    )
    expected = optimize(dense, pairs, Accepted(1e-9)).certificate.objective
    assert found.certificate.objective == pytest.approx(expected, abs=1e-9)


def test_bounds_with_scalars_that_nothing_meets_are_proven_impossible(rows):
    """Both rates at least 0.9 above the scalar, and the scalar at least 0.5."""
    problem = between_groups(rows, 1.0)
    A = np.vstack([problem.A, [[0.0] * 4 + [1.0]]])
    impossible = Problem(problem.gain, A, np.array([0.9, 0.9, 0.5]), np.ones(3), scalars=1)
    masses = rows.weights @ rows.matrix
    assert find_conflict(RowsWithScalars(rows, 1), impossible, masses).proven
    assert find_conflict(RowsWithScalars(rows, 1), problem, masses).possible


@pytest.mark.parametrize("value", [0.3, 1e-6], ids=["far", "near"])
def test_scalars_stay_open_however_few_rows_are_taken(rows, value):
    """A scalar has the weight of all rows together, so the sign of its h must not decide it."""
    extended, v = RowsWithScalars(rows, 2), np.concatenate([V[:4], [value, -value]])
    taken = extended.near(v, 500).near(v, 20)
    assert taken.n_rows == 22
    assert np.array_equal(taken.matrix[-2:], np.eye(6)[-2:])
    assert taken.weights[-2:].tolist() == [1.0, 1.0]
    assert taken.base[-2:].tolist() == [0.0, 0.0]
    drawn = extended.near(v, 500).sample(100)
    assert drawn.n_rows == 102
    assert np.array_equal(drawn.matrix[-2:], np.eye(6)[-2:])
    assert drawn.weights[-2:].tolist() == [1.0, 1.0]
    assert extended.near(v, 50).sample(50).n_rows == 52
