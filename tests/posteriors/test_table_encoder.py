"""A table is encoded once for all models."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

import evenhand as eh
from evenhand.data.features import take_rows
from evenhand.exceptions import InputError
from evenhand.posteriors import table_encoder
from evenhand.posteriors.table_encoder import EncodedTable, TableEncoder

TABLE = {"age": [30.0, None, 50.0], "job": ["cook", "clerk", None], "rich": [True, False, True]}


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_numbers_stay_and_categories_become_codes(library):
    found = TableEncoder.fit(library(TABLE))(library(TABLE))
    expected = [[30, 1, 1], [np.nan, 0, 0], [50, np.nan, 1]]
    np.testing.assert_array_equal(found.matrix, expected)
    assert found.categorical.tolist() == [False, True, False]


def test_unseen_categories_are_missing_and_another_type_is_an_error():
    encode = TableEncoder.fit(pl.DataFrame(TABLE))
    new = pl.DataFrame({"age": [1.0], "job": ["pilot"], "rich": [False]})
    assert np.isnan(encode(new).matrix[0, 1])
    with pytest.raises(InputError, match="column 'job' of X held values of type str"):
        encode(new.with_columns(job=pl.Series([7])))


def test_rows_and_columns_of_an_encoded_table():
    table = EncodedTable(np.arange(6.0).reshape(3, 2), np.array([True, False]))
    assert table.shape == (3, 2)
    assert table[np.array([2, 0])].matrix.tolist() == [[4, 5], [0, 1]]
    wider = table.joined([np.ones(3), np.zeros(3)])
    assert wider.matrix[0].tolist() == [0, 1, 1, 0]
    assert wider.categorical.tolist() == [True, False, False, False]


@pytest.mark.parametrize("aware", [False, True])
def test_a_fit_and_a_prediction_read_the_table_once(aware, monkeypatch):
    compas = eh.datasets.load_compas()
    rows = compas.features[:600]
    calls = []
    encode = TableEncoder.__call__
    monkeypatch.setattr(
        table_encoder.TableEncoder, "__call__", lambda self, X: calls.append(len(X)) or encode(self, X)
    )
    fair = eh.FairPostprocessor(
        eh.TabularClassifier(max_iter=3),
        eh.DemographicParity(difference=0.2),
        aware=aware,
        posteriors=eh.CrossFit(3),
    )
    sensitive = compas.sensitive[:600]
    fair.fit(rows, compas.label[:600], sensitive_features=sensitive)
    assert calls == [600]
    fair.predict(rows[:5], sensitive_features=sensitive[:5] if aware else None)
    assert calls == [600, 5]


@pytest.mark.parametrize(
    "levels",
    [None, "abc", [{"a": 0}], [["a"] * 255], [["a", ["b"]]], [("a",)], [0]],
    ids=lambda levels: str(levels)[:20],
)
def test_levels_that_no_table_gives_are_refused(levels):
    with pytest.raises(InputError, match="not one that evenhand writes"):
        TableEncoder(levels)


def test_a_table_with_another_number_of_columns_is_refused():
    encode = TableEncoder.fit(pl.DataFrame(TABLE))
    with pytest.raises(InputError, match="X has 2 columns, and its encoding is of 3"):
        encode(pl.DataFrame(TABLE).drop("rich"))


def test_one_missing_value_of_an_object_column_leaves_the_others_as_they_are():
    encode = TableEncoder.fit(pd.DataFrame({"x": [1.0, 2.0, 3.0]}))
    new = pd.DataFrame({"x": np.array([5.0, -5.0, pd.NA], dtype=object)})
    np.testing.assert_array_equal(encode(new).matrix[:, 0], [5.0, -5.0, np.nan])


@pytest.mark.parametrize("posterior", ["separate", "label_then_group", "joint"])
def test_a_column_may_be_unknown_in_a_fold_or_for_a_label(posterior):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    single, positives = np.full(300, np.nan), np.where(y == 1, rng.normal(size=300), np.nan)
    single[0] = 1.0
    X = pd.DataFrame({"x": rng.normal(size=300) + y, "single": single, "positives": positives})
    fair = eh.FairPostprocessor(
        eh.TabularClassifier(max_iter=5),
        eh.DemographicParity(difference=0.5),
        posteriors=eh.CrossFit(3, form=posterior),
    )
    fair.fit(X, y, sensitive_features=rng.integers(0, 2, 300))
    assert (fair.predict(X) == y).mean() > 0.6


@pytest.mark.parametrize("library", ["polars", "pandas", "pyarrow"])
def test_one_row_is_encoded_as_among_others(library):
    """A row by itself is read value by value, and its numbers are those that it has in a batch."""
    table = pl.DataFrame(
        {
            "whole": [1, None, 2**53 + 1],
            "real": [0.1, float("nan"), None],
            "truth": [True, None, False],
            "text": ["a", None, "not in fit"],
            "day": [datetime.date(2020, 1, 1), None, datetime.date(1960, 5, 5)],
        }
    )
    encoder = TableEncoder.fit(table[:2])
    native = {"polars": table, "pandas": table.to_pandas(), "pyarrow": table.to_arrow()}[library]
    rows = [take_rows(native, np.array([k])) for k in range(len(table))]
    single = np.vstack([encoder(row).matrix for row in rows])
    np.testing.assert_array_equal(single, encoder(native).matrix)
