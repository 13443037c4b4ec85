"""How far an audit depends on rows without a sensitive value, against every assignment of them to groups."""

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tests.conftest import examples

import evenhand as eh
from evenhand.auditing.comparison import FOUR_FIFTHS
from evenhand.exceptions import PooledGroupsWarning, VacuousConstraintWarning

STATISTICS = {
    "demographic parity": ("selection rate",),
    "equal opportunity": ("true-positive rate",),
    "predictive equality": ("false-positive rate",),
    "equalised odds": ("true-positive rate", "false-positive rate"),
}
NOTIONS = {
    "demographic parity": eh.DemographicParity,
    "equal opportunity": eh.EqualOpportunity,
    "predictive equality": eh.PredictiveEquality,
    "equalised odds": eh.EqualizedOdds,
}


def assignments(columns):
    """Every way to fill in what is missing, by values that the feature has in the data."""
    levels = [sorted({value for value in column if value is not None}) for column in columns]
    options = [
        list(itertools.product(*([v] if v is not None else own for v, own in zip(key, levels, strict=True))))
        for key in zip(*columns, strict=True)
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


def families(filled, mode):
    """The groups that are compared with each other: rows by combination, or by value of each feature."""
    parts = [(k,) for k in range(len(filled[0]))] if mode == "independent" else [range(len(filled[0]))]
    found = []
    for places in parts:
        by_key = {}
        for i, key in enumerate(filled):
            by_key.setdefault(tuple(key[p] for p in places), []).append(i)
        found.append(by_key)
    return found


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
    if not values:
        return math.nan
    return max(values) if measure == "difference" else min(values)


TABLES = st.lists(
    st.tuples(st.sampled_from(["F", "M"]), st.sampled_from(["A", "B"]), st.integers(0, 1), st.integers(0, 1)),
    min_size=4,
    max_size=9,
)
LACKING = st.lists(
    st.tuples(
        st.sampled_from([("F", None), (None, "B"), (None, None), ("M", None), (None, "C")]),
        st.integers(0, 1),
        st.integers(0, 1),
    ),
    min_size=1,
    max_size=3,
)


def tables(table, lacking, features):
    """Columns of the features, labels and decisions."""
    rows = [*table, *((*key, y, d) for key, y, d in lacking)]
    sex, race, y, d = (list(column) for column in zip(*rows, strict=True))
    columns = {"sex": sex, "race": race}
    return {name: columns[name] for name in features}, y, d


def check_settled(found, values, tolerance, *, larger_is_worse):
    """The verdict over all assignments, from the value of each."""
    holds = [value <= tolerance if larger_is_worse else value >= tolerance for value in values]
    if found.settled == "holds whatever the missing values are":
        assert all(holds)
    elif found.settled == "fails whatever the missing values are":
        assert not any(holds)
    else:
        assert not all(holds)  # the worst case is attained, so that what always holds is known


@settings(max_examples=examples(150))
@given(
    table=TABLES,
    lacking=LACKING,
    features=st.sampled_from([("sex", "race"), ("sex",), ("race",)]),
    label=st.sampled_from(list(NOTIONS)),
    mode=st.sampled_from(["intersectional", "independent"]),
    measure=st.sampled_from(["difference", "ratio"]),
    against=st.sampled_from(["population", "groups"]),
    tolerance=st.sampled_from([0.123, 0.345, 0.678, 0.891]),
)
@example(  # one woman of unknown race: if she is B, she is a group of her own
    table=[("F", "A", 1, 1), ("F", "A", 0, 0), ("M", "A", 0, 1), ("M", "A", 0, 0), ("M", "B", 0, 1)],
    lacking=[(("F", None), 0, 1)],
    features=("sex", "race"),
    label="demographic parity",
    mode="intersectional",
    measure="difference",
    against="population",
    tolerance=0.123,
)
@example(  # only the excluded row can give men a true-positive rate
    table=[("F", "A", 1, 1), ("M", "A", 0, 0)],
    lacking=[((None, "A"), 1, 0)],
    features=("sex",),
    label="equal opportunity",
    mode="intersectional",
    measure="difference",
    against="population",
    tolerance=0.123,
)
def test_disparities_are_those_of_all_assignments(
    *, table, lacking, features, label, mode, measure, against, tolerance
):
    """The worst disparity is attained, the best never exceeded, and what holds in every case does."""
    columns, y, d = tables(table, lacking, features)
    assume(len(set(y)) == 2 and any(None in column for column in columns.values()))
    notion = NOTIONS[label](**{measure: tolerance}, groups=mode, against=against)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VacuousConstraintWarning)
        found = eh.audit(y, d, columns, constraint=notion, missing="exclude").excluded.comparisons[0]
    everyone, values = range(len(y)), []
    for filled in assignments(list(columns.values())):
        there = families(filled, mode)
        by_statistic = [
            disparity(
                [[rate(rows, y, d, name) for rows in family.values()] for family in there],
                rate(everyone, y, d, name),
                measure,
                against,
            )
            for name in STATISTICS[label]
        ]
        known = [value for value in by_statistic if not math.isnan(value)]
        values += [max(known) if measure == "difference" else min(known)] if known else []
    if not values:
        assert math.isnan(found.worst)
        assert math.isnan(found.best)
        assert found.settled is None
        return
    larger = measure == "difference"
    assert found.worst == pytest.approx(max(values) if larger else min(values))
    assert (found.best <= min(values) + 1e-12) if larger else (found.best >= max(values) - 1e-12)
    check_settled(found, values, tolerance, larger_is_worse=larger)


