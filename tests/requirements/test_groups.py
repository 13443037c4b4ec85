import datetime
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest

from evenhand.exceptions import GroupError, InputError, ManyGroupsWarning
from evenhand.groups.groups import POOLED, Groups

PEOPLE = {"sex": ["F", "M", "F", "M", "M"], "age": [1, 2, 2, 1, 1]}


def test_every_kind_of_table_gives_the_same_groups(table):
    groups, codes = Groups.fit(table(PEOPLE))
    assert groups.features == ("sex", "age")
    assert groups.keys == (("F", 1), ("F", 2), ("M", 1), ("M", 2))
    assert codes.tolist() == [0, 3, 1, 2, 2]
    assert groups.counts.tolist() == [1, 1, 2, 1]
    assert groups.encode(table(PEOPLE)).tolist() == codes.tolist()


def test_a_single_column_makes_groups(column):
    groups, codes = Groups.fit(column(["b", "a", "b"]))
    assert groups.keys == (("a",), ("b",))
    assert codes.tolist() == [1, 0, 1]


def test_only_combinations_that_occur_are_groups_and_the_others_are_listed():
    groups, _ = Groups.fit({"sex": ["F", "M"], "age": [1, 2]})
    assert len(groups) == 2
    assert list(groups.absent()) == [("F", 2), ("M", 1)]


def test_names_that_would_collide_when_joined_stay_apart():
    groups, codes = Groups.fit({"x": ["a,b", "a"], "y": ["c", "b,c"]})
    assert len(groups) == 2
    assert len({str(name) for name in groups.names}) == 2
    assert codes.tolist() == [1, 0]


def test_many_features_are_combined_sparsely():
    rng = np.random.default_rng(0)
    features = {f"f{k}": rng.integers(0, 2, 200) for k in range(40)}
    groups, codes = Groups.fit(features)
    assert len(groups) == len(np.unique(np.column_stack(list(features.values())), axis=0))
    assert groups.counts.sum() == len(codes) == 200
    assert groups.encode(features).tolist() == codes.tolist()


def test_seventy_binary_features_do_not_overflow():
    rng = np.random.default_rng(0)
    features = {f"f{k}": rng.integers(0, 2, 300) for k in range(70)}
    groups, codes = Groups.fit(features)
    assert len(groups) == 300
    assert [features[f"f{k}"][0] for k in range(70)] == list(groups.keys[codes[0]])


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ManyGroupsWarning")
def test_features_with_many_levels_are_combined():
    rng = np.random.default_rng(0)
    features = {name: rng.integers(0, 190, 9000) for name in "abc"}
    groups, codes = Groups.fit(features)
    keys = np.array([groups.keys[code] for code in codes])
    assert np.array_equal(keys, np.column_stack(list(features.values())))
    assert list(groups.keys) == sorted(groups.keys)


def test_independent_groups_are_unions_of_the_finest_ones():
    groups, _ = Groups.fit(PEOPLE)
    family = groups.members("independent")
    assert [str(name) for name in family.names] == ["sex=F", "sex=M", "age=1", "age=2"]
    assert family.matrix.tolist() == [
        [True, True, False, False],
        [False, False, True, True],
        [True, False, True, False],
        [False, True, False, True],
    ]
    assert np.array_equal(groups.members("intersectional").matrix, np.eye(4, dtype=bool))


@pytest.mark.parametrize("value", [None, float("nan"), pd.NA])
def test_a_missing_value_is_an_error_or_a_group_of_its_own(value):
    sex = np.array(["F", value, "M", value], dtype=object)
    with pytest.raises(GroupError, match=r"'sex' is missing in 2 of 4 rows.*missing='category'"):
        Groups.fit({"sex": sex})
    groups, codes = Groups.fit({"sex": sex}, missing="category")
    assert groups.keys == (("F",), ("M",), (None,))
    assert codes.tolist() == [0, 2, 1, 2]
    assert str(groups.names[2]) == "sex=(missing)"
    assert groups.encode({"sex": ["M", None]}).tolist() == [1, 2]


