"""Rows in strata against the same rows written out in the columns of all strata."""

import numpy as np
import pytest

from evenhand.solver.dense import DenseRows
from evenhand.solver.optimize import Accepted, optimize
from evenhand.solver.oracle import Oracle, Problem
from evenhand.solver.scalars import RowsWithScalars
from evenhand.solver.stratified import StratifiedRows, optimize_in_strata

L, WIDTH = 3, 4


def make(n, *, weighted=True, seed=0, rounded=False):
    rng = np.random.default_rng(seed)
    p, strata = rng.dirichlet(np.ones(WIDTH), n), rng.integers(0, L, n)
    if rounded:
        p = np.round(6 * p) / 6 + 0.01
        p /= p.sum(axis=1, keepdims=True)
    weights = rng.dirichlet(np.ones(n)) if weighted else None
    matrix = np.zeros((n, L, WIDTH))
    matrix[np.arange(n), strata] = p
    return StratifiedRows.sorted(p, strata, L, weights), DenseRows(matrix.reshape(n, -1), weights)


def parity(rows, joined=()):
    """Selection rates of two groups equal in each stratum; `joined` strata also have equal rates."""
    masses = rows.weights_of(slice(None)) @ rows.matrix
    A = []
    for k in range(L):
        row = np.zeros((L, 2, 2))
        own = masses.reshape(L, 2, 2)[k].sum(axis=1)
        row[k] = (np.array([1.0, -1.0]) / own)[:, None]
        A.append(row.ravel())
    for k, j in joined:
        row = np.zeros((L, 2, 2))
        row[k], row[j] = (sign / masses.reshape(L, 4)[m].sum() for sign, m in ((1.0, k), (-1.0, j)))
        A.append(row.ravel())
    A = np.array(A)
    gain = np.tile([-0.5, 0.5], 2 * L)
    return Problem(gain, A, np.full(len(A), -0.01), np.full(len(A), 0.01), constant=0.5)


def test_it_implements_the_whole_protocol():
    wanted = {name for name in vars(Oracle) if not name.startswith("_")} | {"most"}
    assert wanted <= set(dir(make(5)[0]))


@pytest.mark.parametrize("weighted", [True, False])
def test_all_sums_are_those_of_rows_written_out(weighted):
    rows, written_out = make(2000, weighted=weighted)
    v = np.random.default_rng(1).normal(size=L * WIDTH)
    for width in (1.0, 0.08, 1e-3):
        one, other = rows.smooth(v, width), written_out.smooth(v, width)
        assert one.value == pytest.approx(other.value, abs=1e-12)
        assert one.sums == pytest.approx(other.sums, abs=1e-12)
        assert one.hessian == pytest.approx(other.hessian, abs=1e-9 / width)
    one, other = rows.totals(v), written_out.totals(v)
    assert one.positive_part == pytest.approx(other.positive_part, abs=1e-12)
    assert one.sums == pytest.approx(other.sums, abs=1e-12)
    assert (one.selection == other.selection).all()  # in the order that rows were given in


def test_rows_near_the_boundary_are_the_same_and_keep_their_place():
    rows, written_out = make(500)
    v = np.random.default_rng(1).normal(size=L * WIDTH)
    near, other = rows.near(v, 40), written_out.near(v, 40)
    assert near.n_rows == other.n_rows == 40
    assert sorted(map(tuple, near.matrix)) == sorted(map(tuple, other.matrix))
    assert near.base == pytest.approx(other.base, abs=1e-12)
    values = np.linspace(0.0, 1.0, 40)
    found = rows.totals(v, near, values)
    place = {tuple(row): k for k, row in enumerate(written_out.matrix)}
    for row, value in zip(near.matrix, values, strict=True):
        assert found.selection[place[tuple(row)]] == value
    again = near.near(v, 10)
    assert (np.abs(again.scores(v)) <= np.abs(near.scores(v)).max()).all()
    assert (again.matrix == rows.take(again.index)).all()