@settings(max_examples=examples(60))
@given(
    table=TABLES,
    lacking=LACKING,
    features=st.sampled_from([("sex", "race"), ("sex",)]),
    label=st.sampled_from(["selection rate", "true-positive rate", "precision"]),
    mode=st.sampled_from(["intersectional", "independent", "population"]),
    bound=st.sampled_from([0.123, 0.345, 0.678, 0.891]),
)
def test_bounded_rates_are_those_of_all_assignments(*, table, lacking, features, label, mode, bound):
    columns, y, d = tables(table, lacking, features)
    assume(len(set(y)) == 2 and any(None in column for column in columns.values()))
    wanted = eh.RateBound(label, at_least=bound, groups=mode) & eh.RateBound(
        label, at_most=bound, groups=mode
    )
    least, most = eh.audit(y, d, columns, constraint=wanted, missing="exclude").excluded.comparisons[:2]
    lowest, highest = [], []
    for filled in assignments(list(columns.values())):
        rows = [part for family in families(filled, mode) for part in family.values()]
        rates = [rate(part, y, d, label) for part in ([range(len(y))] if mode == "population" else rows)]
        known = [q for q in rates if not math.isnan(q)]
        lowest += [min(known)] if known else []
        highest += [max(known)] if known else []
    if not lowest:
        assert math.isnan(least.worst + most.worst)
        return
    assert least.worst == pytest.approx(min(lowest))
    assert least.best >= max(lowest) - 1e-12
    assert most.worst == pytest.approx(max(highest))
    assert most.best <= min(highest) + 1e-12
    check_settled(least, lowest, bound, larger_is_worse=False)
    check_settled(most, highest, bound, larger_is_worse=True)


@settings(max_examples=examples(40))
@given(TABLES, LACKING)
def test_rates_are_those_of_all_assignments(table, lacking):
    columns, y, d = tables(table, lacking, ("sex", "race"))
    assume(len(set(y)) == 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VacuousConstraintWarning)
        found = eh.audit(y, d, columns, missing="exclude").excluded.rates
    limits = {}
    for filled in assignments(list(columns.values())):
        combined, [by_sex, by_race] = families(filled, "intersectional"), families(filled, "independent")
        named = {("sex", *key): rows for key, rows in by_sex.items()}
        named |= {("race", *key): rows for key, rows in by_race.items()}
        for group, rows in {**combined[0], **named, (): range(len(y))}.items():
            for name in ("selection rate", "error rate", "true-positive rate", "false-positive rate"):
                q = rate(rows, y, d, name)
                if not math.isnan(q):
                    low, high = limits.get((group, name), (q, q))
                    limits[group, name] = min(low, q), max(high, q)
    for one in found:
        values = one.group.values
        group = (one.group.features[0], values[0]) if len(values) == 1 else values
        expected = limits.get((group, one.rate), (math.nan, math.nan))
        assert (one.low, one.high) == pytest.approx(expected, nan_ok=True), one


