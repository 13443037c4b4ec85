import numpy as np
import polars as pl
import pytest
import scipy.sparse

from evenhand.data.labels import read_decisions, read_labels, read_selection, read_weights
from evenhand.exceptions import InputError


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        (["no", "yes"], ["no", "yes"]),
        ([-1, 1], [-1, 1]),
        ([False, True], [False, True]),
        ([0.0, 1.0], [0, 1]),
    ],
)
def test_labels_of_any_two_values_are_read(column, values, classes):
    labels = read_labels(column(values))
    assert labels.classes.tolist() == classes
    assert labels.positive.tolist() == [False, True]


def test_the_positive_label_can_be_stated():
    labels = read_labels(["deny", "approve"], pos_label="approve")
    assert labels.classes.tolist() == ["deny", "approve"]
    assert labels.positive.tolist() == [False, True]


def test_classes_of_two_types_stay_apart():
    assert read_labels([1, "1"], pos_label=1).classes.tolist() == ["1", 1]
    with pytest.raises(InputError, match=r"values of two types.*say which is positive"):
        read_labels([1, "1"])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, 1], r"only one class \(1\)"),
        (["a", "b", "c"], r"3 classes \('a', 'b', 'c'\)"),
        (list(range(7)), "7 classes .*, ..."),
        (np.linspace(0, 1, 500), "Unknown label type: continuous"),
        ([0, 1, None], "missing in 1 of 3 rows"),
        ([0.0, 1.0, float("nan"), float("nan")], "missing in 2 of 4 rows"),
    ],
)
def test_labels_that_are_not_binary_are_refused(values, message):
    with pytest.raises(InputError, match=message):
        read_labels(values)


def test_a_positive_label_that_does_not_occur_is_refused():
    with pytest.raises(InputError, match=r"pos_label='y' is not a value of y"):
        read_labels(["no", "yes"], pos_label="y")


YES_NO = np.array(["no", "yes"])


def test_predicted_labels_are_read(column):
    assert read_selection(column(["yes", "no"]), YES_NO).tolist() == [True, False]
    assert read_selection(column([1, 0]), np.array([0, 1])).tolist() == [True, False]
    assert read_selection(column([-1, 1]), np.array([-1, 1])).tolist() == [False, True]


def test_probabilities_are_read(column):
    assert read_selection(column([0.25, 1.0]), YES_NO).tolist() == [0.25, 1.0]


def test_booleans_are_decisions(column):
    assert read_selection(column([True, False]), YES_NO).tolist() == [True, False]


def test_float_labels_outside_the_unit_interval_are_labels():
    assert read_selection(np.array([-1.0, 1.0]), np.array([-1, 1])).tolist() == [False, True]
    assert read_selection(np.array([1.0, 2.0]), np.array([1, 2])).tolist() == [False, True]


def test_floats_that_could_be_labels_or_probabilities_are_refused():
    with pytest.raises(InputError, match="could be labels or probabilities"):
        read_selection(np.array([1.0, 1.0]), np.array([1, 2]))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0.2, 1.2], "1 of 2 probabilities that are NaN or outside"),
        ([0.2, float("nan")], "1 of 2 probabilities that are NaN or outside"),
        (["yes", "maybe"], "holds 'maybe' in 1 of 2 rows, but the classes are 'no' and 'yes'"),
        (["yes", None], "missing in 1 of 2 rows"),
        ([0, 2], "holds 0, 2"),
        ([0.5, None], "missing in 1 of 2 rows"),
        (pl.Series([True, None]), "missing in 1 of 2 rows"),
        ([[1], [1, 2]], "such as lists"),
        (np.ma.array([0.1, 5.0], mask=[False, True]), "1 masked values"),
    ],
)
def test_invalid_predictions_are_refused(values, message):
    with pytest.raises(InputError, match=message):
        read_selection(values, YES_NO)


def test_weights_are_read_without_a_copy_where_possible(column):
    assert read_weights(column([1.0, 2.0]), 2).tolist() == [1.0, 2.0]
    weights = np.array([1.0, 2.0])
    assert read_weights(weights, 2) is weights
    assert read_weights(None, 2) is None


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0], "negative, NaN or infinite in 1 of 2 rows"),
        ([1.0, float("nan")], "in 1 of 2 rows"),
        ([float("inf"), 1.0], "in 1 of 2 rows"),
        ([0.0, 0.0], "zero in every row"),
        ([1.0], "sample_weight has 1 where 2 were expected"),
        (["a", "b"], "must be numbers"),
        (["1", "2"], "must be numbers"),
        ([1.0, None], "must be numbers without missing values"),
        (np.array(["2020", "2021"], dtype="datetime64[Y]"), "must be numbers"),
        (np.ma.array([1.0, 2.0], mask=[False, True]), "1 masked values"),
        (1.0, "got float"),
    ],
)
def test_invalid_weights_are_refused(weights, message):
    with pytest.raises(InputError, match=message):
        read_weights(weights, 2)


def test_boolean_predictions_are_labels_if_false_is_the_positive_one():
    assert read_selection(np.array([True, False]), np.array([True, False])).tolist() == [False, True]
    assert read_selection(np.array([True, False]), np.array([1, 0])).tolist() == [False, True]


def test_lists_of_numpy_scalars_are_plain_values():
    labels = read_labels([np.int64(1), np.int64(2)])
    assert labels.classes.tolist() == [1, 2]
    with pytest.raises(InputError, match="could be labels or probabilities"):
        read_selection([np.float64(1.0)] * 2, labels.classes)


def test_decisions_without_labels_need_a_positive_label(column):
    assert read_decisions(column(["hire", "reject"]), pos_label="hire").tolist() == [True, False]
    assert read_decisions(column(["reject", "reject"]), pos_label="hire").tolist() == [False, False]
    with pytest.raises(InputError, match="pos_label='yes' and one other value"):
        read_decisions(column(["hire", "reject"]), pos_label="yes")


def test_a_sparse_matrix_is_not_a_column():
    with pytest.raises(InputError, match=r"y must be a column.*got csr_array"):
        read_labels(scipy.sparse.csr_array([[0, 1]]))
