"""Which rows of a large table models learn from."""

import numpy as np
import pytest

from evenhand.estimators.row_sample import candidate_rates, drawn_rows, sample_sizes
from evenhand.exceptions import InputError

COUNTS = {
    "a small cell": np.array([[5000, 3], [90_000, 4000]]),
    "an empty cell": np.array([[5000, 0], [90_000, 4000]]),
    "alike": np.array([[1000, 1000], [1000, 1000]]),
    "many": np.random.default_rng(0).integers(0, 5000, (40, 2)),
}


@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
@pytest.mark.parametrize("max_samples", [200, 1001, 3000])
@pytest.mark.parametrize("equal", [False, True])
def test_at_most_the_asked_rows_and_some_of_every_cell(counts, max_samples, equal):
    sizes = sample_sizes(counts, max_samples, equal=equal)
    cells = np.count_nonzero(counts)
    assert max_samples - cells <= sizes.sum() <= max_samples
    assert ((sizes > 0) == (counts > 0)).all()
    assert (sizes <= counts).all()
    if not equal:
        whole = counts <= max_samples // (2 * cells)
        assert (sizes[whole] == counts[whole]).all()
        assert (sizes[~whole] >= max_samples // (2 * cells)).all()


def test_large_cells_are_drawn_in_proportion():
    sizes = sample_sizes(np.array([[100_000, 200_000], [400_000, 5]]), 7005)
    assert sizes.tolist() == [[1000, 2000], [4000, 5]]


@pytest.mark.parametrize("max_samples", [None, 2000, 10**9])
def test_few_rows_are_all_learned_from(max_samples):
    counts = np.array([[900, 100], [800, 200]])
    assert (sample_sizes(counts, max_samples) == counts).all()
    assert (candidate_rates(counts, counts) == 1).all()


@pytest.mark.parametrize("equal", [False, True])
def test_fewer_rows_than_cells_are_refused(equal):
    with pytest.raises(
        InputError, match="max_samples=7 is too few for 4 combinations of group and label: at le"
    ):
        sample_sizes(np.full((2, 2), 100), 7, equal=equal)
    assert (sample_sizes(np.full((2, 2), 100), 8, equal=equal) == 2).all()


def test_rows_are_drawn_exactly_and_uniformly():
    rng = np.random.default_rng(1)
    cells = rng.integers(0, 4, 20_000)
    counts = np.bincount(cells).reshape(2, 2)
    sizes = np.array([[1, 50], [500, counts[1, 1]]])
    times = np.zeros(len(cells))
    for _ in range(50):
        uniforms = rng.random(len(cells))
        kept = np.flatnonzero(uniforms < candidate_rates(counts, sizes).ravel()[cells])
        drawn = kept[drawn_rows(uniforms[kept], cells[kept], sizes)]
        assert (np.diff(drawn) > 0).all()
        assert (np.bincount(cells[drawn], minlength=4) == sizes.ravel()).all()
        times[drawn] += 1
    middle = times[cells == 2]
    assert middle[: len(middle) // 2].sum() == pytest.approx(12_500, rel=0.05)


def test_an_empty_cell_draws_nothing():
    drawn = drawn_rows(np.array([0.5, 0.1]), np.array([0, 3]), np.array([[1, 0], [0, 1]]))
    assert drawn.tolist() == [0, 1]
