import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from evenhand.data.features import columns_of, drop_columns, join_columns, take_rows
from evenhand.data.row_keys import row_keys
from evenhand.exceptions import GroupError, InputError

TABLE = {"age": [30, 40, 50], "sex": ["F", "M", "F"]}
TABLES = [pd.DataFrame, pl.DataFrame, pa.table]


@pytest.mark.parametrize("read", TABLES)
def test_a_table_stays_in_its_library(read):
    X = read(TABLE)
    for changed in (
        take_rows(X, np.array([2, 0])),
        drop_columns(X, ["sex"]),
        join_columns(X, [np.zeros(3)], "group"),
    ):
        assert type(changed) is type(X)
    assert list(columns_of(X, "sex")) == ["sex"]
    assert columns_of(X, ["sex"])["sex"].to_list() == ["F", "M", "F"]


def test_a_pandas_index_is_kept():
    X = pd.DataFrame(TABLE, index=[7, 8, 9])
    assert join_columns(X, [np.ones(3)], "group").index.tolist() == [7, 8, 9]
    assert join_columns(X, [np.ones(3)], "group")["group_0"].tolist() == [1, 1, 1]
    assert take_rows(X, np.array([2])).index.tolist() == [9]


def test_a_sparse_matrix_stays_sparse():
    X = sparse.csr_array(np.eye(3))
    assert sparse.issparse(take_rows(X, np.array([0, 2])))
    assert sparse.issparse(drop_columns(X, [0]))
    assert join_columns(X, [np.ones(3)], "group").toarray()[:, 3].tolist() == [1, 1, 1]
    assert columns_of(X, 1)["x1"].tolist() == [0, 1, 0]


def test_names_that_are_numbers_stay_numbers():
    joined = join_columns(pd.DataFrame(np.eye(2)), [np.ones(2)], "group")
    assert joined.columns.tolist() == [0, 1, 2]


def test_added_names_are_new():
    table = pd.DataFrame({"Group 0": [1.0], "group_1": [2.0], "group__0": [3.0]})
    joined = join_columns(table, [np.ones(1), np.zeros(1)], "group")
    assert list(joined) == [*table, "group___0", "group___1"]
    numbered = join_columns(pd.DataFrame({7: [1.0], 1: [2.0]}), [np.zeros(1)], "group")
    assert list(numbered) == [7, 1, 8]


def test_object_arrays_become_numeric_once_text_columns_are_dropped():
    X = np.array([[1, "F", None], [2.5, "M", True]], dtype=object)
    left = drop_columns(X, [1])
    assert left.dtype == np.float64
    assert left.flags.c_contiguous
    assert np.array_equal(left, [[1, np.nan], [2.5, 1]], equal_nan=True)
    assert drop_columns(X, [0]).dtype == object
    assert drop_columns(np.array([[2**60, "F"]], dtype=object), [1]).tolist() == [[2**60]]


@pytest.mark.parametrize(
    ("X", "where", "message"),
    [
        (pd.DataFrame(TABLE), "sexx", "no column 'sexx'.*Did you mean 'sex'"),
        (pd.DataFrame(TABLE), "race", "no column 'race'.*It has 'age', 'sex'"),
        (np.eye(2), "sex", "no column names.*pass a table, the position"),
        (np.eye(2), 5, "2 columns, so none at position 5"),
        (np.eye(2), True, "no column names"),
    ],
)
def test_an_unknown_column_is_named(X, where, message):
    with pytest.raises(GroupError, match=message):
        columns_of(X, where)


def test_positions_may_count_from_the_end():
    assert list(columns_of(np.eye(3), [-1])) == ["x2"]


def test_at_least_one_feature_must_be_left():
    with pytest.raises(InputError, match="no columns besides the sensitive ones"):
        drop_columns(pd.DataFrame(TABLE), ["age", "sex"])


def test_row_keys_are_the_same_in_every_library():
    rows = np.array([1])
    keys = {read.__name__: row_keys(read(TABLE), rows)[0] for read in TABLES}
    keys["objects"] = row_keys(np.array([[30, "F"], [40, "M"]], dtype=object), rows)[0]
    assert len(set(keys.values())) == 1


def test_row_keys_do_not_depend_on_the_type_of_numbers():
    rows = np.array([0])
    kinds = [
        np.array([[1, 0]]),
        np.array([[1.0, -0.0]]),
        np.array([[True, False]]),
        sparse.csr_array([[1, 0]]),
    ]
    assert len({row_keys(X, rows)[0] for X in kinds}) == 1
    assert row_keys(pd.DataFrame({"a": [1], "b": [0.0]}), rows)[0] == row_keys(kinds[0], rows)[0]


def test_row_keys_of_missing_values_are_equal_and_of_joined_text_differ():
    rows = np.array([0])
    missing = [None, np.nan, pd.NA, pd.NaT]
    assert len({row_keys(np.array([[v]], dtype=object), rows)[0] for v in missing}) == 1
    first = row_keys(np.array([["ab", "c"]], dtype=object), rows)
    assert first != row_keys(np.array([["a", "bc"]], dtype=object), rows)
