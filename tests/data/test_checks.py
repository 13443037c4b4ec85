import numpy as np
import pandas as pd
import pytest

from evenhand.data.checks import check_choice, check_fraction, check_rows, near_columns
from evenhand.exceptions import InputError


@pytest.mark.parametrize("value", ["drop", None, 3, ["error"]])
def test_a_choice_is_one_of_those_allowed(value):
    check_choice("missing", "error", ("error", "category"))
    with pytest.raises(InputError, match="missing must be one of 'error', 'category', got"):
        check_choice("missing", value, ("error", "category"))


@pytest.mark.parametrize("value", [0, 1, -0.5, 1.5, float("nan"), True, "0.5", None])
def test_a_fraction_is_strictly_between_0_and_1(value):
    check_fraction("confidence", 0.95)
    with pytest.raises(InputError, match="confidence must be strictly between 0 and 1, got"):
        check_fraction("confidence", value)


def test_unequal_lengths_are_all_listed():
    with pytest.raises(InputError, match="X has 3, y has 2, weights has 1"):
        check_rows({"X": np.zeros((3, 1)), "y": [0, 1], "weights": [1]})


def test_an_empty_table_is_refused():
    with pytest.raises(InputError, match="no rows: X, y are empty"):
        check_rows({"X": np.zeros((0, 2)), "y": []})


def test_different_pandas_indexes_are_refused_and_never_aligned():
    X = pd.DataFrame({"a": [1, 2]}, index=[0, 1])
    with pytest.raises(InputError, match="X and y have different pandas indexes"):
        check_rows({"X": X, "y": pd.Series([0, 1], index=[1, 0])})
    with pytest.raises(InputError, match=r"X and g\['sex'\] have different pandas indexes"):
        check_rows({"X": X, "g": {"sex": pd.Series([0, 1], index=[1, 0])}})
    assert check_rows({"X": X, "y": pd.Series([0, 1]), "groups": np.array([1, 2])}) == 2


@pytest.mark.parametrize("column", ["text", 3, np.array(1.0), (v for v in [1])])
def test_objects_without_rows_are_refused(column):
    with pytest.raises(InputError, match="y must be a column, an array or a table, got"):
        check_rows({"y": column})


def test_the_nearest_of_many_names_come_first():
    """Whatever their case, and also if none is near enough to be meant."""
    many = [f"v{k}" for k in range(50)]
    assert near_columns("income", [*many, "Income", "incomes"]) == "Did you mean 'Income' or 'incomes'?"
    assert near_columns("income", [*many, "PINCP"]).startswith("It has 'PINCP', 'v0', 'v1', ")
    assert near_columns("income", [*many, "PINCP"]).endswith(" and 43 more.")
