"""Labels that FairPostprocessor takes or refuses."""

import numpy as np
import pandas as pd
import pytest
from tests.estimators.small_fits import (
    MISSING,
    N,
    X,
    Y,
    fit,
    some,
)

from evenhand.exceptions import (
    InputError,
)

# Labels of any two values


@pytest.mark.parametrize("classes", [("no", "yes"), (-1, 1), (False, True), (1, 2)])
def test_any_two_labels_can_be_learned_and_predicted(column, classes):
    y = column([classes[label] for label in Y])
    found = fit(y=y)
    assert found.classes_.tolist() == list(classes)
    assert np.array_equal(found.predict(X) == classes[1], fit().predict(X) == 1)


def test_the_positive_label_can_be_stated():
    y = np.where(Y, "approve", "deny")
    found = fit(y=y, pos_label="approve")
    assert found.classes_.tolist() == ["approve", "deny"]
    assert found.pos_label_ == "approve"
    assert np.array_equal(found.predict(X) == "approve", fit().predict(X) == 1)
    with pytest.raises(InputError, match=r"pos_label='aprove' is not a value of y, which has \('approve', "):
        fit(y=y, pos_label="aprove")


def test_labels_of_two_types_need_a_positive_one():
    y = [1 if label else "1" for label in Y]
    with pytest.raises(InputError, match=r"y has values of two types.*say which is positive with pos_label"):
        fit(y=y)
    found = fit(y=y, pos_label=1)
    assert found.classes_.tolist() == [1, "1"]
    assert found.pos_label_ == 1


# One class only


def test_one_class_is_refused_and_named():
    with pytest.raises(InputError, match=r"y has only one class \('yes'\), and two are needed"):
        fit(y=["yes"] * N)


def test_one_class_among_the_rows_that_count_is_refused():
    with pytest.raises(InputError, match="y has only one class where sample_weight is not 0"):
        fit(weights=Y)


# Labels that are not binary


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (X[:, 0], "y has more than 100 distinct values. A label needs exactly two.*continuous"),
        (X[:, 0].round(1), r"continuous\. y holds numbers such as -\d"),
        (np.column_stack([Y, Y]), r"y must be one column, got shape \(200, 2\)"),
    ],
)
def test_labels_that_are_not_binary_are_refused_by_type(y, message):
    with pytest.raises(InputError, match=message):
        fit(y=y)


# Missing labels


@pytest.mark.parametrize("value", MISSING[:3])
@pytest.mark.parametrize("kind", [np.asarray, list, pd.Series])
def test_missing_labels_are_refused_and_counted(kind, value):
    with pytest.raises(InputError, match=r"y is missing in 3 of 200 rows. Fill them in or drop them"):
        fit(y=kind(some(Y, value)))


def test_a_classifier_needs_labels():
    with pytest.raises(InputError, match="requires y to be passed"):
        fit(y=None)