def test_a_value_first_missing_at_prediction_is_refused():
    groups, _ = Groups.fit(PEOPLE, unseen="pooled")
    with pytest.raises(GroupError, match="'sex' is missing in 1 of 1 rows"):
        groups.encode({"sex": [None], "age": [1]})
    groups, _ = Groups.fit(PEOPLE, missing="category")
    with pytest.raises(GroupError, match=r"sex=\(missing\), age=1 \(1 row\)"):
        groups.encode({"sex": [None], "age": [1]})


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.PooledGroupsWarning")
def test_pooled_groups_are_recorded():
    race = ["A"] * 5 + ["B"] * 4 + ["C", "D", "D"]
    groups, codes = Groups.fit({"race": race, "sex": ["F"] * 12}, min_size=3)
    assert groups.keys == (("A", "F"), ("B", "F"), (POOLED, "F"))
    assert groups.pooled == {("C", "F"): 1, ("D", "F"): 2}
    assert groups.counts.tolist() == [5, 4, 3]
    assert codes[-3:].tolist() == [2, 2, 2]
    assert str(groups.names[2]) == "race=(pooled), sex=F"
    assert groups.encode({"race": ["D", "A"], "sex": ["F", "F"]}).tolist() == [2, 0]
    assert list(groups.absent()) == []
    assert groups.levels("race") == ("A", "B", POOLED)


def test_a_single_rare_group_is_kept():
    groups, _ = Groups.fit({"race": ["A", "A", "B"]}, min_size=2)
    assert groups.keys == (("A",), ("B",))
    assert groups.pooled == {}


def test_unseen_groups_are_an_error_with_row_counts():
    groups, _ = Groups.fit(PEOPLE)
    with pytest.raises(
        GroupError, match=r"2 of 3 rows belong to groups not seen in fit: sex=X, age=1 \(2 rows\)"
    ):
        groups.encode({"sex": ["X", "X", "F"], "age": [1, 1, 1]})


def test_a_long_list_of_unseen_groups_is_shortened():
    groups, _ = Groups.fit({"race": ["A", "B"]})
    with pytest.raises(GroupError, match="and 3 more"):
        groups.encode({"race": list("STUVWXYZ")})


def test_a_change_of_dtype_is_explained():
    groups, _ = Groups.fit({"race": [1, 2]})
    with pytest.raises(GroupError, match="'race' was 1 of type int and is now '1' of type str: convert"):
        groups.encode({"race": ["1", "2"]})


@pytest.mark.parametrize(("old", "new"), [(1, "1"), (1, b"1"), ("1", 1.0)])
def test_a_change_of_dtype_is_explained_for_any_combination(old, new):
    groups, _ = Groups.fit({"race": [old, 7, 7], "sex": ["F", "F", "M"]})
    with pytest.raises(GroupError, match=r"'race' was .* and is now .*: convert the column"):
        groups.encode({"race": [new], "sex": ["M"]})


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.PooledGroupsWarning")
def test_rows_are_not_pooled_into_a_group_with_other_values():
    people = {"race": ["A"] * 5 + ["B"] * 5 + ["C", "D"], "sex": ["F"] * 5 + ["M"] * 5 + ["F"] * 2}
    groups, _ = Groups.fit(people, min_size=3, unseen="pooled")
    assert groups.keys[2] == (POOLED, "F")
    assert groups.encode({"race": ["Z", "Z"], "sex": ["M", "F"]}).tolist() == [-1, 2]


def test_columns_with_numbers_for_names():
    people = pd.DataFrame({0: ["F", "M", "F"], 5: [1, 1, 2]})
    groups, codes = Groups.fit(people)
    assert groups.features == ("0", "5")
    assert codes.tolist() == [0, 2, 1]
    assert Groups.fit(pd.Series(["a", "b"], name=0))[0].features == ("0",)


@pytest.mark.parametrize(
    ("names", "message"),
    [([1, "1"], "columns of the same name: 1"), ([("a", "b"), ("a", "c")], "several levels of names")],
)
def test_ambiguous_column_names_are_refused(names, message):
    with pytest.raises(InputError, match=message):
        Groups.fit(pd.DataFrame([["a", "x"], ["b", "x"]], columns=names))