def test_a_group_of_excluded_rows_only_counts_in_the_worst_case():
    sex, race = ["F"] * 10 + ["M"] * 20 + ["F"], ["w"] * 20 + ["b"] * 10 + [None]
    d = [1, 0] * 15 + [1]
    for settings_, worst in (({"difference": 0.1}, 15 / 31), ({"ratio": 0.8, "against": "groups"}, 0.5)):
        audit = eh.audit(
            None,
            d,
            {"sex": sex, "race": race},
            constraint=eh.DemographicParity(**settings_),
            missing="exclude",
        )
        assert audit.excluded.comparisons[0].worst == pytest.approx(worst)
        assert audit.excluded.comparisons[0].settled == "depends on the missing values"
        assert audit.excluded.new_groups
        assert "groups that no complete row is in" in str(audit).replace("\n", " ")


def test_a_rate_that_only_excluded_rows_give_is_not_counted_in_the_best_case():
    y, d = [1] * 10 + [0] * 5 + [1], [1] * 10 + [0] * 6
    asked = eh.EqualOpportunity(difference=0.2)
    audit = eh.audit(y, d, {"g": ["a"] * 10 + ["b"] * 5 + [None]}, constraint=asked, missing="exclude")
    found = audit.excluded.comparisons[0]
    assert (found.best, found.worst) == pytest.approx((0.0, 10 / 11))
    assert found.settled == "depends on the missing values"
    assert not audit.excluded.new_groups


def test_many_features_need_no_list_of_all_combinations():
    """Twenty features of three values have 3.5 billion combinations."""
    rng = np.random.default_rng(0)
    table = rng.choice(["a", "b", "c"], (60, 20)).astype(object)
    table[rng.random((60, 20)) < 0.02] = None
    columns = {f"s{k}": list(table[:, k]) for k in range(20)}
    asked = eh.DemographicParity(difference=0.1)
    audit = eh.audit(None, rng.integers(0, 2, 60), columns, constraint=asked, missing="exclude")
    assert audit.excluded.comparisons[0].worst > 0.3


def test_figures_by_hand():
    """Ten women, of whom 4 are selected, ten men with 6, and 5 people of unknown sex, of whom 2."""
    sex = ["F"] * 10 + ["M"] * 10 + [None] * 5
    d = [1] * 4 + [0] * 6 + [1] * 6 + [0] * 4 + [1] * 2 + [0] * 3
    constraint = eh.RateBound("selection rate", at_least=0.3, groups="intersectional") & eh.RateBound(
        "selection rate", at_most=0.6
    )
    audit = eh.audit(None, d, {"sex": sex}, constraint=constraint, missing="exclude")
    rates = {str(one.group): (one.low, one.high) for one in audit.excluded.rates}
    assert rates["sex=F"] == pytest.approx((4 / 13, 6 / 12))
    assert rates["sex=M"] == pytest.approx((6 / 13, 8 / 12))
    assert rates[""] == pytest.approx((12 / 25, 12 / 25))
    floor, capacity, rule = audit.excluded.comparisons
    assert (floor.value, floor.best, floor.worst) == pytest.approx((0.4, 0.5, 4 / 13))
    assert floor.settled == "holds whatever the missing values are"
    assert (capacity.best, capacity.worst) == pytest.approx((0.48, 0.48))
    assert rule.notion == FOUR_FIFTHS
    assert (rule.value, rule.worst) == pytest.approx((4 / 6, (4 / 13) / (8 / 12)))
    assert rule.best == 1.0
    assert rule.settled == "depends on the missing values"
    text = str(audit)
    assert "if excluded rows are counted in" in text
    assert "0.308 to 0.500" in text
    assert "1.000 to 0.462  depends on the missing values (tolerance 0.8)" in text


