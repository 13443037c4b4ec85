"""Groups against plain Python, for any values."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenhand.groups import POOLED, Groups

values = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.text(max_size=2), st.floats(allow_nan=False)
)
people = st.lists(st.tuples(values, values), min_size=1, max_size=30)


@given(people)
def test_each_row_is_coded_by_its_own_values(rows):
    features = {"a": [row[0] for row in rows], "b": [row[1] for row in rows]}
    groups, codes = Groups.fit(features, missing="own_group")
    assert [groups.keys[code] for code in codes] == rows
    assert len(groups) == len(set(rows))
    assert np.array_equal(groups.counts, np.bincount(codes))
    assert np.array_equal(groups.encode(features), codes)


@given(people, st.integers(0, 5))
def test_pooling_loses_no_row(rows, min_size):
    features = {"a": [row[0] for row in rows], "b": [row[1] for row in rows]}
    groups, codes = Groups.fit(features, missing="own_group", min_size=min_size)
    assert groups.counts.sum() == len(rows)
    assert np.array_equal(groups.counts, np.bincount(codes))
    for row, code in zip(rows, codes, strict=True):
        assert row == groups.keys[code] or (row in groups.pooled and POOLED in groups.keys[code])
    assert np.array_equal(groups.encode(features), codes)


@given(people)
def test_the_values_of_each_feature_partition_the_groups(rows):
    features = {"a": [row[0] for row in rows], "b": [row[1] for row in rows]}
    groups, _ = Groups.fit(features, missing="own_group")
    family = groups.members("independent")
    for feature in groups.features:
        mine = [name.features == (feature,) for name in family.names]
        assert (family.matrix[mine].sum(axis=0) == 1).all()
