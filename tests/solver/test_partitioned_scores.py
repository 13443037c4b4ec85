"""Scores with a known group in partitions give what the same scores in memory give."""

from itertools import product

import numpy as np
import pytest

import evenhand as eh
from evenhand.solver import partitioned, thresholds
from evenhand.solver.grouped import GroupedRows
from evenhand.solver.oracle import Problem
from evenhand.solver.partitioned import PartitionedRows, Sizes
from evenhand.solver.partitions import ThreadedPartitions

M = 3
V = np.array([-0.5, 0.5, 0.4, -0.6, -0.3, 0.2])


def cut(eta, codes, weights, count, *, seed=0, n_groups=M):
    """Scores cut at random, so that some partitions are empty."""
    ends = np.random.default_rng(seed).integers(0, len(eta) + 1, count - 1)
    ends = [0, *sorted(ends.tolist()), len(eta)]

    def load(k):
        where = slice(ends[k], ends[k + 1])
        return GroupedRows(eta[where], codes[where], n_groups, None if weights is None else weights[where])

    return ThreadedPartitions(load, count, n_groups, known=True, weighted=weights is not None, threads=2)


def scores(kind, n=5000, seed=1):
    """Scores, codes and weights."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, M, n)
    eta = rng.beta(1 + codes, 2)
    weights = None
    if kind == "ties":
        eta = np.round(eta * 4) / 4
    if kind == "zero and one":
        eta = np.where(rng.random(n) < 0.4, rng.integers(0, 2, n), eta)
    if kind == "one score in a group":
        eta[codes == 1] = 0.37
    if kind == "close together":
        eta = 0.5 + 1e-13 * rng.integers(0, 50, n)
    if kind == "float32":
        eta = np.where(rng.random(n) < 0.1, 1.0, eta).astype(np.float32)
    if kind == "one group in one place":
        codes = np.where(np.arange(n) < 50, 0, rng.integers(1, M, n))
    if kind == "weighted":
        weights = 3 * rng.random(n)
    if kind == "zero weights":
        weights = 1.0 * (rng.random(n) < 0.5)
    return eta, codes.astype(np.int16), weights


KINDS = ["plain", "ties", "zero and one", "one score in a group", "float32", "weighted", "zero weights"]
HARD = ["close together", "one group in one place"]


@pytest.fixture(params=KINDS)
def both(request):
    eta, codes, weights = scores(request.param)
    grouped = GroupedRows(eta, codes, M, None if weights is None else weights / weights.sum())
    parts = cut(eta, codes, weights, 7)
    sizes = parts.map(lambda part: part.n_rows)
    total = len(eta) if weights is None else weights.sum()
    return grouped, PartitionedRows(parts, Sizes(tuple(sizes), total))


@pytest.mark.parametrize("v", [V, np.zeros(6), np.array([0.1, 0.1] * 3)], ids=["between", "zero", "all"])
def test_sums_are_those_of_scores_in_memory(both, v):
    grouped, parts = both
    for width in (1.0, 0.05, 1e-3):
        one, other = parts.smooth(v, width), grouped.smooth(v, width)
        assert one.value == pytest.approx(other.value, abs=1e-12)
        assert one.sums == pytest.approx(other.sums, abs=1e-14 / width)
        assert one.hessian == pytest.approx(other.hessian, abs=1e-10 / width)


def test_samples_nearest_rows_and_totals_are_those_of_scores_in_memory(both):
    grouped, parts = both
    assert np.array_equal(parts.sample(50).matrix, grouped.sample(50).matrix)
    for count in (1, 100, 4999, 5000):
        one = parts.near(V, count)
        within = np.abs(grouped.scores(V)) <= np.abs(one.scores(V)).max() + 1e-12
        other = grouped.near(V, np.count_nonzero(within))
        assert np.array_equal(np.unique(one.matrix, axis=0), np.unique(other.matrix, axis=0))
        assert one.n_rows == len(np.unique(one.matrix, axis=0))
        assert one.weights.sum() == pytest.approx(other.weights_of(slice(None)).sum())
        assert one.base == pytest.approx(other.base)
        found = parts.totals(V, one, np.full(one.n_rows, 0.3))
        known = grouped.totals(V, other, np.full(other.n_rows, 0.3))
        assert np.array_equal(np.asarray(found.selection), known.selection)
        assert found.sums == pytest.approx(known.sums, abs=1e-12)
        assert found.positive_part == pytest.approx(known.positive_part, abs=1e-12)
        assert found.ties == known.ties
    assert parts.distinct() is None


def test_the_direct_solution_is_that_of_scores_in_memory(both):
    grouped, parts = both
    rng = np.random.default_rng(0)
    problem = Problem(np.tile([-0.5, 0.5], M), rng.normal(size=(3, 6)), np.full(3, -0.01), np.full(3, 0.01))
    one, other = parts.direct(problem), grouped.direct(problem)
    gains = [problem.gain @ each.totals.sums for each in (one, other)]
    assert gains[0] == pytest.approx(gains[1], abs=1e-12)
    assert np.array_equal(
        np.asarray(one.totals.selection), one.steps.selection(grouped.eta, np.asarray(grouped.codes))
    )


@pytest.mark.parametrize(
    ("kind", "n", "few"),
    [
        *product(KINDS + HARD, [50], [20_000, 10]),
        *(pytest.param(kind, 5_000, 20_000, marks=pytest.mark.slow) for kind in KINDS + HARD),
        *product(KINDS + HARD[1:], [5_000], [10]),
        pytest.param("close together", 5_000, 10, marks=pytest.mark.slow),
    ],
)
def test_the_optimum_does_not_depend_on_the_partitions(kind, n, few, monkeypatch):
    """However often intervals have to be counted more finely."""
    monkeypatch.setattr(partitioned, "FEW_ROWS", few)
    eta, codes, weights = scores(kind, n)
    for fair in (eh.DemographicParity(difference=0.01), eh.EqualizedOdds(ratio=0.9)):
        known = eh.solve(eh.GroupedScores(eta, codes, M), fair, sample_weight=weights)
        for count in (1, 30):
            found = eh.solve(cut(eta, codes, weights, count, seed=count), fair)
            assert found.certificate.objective == pytest.approx(known.certificate.objective, abs=1e-12)
            assert found.certificate.violation <= 1e-9
            assert found.rule.steps is not None
            selection = np.asarray(found.selection)
            assert np.array_equal(selection, found.rule.selection(eh.GroupedScores(eta, codes, M)))


def test_very_many_equal_scores_are_one():
    n = 200_000
    codes = (np.arange(n) % 2).astype(np.int8)
    eta = np.where(codes == 0, 0.6, 0.3)
    eta[:10] = 0.61
    fair = eh.DemographicParity(difference=0.1)
    known = eh.solve(eh.GroupedScores(eta, codes, 2), fair)
    found = eh.solve(cut(eta, codes, None, 7, n_groups=2), fair)
    assert found.certificate.objective == pytest.approx(known.certificate.objective, abs=1e-12)


def test_all_scores_equal_is_a_warning():
    eta, codes = np.full(100, 0.3), np.arange(100) % M
    with pytest.warns(eh.exceptions.ConstantScoreWarning):
        eh.solve(cut(eta, codes, None, 7), eh.DemographicParity(difference=0.1))


def test_what_does_not_end_is_left_to_other_algorithms(monkeypatch):
    monkeypatch.setattr(thresholds, "_MAX_COUNTS", 1)
    monkeypatch.setattr(partitioned, "FEW_ROWS", 7)
    eta, codes, _ = scores("plain")
    fair = eh.DemographicParity(difference=0.01)
    found = eh.solve(cut(eta, codes, None, 7), fair)
    known = eh.solve(eh.GroupedScores(eta, codes, M), fair)
    assert found.rule.steps is None
    assert found.certificate.objective == pytest.approx(known.certificate.objective, abs=1e-9)
