"""The optimum of rows on a cluster is that of the same rows in memory."""

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client

import evenhand as eh
from evenhand.exceptions import ConstantScoreWarning, InputError

FAIR = eh.DemographicParity(difference=0.02)
CASES = [
    pytest.param(
        count,
        ties,
        weighted,
        marks=[] if (ties, weighted) == (True, True) or (count, ties) == (7, False) else pytest.mark.slow,
        id=f"{count} chunks, {'ties' if ties else 'smooth'}, {'weighted' if weighted else 'plain'}",
    )
    for count, ties, weighted in product((1, 7, 30), (False, True), (False, True))
]


def posteriors(n=3000, seed=0, M=2):
    return np.random.default_rng(seed).dirichlet(np.ones(2 * M), n).reshape(n, M, 2)


def scores(n=3000, seed=0, M=2):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, M, n)
    return rng.beta(1 + codes, 2), codes


def chunks(n, count, seed=0):
    """Sizes of chunks, some of them 0."""
    ends = np.random.default_rng(seed).integers(0, n + 1, count - 1)
    return tuple(np.diff([0, *sorted(ends.tolist()), n]).tolist())


@pytest.mark.parametrize(("count", "ties", "weighted"), CASES)
def test_posteriors_have_the_same_optimum_in_any_number_of_chunks(client, count, ties, weighted):
    P = posteriors()
    P = P[np.arange(len(P)) % 40] if ties else P
    weights = np.random.default_rng(1).random(len(P)) * 3 if weighted else None
    sizes = chunks(len(P), count)
    given = None if weights is None else da.from_array(weights, chunks=(sizes,))
    found = eh.solve(da.from_array(P, chunks=(sizes, 2, 2)), FAIR, sample_weight=given)
    known = eh.solve(P, FAIR, sample_weight=weights)
    assert found.certificate.objective == pytest.approx(known.certificate.objective, abs=1e-12)
    assert found.certificate.violation <= 1e-9
    assert found.selection.chunks == (sizes,)
    assert found.selection.dtype == np.float64
    assert found.rule.selection(P) == pytest.approx(found.selection.compute(), abs=1e-9)
    assert repr(found).startswith("<Solution for 3,000 rows of data: Certificate(")


@pytest.mark.parametrize("known", [False, True], ids=["blind", "aware"])
def test_the_minimax_is_that_of_the_same_rows_in_memory(client, known):
    P, (eta, codes) = posteriors(), scores()
    here = eh.GroupedScores(eta, codes, 2) if known else P
    there = (
        eh.GroupedScores(da.from_array(eta, chunks=700), da.from_array(codes, chunks=700), 2)
        if known
        else da.from_array(P, chunks=(700, 2, 2))
    )
    one = eh.solve(here, FAIR, objective="minimax")
    other = eh.solve(there, FAIR, objective="minimax")
    assert other.certificate.objective == pytest.approx(one.certificate.objective, abs=1e-6)
    assert other.certificate.minimised == "largest risk of a group"
    assert other.certificate.gap <= 1e-6


@pytest.mark.parametrize(("count", "ties", "weighted"), CASES)
def test_scores_have_the_same_optimum_in_any_number_of_chunks(client, count, ties, weighted):
    eta, codes = scores()
    eta = np.round(eta, 1) if ties else eta
    weights = np.random.default_rng(1).random(len(eta)) * 3 if weighted else None
    sizes = chunks(len(eta), count)
    lazy = eh.GroupedScores(da.from_array(eta, chunks=(sizes,)), da.from_array(codes, chunks=500), 2)
    given = None if weights is None else da.from_array(weights, chunks=(sizes,))
    found = eh.solve(lazy, FAIR, sample_weight=given)
    known = eh.solve(eh.GroupedScores(eta, codes, 2), FAIR, sample_weight=weights)
    assert found.certificate.objective == pytest.approx(known.certificate.objective, abs=1e-12)
    assert np.array_equal(found.selection.compute(), found.rule.selection(eh.GroupedScores(eta, codes, 2)))


def test_many_rows_go_through_newtons_method(client):
    """With large arguments, which travel apart from the tasks."""
    P = posteriors(40_000, M=4).astype(np.float32)
    fair = eh.EqualizedOdds(difference=0.01)
    found = eh.solve(da.from_array(P, chunks=(9000, 1, 1)), fair, cost=(0.3, 0.7))
    known = eh.solve(P, fair, cost=(0.3, 0.7))
    assert found.certificate.objective == pytest.approx(known.certificate.objective, abs=1e-12)
    again = eh.solve(da.from_array(P, chunks=(9000, 4, 2)), fair, cost=(0.3, 0.7))
    assert again.certificate.objective == pytest.approx(known.certificate.objective, abs=1e-12)


def test_unknown_sizes_of_chunks_become_known(client):
    P = posteriors()
    rows = da.from_array(P, chunks=(500, 2, 2))
    kept = rows[:, 0, 0] > 0.1
    weights = rows[:, 0, 1][kept]
    found = eh.solve(rows[kept], FAIR, sample_weight=weights)
    P = P[P[:, 0, 0] > 0.1]
    known = eh.solve(P, FAIR, sample_weight=P[:, 0, 1])
    assert found.certificate.objective == pytest.approx(known.certificate.objective, abs=1e-12)
    assert found.selection.shape == (len(P),)
    with pytest.raises(InputError, match="sample_weight has 1 chunks instead of 6"):
        eh.solve(rows[kept], FAIR, sample_weight=da.ones(len(P)))


