import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.flat import build

import evenhand as eh
from evenhand.estimators.access import find_access, find_sensitive
from evenhand.exceptions import GroupError, VisibleFeatureWarning

X = pd.DataFrame({"age": [30, 40, 50, 60], "sex": ["F", "M", "F", "M"], "race": ["A", "A", "B", "B"]})
WHERE = ["sex", "race"]


def find_groups(X, beside, where, **policies):
    columns = find_sensitive(X, beside, where)
    return *eh.Groups.fit(columns, **policies), columns


def access(where, aware, beside=None):
    groups, _, columns = find_groups(X, beside, where)
    return find_access(X, columns, groups, where, aware=aware), groups, columns


def test_blind_models_do_not_see_sensitive_columns():
    found, _, columns = access(WHERE, False)
    visible = found.view(X, columns)
    assert visible.X.columns.tolist() == ["age"]
    assert visible.known is None


def test_aware_models_see_indicators_of_the_group():
    found, groups, columns = access(WHERE, True)
    visible = found.view(X, columns)
    assert visible.X.columns.tolist() == ["age", *(f"known_group_{m}" for m in range(4))]
    assert visible.X.iloc[:, 1:].to_numpy().argmax(axis=1).tolist() == visible.known.tolist()
    assert visible.known.tolist() == [0, 2, 1, 3]
    assert found.knows(groups)


def test_models_may_be_aware_of_some_features_only():
    found, groups, columns = access(WHERE, ["race"])
    visible = found.view(X, columns)
    assert visible.X.columns.tolist() == ["age", "known_group_0", "known_group_1"]
    assert found.allowed(groups, visible.known).astype(int).tolist() == [
        [1, 0, 1, 0],
        [1, 0, 1, 0],
        [0, 1, 0, 1],
        [0, 1, 0, 1],
    ]
    assert not found.knows(groups)


def test_features_passed_separately_are_added_to_x_if_they_may_be_used():
    beside = X[WHERE]
    found, _, columns = access(None, True, beside)
    visible = found.view(X[["age"]], columns)
    inside, _, named = access(WHERE, True)
    pd.testing.assert_frame_equal(visible.X, inside.view(X, named).X)
    with pytest.warns(VisibleFeatureWarning, match="X contains the sensitive feature 'sex'.*to hide it"):
        access(None, False, beside)


def test_a_matrix_hides_columns_by_position():
    matrix = X.assign(sex=[0, 1, 0, 1], race=[0, 0, 1, 1]).to_numpy()
    groups, _, columns = find_groups(matrix, None, [1, 2])
    found = find_access(matrix, columns, groups, [1, 2], aware=["x2"])
    assert groups.features == ("x1", "x2")
    visible = found.view(matrix, columns).X
    assert visible.tolist() == [[30, 1, 0], [40, 1, 0], [50, 0, 1], [60, 0, 1]]
    assert visible.dtype == np.float64


def test_a_function_of_x_gives_groups():
    def old(table):
        return {"old": table["age"] >= 50}

    groups, codes, columns = find_groups(X, None, old)
    assert groups.features == ("old",)
    assert codes.tolist() == [0, 0, 1, 1]
    found = find_access(X, columns, groups, old, aware=True)
    assert found.view(X, columns).X["known_group_1"].tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("beside", "where", "message"),
    [
        (None, None, "no sensitive features: pass sensitive_features= to fit, or name columns"),
        (X[["sex"]], ["sex"], "both named in the constructor and passed to fit: choose one"),
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
        access(WHERE, ["gender"])


def test_an_unseen_known_value_leaves_all_groups_possible():
    groups, _, columns = find_groups(X, None, WHERE, unseen="pooled")
    found = find_access(X, columns, groups, WHERE, aware=["sex"])
    visible = found.view(X, {"sex": np.array(["X", "F", "F", "F"])})
    assert visible.known.tolist() == [-1, 0, 0, 0]
    assert found.allowed(groups, visible.known)[0].all()


@pytest.mark.parametrize(("fitted_to", "seen"), [(3, ["age", "sex", "race"]), (1, ["age"]), (-1, list(X))])
def test_a_frozen_model_sees_the_columns_that_it_was_fitted_to(fitted_to, seen):
    groups, _, columns = find_groups(X, None, WHERE)
    found = find_access(X, columns, groups, WHERE, aware=True, frozen_to=fitted_to)
    visible = found.view(X, columns)
    assert visible.X.columns.tolist() == seen
    assert visible.known.tolist() == [0, 2, 1, 3]


def test_only_columns_that_may_be_used_are_needed_at_prediction():
    found, _, _ = access(WHERE, ["race"])
    assert found.hidden == ("sex", "race")
    assert found.unused == ("sex",)


@pytest.mark.parametrize("library", [pd, pl])
def test_sensitive_columns_alone_are_enough_for_an_aware_model(library):
    table = library.DataFrame({"sex": ["F", "M", "F"]})
    groups, _, columns = find_groups(table, None, "sex")
    visible = find_access(table, columns, groups, "sex", aware=True).view(table, columns)
    assert np.asarray(visible.X).tolist() == [[1, 0], [0, 1], [1, 0]]


@pytest.mark.parametrize("kind", [eh.FairPostprocessor, eh.FairInprocessor])
def test_a_pipeline_that_drops_the_group_is_told(kind):
    """What `aware` adds to X is lost in a ColumnTransformer that lists its columns."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=200), "sex": rng.choice(["F", "M"], 200)})
    y = (table["x"] + (table["sex"] == "M") + rng.normal(size=200) > 0).astype(int)

    def fitted(remainder, aware):
        columns = ColumnTransformer([("number", StandardScaler(), ["x"])], remainder=remainder)
        pipeline = make_pipeline(columns, LogisticRegression())
        parity = eh.DemographicParity(difference=0.3)
        return build(kind, pipeline, parity, sensitive_features="sex", aware=aware, cv=2).fit(table, y)

    with pytest.warns(VisibleFeatureWarning, match=r"leaves out .*'known_group_0'.*remainder='passthrough'"):
        fitted("drop", True)
    fitted("passthrough", True)
    fitted("drop", False)
