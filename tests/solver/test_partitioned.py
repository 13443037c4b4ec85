"""Rows in partitions give what the same rows in memory give."""

import random
import time
import warnings
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import examples

import evenhand as eh
from evenhand.exceptions import CertificateError
from evenhand.solver import dense, optimize, partitioned
from evenhand.solver.dense import DenseRows
from evenhand.solver.oracle import Oracle, Problem
from evenhand.solver.partitioned import PartitionedRows, Sizes
from evenhand.solver.partitions import ThreadedPartitions

DIRECTIONS = [np.array([-0.5, 0.5, 0.4, -0.6, -0.3, 0.2]), np.zeros(6), np.array([0.1, 0.1] * 3)]


def cut(P, weights, count, seed=0):
    """Rows cut at random, so that some partitions are empty."""
    ends = np.random.default_rng(seed).integers(0, len(P) + 1, count - 1)
    ends = [0, *sorted(ends.tolist()), len(P)]

    def load(k):
        where = slice(ends[k], ends[k + 1])
        return DenseRows(P[where], None if weights is None else weights[where])

    n_groups = P.shape[1] if P.ndim == 3 else P.shape[1] // 2
    return ThreadedPartitions(load, count, n_groups, weighted=weights is not None, threads=2)


def oracle(P, weights, count):
    parts = cut(P, weights, count)
    sizes = parts.map(lambda part: part.n_rows)
    return PartitionedRows(parts, Sizes(tuple(sizes), len(P) if weights is None else weights.sum()))


@pytest.fixture(params=["plain", "weighted", "zero weights", "ties", "float32"])
def both(request):
    """The same rows in memory and in partitions."""
    rng = np.random.default_rng(1)
    n = 5000
    P = rng.dirichlet(np.ones(6), n)
    if request.param == "ties":
        P = P[rng.integers(0, 50, n)]
    if request.param == "float32":
        P = P.astype(np.float32)
    weights = {"weighted": 3 * rng.random(n), "zero weights": 1.0 * (rng.random(n) < 0.5)}.get(request.param)
    dense = DenseRows(P, None if weights is None else weights / weights.sum())
    return dense, oracle(P, weights, 7)


def test_it_implements_the_whole_protocol():
    wanted = {name for name in vars(Oracle) if not name.startswith("_")} | {"most"}
    parts = cut(np.full((3, 2), 0.5), None, 2)
    assert wanted <= set(dir(PartitionedRows(parts, Sizes((1, 2), 3.0))))


@pytest.mark.parametrize("v", DIRECTIONS, ids=["between", "zero", "all"])
def test_sums_are_those_of_rows_in_memory(both, v):
    dense, parts = both
    assert (parts.n_rows, parts.n_columns) == (dense.n_rows, dense.n_columns)
    for width in (1.0, 0.05, 1e-3):
        one, other = parts.smooth(v, width), dense.smooth(v, width)
        assert one.value == pytest.approx(other.value, abs=1e-12)
        assert one.sums == pytest.approx(other.sums, abs=1e-12)
        assert one.hessian == pytest.approx(other.hessian, abs=1e-11 / width)


def test_a_sample_is_the_same_rows(both):
    dense, parts = both
    for count in (1, 50, 5000, 6000):
        one, other = parts.sample(count), dense.sample(count)
        assert np.array_equal(one.matrix, other.matrix)
        assert one.weights_of(slice(None)) == pytest.approx(other.weights_of(slice(None)))
    assert parts.sample(50) is parts.sample(50)


@pytest.mark.parametrize("count", [1, 30, 1000, 4999, 5000])
def test_the_nearest_rows_are_all_rows_up_to_a_distance_with_copies_as_one(both, count):
    dense, parts = both
    v = DIRECTIONS[0]
    near = parts.near(v, count)
    size = np.abs(dense.scores(v))
    inside = size <= np.abs(near.scores(v)).max() + 1e-12
    assert 0.9 * count <= np.count_nonzero(inside)
    assert near.n_rows <= 1.1 * count + 1
    assert_same_rows(near, DenseRows(dense.matrix[inside], dense.weights_of(inside)))
    expected = dense.near(v, np.count_nonzero(inside))
    assert near.base == pytest.approx(expected.base)


