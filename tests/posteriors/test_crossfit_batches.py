"""Posteriors learned from batches, against those that are learned in memory with the same folds."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from xgboost import XGBClassifier

from evenhand.datasets import FiniteProblem
from evenhand.exceptions import InputError
from evenhand.posteriors.crossfit import GROUP_FOLDS, cross_fit
from evenhand.posteriors.crossfit_batches import cross_fit_batches, folds_of
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.spec import PosteriorSpec

BOOSTED = XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1)
DEEP = XGBClassifier(n_estimators=10, max_depth=0, max_leaves=0, learning_rate=1.0, reg_lambda=0.0, n_jobs=1)
SEED = 3


@pytest.fixture(scope="module")
def rows():
    drawn = FiniteProblem.random(12, levels=(2, 2), seed=1).sample(1500, seed=0)
    noise = np.random.default_rng(0).integers(0, 30, 1500)
    return Examples(np.column_stack([drawn.X, noise]), drawn.codes, drawn.y.astype(bool), 4)


def reader(rows, *, size=400):
    def read():
        for first in range(0, len(rows), size):
            numbers = np.arange(first, min(first + size, len(rows)))
            yield numbers, rows.take(numbers)

    return read


def learned(spec, rows, **settings):
    return cross_fit_batches(spec, reader(rows), rows, np.arange(len(rows)), seed=SEED, **settings)


def splits(n, cv):
    fold = folds_of(np.arange(n), cv, SEED)
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(cv)]


def assert_same(spec, rows, *, cv=3, **settings):
    found, out_of_fold = learned(spec, rows, cv=cv, **settings)
    expected = cross_fit(spec, rows, cv=splits(len(rows), cv), **settings)
    assert np.abs(found.cells - expected.cells).max() < 1e-12
    assert np.abs(found.final - expected.final).max() < 1e-12
    assert found.fits == expected.fits
    numbers = np.arange(500, 900)
    assert np.abs(out_of_fold.cells(numbers, rows.take(numbers)) - expected.cells[numbers]).max() < 1e-12


FORMS = ["known", "separate", "label_then_group", "joint"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("average", [True, False], ids=["mean of folds", "one more fit"])
def test_posteriors_are_those_that_are_learned_in_memory(rows, form, average):
    assert_same(PosteriorSpec(form, BOOSTED, BOOSTED), rows, average=average, calibration=None)


@pytest.mark.parametrize("form", FORMS)
def test_weights_count_as_in_memory(rows, form):
    weights = np.random.default_rng(1).integers(0, 3, len(rows)).astype(float)
    spec = PosteriorSpec(form, BOOSTED, BOOSTED)
    assert_same(spec, replace(rows, weights=weights), average=True, calibration="dirichlet")


@pytest.mark.parametrize("form", ["known", "separate", "label_then_group"])
def test_calibration_is_that_of_a_fit_in_memory(rows, form):
    known = np.eye(4, dtype=bool)[rows.codes] if form == "known" else None
    spec = PosteriorSpec(form, BOOSTED, BOOSTED)
    assert_same(spec, replace(rows, allowed=known), average=True, calibration="dirichlet")


def test_known_features_restrict_the_groups(rows):
    allowed = np.array([[1, 1, 0, 0], [0, 0, 1, 1]], bool)[rows.codes // 2]
    for form in ("separate", "label_then_group"):
        spec = PosteriorSpec(form, BOOSTED, BOOSTED)
        assert_same(spec, replace(rows, allowed=allowed), average=True, calibration="dirichlet")


def test_groups_that_are_learned_separately_use_three_folds(rows):
    found, out_of_fold = learned(PosteriorSpec("separate", BOOSTED, BOOSTED), rows, cv=5)
    assert [len(models) for models in out_of_fold.factors] == [5, GROUP_FOLDS]
    assert found.fits == 5 + GROUP_FOLDS


@pytest.mark.parametrize("form", ["known", "label_then_group", "separate"])
def test_trees_that_memorise_do_not_leak(form):
    """Labels and groups are noise: models know the rows they saw by heart, and nothing of the others."""
    rng = np.random.default_rng(0)
    n = 1000
    rows = Examples(rng.permutation(n)[:, None] / n, rng.integers(0, 2, n), rng.random(n) < 0.5, 2)
    deep = clone(DEEP).set_params(max_depth=30, max_bin=n, min_child_weight=0)
    found, _ = learned(PosteriorSpec(form, deep, deep), rows, cv=4, average=False)
    label = found.cells[:, :, 1].sum(axis=1)
    by_heart = found.final[:, :, 1].sum(axis=1)
    assert np.mean((by_heart > 0.5) == rows.positive) > 0.95
    assert abs(np.mean((label > 0.5) == rows.positive) - 0.5) < 0.07
    if form != "known":
        group = found.cells.sum(axis=2)[:, 1]
        assert abs(np.mean((group > 0.5) == rows.codes) - 0.5) < 0.07


def test_a_class_without_rows_outside_a_fold_has_no_probability_there(rows):
    only = np.flatnonzero(folds_of(np.arange(len(rows)), 3, SEED) == 1)[:5]
    codes = np.minimum(rows.codes, 2)
    codes[only] = 3
    some = replace(rows, codes=codes)
    assert_same(PosteriorSpec("label_then_group", BOOSTED, BOOSTED), some, average=True, calibration=None)
    found, _ = learned(PosteriorSpec("label_then_group", BOOSTED, BOOSTED), some, cv=3)
    assert (found.cells[only, 3] == 0).all()


def test_a_label_without_rows_outside_a_fold_is_taken_for_impossible(rows):
    positive = np.zeros(len(rows), bool)
    positive[np.flatnonzero(folds_of(np.arange(len(rows)), 3, SEED) == 2)[:9]] = True
    some = replace(rows, positive=positive)
    for form in ("label_then_group", "known"):
        assert_same(PosteriorSpec(form, BOOSTED, BOOSTED), some, average=True, calibration=None)


def test_folds_need_rows(rows):
    with pytest.raises(InputError, match="cv=2 leaves no rows to learn from"):
        learned(PosteriorSpec("known", BOOSTED, BOOSTED), rows.take(np.array([0])), cv=2)