def test_names_of_groups_are_kept(client):
    groups = eh.Groups.product({"sex": ["F", "M"]})
    found = eh.solve(da.from_array(posteriors(), chunks=(1000, 2, 2)), FAIR, groups=groups)
    assert sorted(str(name).rpartition(": ")[2] for name in found.multipliers) == ["sex=F", "sex=M"]


def test_two_solves_at_once_give_what_each_gives_alone(client):
    arrays = [da.from_array(posteriors(6_000, seed), chunks=(1000, 2, 2)) for seed in (0, 0, 1, 2)]
    alone = [eh.solve(array, FAIR) for array in arrays]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda array: eh.solve(array, FAIR), arrays))
    for one, other in zip(found, alone, strict=True):
        assert one.certificate == other.certificate
        assert np.array_equal(one.selection.compute(), other.selection.compute())


def test_rows_leave_the_workers_with_the_solve(client):
    found = eh.solve(da.from_array(posteriors(), chunks=(500, 2, 2)), FAIR)
    until = time.monotonic() + 60
    while any(client.has_what().values()):  # released a moment later
        assert time.monotonic() < until
    assert 0 < found.selection.mean().compute() < 1


def test_the_selection_can_be_computed_without_the_cluster(client):
    P = posteriors()
    found = eh.solve(da.from_array(P, chunks=(500, 2, 2)), FAIR)
    with dask.config.set(scheduler="synchronous"):
        assert found.rule.selection(P) == pytest.approx(found.selection.compute(), abs=1e-9)


def test_one_group_may_be_in_one_chunk_only(client):
    eta, _ = scores()
    codes = (np.arange(3000) < 20).astype(np.uint8)
    lazy = eh.GroupedScores(da.from_array(eta, chunks=500), da.from_array(codes, chunks=500), 2)
    found = eh.solve(lazy, FAIR)
    known = eh.solve(eh.GroupedScores(eta, codes, 2), FAIR)
    assert found.certificate.objective == pytest.approx(known.certificate.objective, abs=1e-12)


def test_constant_scores_are_a_warning_at_the_line_that_called(client):
    with pytest.warns(ConstantScoreWarning) as caught:
        eh.solve(da.full((100, 2, 2), 0.25, chunks=(10, 2, 2)), FAIR)
    assert caught[0].filename == __file__


def test_no_rows_are_an_error(client):
    rows = da.from_array(posteriors(), chunks=(500, 2, 2))
    for empty in (da.zeros((0, 2, 2)), rows[rows[:, 0, 0] > 1]):
        with pytest.raises(InputError, match="no rows: posteriors are empty"):
            eh.solve(empty, FAIR)


def test_bad_numbers_are_an_error_with_their_rows(client):
    P = posteriors()
    P[1700, 0, 0] = np.nan
    P[2999] = 2.0
    with pytest.raises(
        InputError, match=r"sum to 1 in 2 of 3,000 rows \(rows 1,700, 2,999, counted from 0\)"
    ):
        eh.solve(da.from_array(P, chunks=(500, 2, 2)), FAIR)
    eta, codes = scores()
    codes[600] = 2
    lazy = eh.GroupedScores(da.from_array(eta, chunks=500), da.from_array(codes, chunks=500), 2)
    with pytest.raises(InputError, match=r"codes are not from 0 to 1, in 1 of 3,000 rows \(row 600,"):
        eh.solve(lazy, FAIR)
    weights = da.from_array(np.where(np.arange(3000) > 2900, np.inf, 1.0), chunks=500)
    with pytest.raises(
        InputError, match=r"infinite or negative in 99 of 3,000 rows \(rows 2,901, .*, \.\.\.,"
    ):
        eh.solve(da.from_array(posteriors(), chunks=(500, 2, 2)), FAIR, sample_weight=weights)
    with pytest.raises(InputError, match="sample_weight is 0 in all rows"):
        eh.solve(
            da.from_array(posteriors(), chunks=(500, 2, 2)), FAIR, sample_weight=da.zeros(3000, chunks=500)
        )


def test_arrays_of_other_shapes_are_refused(client):
    P = posteriors()
    with pytest.raises(InputError, match=r"must have shape \(n, M, 2\)"):
        eh.solve(da.zeros((3, 4)), FAIR)
    with pytest.raises(InputError, match="sample_weight has 10 rows instead of 3,000"):
        eh.solve(da.from_array(P), FAIR, sample_weight=da.ones(10))
    with pytest.raises(InputError, match="sample_weight must be one column"):
        eh.solve(da.from_array(P), FAIR, sample_weight=da.ones((3000, 1)))
    with pytest.raises(InputError, match="one column, a Dask array as posteriors are"):
        eh.solve(da.from_array(P), FAIR, sample_weight=np.ones(10))


def test_the_client_is_the_current_one(cluster):
    rows = da.from_array(posteriors(), chunks=(500, 2, 2))
    with pytest.raises(InputError, match=r"there is no Dask client; make one"):
        eh.solve(rows, FAIR)
    with Client(cluster, set_as_default=False) as client, client.as_current():
        assert eh.solve(rows, FAIR).certificate.gap < 1e-6