def assert_same_rows(one, other):
    """The same distinct rows, with the same weights."""
    rows, kind = np.unique(other.matrix, axis=0, return_inverse=True)
    order = np.lexsort(one.matrix.T[::-1])
    assert np.array_equal(one.matrix[order], rows)
    assert one.weights[order] == pytest.approx(np.bincount(kind.ravel(), other.weights_of(slice(None))))


def test_totals_are_the_same_with_and_without_given_rows(both):
    dense, parts = both
    v = DIRECTIONS[0]
    assert_totals_agree(parts.totals(v), dense.totals(v))
    there = parts.near(v, 40)
    here = dense.near(v, np.count_nonzero(np.abs(dense.scores(v)) <= np.abs(there.scores(v)).max() + 1e-12))
    values = np.linspace(0, 1, there.n_rows)
    place = {row.tobytes(): value for row, value in zip(there.matrix, values, strict=True)}
    in_memory = np.array([place[row.tobytes()] for row in here.matrix])
    # Also at another direction, where further rows are between those given.
    for direction in (v, v + 0.01 * DIRECTIONS[2], DIRECTIONS[1]):
        one, other = parts.totals(direction, there, values), dense.totals(direction, here, in_memory)
        assert_totals_agree(one, other)


def assert_totals_agree(one, other):
    assert np.array_equal(np.asarray(one.selection), other.selection)
    assert one.sums == pytest.approx(other.sums, abs=1e-12)
    assert one.positive_part == pytest.approx(other.positive_part, abs=1e-12)
    assert one.ties == other.ties


def test_copies_are_collapsed_over_partitions_and_decided_alike():
    rng = np.random.default_rng(2)
    P = rng.dirichlet(np.ones(4), 7)[rng.integers(0, 7, 300)]
    weights = rng.random(300)
    rows, (other, kind) = oracle(P, weights, 7), DenseRows(P, weights / weights.sum()).distinct()
    one = rows.near(np.ones(4), 300)
    assert_same_rows(one, other)
    assert rows.distinct() is None
    selection = other.matrix[:, 0][kind]  # a number of each kind of row
    whole = DenseRows(P, weights / weights.sum())
    assert_totals_agree(
        rows.totals(np.ones(4), one, one.matrix[:, 0]), whole.totals(np.ones(4), whole, selection)
    )


@pytest.mark.parametrize(("kind", "solved"), [("atoms", True), ("smooth", False)])
def test_however_many_rows_are_copies_of_few_a_program_of_all_is_small(monkeypatch, kind, solved):
    monkeypatch.setattr(optimize, "_LARGEST", 3_000)
    monkeypatch.setattr(optimize, "_ROUNDS", 0)  # as if none of these had found a proof
    rows, fair = cut(posteriors(kind, 4_000, seed=1), None, 7), eh.EqualizedOdds(difference=0.0)
    if solved:
        assert eh.solve(rows, fair).certificate.gap <= 1e-6
    else:
        with pytest.raises(CertificateError):
            eh.solve(rows, fair)


def test_the_structure_of_rows_is_unknown():
    free = Problem(np.array([-0.5, 0.5]), np.zeros((1, 2)), np.zeros(1), np.zeros(1))
    assert oracle(np.full((3, 2), 0.5), None, 2).direct(free) is None


def test_rows_are_found_even_if_their_hashes_are_equal(monkeypatch):
    known = np.unique(np.random.default_rng(0).integers(0, 3, (20, 4)).astype(float), axis=0)
    rows = np.vstack([known[::-1], known + 10, known])
    expected = [*range(len(known))[::-1], *[-1] * len(known), *range(len(known))]
    assert partitioned._find(rows, known).tolist() == expected
    monkeypatch.setattr(dense, "row_hashes", lambda rows: np.zeros(len(rows), np.uint64))
    assert partitioned._find(rows, known).tolist() == expected
    assert partitioned._find(rows, known[:0]).tolist() == [-1] * len(rows)


def test_a_distance_is_found_where_most_rows_are_on_the_boundary():
    """A sample may see nothing but the boundary, so the first guess of the distance is 0."""
    P = np.full((50_000, 2), 0.5)
    P[:30] = [0.4, 0.6]
    rows = oracle(P, None, 7)
    v = np.array([-1.0, 1.0])
    assert rows.near(v, 49_990).n_rows == 2
    assert rows.near(v, 100).n_rows == 1
    assert rows.near(v, 49_971).weights.sum() == pytest.approx(1)


