import dask
import dask.array as da
import numpy as np
import pytest

import evenhand as eh
from evenhand.exceptions import InputError
from evenhand.posteriors.posteriors import DensePosteriors, StratifiedPosteriors, read_posteriors


def test_scores_are_not_copied():
    eta = np.array([0.1, 0.9], dtype=np.float32)
    scores = eh.GroupedScores(eta, np.array([0, 1]), 2)
    assert scores.eta is eta
    assert len(scores) == 2


@pytest.mark.parametrize(
    ("eta", "codes", "n_groups", "message"),
    [
        ([0.1, 1.2], [0, 1], 2, "outside .* in 1 of 2 rows"),
        ([0.1, np.nan], [0, 1], 2, "NaN"),
        ([0.1, 0.2], [0, 2], 2, "codes must be integers from 0 to 1, got 0 to 2"),
        ([0.1, 0.2], [-1, 0], 2, "codes must be integers from 0 to 1"),
        ([0.1, 0.2], [0.0, 1.0], 2, "one column of integers"),
        ([[0.1, 0.2]], [0], 1, "one column of numbers"),
        (["a", "b"], [0, 1], 2, "eta must be numbers"),
        ([0.1], [0, 1], 2, "eta has 1, codes has 2"),
        ([0.1], [0], 0, "n_groups must be a positive integer, got 0"),
        ([0.1], [0], True, "n_groups must be a positive integer, got True"),
    ],
)
def test_invalid_scores_are_refused(eta, codes, n_groups, message):
    with pytest.raises(InputError, match=message):
        eh.GroupedScores(np.array(eta), np.array(codes), n_groups)


def test_dask_arrays_are_taken_as_they_are():
    eta, codes = da.random.random(10, chunks=5), da.zeros(10, chunks=5, dtype=int)
    scores = eh.GroupedScores(eta, codes, 2)
    assert scores.eta is eta
    assert scores.lazy
    assert (
        repr(scores)
        == repr(eh.GroupedScores(eta[eta > 0.5], codes, 2))
        == "GroupedScores(dask arrays, 2 groups)"
    )
    with pytest.raises(InputError, match="both be Dask arrays, or neither"):
        eh.GroupedScores(eta, np.zeros(10, int), 2)
    with pytest.raises(InputError, match="codes one column of integers"):
        eh.GroupedScores(eta, eta, 2)
    with pytest.raises(InputError, match="there is no Dask client"):
        eh.solve(scores, eh.DemographicParity(difference=0.1))


RNG = np.random.default_rng(0)
VALUES = RNG.dirichlet(np.ones(4), 6).reshape(-1, 2, 2)
STRATA = np.array([2, 0, 0, 1, 2, 0])
SCORES = eh.GroupedScores(RNG.random(6), np.array([0, 1, 1, 0, 1, 0]), 2)
FORMS = [
    DensePosteriors(VALUES),
    DensePosteriors(VALUES.astype(np.float32)),
    SCORES,
    DensePosteriors(VALUES).within(STRATA, 3),
    SCORES.within(STRATA, 3),
]


@pytest.mark.parametrize("rows", FORMS, ids=repr)
def test_all_forms_are_sums_over_the_same_cells(rows):
    cells = rows.dense()
    assert cells.shape == (6, rows.n_groups, 2)
    assert cells.sum(axis=(1, 2)) == pytest.approx(1)
    table, weights, some = RNG.normal(size=cells.shape[1:]), RNG.dirichlet(np.ones(6)), np.array([4, 1])
    assert (rows.dense(some) == cells[some]).all()
    assert (rows.take(some).dense() == cells[some]).all()
    assert rows.label() == pytest.approx(cells[:, :, 1].sum(axis=1))
    assert rows.weighted(table) == pytest.approx(np.tensordot(cells, table, axes=2))
    assert rows.by_label(table) == pytest.approx((cells * table).sum(axis=1))
    assert rows.summed(weights) == pytest.approx(np.tensordot(weights, cells, axes=1))
    everybody = rows.oracle(weights).totals(np.ones(table.size)).sums
    assert everybody == pytest.approx(rows.summed(weights).ravel())


@pytest.mark.parametrize("rows", FORMS, ids=repr)
def test_labels_take_the_place_of_their_probability(rows):
    positive = np.array([True, False, False, True, True, False])
    cells, own = rows.with_labels(positive).dense(), positive.astype(int)
    assert cells[np.arange(6), :, 1 - own].max() == 0
    given = rows.dense()[np.arange(6), :, own]
    assert cells[np.arange(6), :, own] == pytest.approx(given / given.sum(axis=1, keepdims=True))


def test_posteriors_are_in_the_cells_of_their_own_stratum():
    within = DensePosteriors(VALUES).within(STRATA, 3).dense().reshape(6, 3, 2, 2)
    assert (within[np.arange(6), STRATA] == VALUES).all()
    codes = SCORES.within(STRATA, 3).codes
    assert (codes // 2 == STRATA).all()
    assert (codes % 2 == SCORES.codes).all()
    for rows in (DensePosteriors(VALUES), SCORES):
        assert rows.within(None, 1) is rows


def test_a_rule_in_strata_decides_in_every_form():
    rule = eh.solve(
        VALUES, eh.DemographicParity(difference=0.1, given=["level"]), control_features={"level": STRATA}
    ).rule
    rows = StratifiedPosteriors(VALUES, STRATA, 3)
    assert rule.selection(rows) == pytest.approx(rule.selection(rows.dense()))
    with pytest.raises(InputError, match="for 6 groups, but the posteriors have 8"):
        rule.selection(StratifiedPosteriors(VALUES, STRATA, 4))
    with pytest.raises(InputError, match="shape"):
        StratifiedPosteriors(VALUES[0], STRATA, 3)


def test_arrays_are_read_once():
    assert read_posteriors(VALUES).values is VALUES
    assert read_posteriors(SCORES) is SCORES
    assert read_posteriors([[[0, 1]]]).values.dtype == np.float64
    lazy = da.from_array(VALUES, chunks=3)
    assert read_posteriors(lazy).values is lazy
    assert repr(read_posteriors(lazy)) == "DensePosteriors(dask arrays, 2 groups)"
    with pytest.raises(InputError, match="must be a Dask array, got Delayed"):
        eh.solve(dask.delayed(VALUES), eh.DemographicParity(difference=0.1))
