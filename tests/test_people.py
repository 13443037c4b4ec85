import numpy as np
import pandas as pd
import polars as pl
import pytest

from evenhand.exceptions import GroupError, VisibleFeatureWarning
from evenhand.people import find_groups, find_sight

X = pd.DataFrame({"age": [30, 40, 50, 60], "sex": ["F", "M", "F", "M"], "race": ["A", "A", "B", "B"]})
WHERE = ["sex", "race"]


def sight(where, aware, beside=None):
    groups, _, columns = find_groups(X, beside, where)
    return find_sight(X, columns, groups, where, aware=aware), groups, columns


def test_blind_models_do_not_see_sensitive_columns():
    found, _, columns = sight(WHERE, False)
    people = found.view(X, columns)
    assert people.X.columns.tolist() == ["age"]
    assert people.known is None


def test_aware_models_see_indicators_of_them():
    found, groups, columns = sight(WHERE, True)
    people = found.view(X, columns)
    assert people.X.columns.tolist() == ["age", *(f"known_group_{m}" for m in range(4))]
    assert people.X.iloc[:, 1:].to_numpy().argmax(axis=1).tolist() == people.known.tolist()
    assert people.known.tolist() == [0, 2, 1, 3]
    assert found.knows(groups)


def test_some_may_be_seen_and_others_not():
    found, groups, columns = sight(WHERE, ["race"])
    people = found.view(X, columns)
    assert people.X.columns.tolist() == ["age", "known_group_0", "known_group_1"]
    assert found.allowed(groups, people.known).astype(int).tolist() == [
        [1, 0, 1, 0],
        [1, 0, 1, 0],
        [0, 1, 0, 1],
        [0, 1, 0, 1],
    ]
    assert not found.knows(groups)


def test_what_is_passed_beside_x_is_added_to_it_where_it_may_be_used():
    beside = X[WHERE]
    found, _, columns = sight(None, True, beside)
    people = found.view(X[["age"]], columns)
    inside, _, named = sight(WHERE, True)
    pd.testing.assert_frame_equal(people.X, inside.view(X, named).X)
    with pytest.warns(VisibleFeatureWarning, match="X holds the sensitive feature 'sex'.*it is taken away"):
        sight(None, False, beside)


def test_a_matrix_hides_columns_by_position():
    matrix = X.assign(sex=[0, 1, 0, 1], race=[0, 0, 1, 1]).to_numpy()
    groups, _, columns = find_groups(matrix, None, [1, 2])
    found = find_sight(matrix, columns, groups, [1, 2], aware=["x2"])
    assert groups.features == ("x1", "x2")
    seen = found.view(matrix, columns).X
    assert seen.tolist() == [[30, 1, 0], [40, 1, 0], [50, 0, 1], [60, 0, 1]]
    assert seen.dtype == np.float64


def test_a_function_of_x_gives_groups():
    def old(table):
        return {"old": table["age"] >= 50}

    groups, codes, columns = find_groups(X, None, old)
    assert groups.features == ("old",)
    assert codes.tolist() == [0, 0, 1, 1]
    found = find_sight(X, columns, groups, old, aware=True)
    assert found.view(X, columns).X["known_group_1"].tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("beside", "where", "message"),
    [
        (None, None, "no sensitive features: pass sensitive_features= to fit, or name columns"),
        (X[["sex"]], ["sex"], "named in the constructor and passed as well"),
        (None, ["gender"], "no column 'gender'"),
    ],
)
def test_groups_must_come_from_one_place(beside, where, message):
    with pytest.raises(GroupError, match=message):
        find_groups(X, beside, where)


def test_awareness_of_an_unknown_feature_is_refused():
    with pytest.raises(
        GroupError, match="aware names 'gender', but the sensitive features are 'sex', 'race'"
    ):
        sight(WHERE, ["gender"])


def test_an_unseen_known_value_leaves_everything_possible():
    groups, _, columns = find_groups(X, None, WHERE, unseen="pooled")
    found = find_sight(X, columns, groups, WHERE, aware=["sex"])
    people = found.view(X, {"sex": np.array(["X", "F", "F", "F"])})
    assert people.known.tolist() == [-1, 0, 0, 0]
    assert found.allowed(groups, people.known)[0].all()


@pytest.mark.parametrize(("fitted_to", "seen"), [(3, ["age", "sex", "race"]), (1, ["age"]), (-1, list(X))])
def test_a_frozen_model_sees_the_columns_that_it_was_fitted_to(fitted_to, seen):
    groups, _, columns = find_groups(X, None, WHERE)
    found = find_sight(X, columns, groups, WHERE, aware=True, frozen_to=fitted_to)
    people = found.view(X, columns)
    assert people.X.columns.tolist() == seen
    assert people.known.tolist() == [0, 2, 1, 3]


def test_columns_that_may_be_used_are_needed_at_prediction_and_others_are_not():
    found, _, _ = sight(WHERE, ["race"])
    assert found.hidden == ("sex", "race")
    assert found.unused == ("sex",)


@pytest.mark.parametrize("library", [pd, pl])
def test_sensitive_columns_alone_are_enough_for_an_aware_model(library):
    table = library.DataFrame({"sex": ["F", "M", "F"]})
    groups, _, columns = find_groups(table, None, "sex")
    people = find_sight(table, columns, groups, "sex", aware=True).view(table, columns)
    assert np.asarray(people.X).tolist() == [[1, 0], [0, 1], [1, 0]]