def posteriors(kind, n, seed, M=3):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(rng.uniform(0.3, 2, 2 * M), n)
    if kind == "atoms":
        P = P[rng.integers(0, min(n, 20), n)]
    if kind == "one large atom":
        P[rng.random(n) < 0.4] = P[0]
    if kind == "rounded":
        P = np.round(P, 2) + 1e-3
        P /= P.sum(axis=1, keepdims=True)
    return P.reshape(n, M, 2)


@pytest.mark.parametrize(
    ("n", "kind", "weighted"),
    [
        *product((5, 1500, 4000), ("smooth", "atoms", "one large atom", "rounded"), (False, True)),
        (30_000, "smooth", True),  # more than the solver samples
        (30_000, "one large atom", False),
    ],
)
def test_the_optimum_does_not_depend_on_the_partitions(n, kind, weighted):
    P = posteriors(kind, n, seed=n)
    weights = np.random.default_rng(0).random(n) * 5 if weighted else None
    fair = eh.EqualizedOdds(difference=0.02)
    known = eh.solve(P, fair, sample_weight=weights).certificate
    for count in (1, 30):
        found = eh.solve(cut(P, weights, count, seed=count), fair)
        assert found.certificate.objective == pytest.approx(known.objective, abs=1e-12)
        assert found.certificate.violation <= 1e-9
        assert len(found.selection) == n
        assert f"{n:,} rows" in repr(found)
        decided = dict(zip(map(bytes, P), np.asarray(found.selection).tolist(), strict=True))
        assert [decided[bytes(row)] for row in P] == np.asarray(found.selection).tolist()  # copies alike


@settings(max_examples=examples(25))
@given(st.data())
def test_small_problems_have_the_same_optimum_in_any_partitions(data):
    n, M = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 3))
    P = posteriors(data.draw(st.sampled_from(["smooth", "atoms"])), n, data.draw(st.integers(0, 99)), M)
    weights = data.draw(st.none() | st.lists(st.sampled_from([0.0, 0.5, 1.0, 1e6]), min_size=n, max_size=n))
    if weights is not None:
        weights = np.array([1.0, *weights[1:]])
    kind = data.draw(st.sampled_from([eh.DemographicParity, eh.EqualOpportunity, eh.AccuracyParity]))
    fair = kind(difference=data.draw(st.sampled_from([0.0, 0.05])))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eh.exceptions.EvenhandWarning)  # of one group, or one row
        known = eh.solve(P, fair, sample_weight=weights)
        found = eh.solve(cut(P, weights, data.draw(st.integers(1, 9))), fair)
    assert found.certificate.objective == pytest.approx(known.certificate.objective, abs=1e-12)


def test_the_answer_does_not_depend_on_who_finishes_first():
    P = posteriors("smooth", 5000, seed=3)
    wait = random.Random(0)  # noqa: S311
    parts = cut(P, None, 7)
    load = parts.load

    def late(k):
        time.sleep(wait.random() / 500)
        return load(k)

    parts.load, parts.threads = late, 4
    fair = eh.DemographicParity(difference=0.01)
    first = eh.solve(parts, fair)
    for _ in range(3):
        again = eh.solve(parts, fair)
        assert again.certificate == first.certificate
        assert dict(again.multipliers) == dict(first.multipliers)
        assert np.array_equal(np.asarray(again.selection), np.asarray(first.selection))


def test_equal_rows_are_no_constraints_however_sums_are_rounded():
    """Where all groups are alike, a constraint consists of rounding errors, and these must not bind."""
    n = 70_000
    P = np.tile(np.random.default_rng(7).dirichlet(np.ones(6)).reshape(1, 3, 2), (n, 1, 1))
    weights = (np.random.default_rng(1).random(n) < 0.5) * 1.0
    fair = eh.PredictiveEquality(ratio=1.0)
    free = 0.5 * P[0].sum(axis=0).min()
    for rows, given_weights in ((P, weights), (cut(P, weights, 7), None), (P, None)):
        with pytest.warns(eh.exceptions.ConstantScoreWarning):
            found = eh.solve(rows, fair, sample_weight=given_weights)
        assert found.certificate.objective == pytest.approx(free, abs=1e-9)


def test_partitions_hold_their_weights_themselves():
    parts = cut(posteriors("smooth", 100, seed=0), None, 3)
    with pytest.raises(eh.exceptions.InputError, match="hold their own weights"):
        eh.solve(parts, eh.DemographicParity(difference=0.1), sample_weight=np.ones(100))
