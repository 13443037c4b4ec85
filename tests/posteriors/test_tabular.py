import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from evenhand.posteriors import tabular
from evenhand.posteriors.tabular import TabularClassifier

RNG = np.random.default_rng(0)
N = 300
TOWN = RNG.choice(["north", "south", "east"], N)
AGE = RNG.integers(20, 70, N)
Y = np.where((TOWN == "north") ^ (AGE > 45), "yes", "no")


def table():
    ages = [None if k % 17 == 0 else int(age) for k, age in enumerate(AGE)]
    towns = [None if k % 13 == 0 else str(town) for k, town in enumerate(TOWN)]
    since = [datetime.date(2000, 1, 1) + datetime.timedelta(days=int(age)) for age in AGE]
    return {"town": towns, "age": ages, "since": since, "member": [bool(age > 45) for age in AGE]}


@pytest.mark.parametrize("read", [pd.DataFrame, pl.DataFrame, pa.table])
def test_tables_need_no_preparation(read):
    X = read(table())
    model = TabularClassifier(max_iter=20).fit(X, Y)
    assert model.score(X, Y) > 0.9
    assert (model.predict_proba(X).argmax(axis=1) == (model.predict(X) == "yes")).all()
    same = TabularClassifier(max_iter=20).fit(pd.DataFrame(table()), Y)
    assert np.allclose(model.predict_proba(X), same.predict_proba(pd.DataFrame(table())))


def test_categories_of_pandas_are_categories():
    X = pd.DataFrame(table()).astype({"town": "category"})
    assert TabularClassifier(max_iter=20).fit(X, Y).score(X, Y) > 0.9


def test_objects_and_lists_are_read_by_column():
    X = np.array([[town, age] for town, age in zip(TOWN, AGE.tolist(), strict=True)], dtype=object)
    model = TabularClassifier(max_iter=20).fit(X, Y)
    assert model.score(X, Y) > 0.9
    assert [known is None for known in model.levels_] == [False, True]
    assert (TabularClassifier(max_iter=20).fit(X.tolist(), Y).predict(X) == model.predict(X)).all()


def test_an_unseen_category_counts_as_missing():
    X = pd.DataFrame({"town": TOWN})
    model = TabularClassifier(max_iter=5).fit(X, Y)
    new = pd.DataFrame({"town": ["west", None]})
    assert np.allclose(*model.predict_proba(new))


def test_many_categories_are_cut_to_the_most_frequent():
    names = np.array([f"street {k}" for k in np.minimum(RNG.geometric(0.01, 2000), 700)])
    X = pd.DataFrame({"street": names})
    model = TabularClassifier(max_iter=5).fit(X, RNG.integers(0, 2, 2000))
    assert len(model.levels_[0]) == 254
    assert "street 1" in model.levels_[0]
    assert model.predict_proba(X).shape == (2000, 2)


def test_a_class_may_have_a_single_row():
    y = np.zeros(N, int)
    y[0] = 1
    y[1:100] = 2
    found = TabularClassifier(max_iter=5).fit(pd.DataFrame({"age": AGE}), y)
    assert found.classes_.tolist() == [0, 1, 2]


def test_small_fits_use_one_thread(monkeypatch):
    """On a busy machine threads wait for one another."""
    seen = []
    trees = tabular.HistGradientBoostingClassifier

    def counted(method):
        def wrapped(*arguments, **named):
            pools = [pool for pool in threadpool_info() if pool["user_api"] == "openmp"]
            seen.append({pool["num_threads"] for pool in pools})
            return method(*arguments, **named)

        return wrapped

    monkeypatch.setattr(trees, "fit", counted(trees.fit))
    monkeypatch.setattr(tabular, "proba_by_bins", counted(tabular.proba_by_bins))
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), rng.integers(0, 2, 300)
    with threadpool_limits(2, user_api="openmp"):
        TabularClassifier(max_iter=2).fit(X, y).predict_proba(X)
        assert seen == [{1}, {1}]
        monkeypatch.setattr(tabular, "_ENOUGH_FOR_THREADS", 100)
        TabularClassifier(max_iter=2).fit(X, y)
    assert seen[2] == {2}
