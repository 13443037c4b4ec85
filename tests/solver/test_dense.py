import numpy as np
import pytest

from evenhand.solver.dense import DenseRows, nearest, spread, tie_width


@pytest.fixture
def rows() -> DenseRows:
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(40_000))
    return DenseRows(rng.dirichlet(np.ones(6), 40_000).reshape(-1, 3, 2), weights)


V = np.array([-0.5, 0.5, -0.4, 0.6, -0.3, 0.2])


def test_smoothed_sums_are_those_of_their_definition(rows):
    P, w, width = rows.matrix, rows.weights, 0.05
    h = P @ V
    z = np.clip((h + width) / (2 * width), 0, 1)
    phi = np.where(z < 1, width * z**2, h)
    near = P[np.abs(h) < width]
    found = rows.smooth(V, width)
    assert found.value == pytest.approx(w @ phi)
    assert found.sums == pytest.approx((w * z) @ P)
    assert found.hessian == pytest.approx((near * w[np.abs(h) < width, None]).T @ near / (2 * width))


def test_gradient_and_hessian_are_derivatives(rows):
    step = 1e-5 * np.random.default_rng(1).normal(size=6)
    here, there = rows.smooth(V, 0.05), rows.smooth(V + step, 0.05)
    assert there.value - here.value == pytest.approx((here.sums + there.sums) @ step / 2, rel=1e-5)
    assert there.sums - here.sums == pytest.approx(here.hessian @ step, rel=2e-2)


def test_near_rows_represent_all_while_the_others_keep_their_sides(rows):
    near = rows.near(V, 4000)
    nearer = near.near(V, 500)
    moved = V + 1e-4
    for few in (near, nearer):
        assert few.smooth(moved, 1e-4).value == pytest.approx(rows.smooth(moved, 1e-4).value, rel=1e-12)
        assert few.smooth(moved, 1e-4).sums == pytest.approx(rows.smooth(moved, 1e-4).sums, rel=1e-12)
    assert np.array_equal(rows.matrix[nearer.index], nearer.matrix)


def test_totals_take_given_values(rows):
    index, values = np.array([3, 7]), np.array([0.25, 0.75])
    totals = rows.totals(V, DenseRows(rows.take(index), None, index=index), values)
    h = rows.matrix @ V
    f = (h > 0).astype(float)
    f[index] = values
    assert totals.positive_part == pytest.approx(rows.weights @ np.maximum(h, 0), rel=1e-14)
    assert totals.sums == pytest.approx((rows.weights * f) @ rows.matrix, rel=1e-13)
    assert np.array_equal(totals.selection, f)
    assert totals.ties == 0


def test_ties_outside_the_given_rows_are_counted():
    P = np.array([[0.5, 0.5], [0.5, 0.5], [0.2, 0.8]])
    given = DenseRows(P[:1], None)
    totals = DenseRows(P, None).totals(np.array([-1.0, 1.0]), given, np.array([0.3]))
    assert totals.ties == 1


def test_float32_rows_are_summed_in_double_precision():
    P = np.random.default_rng(0).dirichlet(np.ones(4), 50_000).astype(np.float32)
    assert DenseRows(P, None).smooth(np.ones(4), 0.1).sums == pytest.approx(
        P.astype(np.float64).mean(axis=0), rel=1e-13
    )


def test_a_sample_is_the_same_every_time_and_has_the_right_mass(rows):
    assert np.array_equal(rows.sample(1000).rows, rows.sample(1000).rows)
    assert rows.sample(10_000).weights.sum() == pytest.approx(1, abs=0.05)
    assert rows.sample(40_000) is rows
    index = spread(1_000_003, 999)
    assert len(np.unique(index)) == 999
    assert index.max() < 1_000_003


def test_ties_with_the_last_row_are_taken_too():
    assert nearest(np.array([0.0, 0.5, -0.5, 0.5, 2.0]), 2).tolist() == [0, 1, 2, 3]


def test_the_tie_width_grows_with_the_direction():
    assert tie_width(np.array([100.0])) == 100 * tie_width(np.array([0.5]))