def test_a_ratio_to_everyone_can_be_worst_where_the_rate_is_highest():
    """Of 15 of 22 selected, 10 of 11 men could be: one man is not selected where 7 of 22 people are not."""
    sex = ["F"] * 10 + ["M"] * 10 + [None] * 2
    d = [1] * 5 + [0] * 5 + [1] * 9 + [0] + [1, 0]
    audit = eh.audit(None, d, {"sex": sex}, constraint=eh.DemographicParity(ratio=0.5), missing="exclude")
    parity = audit.excluded.comparisons[0]
    assert parity.worst == pytest.approx((1 / 11) / (7 / 22))
    assert parity.settled == "depends on the missing values"


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
    wanted = eh.RateBound("precision", at_least=0.5, groups="intersectional") & eh.NoWorse("selection rate")
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


@pytest.mark.parametrize("mode", ["intersectional", "independent"])
@pytest.mark.parametrize("seed", range(12))
def test_new_combinations_are_in_the_pooled_group(seed, mode):
    """Against every assignment, with the groups of the audit: whatever is in none of them is pooled."""
    rng = np.random.default_rng(seed)
    race = ["A"] * 8 + ["B"] * 2 + ["C"] + list(rng.choice(["A", "C", "D"], 1))
    sex = list(rng.choice(["F", "M"], 12))
    sex[:8] = ["F"] * 4 + ["M"] * 4
    columns = {"sex": [*sex, "F", None, None], "race": [*race, None, "D", None]}
    d = rng.integers(0, 2, 15)
    asked = eh.DemographicParity(difference=0.3, groups=mode)
    with pytest.warns(PooledGroupsWarning):
        audit = eh.audit(None, d, columns, constraint=asked, missing="exclude", min_size=4)
    found = audit.excluded.comparisons[0]
    names = {(part.group.features, part.group.values) for part in audit.comparisons[0].distances}
    families_ = [("sex", "race")] if mode == "intersectional" else [("sex",), ("race",)]
    values = []
    for filled in assignments(list(columns.values())):
        by_group = {}
        for i, key in enumerate(filled):
            for features in families_:
                own = tuple(value for name, value in zip(columns, key, strict=True) if name in features)
                group = (features, own) if (features, own) in names else (features, "pooled")
                by_group.setdefault(group, []).append(d[i])
        values.append(max(abs(np.mean(rows) - d.mean()) for rows in by_group.values()))
    assert not audit.excluded.new_groups
    assert found.worst == pytest.approx(max(values))
    assert found.best <= min(values) + 1e-12


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


def test_what_has_no_range_is_said():
    sex, level = ["F", "M"] * 50 + [None] * 20, [1, 1, 2, 2] * 30
    asked = eh.DemographicParity(difference=0.1, given=["level"]) & eh.DemographicParity(difference=0.2)
    settings_ = {"control_features": {"level": level}, "constraint": asked, "missing": "exclude"}
    within = eh.audit(None, [1, 0, 0, 1] * 30, {"sex": sex}, **settings_)
    note = "Comparisons within strata, and those with a reference, have no range."
    for text in (str(within), within._repr_html_(), *within.to_dict()["excluded"]["notes"]):
        assert note in text
    plain = eh.audit(None, [1, 0, 0, 1] * 30, {"sex": sex}, missing="exclude")
    assert note not in str(plain)
    assert "without them" in str(plain)
    assert plain.to_dict()["excluded"]["notes"] == []
    worse = eh.NoWorse("selection rate")
    earlier = eh.audit(
        None, [1, 0, 0, 1] * 30, {"sex": sex}, before=[1] * 120, constraint=worse, missing="exclude"
    )
    assert note in str(earlier)