def test_a_feature_may_have_any_name():
    assert Groups.fit({"expected": ["F", "M"]})[0].features == ("expected",)


def test_dates_are_the_same_in_every_library(column):
    days = [datetime.datetime(2020, 1, 2), datetime.datetime(2020, 1, 1)]
    groups, _ = Groups.fit(column(days))
    assert groups.encode(np.array(days, dtype="datetime64[ns]")).tolist() == [1, 0]
    assert str(groups.names[0]).endswith("=2020-01-01 00:00:00")


def test_unhashable_values_are_refused():
    with pytest.raises(InputError, match="cannot be"):
        Groups.fit(pl.Series([[1], [2]]))


def test_an_unknown_feature_is_named():
    with pytest.raises(GroupError, match="no sensitive feature 'gender'; there are 'sex', 'age'"):
        Groups.fit(PEOPLE)[0].levels("gender")


def test_too_many_groups_to_compare_are_refused():
    with pytest.raises(GroupError, match="20,000 groups over 20,000 combinations are too many"):
        Groups.product({"g": range(20_000)}).members()


def test_whole_numbers_match_whatever_their_width():
    groups, _ = Groups.fit({"race": np.array([1, 2], dtype=np.int8)})
    assert groups.encode({"race": np.array([2.0, 1.0])}).tolist() == [1, 0]


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.PooledGroupsWarning")
def test_unseen_groups_are_pooled_on_request():
    race = ["A"] * 5 + ["C", "D"]
    groups, _ = Groups.fit({"race": race}, min_size=3, unseen="pooled")
    assert groups.encode({"race": ["Z", "A"]}).tolist() == [1, 0]
    groups, _ = Groups.fit({"race": race}, unseen="pooled")
    assert groups.encode({"race": ["Z", "A"]}).tolist() == [-1, 0]


def test_columns_are_matched_by_name_and_other_features_refused():
    groups, codes = Groups.fit(PEOPLE)
    reordered = {"age": PEOPLE["age"], "sex": PEOPLE["sex"]}
    assert groups.encode(reordered).tolist() == codes.tolist()
    with pytest.raises(GroupError, match="are 'gender', 'age', but the groups were made from 'sex', 'age'"):
        groups.encode({"gender": PEOPLE["sex"], "age": PEOPLE["age"]})
    unnamed = np.array([PEOPLE["sex"], PEOPLE["age"]], dtype=object).T
    assert groups.encode(unnamed).tolist() == codes.tolist()


def test_a_continuous_column_is_refused_with_a_hint():
    with pytest.raises(GroupError, match=r"'income' has more than 200 distinct values. Put the values"):
        Groups.fit({"income": np.random.default_rng(0).normal(size=1000)})


@pytest.mark.parametrize("policy", [{"missing": "drop"}, {"unseen": "guess"}])
def test_policies_are_checked(policy):
    with pytest.raises(InputError, match="must be one of"):
        Groups.fit(PEOPLE, **policy)


def test_a_table_without_columns_is_refused():
    with pytest.raises(GroupError, match="no columns"):
        Groups.fit({})


def test_columns_of_unequal_length_are_refused():
    with pytest.raises(InputError, match=r"\['sex'\] has 2, sensitive_features\['age'\] has 1"):
        Groups.fit({"sex": ["F", "M"], "age": [1]})


def test_pooled_survives_pickling():
    assert pickle.loads(pickle.dumps(POOLED)) is POOLED  # noqa: S301
    assert repr(POOLED) == "POOLED"


def test_many_numbers_cause_a_warning():
    """53 ages would be 53 groups; numeric codes of a few groups, and text, are no reason to warn."""
    ages = np.arange(530) % 53 + 18
    with pytest.warns(ManyGroupsWarning, match=r"'age' has 53 different numbers.*Band them first"):
        Groups.fit({"age": ages})
    Groups.fit({"code": ages % 20})
    Groups.fit({"name": [f"n{age}" for age in ages]})
