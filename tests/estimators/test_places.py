"""A batch with a limited number of places."""

import warnings

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

import evenhand as eh
from evenhand.datasets import GaussianProblem
from evenhand.exceptions import InputError, LimitWarning

DATA = GaussianProblem.random(levels=(2,), seed=3).sample(2000, seed=0)
BATCH = DATA.X[:100]
GROUP = {"A1": DATA.sensitive["A1"][:100]}


@pytest.fixture(scope="module", params=[False, True], ids=["blind", "aware"])
def fair(request):
    model = eh.FairPostprocessor(
        LogisticRegression(),
        eh.DemographicParity(difference=0.3),
        aware=request.param,
        posteriors=eh.CrossFit(2),
    )
    model.fit(DATA.X, DATA.y, sensitive_features=DATA.sensitive)
    model.groups_of_batch = {"sensitive_features": GROUP} if request.param else {}
    return model


def test_those_with_the_largest_margins_have_the_places(fair):
    given = fair.groups_of_batch
    free, H = fair.predict(BATCH, **given), fair.decision_function(BATCH, **given)
    decisions, excluded = fair.predict(BATCH, at_most=10, return_excluded=True, **given)
    assert decisions.sum() == 10
    assert ((decisions == 1) | excluded == (free == 1)).all()
    assert H[decisions == 1].min() >= H[excluded].max()


def test_a_limit_that_excludes_is_warned_of_and_others_are_not(fair):
    given = fair.groups_of_batch
    free = fair.predict(BATCH, **given)
    count = int(free.sum())
    with pytest.warns(LimitWarning, match=f"at_most=3 excludes {count - 3} of {count} rows that the rule"):
        assert fair.predict(BATCH, at_most=3, **given).sum() == 3
    for places in (count, 100, 10**9, np.int64(count)):
        assert (fair.predict(BATCH, at_most=places, **given) == free).all()
    decisions, excluded = fair.predict(BATCH, return_excluded=True, **given)
    assert (decisions == free).all()
    assert not excluded.any()


def test_no_places_select_nobody(fair):
    decisions, excluded = fair.predict(BATCH, at_most=0, return_excluded=True, **fair.groups_of_batch)
    assert not decisions.any()
    assert excluded.any()


def test_the_order_of_the_rows_does_not_matter(fair):
    order = np.random.default_rng(0).permutation(100)
    moved = {"sensitive_features": {"A1": GROUP["A1"][order]}} if fair.groups_of_batch else {}
    first, _ = fair.predict(BATCH, at_most=7, return_excluded=True, **fair.groups_of_batch)
    second, _ = fair.predict(BATCH[order], at_most=7, return_excluded=True, **moved)
    assert (first[order] == second).all()


def test_equal_margins_are_put_in_order_by_their_ids():
    fair = eh.FairPostprocessor(
        LogisticRegression(), eh.DemographicParity(difference=0.5), posteriors=eh.CrossFit(2)
    )
    fair.fit(DATA.X, DATA.y, sensitive_features=DATA.sensitive)
    alike = np.tile(BATCH[[int(np.argmax(fair.decision_function(BATCH)))]], (50, 1))
    ids = np.arange(50)
    first, _ = fair.predict(alike, ids=ids, at_most=20, return_excluded=True)
    again, _ = fair.predict(alike, ids=ids[::-1], at_most=20, return_excluded=True)
    assert first.sum() == 20
    assert (first == again[::-1]).all()
    assert not first[:20].all()  # not simply the first rows
    without, _ = fair.predict(alike, at_most=20, return_excluded=True)
    assert without[:20].all()  # nothing tells them apart but their position


def test_labels_are_those_of_fit():
    y = np.where(DATA.y == 1, "bad", "good")
    fair = eh.FairPostprocessor(
        LogisticRegression(), eh.DemographicParity(difference=0.5), pos_label="bad", posteriors=eh.CrossFit(2)
    )
    fair.fit(DATA.X, y, sensitive_features=DATA.sensitive)
    decisions, _ = fair.predict(BATCH, at_most=5, return_excluded=True)
    assert (decisions == "bad").sum() == 5
    assert -fair.decision_function(BATCH)[decisions == "bad"].min() > 0


@pytest.mark.parametrize("places", [-1, 2.5, True, "ten", np.nan], ids=str)
def test_what_is_not_a_number_of_places_is_refused(fair, places):
    with pytest.raises(InputError, match="at_most must be a non-negative integer"):
        fair.predict(BATCH, at_most=places, **fair.groups_of_batch)


def test_a_lazy_table_is_refused(fair):
    with pytest.raises(InputError, match=r"does not support predict\(at_most=...\)"):
        fair.predict(pl.LazyFrame(BATCH), at_most=5)


def test_places_do_not_change_what_is_decided_later(fair):
    free = fair.predict(BATCH, **fair.groups_of_batch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LimitWarning)
        fair.predict(BATCH, at_most=1, **fair.groups_of_batch)
    assert (fair.predict(BATCH, **fair.groups_of_batch) == free).all()
