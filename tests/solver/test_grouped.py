import numpy as np
import pytest

from evenhand.solver.dense import DenseRows
from evenhand.solver.grouped import GroupedRows


@pytest.fixture(params=["plain", "weighted", "ties"])
def both(request):
    """The same rows as scores of known groups, and with all their entries."""
    rng = np.random.default_rng(1)
    n, M = 5000, 3
    eta, codes = rng.random(n), rng.integers(0, M, n)
    if request.param == "ties":
        eta = np.round(eta * 4) / 4
    weights = rng.dirichlet(np.ones(n)) if request.param == "weighted" else None
    grouped = GroupedRows(eta, codes, M, weights)
    full = np.zeros((n, M, 2))
    full[np.arange(n), codes] = np.column_stack([1 - eta, eta])
    return grouped, DenseRows(full, weights)


@pytest.mark.parametrize("width", [1.0, 0.093, 1e-3])
def test_sums_equal_those_of_dense_rows(both, width):
    grouped, dense = both
    for v in (np.array([-0.5, 0.5, 0.4, -0.6, -0.3, 0.2]), np.zeros(6), np.array([0.1, 0.1] * 3)):
        one, other = grouped.smooth(v, width), dense.smooth(v, width)
        assert one.value == pytest.approx(other.value, abs=1e-12)
        assert one.sums == pytest.approx(other.sums, abs=1e-12)
        assert one.hessian == pytest.approx(other.hessian, abs=1e-9 / width)


def test_near_rows_and_totals_equal_those_of_dense_rows(both):
    grouped, dense = both
    v = np.array([-0.5, 0.5, 0.4, -0.6, -0.3, 0.2])
    one, other = grouped.near(v, 100), dense.near(v, 100)
    assert np.array_equal(one.index, other.index)
    assert np.array_equal(one.matrix, other.matrix)
    assert one.base == pytest.approx(other.base)
    given, values = dense.near(v, 3), np.array([0.1, 0.2, 0.3])
    values = np.resize(values, given.n_rows)
    totals, expected = grouped.totals(v, given, values), dense.totals(v, given, values)
    assert totals.sums == pytest.approx(expected.sums)
    assert totals.positive_part == pytest.approx(expected.positive_part)
    assert totals.ties == expected.ties
    assert np.array_equal(grouped.sample(50).matrix, dense.sample(50).matrix)
