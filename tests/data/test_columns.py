import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from evenhand.data.columns import BLOCK_ROWS, as_column, factorize, level_order, named_columns
from evenhand.display.text import show
from evenhand.exceptions import InputError


def test_every_kind_of_column_gives_the_same_levels_and_codes(column):
    levels, codes = factorize(column(["b", "a", "b", "c"]), what="x")
    assert levels == ("a", "b", "c")
    assert codes.tolist() == [1, 0, 1, 2]
    assert codes.dtype == np.int32


@pytest.mark.parametrize(
    "values",
    [
        [3, 1, 3],
        [0.5, -1.0, 0.5],
        [True, False, True],
        [datetime.date(2020, 1, 2), datetime.date(2020, 1, 1)] * 2,
    ],
)
def test_levels_are_plain_python_values(column, values):
    levels, codes = factorize(column(values), what="x")
    assert levels == tuple(sorted(set(values)))
    assert not any(isinstance(level, np.generic) for level in levels)
    assert [levels[code] for code in codes] == values


@pytest.mark.parametrize(
    "values",
    [
        ["a", None],
        np.array([1.0, np.nan]),
        pd.Series(["a", pd.NA], dtype="string"),
        pd.Series([1, pd.NA], dtype="Int64"),
        pd.Series(["a", np.nan], dtype=object),
        pd.Series(["a", pd.NA], dtype=object),
        pd.Series(pd.Categorical(["a", None])),
        pd.Series([pd.Timestamp("2020-01-01"), pd.NaT]),
        pl.Series(["a", None]),
        pl.Series([1, None]),
        pl.Series([1.0, float("nan")]),
        pl.Series(["a", None], dtype=pl.Categorical),
        np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"),
    ],
    ids=str,
)
def test_none_nan_nat_and_na_are_missing(values):
    levels, codes = factorize(values, what="x")
    assert len(levels) == 1
    assert codes.tolist() == [0, -1]


def test_a_column_of_missing_values_has_no_levels():
    assert factorize(pl.Series([None, None], dtype=pl.String), what="x")[0] == ()
    levels, codes = factorize([None, float("nan")], what="x")
    assert levels == ()
    assert codes.tolist() == [-1, -1]


def test_long_strings_are_not_truncated():
    short, long = "a" * 3, "a" * 30
    levels, _ = factorize(np.array([short, long]), what="x")
    assert levels == (short, long)


def test_lists_keep_1_and_the_string_1_apart():
    levels, codes = factorize([1, "1", 1], what="x")
    assert levels == (1, "1")
    assert codes.tolist() == [0, 1, 0]


def test_columns_longer_than_a_block_are_read_completely():
    values = np.arange(3 * BLOCK_ROWS + 5) % 7
    levels, codes = factorize(values, what="x")
    assert levels == tuple(range(7))
    assert np.array_equal(codes, values)
    _, from_strings = factorize(values.astype(str), what="x")
    assert np.array_equal(from_strings, values)


def test_too_many_levels_are_refused(column):
    with pytest.raises(InputError, match="'income' has more than 3 distinct values"):
        factorize(column([1, 2, 3, 4]), what="'income'", limit=3)


def test_unhashable_values_are_refused():
    with pytest.raises(InputError, match="such as lists"):
        factorize([[1], [1, 2]], what="x")


def test_values_of_several_types_are_ordered():
    assert level_order(["b", 2, "a", 1]) == [3, 1, 2, 0]


def test_read_only_arrays_are_read():
    values = np.array([1, 0, 1])
    values.flags.writeable = False
    assert factorize(values, what="x")[1].tolist() == [1, 0, 1]


def test_numeric_arrays_are_not_copied():
    values = np.array([1.0, 2.0])
    assert as_column(values, what="x") is values


def test_a_table_gives_its_columns_by_name(table):
    assert list(named_columns(table({"sex": ["F"], "race": ["A"]}), what="g", default_name="f")) == [
        "sex",
        "race",
    ]


def test_columns_without_names_are_numbered():
    assert list(named_columns([["a", 1], ["b", 2]], what="g", default_name="f")) == ["f_0", "f_1"]
    assert list(named_columns(["a", "b"], what="g", default_name="f")) == ["f"]
    assert list(named_columns(pd.Series(["a"], name="sex"), what="g", default_name="f")) == ["sex"]


def test_duplicate_column_names_are_refused():
    frame = pd.DataFrame([[1, 2]], columns=["sex", "sex"])
    with pytest.raises(InputError, match="columns of the same name: sex"):
        named_columns(frame, what="sensitive_features", default_name="f")


def test_a_lazy_table_is_refused_with_advice():
    with pytest.raises(InputError, match="collect"):
        named_columns(pl.LazyFrame({"a": [1]}), what="g", default_name="f")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("text", "got str"),
        (3, "got int"),
        (np.zeros((2, 2, 2)), "one or two dimensions"),
    ],
)
def test_other_objects_are_refused(values, message):
    with pytest.raises(InputError, match=message):
        named_columns(values, what="g", default_name="f")


def test_a_column_may_be_a_table_or_matrix_of_one_column():
    assert factorize(pl.DataFrame({"y": [1, 0]}), what="y")[1].tolist() == [1, 0]
    assert factorize(np.array([[1], [0]]), what="y")[1].tolist() == [1, 0]
    with pytest.raises(InputError, match="must be one column"):
        as_column(np.zeros((2, 2)), what="y")


def test_control_characters_are_escaped():
    assert show("\x1b[2J\u202ex") == "\\x1b[2J\\u202ex"


def test_strings_that_pyarrow_takes_over_from_polars_are_grouped():
    views = pa.table(pl.DataFrame({"sex": ["M", None, "F", "M"]}))["sex"]
    assert factorize(views, what="sex")[0] == ("F", "M")
    np.testing.assert_array_equal(factorize(views, what="sex")[1], [1, -1, 0, 1])
