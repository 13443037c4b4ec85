"""Tables and a model that tests of the command line share."""

import numpy as np
import polars as pl
import pytest

from evenhand import CrossFit
from evenhand.cli.main import main
from evenhand.posteriors.tabular import TabularClassifier


@pytest.fixture(scope="module", autouse=True)
def few_trees():
    """Fits take a moment: few trees and folds. What they decide is tested elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TabularClassifier.__init__.__kwdefaults__, "max_iter", 10)
        patch.setattr(CrossFit.__init__, "__defaults__", (2,))
        yield


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Files of predictions: p.csv and p.parquet, and some that cannot be read."""
    place = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    sex = rng.choice(["F", "M"], 3000)
    y = rng.integers(0, 2, 3000)
    apart = np.where(sex == "F", rng.random(3000) < 0.2, rng.random(3000) < 0.6).astype(int)
    table = pl.DataFrame(
        {
            "y": y,
            "apart": apart,
            "alike": rng.integers(0, 2, 3000),
            "chance": rng.random(3000),
            "answer": np.where(apart, "yes", "no"),
            "sex": sex,
            "race": rng.choice(["a", "b, c", "\x1b[31mred"], 3000),
            "weight": rng.random(3000),
            "id": range(1000, 4000),
        }
    )
    table.write_csv(place / "p.csv")
    table.write_parquet(place / "p.parquet")
    table.head(30).write_csv(place / "few.csv")
    (place / "broken.parquet").write_bytes(b"PAR1 not really")
    (place / "empty.csv").write_text("")
    return place


@pytest.fixture(scope="session")
def loans(tmp_path_factory):
    """Files of labelled rows, train.csv, and of rows without labels, new.csv."""
    place = tmp_path_factory.mktemp("loans")
    rng = np.random.default_rng(1)
    n = 1500
    sex = rng.choice(["F", "M"], n)
    income = rng.normal(np.where(sex == "F", 0.0, 0.6), 1.0)
    job = rng.choice(["=cook", "clerk", None], n)
    paid = np.where(rng.random(n) < 1 / (1 + np.exp(-1.5 * income)), "yes", "no")
    table = pl.DataFrame({"id": range(n), "sex": sex, "income": income, "job": job, "paid": paid})
    table.head(1000).write_csv(place / "train.csv")
    table.tail(500).drop("paid").write_csv(place / "new.csv")
    return place


@pytest.fixture(scope="module")  # as long as the defaults of `few_trees`, which verify has to have too
def fitted(loans, tmp_path_factory):
    """A model that `evenhand fit` has learned from three quarters of train.csv."""
    model = tmp_path_factory.mktemp("fitted") / "m.eh"
    call = ["fit", loans / "train.csv", "--target", "paid", "--sensitive", "sex", "--difference", "0.2"]
    with pytest.raises(SystemExit):
        main([*map(str, call), "--estimator", "logistic", "--out", str(model)])
    return model
