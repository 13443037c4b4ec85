"""``missing="exclude"``: rows without a sensitive value are in no group, and are counted."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import evenhand as eh
from evenhand.exceptions import GroupError, InputError
from evenhand.groups.groups import Groups

PEOPLE = {
    "sex": ["F", "M", None, "F", None, "M", "F", "M"],
    "race": ["A", "B", "A", None, None, "A", "B", "B"],
}


def test_excluded_rows_are_in_no_group_and_counted():
    groups, codes = Groups.fit(PEOPLE, missing="exclude")
    assert groups.keys == (("F", "A"), ("F", "B"), ("M", "A"), ("M", "B"))
    assert codes.tolist() == [0, 3, -1, -1, -1, 2, 1, 3]
    assert groups.counts.tolist() == [1, 1, 1, 2]
    assert groups.excluded == {("F", None): 1, (None, "A"): 1, (None, None): 1}
    assert groups.excluded_rows == 3
    assert groups.excluded_by_feature == {"sex": 2, "race": 2}
    assert groups.levels("sex") == ("F", "M")


@pytest.mark.parametrize("value", [None, float("nan"), pd.NA], ids=["None", "nan", "NA"])
def test_every_kind_of_missing_value_is_excluded(value):
    groups, codes = Groups.fit({"sex": np.array(["F", value, "M"], dtype=object)}, missing="exclude")
    assert codes.tolist() == [0, -1, 1]
    assert groups.excluded == {(None,): 1}
    assert groups.encode({"sex": ["M", None]}).tolist() == [1, -1]


def test_complete_data_are_the_same_under_every_policy():
    complete = {name: [value or "F" for value in column] for name, column in PEOPLE.items()}
    one, first = Groups.fit(complete)
    other, second = Groups.fit(complete, missing="exclude")
    assert one.keys == other.keys
    assert np.array_equal(first, second)
    assert other.excluded == {}
    assert other.excluded_rows == 0


def test_rare_groups_are_pooled_among_the_rows_that_are_left():
    with pytest.warns(eh.exceptions.PooledGroupsWarning):
        groups, codes = Groups.fit(PEOPLE, missing="exclude", min_size=2)
    assert codes[[2, 3, 4]].tolist() == [-1, -1, -1]
    assert sum(groups.pooled.values()) == 3
    assert groups.counts.sum() == 5
    assert set(codes.tolist()) == {-1, *range(len(groups))}


def test_an_unseen_group_is_still_refused():
    groups, _ = Groups.fit(PEOPLE, missing="exclude")
    with pytest.raises(GroupError, match=r"1 of 2 rows belong to groups not seen"):
        groups.encode({"sex": ["X", None], "race": ["A", "A"]})


def test_all_rows_excluded_and_unknown_policies_are_refused():
    with pytest.raises(GroupError, match=r"every row lacks a value of 'sex' or 'race'.*missing='category'"):
        Groups.fit({"sex": [None, "F"], "race": ["A", None]}, missing="exclude")
    with pytest.raises(InputError, match="'exclude'"):
        Groups.fit(PEOPLE, missing="drop")


def test_counts_are_those_of_the_complete_rows():
    rng = np.random.default_rng(0)
    y, d, weight = rng.random(8) < 0.5, rng.random(8) < 0.5, rng.random(8)
    whole = [0, 1, 5, 6, 7]
    found = eh.cell_rates(y, d, PEOPLE, missing="exclude", sample_weight=weight)
    expected = eh.cell_rates(
        y[whole], d[whole], pd.DataFrame(PEOPLE).iloc[whole], sample_weight=weight[whole]
    )
    assert np.allclose(found.mass, expected.mass)
    assert np.allclose(found.selected, expected.selected)
    assert found.groups.excluded_rows == 3


def people(n=600, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"sex": rng.choice(["F", "M"], n), "race": rng.choice(["A", "B"], n)}, dtype=object)
    frame["y"], frame["d"] = (rng.random(n) < 0.5).astype(int), (rng.random(n) < 0.4).astype(int)
    frame["w"] = rng.random(n)
    for name in ("sex", "race"):
        frame.loc[rng.random(n) < 0.1, name] = None
    return frame


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("where", ["rows", "table", "lazy"])
def test_an_audit_leaves_excluded_rows_out_and_says_so(where, weighted):
    frame = people()
    whole = frame.dropna()
    constraint = eh.DemographicParity(difference=0.1)
    expected = eh.audit(
        whole["y"],
        whole["d"],
        whole[["sex", "race"]],
        constraint=constraint,
        sample_weight=whole["w"] if weighted else None,
    )
    if where == "rows":
        found = eh.audit(
            frame["y"],
            frame["d"],
            frame[["sex", "race"]],
            constraint=constraint,
            missing="exclude",
            sample_weight=frame["w"] if weighted else None,
        )
    else:
        table = pl.from_pandas(frame)
        found = eh.audit(
            "y",
            "d",
            ["sex", "race"],
            data=table.lazy() if where == "lazy" else table,
            constraint=constraint,
            missing="exclude",
            sample_weight="w" if weighted else None,
        )
    assert expected.excluded is None
    for one, other in zip(found.groups, expected.groups, strict=True):
        assert one.group == other.group
        assert (one.rows, one.selected, one.positives) == (other.rows, other.selected, other.positives)
        for name, rate in other.rates.items():
            assert one.rates[name].value == pytest.approx(rate.value)
            assert one.rates[name].low == pytest.approx(rate.low)
    assert [one.verdict for one in found.comparisons] == [one.verdict for one in expected.comparisons]
    lacking = frame[["sex", "race"]].isna()
    assert found.excluded.rows == lacking.any(axis=1).sum()
    assert found.excluded.of_rows == len(frame)
    assert found.excluded.by_feature == lacking.sum().to_dict()
    left_out = frame[lacking.any(axis=1)]
    weights = left_out["w"] if weighted else None
    assert found.excluded.selection_rate == pytest.approx(np.average(left_out["d"], weights=weights))
    sentence = f"{found.excluded.rows} of 600 rows lack a sensitive value and are left out"
    assert sentence in " ".join(str(found).split())
    assert sentence in found._repr_html_()
    assert found.to_dict()["excluded"]["by_feature"] == lacking.sum().to_dict()


def test_small_numbers_of_excluded_rows_are_suppressed():
    frame = people()
    frame.loc[frame.index[:3], ["sex", "race"]] = None
    lacking = frame[["sex", "race"]].isna()
    found = eh.audit(frame["y"], frame["d"], frame[["sex", "race"]], missing="exclude", min_count=5).excluded
    rows = lacking.any(axis=1).sum()
    assert (found.rows, found.of_rows, found.by_feature, found.selection_rate) == (rows, 600, None, None)
    few = frame[~lacking.any(axis=1) | (np.arange(len(frame)) < 3)]
    audit = eh.audit(few["y"], few["d"], few[["sex", "race"]], missing="exclude", min_count=5)
    assert (audit.excluded.rows, audit.excluded.of_rows, audit.excluded.by_feature) == (None, None, None)
    assert "their number is small" in " ".join(str(audit).split())
