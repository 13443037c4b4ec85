import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, ShuffleSplit
from sklearn.neighbors import KNeighborsClassifier

from evenhand.exceptions import InputError
from evenhand.posteriors.crossfit import cross_fit
from evenhand.posteriors.models import Examples, PosteriorSpec

RNG = np.random.default_rng(0)
N = 300
ROWS = Examples(RNG.normal(size=(N, 2)), RNG.integers(0, 3, N), RNG.random(N) < 0.4, 3)
PARROT = PosteriorSpec("joint", KNeighborsClassifier(1), None)  # is sure of every row that it has seen


def sure(cells):
    return cells.reshape(len(cells), -1)[np.arange(len(cells)), ROWS.cells[: len(cells)]]


def test_no_row_is_judged_by_a_model_that_has_seen_it():
    found = cross_fit(PARROT, ROWS, cv=3)
    assert (sure(PARROT.fit(ROWS).cells(ROWS.X, None)) == 1).all()
    assert sure(found.cells).mean() < 0.4
    assert found.rows.tolist() == list(range(N))
    assert (sure(found.model.cells(ROWS.X, None)) == 1).all()  # one model, fitted to all rows


def test_models_of_the_folds_can_be_averaged():
    found = cross_fit(PARROT, ROWS, cv=3, average=True)
    assert sure(found.model.cells(ROWS.X, None)).min() >= 2 / 3 - 1e-9


def test_a_share_can_be_held_out_instead():
    found = cross_fit(PARROT, ROWS, holdout=0.4)
    assert len(found.rows) == 120
    seen = np.setdiff1d(np.arange(N), found.rows)
    again = found.model.cells(ROWS.X, None).reshape(N, -1)[np.arange(N), ROWS.cells]
    assert (again[seen] == 1).all()
    assert again[found.rows].mean() < 0.4


@pytest.mark.parametrize(
    "cv", [ShuffleSplit(4, test_size=0.5, random_state=0), [(np.arange(200), np.arange(200, N))]]
)
def test_rows_that_no_fold_leaves_out_are_left_out(cv):
    found = cross_fit(PosteriorSpec("joint", LogisticRegression(), None), ROWS, cv=cv)
    assert 0 < len(found.rows) < N
    assert np.allclose(found.cells.sum(axis=(1, 2)), 1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cv": 1}, "cv should be at least 2"),
        ({"cv": "five"}, "cv='five' does not split the rows"),
        ({"cv": GroupKFold(2)}, "does not split the rows"),
        ({"cv": []}, "gives folds without rows"),
        ({"holdout": 1.5}, "holdout should be strictly between 0 and 1, but is 1.5"),
    ],
)
def test_folds_that_cannot_be_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        cross_fit(PARROT, ROWS, **settings)


def test_cells_with_fewer_rows_than_folds_are_spread():
    codes = np.zeros(N, int)
    codes[:3] = 1
    rows = Examples(ROWS.X, codes, ROWS.positive, 2)
    found = cross_fit(
        PosteriorSpec("label_then_group", LogisticRegression(), LogisticRegression()), rows, cv=5
    )
    assert np.isfinite(found.cells).all()


def test_two_rows_are_enough():
    rows = Examples(np.array([[0.0], [1.0]]), np.array([0, 1]), np.array([False, True]), 2)
    assert cross_fit(PosteriorSpec("joint", LogisticRegression(), None), rows).cells.shape == (2, 2, 2)


@pytest.mark.parametrize("how", ["sigmoid", "isotonic", "binning"])
def test_calibration_corrects_what_folds_find(how):
    found = cross_fit(PARROT, ROWS, cv=3, calibration=how)
    plain = cross_fit(PARROT, ROWS, cv=3)

    def loss(cells):
        return -np.log(np.clip(sure(cells), 1e-3, 1)).mean()

    assert loss(found.cells) < loss(plain.cells)


def test_folds_can_be_fitted_side_by_side():
    one, two = (
        cross_fit(PosteriorSpec("joint", LogisticRegression(), None), ROWS, n_jobs=jobs) for jobs in (1, 2)
    )
    assert np.allclose(one.cells, two.cells)
