"""Groups against plain Python, for any values."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.groups.groups import POOLED, Groups

values = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.text(max_size=2), st.floats(allow_nan=False)
)
table_rows = st.lists(st.tuples(values, values), min_size=1, max_size=30)


@given(table_rows)
def test_each_row_is_coded_by_its_own_values(rows):
    features = {"a": [row[0] for row in rows], "b": [row[1] for row in rows]}
    groups, codes = Groups.fit(features, missing="category")
    assert [groups.keys[code] for code in codes] == rows
    assert len(groups) == len(set(rows))
    assert np.array_equal(groups.counts, np.bincount(codes))
    assert np.array_equal(groups.encode(features), codes)


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.PooledGroupsWarning")
@given(table_rows, st.integers(0, 5))
def test_pooling_loses_no_row(rows, min_size):
    features = {"a": [row[0] for row in rows], "b": [row[1] for row in rows]}
    groups, codes = Groups.fit(features, missing="category", min_size=min_size)
    assert groups.counts.sum() == len(rows)
    assert np.array_equal(groups.counts, np.bincount(codes))
    for row, code in zip(rows, codes, strict=True):
        assert row == groups.keys[code] or (row in groups.pooled and POOLED in groups.keys[code])
    assert np.array_equal(groups.encode(features), codes)


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.PooledGroupsWarning")
@given(table_rows, st.integers(0, 8))
def test_pooling_leaves_every_family_a_partition_in_which_only_rare_groups_are_pooled(rows, min_size):
    features = {"a": [row[0] for row in rows], "b": [row[1] for row in rows]}
    groups, codes = Groups.fit(features, missing="category", min_size=min_size)
    for names in (("a", "b"), ("a",), ("b",)):
        family = groups.members("intersectional" if len(names) > 1 else "independent")
        own = [k for k, name in enumerate(family.names) if name.features == names]
        held = family.matrix[own][:, codes]
        assert (held.sum(axis=0) == 1).all()
        keys = list(zip(*(features[name] for name in names), strict=True))
        rare = {key for key, count in Counter(keys).items() if count < min_size}
        for k, row in zip(own, held, strict=True):
            values = family.names[k].values
            if POOLED in values:
                assert {keys[i] for i in np.flatnonzero(row)} == rare
            else:
                assert row.tolist() == [key == values for key in keys]


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.PooledGroupsWarning")
@given(table_rows, st.integers(0, 5))
def test_merging_pooled_combinations_changes_no_combination(rows, min_size):
    features = {"a": [row[0] for row in rows], "b": [row[1] for row in rows]}
    settings = {"missing": "category", "min_size": min_size}
    apart, codes = Groups.fit(features, **settings)
    merged, new = Groups.fit(features, **settings, single_features=False)
    family = apart.members()
    assert family.names == merged.members().names
    assert np.array_equal(family.matrix[:, codes], merged.members().matrix[:, new])
    assert np.array_equal(merged.encode(features), new)


@given(table_rows)
def test_the_values_of_each_feature_partition_the_groups(rows):
    features = {"a": [row[0] for row in rows], "b": [row[1] for row in rows]}
    groups, _ = Groups.fit(features, missing="category")
    family = groups.members("independent")
    for feature in groups.features:
        mine = [name.features == (feature,) for name in family.names]
        assert (family.matrix[mine].sum(axis=0) == 1).all()