def test_a_sample_stands_for_all_rows():
    rows, _ = make(3000, weighted=False)
    sample = rows.sample(300)
    assert sample.n_rows == 300
    assert sample.weights_of(slice(None)).sum() == pytest.approx(1.0)
    assert rows.sample(5000) is rows


def test_copies_are_collapsed_within_their_stratum():
    rows, written_out = make(3000, rounded=True)
    few, kind = rows.distinct()
    assert few.n_rows == len(np.unique(written_out.matrix, axis=0))
    assert few.weights.sum() == pytest.approx(1.0)
    values = np.random.default_rng(2).random(few.n_rows)
    v = np.random.default_rng(1).normal(size=L * WIDTH)
    found = rows.totals(v, rows, values[kind])
    known = {tuple(row): value for row, value in zip(few.matrix, values, strict=True)}
    expected = np.array([known[tuple(row)] for row in written_out.matrix])
    assert (found.selection == expected).all()


@pytest.mark.parametrize("n", [300, 5000])
@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize(
    "joined", [(), ((0, 2),), ((0, 1), (1, 2))], ids=["apart", "two joined", "all joined"]
)
def test_strata_apart_and_together_have_the_optimum_of_rows_written_out(n, rounded, joined):
    rows, written_out = make(n, rounded=rounded)
    problem = parity(written_out, joined)
    found = optimize_in_strata(rows, problem, Accepted(1e-9))
    expected = optimize(written_out, problem, Accepted(1e-9))
    assert found.certificate.objective == pytest.approx(expected.certificate.objective, abs=1e-9)
    assert abs(found.certificate.gap) <= 1e-9
    assert found.certificate.violation <= 1e-9
    sums = (written_out.weights * found.totals.selection) @ written_out.matrix
    assert sums == pytest.approx(found.totals.sums, abs=1e-12)


def test_scalars_belong_to_their_strata():
    rows, written_out = make(4000)
    A = parity(written_out).A
    # Rates of the two groups of a stratum within 0.02 of each other, the lowest of them a scalar.
    masses = (written_out.weights @ written_out.matrix).reshape(L, 2, 2)
    bounds = np.zeros((2 * L, L * WIDTH + L))
    for k in range(L):
        for m in range(2):
            block = np.zeros((L, 2, 2))
            block[k, m] = 1 / masses[k, m].sum()
            bounds[2 * k + m, : L * WIDTH] = block.ravel()
            bounds[2 * k + m, L * WIDTH + k] = -1.0
    gain = np.concatenate([np.tile([-0.5, 0.5], 2 * L), np.zeros(L)])
    problem = Problem(gain, bounds, np.zeros(2 * L), np.full(2 * L, 0.02), constant=0.5, scalars=L)
    found = optimize_in_strata(RowsWithScalars(rows, L), problem, Accepted(1e-9))
    expected = optimize(RowsWithScalars(written_out, L), problem, Accepted(1e-9))
    assert found.certificate.objective == pytest.approx(expected.certificate.objective, abs=1e-9)
    assert (np.abs(A @ found.totals.sums[: L * WIDTH]) <= 0.02 + 1e-9).all()


def test_an_empty_stratum_and_one_without_weight_do_no_harm():
    rng = np.random.default_rng(0)
    p, strata = rng.dirichlet(np.ones(WIDTH), 900), np.repeat([0, 2], 450)  # nobody is in stratum 1
    weights = np.where(strata == 2, 0.0, 1 / 450)
    rows = StratifiedRows.sorted(p, strata, L, weights)
    A = np.zeros((1, L * WIDTH))
    A[0, :WIDTH] = [2.0, 2.0, -2.0, -2.0]
    problem = Problem(np.tile([-0.5, 0.5], 2 * L), A, np.array([-0.01]), np.array([0.01]), constant=0.5)
    found = optimize_in_strata(rows, problem, Accepted(1e-9))
    alone = optimize(
        DenseRows(p[:450], None),
        Problem(problem.gain[:4], A[:, :4], *(np.array([e]) for e in (-0.01, 0.01)), constant=0.5),
        Accepted(1e-9),
    )
    assert found.certificate.objective == pytest.approx(alone.certificate.objective, abs=1e-9)
