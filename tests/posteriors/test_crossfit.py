import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, ShuffleSplit
from sklearn.neighbors import KNeighborsClassifier

from evenhand.exceptions import InputError
from evenhand.posteriors.crossfit import cross_fit
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.spec import PosteriorSpec

RNG = np.random.default_rng(0)
N = 300
ROWS = Examples(RNG.normal(size=(N, 2)), RNG.integers(0, 3, N), RNG.random(N) < 0.4, 3)
MEMORISER = PosteriorSpec("joint", KNeighborsClassifier(1), None)  # certain of every row it was fitted to


def of_own_cell(cells):
    """The posterior of the cell that each row is in."""
    return cells.reshape(len(cells), -1)[np.arange(len(cells)), ROWS.cells[: len(cells)]]


def test_posteriors_are_out_of_fold():
    found = cross_fit(MEMORISER, ROWS, cv=3)
    assert (of_own_cell(MEMORISER.fit(ROWS).cells(ROWS.X, None)) == 1).all()
    assert of_own_cell(found.cells).mean() < 0.4
    assert found.rows.tolist() == list(range(N))
    assert (of_own_cell(found.model.cells(ROWS.X, None)) == 1).all()  # one model, fitted to all rows


def test_models_of_the_folds_can_be_averaged():
    found = cross_fit(MEMORISER, ROWS, cv=3, average=True)
    assert of_own_cell(found.model.cells(ROWS.X, None)).min() >= 2 / 3 - 1e-9


def test_a_share_can_be_held_out_instead():
    found = cross_fit(MEMORISER, ROWS, cv=0.4)
    assert len(found.rows) == 120
    seen = np.setdiff1d(np.arange(N), found.rows)
    again = found.model.cells(ROWS.X, None).reshape(N, -1)[np.arange(N), ROWS.cells]
    assert (again[seen] == 1).all()
    assert again[found.rows].mean() < 0.4


@pytest.mark.parametrize(
    "cv", [ShuffleSplit(4, test_size=0.5, random_state=0), [(np.arange(200), np.arange(200, N))]]
)
def test_rows_in_no_test_fold_have_no_posterior(cv):
    found = cross_fit(PosteriorSpec("joint", LogisticRegression(), None), ROWS, cv=cv)
    tests = [test for _, test in (cv.split(ROWS.X) if hasattr(cv, "split") else cv)]
    assert found.rows.tolist() == np.unique(np.concatenate(tests)).tolist() != list(range(N))
    assert np.allclose(found.cells.sum(axis=(1, 2)), 1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cv": 1}, "cv must be at least 2"),
        ({"cv": "five"}, "cv='five' does not split the rows"),
        ({"cv": GroupKFold(2)}, "does not split the rows"),
        ({"cv": []}, "gives folds without rows"),
        ({"cv": 1.5}, "cv must be strictly between 0 and 1, got 1.5"),
    ],
)
def test_impossible_splits_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        cross_fit(MEMORISER, ROWS, **settings)


def test_cells_with_fewer_rows_than_folds_are_spread_over_the_folds():
    codes = np.zeros(N, int)
    codes[:3] = 1
    rows = Examples(ROWS.X, codes, ROWS.positive, 2)
    found = cross_fit(
        PosteriorSpec("label_then_group", LogisticRegression(), LogisticRegression()), rows, cv=5
    )
    assert (found.cells[:, 1].sum(axis=1) > 0).all()  # every fold's models were fitted to a row of the group


def test_two_rows_are_enough():
    rows = Examples(np.array([[0.0], [1.0]]), np.array([0, 1]), np.array([False, True]), 2)
    found = cross_fit(PosteriorSpec("joint", LogisticRegression(), None), rows)
    assert found.cells.tolist() == [[[0, 0], [0, 1]], [[1, 0], [0, 0]]]  # each has the cell of the other


def test_calibration_corrects_out_of_fold_posteriors():
    found = cross_fit(MEMORISER, ROWS, cv=3, calibration="auto")
    plain = cross_fit(MEMORISER, ROWS, cv=3)

    def loss(cells):
        return -np.log(np.clip(of_own_cell(cells), 1e-3, 1)).mean()

    assert loss(found.cells) < loss(plain.cells)


@pytest.mark.slow
def test_folds_can_be_fitted_in_parallel():
    """In processes, so the models must be picklable."""
    one, two = (
        cross_fit(PosteriorSpec("joint", LogisticRegression(), None), ROWS, n_jobs=jobs) for jobs in (1, 2)
    )
    assert np.allclose(one.cells, two.cells)
