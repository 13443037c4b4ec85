"""How far an audit depends on rows without a sensitive value, against every assignment of them to groups."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.auditing.comparison import FOUR_FIFTHS
from evenhand.exceptions import PooledGroupsWarning, VacuousConstraintWarning

NEW = "(new)"
"""A value that no complete row has."""


def assignments(sex, race):
    """Every way to fill in what is missing."""
    options = [
        [
            (a, b)
            for a in (["F", "M", NEW] if s is None else [s])
            for b in (["A", "B", NEW] if r is None else [r])
        ]
        for s, r in zip(sex, race, strict=True)
    ]
    return itertools.product(*options)


def rate(rows, y, d, name):
    """A rate of some rows by its definition."""
    counted = {
        "selection rate": [(d[i], 1) for i in rows],
        "error rate": [(d[i] != y[i], 1) for i in rows],
        "true-positive rate": [(d[i], y[i]) for i in rows],
        "false-positive rate": [(d[i], 1 - y[i]) for i in rows],
        "precision": [(y[i], d[i]) for i in rows],
    }[name]
    total = sum(weight for _, weight in counted)
    return sum(value * weight for value, weight in counted) / total if total else math.nan


def groups_of(key, mode):
    return [key] if mode == "intersectional" else [("sex", key[0]), ("race", key[1])]


def disparity(rates, overall, measure, against):
    """Of the groups that are compared, by definition; rates by family."""
    values = []
    for family in rates:
        known = [q for q in family if not math.isnan(q)]
        if against == "groups" and known:
            low, high = min(known), max(known)
            values.append(high - low if measure == "difference" else low / high if high else 1.0)
        for q in known if against == "population" else ():
            if measure == "difference":
                values.append(abs(q - overall))
            else:
                up = q / overall if overall else 1.0
                values.append(min(up, (1 - q) / (1 - overall) if overall < 1 else 1.0))
    return max(values) if measure == "difference" else min(values)


TABLES = st.lists(
    st.tuples(st.sampled_from(["F", "M"]), st.sampled_from(["A", "B"]), st.integers(0, 1), st.integers(0, 1)),
    min_size=4,
    max_size=9,
)
LACKING = st.lists(
    st.tuples(
        st.sampled_from([("F", None), (None, "B"), (None, None), ("M", None)]),
        st.integers(0, 1),
        st.integers(0, 1),
    ),
    min_size=1,
    max_size=3,
)


@settings(max_examples=40, deadline=None)
@given(
    TABLES,
    LACKING,
    st.sampled_from(["intersectional", "independent"]),
    st.sampled_from(["difference", "ratio"]),
    st.sampled_from(["population", "groups"]),
)
def test_ranges_are_those_of_all_assignments(table, lacking, mode, measure, against):
    """Rates of groups and the worst disparity are exact; the best is never above what is attained."""
    table = [*table, ("F", "A", 1, 0), ("M", "B", 0, 1)]
    rows = [*table, *((*key, y, d) for key, y, d in lacking)]
    sex, race, y, d = (list(column) for column in zip(*rows, strict=True))
    notion = eh.DemographicParity(**{measure: 0.5}, groups=mode, against=against)
    found = eh.audit(y, d, {"sex": sex, "race": race}, constraint=notion, missing="exclude").excluded
    complete = {(a, b) for a, b, _, _ in table}
    compared = sorted({group for key in complete for group in groups_of(key, mode)})
    features = [[g for g in compared if g[0] == name] for name in ("sex", "race")]
    families = [compared] if mode == "intersectional" else features
    everyone = range(len(rows))
    limits, disparities = {}, []
    for filled in assignments(sex, race):
        by_group = {g: [] for key in complete for g in (key, *groups_of(key, "independent"))}
        for i, key in enumerate(filled):
            for group in (key, *groups_of(key, "independent")):
                if group in by_group:
                    by_group[group].append(i)
        for group, members in by_group.items():
            for name in ("selection rate", "error rate", "true-positive rate", "false-positive rate"):
                q = rate(members, y, d, name)
                if not math.isnan(q):
                    low, high = limits.get((group, name), (q, q))
                    limits[group, name] = min(low, q), max(high, q)
        rates = [[rate(by_group[g], y, d, "selection rate") for g in family] for family in families]
        disparities.append(disparity(rates, rate(everyone, y, d, "selection rate"), measure, against))
    for one in found.rates:
        values = one.group.values
        if not one.group.features:
            expected = (rate(everyone, y, d, one.rate),) * 2
        else:
            group = values if len(values) == 2 else (one.group.features[0], values[0])
            expected = limits.get((group, one.rate), (math.nan, math.nan))
        assert (one.low, one.high) == pytest.approx(expected, nan_ok=True), one
    [asked] = [one for one in found.comparisons if one.notion == "demographic parity"]
    larger = measure == "difference"
    assert asked.worst == pytest.approx(max(disparities) if larger else min(disparities))
    least = min(disparities) if larger else max(disparities)
    assert (asked.best <= least + 1e-12) if larger else (asked.best >= least - 1e-12)


def test_figures_by_hand():
    """Ten women, of whom 4 are selected, ten men with 6, and 5 people of unknown sex, of whom 2."""
    sex = ["F"] * 10 + ["M"] * 10 + [None] * 5
    d = [1] * 4 + [0] * 6 + [1] * 6 + [0] * 4 + [1] * 2 + [0] * 3
    constraint = eh.SelectionRate(at_least=0.3, groups="intersectional") & eh.SelectionRate(at_most=0.6)
    audit = eh.audit(None, d, {"sex": sex}, constraint=constraint, missing="exclude")
    rates = {str(one.group): (one.low, one.high) for one in audit.excluded.rates}
    assert rates["sex=F"] == pytest.approx((4 / 13, 6 / 12))
    assert rates["sex=M"] == pytest.approx((6 / 13, 8 / 12))
    assert rates[""] == pytest.approx((12 / 25, 12 / 25))
    floor, capacity, rule = audit.excluded.comparisons
    assert (floor.value, floor.best, floor.worst) == pytest.approx((0.4, 0.5, 4 / 13))
    assert floor.settled == "holds in every case"
    assert (capacity.best, capacity.worst) == pytest.approx((0.48, 0.48))
    assert rule.notion == FOUR_FIFTHS
    assert (rule.value, rule.worst) == pytest.approx((4 / 6, (4 / 13) / (8 / 12)))
    assert rule.best == 1.0
    assert rule.settled == "depends on excluded rows"
    text = str(audit)
    assert "if excluded rows are counted in" in text
    assert "0.308 to 0.500" in text
    assert "1.000 to 0.462  depends on excluded rows (tolerance 0.8)" in text


def test_a_ratio_to_everyone_can_be_worst_where_the_rate_is_highest():
    """Of 15 of 22 selected, 10 of 11 men could be: one man is not selected where 7 of 22 people are not."""
    sex = ["F"] * 10 + ["M"] * 10 + [None] * 2
    d = [1] * 5 + [0] * 5 + [1] * 9 + [0] + [1, 0]
    audit = eh.audit(None, d, {"sex": sex}, constraint=eh.DemographicParity(ratio=0.5), missing="exclude")
    parity = audit.excluded.comparisons[0]
    assert parity.worst == pytest.approx((1 / 11) / (7 / 22))
    assert parity.settled == "depends on excluded rows"


def test_rows_that_have_a_value_are_in_its_group_for_sure():
    people = {"sex": ["F", "F", "M", "M", "F"], "race": ["A", "B", "A", "B", None]}
    audit = eh.audit(None, [1, 0, 1, 0, 0], people, missing="exclude")
    rates = {str(one.group): (one.value, one.low, one.high) for one in audit.excluded.rates}
    assert rates["sex=F"] == pytest.approx((1 / 2, 1 / 3, 1 / 3))
    assert rates["sex=M"] == (0.5, 0.5, 0.5)
    assert rates["race=A"] == pytest.approx((1.0, 2 / 3, 1.0))


def test_weights_precision_and_a_reference():
    rng = np.random.default_rng(0)
    n = 60
    sex = np.where(rng.random(n) < 0.2, None, rng.choice(["F", "M"], n)).astype(object)
    y, d, w = rng.integers(0, 2, n), rng.integers(0, 2, n), rng.integers(1, 4, n)
    wanted = eh.Precision(at_least=0.5, groups="intersectional") & eh.NoWorse("selection rate")
    rows = np.repeat(np.arange(n), w)
    heavy = eh.audit(
        y, d, {"sex": sex}, constraint=wanted, before=1 - d, sample_weight=w, missing="exclude"
    ).excluded
    often = eh.audit(
        y[rows], d[rows], {"sex": sex[rows]}, constraint=wanted, before=1 - d[rows], missing="exclude"
    ).excluded
    for one, other in zip(heavy.rates, often.rates, strict=True):
        assert (one.low, one.high) == pytest.approx((other.low, other.high))
    assert [one.notion for one in heavy.comparisons] == ["precision", FOUR_FIFTHS]  # a reference has no range
    [precision, _] = heavy.comparisons
    perhaps = rows[[value is None for value in sex[rows]]]
    lowest = []
    for value in ("F", "M"):
        own = rows[sex[rows] == value]
        chosen = [i for i in own if d[i]] + [i for i in perhaps if d[i] and not y[i]]
        lowest.append(y[chosen].mean())
    assert precision.worst == pytest.approx(min(lowest))


def test_pooled_groups_hold_what_was_pooled_into_them():
    race = ["A"] * 6 + ["B"] * 2 + ["C"] + [None] * 2
    sex = ["F", "M"] * 3 + ["F", "M", "F", "F", "M"]
    d = [1, 0] * 3 + [1, 0, 1, 1, 0]
    with pytest.warns(PooledGroupsWarning):
        audit = eh.audit(None, d, {"race": race}, missing="exclude", min_size=3)
    rates = {str(one.group): (one.low, one.high) for one in audit.excluded.rates}
    assert rates["race=(pooled)"] == pytest.approx((2 / 4, 3 / 4))
    with pytest.warns(PooledGroupsWarning):
        both = eh.audit(None, d, {"sex": sex, "race": race}, missing="exclude", min_size=3)
    rates = {str(one.group): (one.low, one.high) for one in both.excluded.rates}
    assert rates["sex=(pooled), race=(pooled)"] == pytest.approx((2 / 4, 3 / 4))
    assert rates["race=(pooled)"] == pytest.approx((2 / 4, 3 / 4))


def test_one_group_and_suppressed_counts():
    with pytest.warns(VacuousConstraintWarning):
        one = eh.audit(None, [1, 0, 1], {"sex": ["F", "F", None]}, missing="exclude")
    assert all(
        found.best == found.worst == 1.0 for found in one.excluded.comparisons if found.groups == "sex"
    )
    sex = ["F", "M"] * 50 + [None] * 20
    hidden = eh.audit(None, [1, 0, 0, 1] * 30, {"sex": sex}, missing="exclude", min_count=5)
    assert hidden.excluded.rows == 20
    assert hidden.excluded.rates == hidden.excluded.comparisons == ()
    assert len(hidden.to_frame("excluded", backend="polars")) == 0
    assert "counted in" not in str(hidden)


def test_tables_and_json():
    sex = ["F", "M"] * 50 + [None] * 20
    audit = eh.audit(None, [1, 0, 0, 1] * 30, {"sex": sex}, missing="exclude")
    table = audit.to_frame("excluded", backend="polars")
    assert table.columns[:4] == ["quantity", "measure", "groups", "group"]
    assert len(table) == len(audit.excluded.rates) + len(audit.excluded.comparisons)
    stored = audit.to_dict()["excluded"]
    assert {one["rate"] for one in stored["rates"]} == {"selection rate"}
    assert stored["comparisons"][-1]["settled"] == audit.excluded.comparisons[-1].settled
    assert "best to worst" in audit._repr_html_()
    nothing = eh.audit(None, [1, 0], {"sex": ["F", "M"]}, missing="exclude")
    assert nothing.excluded is None
    assert nothing.to_dict()["excluded"] is None
    assert len(nothing.to_frame("excluded", backend="pandas")) == 0
