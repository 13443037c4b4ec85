import numpy as np
import pandas as pd
import pytest

from evenhand.exceptions import GroupError, VisibleFeatureWarning
from evenhand.people import find_groups, find_sight

X = pd.DataFrame({"age": [30, 40, 50, 60], "sex": ["F", "M", "F", "M"], "race": ["A", "A", "B", "B"]})
WHERE = ["sex", "race"]


def sight(where, aware, beside=None):
    groups, _, columns = find_groups(X, beside, where)
    return find_sight(X, columns, groups, where, aware=aware, marks=True), groups, columns


def test_blind_models_do_not_see_sensitive_columns():
    found, _, columns = sight(WHERE, False)
    people = found.view(X, columns)
    assert people.X.columns.tolist() == ["age"]
    assert people.known is None


def test_aware_models_see_them():
    found, groups, columns = sight(WHERE, True)
    people = found.view(X, columns)
    assert people.X.columns.tolist() == ["age", "sex", "race"]
    assert people.known.tolist() == [0, 2, 1, 3]
    assert found.knows(groups)


def test_some_may_be_seen_and_others_not():
    found, groups, columns = sight(WHERE, ["race"])
    people = found.view(X, columns)
    assert people.X.columns.tolist() == ["age", "race"]
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
    assert people.X.columns.tolist() == [
        "age",
        "sex=F, race=A",
        "sex=F, race=B",
        "sex=M, race=A",
        "sex=M, race=B",
    ]
    with pytest.warns(VisibleFeatureWarning, match="X holds the sensitive feature 'sex'.*it is taken away"):
        sight(None, False, beside)


def test_a_matrix_hides_columns_by_position():
    matrix = X.assign(sex=[0, 1, 0, 1], race=[0, 0, 1, 1]).to_numpy()
    groups, _, columns = find_groups(matrix, None, [1, 2])
    found = find_sight(matrix, columns, groups, [1, 2], aware=["x2"], marks=True)
    assert groups.features == ("x1", "x2")
    assert found.view(matrix, columns).X.shape == (4, 2)


def test_a_function_of_x_gives_groups():
    def old(table):
        return {"old": table["age"] >= 50}

    groups, codes, columns = find_groups(X, None, old)
    assert groups.features == ("old",)
    assert codes.tolist() == [0, 0, 1, 1]
    found = find_sight(X, columns, groups, old, aware=True, marks=True)
    assert found.view(X, columns).X.columns.tolist()[-1] == "old=True"


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
    found = find_sight(X, columns, groups, WHERE, aware=["sex"], marks=True)
    people = found.view(X, {"sex": np.array(["X", "F", "F", "F"])})
    assert people.known.tolist() == [-1, 0, 0, 0]
    assert found.allowed(groups, people.known)[0].all()
