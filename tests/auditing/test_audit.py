import json
import pickle
import re
import sys

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import binomtest

import evenhand as eh
from evenhand.data import tables
from evenhand.exceptions import (
    GroupError,
    InputError,
    MissingExtraError,
    PooledGroupsWarning,
    VacuousConstraintWarning,
)
from evenhand.guarantee.intervals import critical_value, wilson
from evenhand.requirements.notions import NOTIONS

# Two features. Among women: old 4 rows, young 2; among men: old 3, young none.
SEX = ["F", "F", "F", "F", "F", "F", "M", "M", "M"]
AGE = ["o", "o", "o", "o", "y", "y", "o", "o", "o"]
Y = [1, 1, 0, 0, 1, 0, 1, 1, 0]
DECIDED = [1, 0, 1, 0, 1, 0, 1, 1, 1]
BOTH = {"sex": SEX, "age": AGE}
PARITY = eh.DemographicParity(difference=0.05)


def sample(n=4000, seed=0, gap=0.3):
    rng = np.random.default_rng(seed)
    sex, race = rng.choice(["F", "M"], n), rng.choice(["A", "B", "C"], n, p=[0.6, 0.3, 0.1])
    y = rng.random(n) < 0.4
    chosen = rng.random(n) < 0.3 + gap * ((sex == "F") & (race == "B")) + 0.3 * y
    return y.astype(int), chosen.astype(int), {"sex": sex, "race": race}


def of(found, **values):
    """The finding for the group with these sensitive values."""
    for group in found.groups:
        if dict(zip(group.group.features, group.group.values, strict=True)) == values:
            return group
    raise AssertionError(values)


# Counts and rates


def test_counts_and_rates_are_those_of_the_rows():
    found = eh.audit(Y, DECIDED, BOTH)
    everyone, old_women = of(found), of(found, sex="F", age="o")
    assert (everyone.rows, everyone.positives, everyone.selected) == (9, 5, 6)
    assert (old_women.rows, old_women.positives, old_women.selected) == (4, 2, 2)
    rates = {name: rate.value for name, rate in old_women.rates.items()}
    assert rates == {
        "selection rate": 0.5,
        "error rate": 0.5,
        "true-positive rate": 0.5,
        "false-positive rate": 0.5,
    }
    assert of(found, sex="M").rates["false-positive rate"].value == 1.0
    assert of(found, age="y").rates["error rate"].value == 0.0


def test_single_features_are_listed_before_combinations():
    found = eh.audit(Y, DECIDED, BOTH)
    assert [group.kind for group in found.groups] == ["everyone"] + ["independent"] * 4 + [
        "intersectional"
    ] * 4
    assert [group.kind for group in eh.audit(Y, DECIDED, SEX).groups] == ["everyone"] + ["intersectional"] * 2


def test_rates_have_wilson_intervals():
    rate = of(eh.audit(Y, DECIDED, BOTH, confidence=0.9), sex="F").rates["selection rate"]
    expected = binomtest(3, 6).proportion_ci(0.9, method="wilson")
    assert (rate.value, rate.low, rate.high) == pytest.approx((0.5, expected.low, expected.high))


def test_a_combination_that_never_occurs_is_listed_without_rates():
    found = of(eh.audit(Y, DECIDED, BOTH), sex="M", age="y")
    assert (found.rows, found.positives, found.selected) == (0, 0, 0)
    assert all(np.isnan(rate.value) and np.isnan(rate.low) for rate in found.rates.values())
    assert "sex=M, age=y     0" in str(eh.audit(Y, DECIDED, BOTH))


def test_only_a_thousand_absent_combinations_are_listed():
    rng = np.random.default_rng(0)
    features = {f"f{k}": rng.integers(0, 2, 50) for k in range(14)}
    found = eh.audit(None, rng.integers(0, 2, 50), features, constraint=PARITY)
    assert sum(group.rows == 0 for group in found.groups) == 1000
    assert f"and {len(found.groups) - 40:,} more" in str(found)


def test_a_rate_of_no_rows_is_undefined():
    found = of(eh.audit([1, 1, 0, 1], [1, 0, 1, 1], ["a", "a", "b", "b"]), sensitive_feature="a")
    assert np.isnan(found.rates["false-positive rate"].value)
    assert found.rates["true-positive rate"].value == 0.5


def test_probabilities_are_summed():
    found = of(eh.audit([0, 1, 1, 0], [0.5, 0.25, 1.0, 0.0], ["a", "a", "b", "b"]), sensitive_feature="a")
    assert found.selected == 0.75
    assert found.rates["selection rate"].value == 0.375


def test_rates_are_weighted_and_intervals_use_the_effective_number_of_rows():
    found = eh.audit([0, 1, 1, 0], [1, 0, 1, 0], list("aaab"), sample_weight=[3, 1, 1, 2])
    group = of(found, sensitive_feature="a")
    assert (group.rows, group.selected) == (3, 2)
    assert group.rates["selection rate"].value == 0.8
    assert of(found).rates["selection rate"].value == pytest.approx(4 / 7)
    z2 = 1.959964**2
    size = 25 / 11  # Kish: (3 + 1 + 1)^2 / (9 + 1 + 1)
    middle = (size * 0.8 + z2 / 2) / (size + z2)
    rate = group.rates["selection rate"]
    assert (rate.low + rate.high) / 2 == pytest.approx(middle, abs=1e-6)


def test_weights_that_are_correlated_with_decisions_widen_the_interval():
    """The variance of a weighted rate is linearised: sum of w^2 (d - q)^2 over the squared sum of w."""
    decided, weights = np.array([1, 0, 0, 0, 0, 0]), np.array([3.0, 1, 1, 1, 1, 1])
    q = 3 / 8
    size = q * (1 - q) / (weights**2 @ (decided - q) ** 2 / 8**2)
    assert size < 64 / 14  # Kish's
    expected = wilson(q, size, critical_value(0.95))
    rate = eh.audit(None, decided, list("aaaaab"), sample_weight=weights).groups[0].rates["selection rate"]
    assert (rate.low, rate.high) == pytest.approx((float(expected.low), float(expected.high)))


def test_a_weighted_probability_is_treated_as_a_decision_to_draw():
    """As without weights: the variance of a probability of p is p (1 - p) and not 0."""
    weights, chances = np.array([4.0, 1, 1]), np.array([0.5, 0.2, 0.2])
    q = 2.4 / 6
    drawn = weights**2 @ (chances * (1 - q) ** 2 + (1 - chances) * q**2)
    expected = wilson(q, q * (1 - q) * 36 / drawn, critical_value(0.95))
    rate = eh.audit(None, chances, list("aab"), sample_weight=weights).groups[0].rates["selection rate"]
    assert (rate.low, rate.high) == pytest.approx((float(expected.low), float(expected.high)))


@pytest.mark.parametrize("decided", [[1, 1, 1, 0], [0, 0, 0, 1], [0.1 + 0.2, 0.3, 0.3, 1]])
def test_kishs_number_is_used_if_all_decisions_in_a_group_are_the_same(decided):
    weights = np.array([0.1, 0.2, 0.7, 1.0])
    rate = eh.audit(None, decided, list("aaab"), sample_weight=weights).groups[1].rates["selection rate"]
    expected = wilson(decided[1], 1 / 0.54, critical_value(0.95))
    assert (rate.low, rate.high) == pytest.approx((float(expected.low), float(expected.high)))


@pytest.mark.parametrize("factor", [1.0, 1e-200, 1e200])
def test_equal_weights_have_no_effect(factor):
    y, decided, features = sample(500)
    plain = eh.audit(y, decided, features, before=y)
    weighted = eh.audit(y, decided, features, before=y, sample_weight=np.full(500, factor))
    assert plain.to_dict() | {"weighted": True} == weighted.to_dict()


def test_labels_are_not_needed():
    found = eh.audit(None, DECIDED, BOTH)
    assert {part.notion for part in found.comparisons} == {"demographic parity", "four-fifths rule"}
    assert set(of(found).rates) == {"selection rate"}
    assert of(found).positives is None
    assert "positives" not in str(found)
    assert eh.audit(None, ["hire", "no"] * 2, list("aabb"), pos_label="hire").groups[0].selected == 2


def test_any_kind_of_column_is_accepted(column):
    found = eh.audit(column(["n", "y", "y", "n"]), column(["n", "y", "n", "y"]), column(list("aabb")))
    assert [group.rates["error rate"].value for group in found.groups] == [0.5, 0.0, 1.0]


def test_any_kind_of_table_is_accepted(table):
    found = eh.audit(Y, DECIDED, table(BOTH))
    assert found.to_dict() == eh.audit(Y, DECIDED, BOTH).to_dict()


# Disparities


def test_an_audit_agrees_with_the_measurement():
    y, decided, features = sample()
    found = eh.audit(y, decided, features)
    counted = eh.cell_rates(y, decided, features)
    for kind in NOTIONS:
        for measure in ({"difference": 0.0}, {"ratio": 1.0}):
            for mode in ("intersectional", "independent"):
                [one] = [
                    part
                    for part in found.comparisons
                    if (part.notion, part.measure, part.groups) == (kind.label, next(iter(measure)), mode)
                ]
                measured = kind(**measure, groups=mode).measure(counted)
                worst = (max if "difference" in measure else min)(measured, key=lambda part: part.value)
                assert one.value == pytest.approx(worst.value, abs=1e-12)
                assert (one.group, one.statistic) == (worst.worst, worst.statistic)
                assert one.low <= one.value <= one.high
                assert one.tolerance is one.verdict is None


def test_each_group_has_a_distance():
    y, decided, features = sample()
    found = eh.audit(y, decided, features, constraint=eh.EqualizedOdds(difference=0.1))["equalized odds"]
    assert len(found.distances) == 12
    assert max(abs(part.value) for part in found.distances) == pytest.approx(found.value)
    [worst] = [p for p in found.distances if (p.group, p.statistic) == (found.group, found.statistic)]
    assert worst.value > 0  # above the rate of everyone
    assert worst.low <= worst.value <= worst.high


def test_the_limits_of_the_worst_come_from_all_groups():
    y, decided, features = sample()
    found = eh.audit(y, decided, features, constraint=PARITY)["demographic parity"]
    assert found.low == max(0, *(max(part.low, -part.high) for part in found.distances))
    assert found.high == max(max(-part.low, part.high) for part in found.distances)
    ratio = eh.audit(y, decided, features, constraint=eh.DemographicParity(ratio=0.8))["demographic parity"]
    assert ratio.low == min(part.low for part in ratio.distances)
    assert ratio.high == min(part.high for part in ratio.distances)


@pytest.mark.parametrize(
    ("constraint", "verdict"),
    [
        (eh.DemographicParity(difference=0.05), "violated"),
        (eh.DemographicParity(difference=0.25), "insufficient evidence"),
        (eh.DemographicParity(difference=0.5), "satisfied"),
        (eh.DemographicParity(ratio=0.9), "violated"),
        (eh.DemographicParity(ratio=0.6), "insufficient evidence"),
        (eh.DemographicParity(ratio=0.2), "satisfied"),
    ],
)
def test_a_verdict_needs_the_whole_interval_on_one_side(constraint, verdict):
    y, decided, features = sample()
    found = eh.audit(y, decided, features, constraint=constraint)["demographic parity"]
    assert found.verdict == verdict
    assert found.tolerance == constraint.tolerance


def test_few_rows_are_no_evidence():
    found = eh.audit(None, [1, 0] * 10, ["a", "a", "b", "b"] * 5, constraint=PARITY)["demographic parity"]
    assert (found.value, found.verdict) == (0.0, "insufficient evidence")


def test_two_groups_are_one_comparison():
    """The gaps of two groups are the same difference, so Bonferroni's correction counts it once."""
    n, k = 1000, 400
    decided = [1] * k + [0] * (n - k) + [1] * 500 + [0] * 500
    found = eh.audit(None, decided, ["a"] * n + ["b"] * n, constraint=PARITY)["demographic parity"]
    half = (found.high - found.low) / 2
    assert half == pytest.approx(1.96 * np.sqrt(0.4 * 0.6 / n + 0.25 / n) / 2, rel=0.05)


def test_higher_confidence_means_a_wider_interval():
    y, decided, features = sample()
    widths = []
    for confidence in (0.5, 0.9, 0.99):
        found = eh.audit(y, decided, features, constraint=PARITY, confidence=confidence)["demographic parity"]
        widths.append(found.high - found.low)
    assert widths == sorted(widths)


def test_a_group_without_relevant_rows_leaves_the_interval_open():
    y = [1, 0] * 500 + [0] * 500
    sex = ["a", "a", "b", "b"] * 250 + ["c"] * 500
    equal = eh.EqualOpportunity(difference=0.2) & eh.EqualOpportunity(ratio=0.5)
    by_difference, by_ratio = eh.audit(y, [1] * 1000 + [0] * 500, sex, constraint=equal).comparisons[:2]
    assert (by_difference.high, by_difference.verdict) == (1.0, "insufficient evidence")
    assert (by_ratio.low, by_ratio.verdict) == (0.0, "insufficient evidence")
    assert [str(name) for name in by_difference.undefined] == ["sensitive_feature=c"]
    assert np.isnan(by_difference.distances[-1].value)


def test_without_positives_of_positive_weight_there_is_no_evidence():
    found = eh.audit(
        [1, 0, 0, 0],
        [1, 0, 1, 0],
        list("aabb"),
        sample_weight=[0, 1, 1, 1],
        constraint=eh.EqualOpportunity(ratio=0.8),
    )["equal opportunity"]
    assert np.isnan(found.value)
    assert (found.low, found.high, found.group) == (0.0, 1.0, None)
    assert found.verdict == "insufficient evidence"


def test_combinations_that_never_occur_are_not_compared():
    found = eh.audit(Y * 200, DECIDED * 200, {"sex": SEX * 200, "age": AGE * 200}, constraint=PARITY)
    assert found["demographic parity"].undefined == ()
    assert found["demographic parity"].high < 1


def test_a_custom_notion_may_have_any_range():
    class Gain(eh.Notion):
        """A selected positive gains twice what a selected negative loses."""

        label = "gain parity"
        statistics = (eh.Statistic("gain", slope=(-1, 2)),)

    y, decided, features = sample()
    found = eh.audit(y, decided, features, constraint=Gain(difference=0.05))["gain parity"]
    truth = Gain(difference=0.05).measure(eh.cell_rates(y, decided, features))[0]
    assert found.low <= found.value == pytest.approx(truth.difference)
    assert found.value <= found.high <= 3


def test_a_statistic_of_no_rows_is_undefined():
    class Nothing(eh.Notion):
        """Looks at no rows."""

        label = "nothing"
        statistics = (eh.Statistic("nothing", mask=(0, 0)),)

    found = eh.audit(Y, DECIDED, BOTH, constraint=Nothing(difference=0.1))["nothing"]
    assert found.verdict == "insufficient evidence"
    assert len(found.undefined) == 3


def test_a_single_group_is_warned_of_once():
    for constraint in (None, PARITY, eh.DemographicParity(ratio=0.5)):
        with pytest.warns(
            VacuousConstraintWarning, match="only one group, sensitive_feature=a, so there is noth"
        ) as w:
            found = eh.audit(None, [1, 0] * 1000, ["a"] * 2000, constraint=constraint)
        assert len(w) == 1
        assert w[0].filename == __file__
        assert found["demographic parity"].verdict in (None, "insufficient evidence")
        assert found["four-fifths rule"].verdict == "insufficient evidence"


# The four-fifths rule


def test_the_four_fifths_rule_compares_with_the_highest_rate():
    decided = [1] * 40 + [0] * 60 + [1] * 60 + [0] * 40 + [1] * 50 + [0] * 50
    found = eh.audit(None, decided, ["a"] * 100 + ["b"] * 100 + ["c"] * 100)["four-fifths rule"]
    assert found.value == pytest.approx(2 / 3)
    assert (str(found.group), str(found.reference)) == ("sensitive_feature=a", "sensitive_feature=b")
    assert [part.value for part in found.distances] == pytest.approx([2 / 3, 1, 5 / 6])
    assert found.low < found.value < found.high
    assert (found.tolerance, found.verdict) == (0.8, "insufficient evidence")


def test_the_four_fifths_rule_compares_each_feature_by_itself():
    y, decided, features = sample(20_000)
    found = [part for part in eh.audit(y, decided, features).comparisons if part.notion == "four-fifths rule"]
    assert [part.groups for part in found] == ["intersectional", "sex", "race"]
    assert found[0].verdict == "violated"
    assert found[1].group.features == ("sex",)


def test_if_nobody_is_selected_there_is_no_evidence():
    found = eh.audit(None, [0] * 100, ["a", "b"] * 50)
    assert all((part.value, part.low) in ((1.0, 0.0), (0.0, 0.0)) for part in found.comparisons)
    assert found["four-fifths rule"].verdict == "insufficient evidence"


def test_a_group_without_weight_leaves_the_rule_open():
    weights = [1] * 200 + [0] * 100
    found = eh.audit(None, [1] * 300, ["a", "b"] * 100 + ["c"] * 100, sample_weight=weights)[
        "four-fifths rule"
    ]
    assert found.low == 0.0
    assert [str(name) for name in found.undefined] == ["sensitive_feature=c"]


# Before and after


def test_changes_are_counted_by_group():
    before = [1, 1, 0, 0, 0, 0, 1, 1, 0]
    found = eh.audit(Y, DECIDED, BOTH, before=before)
    old_women = of(found, sex="F", age="o").change
    assert (old_women.up, old_women.down, old_women.unchanged) == (1, 1, 2)
    assert old_women.rates["selection rate"].value == 0.0
    assert old_women.rates["true-positive rate"].value == -0.5
    assert old_women.rates["false-positive rate"].value == 0.5
    assert old_women.rates["error rate"].value == 0.5
    everyone = of(found).change
    assert (everyone.up, everyone.down, everyone.unchanged) == (3, 1, 5)
    assert everyone.rates["selection rate"].value == pytest.approx(2 / 9)


def test_changes_agree_with_two_audits():
    y, decided, features = sample()
    _, earlier, _ = sample(seed=1)
    after, first = eh.audit(y, decided, features, before=earlier), eh.audit(y, earlier, features)
    for new, old in zip(after.groups, first.groups, strict=True):
        for name, change in new.change.rates.items():
            assert change.value == pytest.approx(new.rates[name].value - old.rates[name].value)
            assert change.low <= change.value <= change.high


def test_changes_of_probabilities_are_expected_changes():
    found = eh.audit(None, [0.5, 0.25, 1.0, 0.0], list("aabb"), before=[0.25, 0.5, 1.0, 0.5])
    assert [(g.change.up, g.change.down) for g in found.groups] == [(0.25, 0.75), (0.25, 0.25), (0, 0.5)]
    mixed = eh.audit(None, [0.5, 0.25, 1.0, 0.0], list("aabb"), before=[True, False, True, False])
    assert mixed.groups[0].change.rates["selection rate"].value == pytest.approx(-0.0625)


def test_changes_are_weighted():
    found = eh.audit(None, [1, 0, 1, 0], list("aabb"), before=[0, 0, 1, 0], sample_weight=[3, 1, 1, 1])
    assert found.groups[1].change.up == 1
    assert found.groups[1].change.rates["selection rate"].value == 0.75


def test_the_same_decisions_twice_are_no_change():
    y, decided, features = sample()
    change = eh.audit(y, decided, features, before=decided).groups[0].change
    assert (change.up, change.down) == (0, 0)
    rate = change.rates["error rate"]
    assert rate.low <= 0.0 == rate.value <= rate.high


# Text, tables, dicts


def test_the_text_is_complete_and_fits_the_width():
    y, decided, features = sample()
    text = str(eh.audit(y, decided, features, before=y, constraint=PARITY & eh.EqualOpportunity(ratio=0.8)))
    assert max(map(len, text.splitlines())) <= 110
    assert text.startswith("Audit of 4,000 rows in 6 groups by sex, race. Intervals: 95%.")
    line = next(line for line in text.splitlines() if line.startswith("demographic parity"))
    assert re.search(r"sex=F, race=B +violated \(tolerance 0.05\)$", line)
    assert "changed" in text
    assert "four-fifths rule" in text


def test_the_text_says_that_rates_are_weighted():
    text = str(eh.audit(Y, DECIDED, BOTH, sample_weight=[1, 2, 3] * 3))
    assert "Rates are weighted; numbers of rows are not." in text


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ManyGroupsWarning")
def test_long_tables_are_cut():
    rng = np.random.default_rng(0)
    found = eh.audit(None, rng.integers(0, 2, 5000), rng.integers(0, 100, 5000))
    assert "and 61 more: see to_frame()" in str(found)
    assert len(str(found).splitlines()) < 60


def test_control_characters_in_names_are_escaped():
    found = eh.audit(None, [1, 0, 1, 0], {"sex\x1b[2J": ["a\x1b[31m\u202e", "b\n", "a\x1b[31m\u202e", "b\n"]})
    text = str(found) + found.to_frame(backend="pandas")["group"].to_string()
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "b\\n" in text


def test_long_names_are_cut():
    found = eh.audit(None, [1, 0, 1, 0], ["x" * 80, "y" * 80] * 2)
    assert max(map(len, str(found).splitlines())) <= 110


@pytest.mark.parametrize("before", [None, DECIDED])
def test_the_dict_is_json_and_complete(before):
    found = eh.audit(Y, DECIDED, BOTH, before=before, constraint=PARITY)
    written = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert written == found.to_dict()
    assert len(written["groups"]) == 9
    assert written["groups"][-1]["rates"]["error rate"] == {"value": None, "low": None, "high": None}
    assert written["groups"][-1]["group"] == {"sex": "M", "age": "y"}
    assert written["comparisons"][0]["verdict"] == "insufficient evidence"
    assert (written["groups"][0]["change"] is None) == (before is None)


def test_the_dict_accepts_any_group_value():
    values = [None, np.datetime64("2020-01-01"), float("inf"), True] * 2
    written = eh.audit(None, [1, 0] * 4, {"g": values}, missing="category").to_dict()
    json.dumps(written, allow_nan=False)
    names = [group["group"].get("g") for group in written["groups"]]
    assert None in names
    assert "inf" in names


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_the_frame_is_of_the_library_that_was_passed(kind):
    table = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
    found = eh.audit(Y, DECIDED, table[kind](BOTH), before=Y)
    for what in ("groups", "comparisons", "distances"):
        assert isinstance(found.to_frame(what), pa.Table if kind == "pyarrow" else table[kind])
    assert isinstance(found.to_frame(backend="polars"), pl.DataFrame)
    assert isinstance(eh.audit(pl.Series(Y), DECIDED, BOTH).to_frame(), pl.DataFrame)
    assert isinstance(eh.audit(Y, DECIDED, {"sex": pl.Series(SEX)}).to_frame(), pl.DataFrame)
    assert isinstance(eh.audit(Y, DECIDED, BOTH).to_frame(), pd.DataFrame)


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_rates_by_group_are_those_of_the_frame(backend):
    table = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[backend](BOTH)
    audit = eh.audit(Y, DECIDED, table)
    rows = nw.from_native(audit.by_group, eager_only=True).rows(named=True)
    assert len(rows) == len({(row["sex"], row["age"]) for row in rows}) > 2
    own = {
        (one["group"], one["quantity"]): one["value"]
        for one in eh.audit(Y, DECIDED, BOTH).to_frame().to_dict("records")
    }
    for row in rows:
        name = f"sex={row['sex']}, age={row['age']}"
        for quantity in ("rows", "selection rate", "error rate"):
            np.testing.assert_equal(row[quantity], own[name, quantity])


def test_the_frame_has_one_row_per_group_and_quantity():
    frame = eh.audit(Y, DECIDED, BOTH, before=Y).to_frame(backend="pandas")
    assert not frame.duplicated(["groups", "group", "quantity"]).any()
    assert set(frame["quantity"]) >= {"rows", "positives", "error rate", "rows up", "change of error rate"}
    women = frame[(frame["sex"] == "F") & frame["age"].isna() & (frame["quantity"] == "rows")]
    assert women["value"].tolist() == [6]


def test_a_feature_may_have_the_name_of_a_column():
    frame = eh.audit(None, [1, 0, 1, 0], {"value": list("aabb")}).to_frame(backend="pandas")
    assert "value (feature)" in frame


def test_without_a_table_library_the_frame_says_what_to_install(monkeypatch):
    found = eh.audit(Y, DECIDED, BOTH)
    monkeypatch.setattr(tables.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match="polars"):
        found.to_frame()
    assert found.to_frame(backend="polars").height


def test_audits_can_be_pickled():
    found = eh.audit(Y, DECIDED, BOTH, before=Y)
    assert str(pickle.loads(pickle.dumps(found))) == str(found)  # noqa: S301


def test_comparisons_are_found_by_name():
    found = eh.audit(Y, DECIDED, BOTH, constraint=PARITY)
    assert found["four-fifths rule"].groups == "intersectional"
    with pytest.raises(
        KeyError, match="no comparison by 'equalized odds' in this audit; there are 'demographic parity', '"
    ):
        found["equalized odds"]


def test_no_module_hides_the_function():
    assert callable(eh.audit)
    assert "evenhand.audit" not in sys.modules


# Bad input


@pytest.mark.parametrize("confidence", [0, 1, -0.5, 95, float("nan"), "0.95", None, True])
def test_confidence_is_between_0_and_1(confidence):
    with pytest.raises(InputError, match=r"confidence must be strictly between 0 and 1, got"):
        eh.audit(Y, DECIDED, BOTH, confidence=confidence)


@pytest.mark.parametrize("name", ["min_count", "min_size"])
@pytest.mark.parametrize("value", [-1, 2.5, "10", None, True])
def test_numbers_of_rows_are_whole(name, value):
    with pytest.raises(InputError, match=rf"{name} must be a non-negative integer, got"):
        eh.audit(Y, DECIDED, BOTH, **{name: value})


@pytest.mark.parametrize("constraint", ["demographic parity", 0.8, eh.DemographicParity])
def test_a_constraint_is_a_requirement(constraint):
    with pytest.raises(InputError, match="constraint must be a requirement such as"):
        eh.audit(Y, DECIDED, BOTH, constraint=constraint)


def test_a_constraint_that_was_changed_is_checked():
    constraint = eh.DemographicParity(difference=0.1)
    constraint.difference = 2
    with pytest.raises(InputError, match="difference must be a number from 0 to 1"):
        eh.audit(Y, DECIDED, BOTH, constraint=constraint)


def test_notions_that_use_the_label_need_labels():
    with pytest.raises(InputError, match="equal opportunity needs labels: pass y_true"):
        eh.audit(None, DECIDED, BOTH, constraint=eh.EqualOpportunity(ratio=0.8))


@pytest.mark.parametrize("argument", ["y_pred", "before"])
@pytest.mark.parametrize("bad", [1.5, -0.1, float("nan")])
def test_probabilities_outside_the_unit_interval_are_counted(argument, bad):
    given = {"y_pred": DECIDED, argument: [0.5] * 8 + [bad]}
    with pytest.raises(
        InputError, match=rf"{argument} has 1 of 9 probabilities that are NaN or outside \[0, 1\]"
    ):
        eh.audit(Y, sensitive_features=BOTH, **given)


def test_all_lengths_are_listed():
    message = (
        r"y_true has 9, y_pred has 9, before has 7, sensitive_features\['sex'\] has 9.*sample_weight has 8"
    )
    with pytest.raises(InputError, match=message):
        eh.audit(Y, DECIDED, BOTH, before=Y[2:], sample_weight=[1] * 8)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([-1] + [1] * 8, "sample_weight is negative, NaN or infinite in 1 of 9 rows"),
        ([float("nan")] + [1] * 8, "sample_weight is negative, NaN or infinite in 1 of 9 rows"),
        ([float("inf")] * 2 + [1] * 7, "sample_weight is negative, NaN or infinite in 2 of 9 rows"),
        ([0] * 9, "sample_weight is zero in every row"),
        (["1"] * 9, "sample_weight must be numbers"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(weights, message):
    with pytest.raises(InputError, match=message):
        eh.audit(Y, DECIDED, BOTH, sample_weight=weights)


@pytest.mark.parametrize("value", [None, float("nan"), pd.NA, pd.NaT])
def test_missing_groups_are_refused_or_form_a_group(value):
    sex = [value, *SEX[1:]]
    with pytest.raises(GroupError, match=r"'sex' is missing in 1 of 9 rows.*missing='category'"):
        eh.audit(Y, DECIDED, {"sex": sex})
    found = eh.audit(Y, DECIDED, {"sex": sex}, missing="category")
    assert "sex=(missing)" in str(found)
    with pytest.raises(InputError, match="missing must be one of 'error', 'category'"):
        eh.audit(Y, DECIDED, {"sex": sex}, missing="drop")


def test_values_of_different_types_are_different_groups():
    assert len(eh.audit(None, [1, 0, 1, 0], [1, "1", 1, "1"]).groups) == 3


def test_small_groups_can_be_pooled():
    with pytest.warns(PooledGroupsWarning, match="fewer than 5 rows are pooled. 2 values into"):
        found = eh.audit(None, [1, 0] * 10, ["a"] * 10 + ["b"] * 6 + ["c"] * 2 + ["d"] * 2, min_size=5)
    assert [str(group.group) for group in found.groups[1:]] == [
        "sensitive_feature=a",
        "sensitive_feature=b",
        "sensitive_feature=(pooled)",
    ]


def test_names_that_join_to_the_same_text_are_different_groups():
    found = eh.audit(None, [1, 0, 1, 0], {"x": ["a, y=b", "a"] * 2, "y": ["c", "b, y=c"] * 2})
    assert sum(group.kind == "intersectional" and group.rows > 0 for group in found.groups) == 2


def test_long_names_are_different_groups():
    names = np.array(["a" * 50 + "x", "a" * 50 + "y"] * 2)
    assert len(eh.audit(None, [1, 0, 1, 0], names).groups) == 3


def test_a_continuous_column_is_refused():
    with pytest.raises(GroupError, match=r"more than 200 distinct values\. Put the values into a few bins"):
        eh.audit(None, np.arange(500) % 2, np.linspace(0, 1, 500))


def test_combinations_of_many_features_are_not_enumerated():
    rng = np.random.default_rng(0)
    found = eh.audit(None, rng.integers(0, 2, 300), rng.integers(0, 2, (300, 40)), constraint=PARITY)
    assert sum(group.rows == 0 for group in found.groups) == 1000


def test_overlapping_groups_can_be_required_together():
    y, decided, features = sample()
    both = eh.DemographicParity(difference=0.1, groups="independent") & eh.DemographicParity(difference=0.1)
    found = eh.audit(y, decided, features, constraint=both).comparisons[:2]
    assert [part.groups for part in found] == ["independent", "intersectional"]


@pytest.mark.parametrize("y", [[0, 1, 2] * 3, [0.1 * k for k in range(9)], [1] * 9])
def test_labels_that_are_not_binary_are_refused(y):
    with pytest.raises(InputError, match="y_true"):
        eh.audit(y, DECIDED, BOTH)


def test_predictions_of_other_classes_are_refused():
    with pytest.raises(
        InputError, match="before holds 'maybe' in 1 of 2 rows, but the classes are 'no' and 'yes'"
    ):
        eh.audit(["no", "yes"], ["no", "yes"], ["a", "b"], before=["maybe", "no"])


def test_long_names_are_still_distinct_when_printed():
    race, sex, age = (
        "Black or African American",
        ["Female", "Male"] * 50,
        ["18-25", "18-25", "65+", "65+"] * 25,
    )
    sensitive = {"race_ethnicity": [race] * 100, "sex": sex, "age_band": age}
    printed = str(eh.audit(None, [0, 1] * 50, sensitive))
    names = [line.split("  ")[0] for line in printed.splitlines() if re.search("ale, (18-25|65)", line)][:4]
    assert len(names) == 4
    assert len(set(names)) == len(names)
    assert all(len(name) <= 36 for name in names)


def test_features_named_like_columns_of_the_table_have_their_own_columns():
    table = eh.audit(None, [0, 1], {"group": ["a", "b"], "group (feature)": ["c", "d"]}).to_frame(
        backend="pandas"
    )
    assert table.shape[1] == 9


def test_counts_may_be_numpy_numbers():
    assert eh.audit(None, [0, 1], {"g": ["a", "b"]}, min_count=np.int64(0)).groups[0].rows == 2


SCORES = np.array([0.1, 0.5, 0.6, 0.9, 0.49, 0.2])
READ = "Predictions between 0 and 1 are read as probabilities of a randomised decision."


def test_scores_are_reported_as_read_as_probabilities(tmp_path):
    found = eh.audit(None, SCORES, list("aaabbb"))
    assert READ in str(found).splitlines()[1]
    assert (found.to_dict()["randomised"], found.to_dict()["threshold"]) == (True, None)
    assert READ in eh.write_report(tmp_path / "audit.html", found).read_text()


@pytest.mark.parametrize("decided", [[0, 1, 1, 0], [0.0, 1.0, 1.0, 0.0], [False, True, True, False]])
def test_decisions_are_not_reported_as_probabilities(decided):
    found = eh.audit(None, decided, list("aabb"))
    assert not found.to_dict()["randomised"]
    assert found.terms.reading is None
    assert "randomised" not in str(found)


def test_earlier_scores_are_reported_too():
    assert eh.audit(None, SCORES > 0.5, list("aaabbb"), before=SCORES).terms.randomised


@pytest.mark.parametrize("kind", [list, np.array, pd.Series, pl.Series, lambda x: np.array(x, np.float32)])
def test_a_threshold_turns_scores_into_decisions(kind):
    """Scores equal to the threshold are selected, as in scikit-learn."""
    y = [0, 1, 0, 1, 0, 1]
    found = eh.audit(y, kind(SCORES), list("aaabbb"), before=kind(1 - SCORES), threshold=0.5)
    plain = eh.audit(y, SCORES >= 0.5, list("aaabbb"), before=1 - SCORES >= 0.5)
    assert (found.to_dict()["threshold"], plain.to_dict()["threshold"]) == (0.5, None)
    assert found.to_dict() == plain.to_dict() | {"threshold": 0.5}


def test_a_threshold_is_reported(tmp_path):
    found = eh.audit(None, SCORES, list("aaabbb"), threshold=0.5)
    line = "Predictions are scores: a row is selected if its score is at least 0.5."
    assert str(found).splitlines()[1] == line
    assert line in eh.write_report(tmp_path / "audit.html", found).read_text()


def test_scores_of_any_range_have_a_threshold():
    found = eh.audit(None, [-2.0, 0.0, 3.0, -1.0], list("aabb"), threshold=0)
    assert found.groups[0].selected == 2


@pytest.mark.parametrize("labels", [["no", "yes", "no", "no"], [0, 1, 0, 0], [0.0, 1.0, 0.0, 0.0]])
def test_earlier_labels_need_no_threshold(labels):
    y = ["no", "yes", "yes", "no"] if isinstance(labels[0], str) else [0, 1, 1, 0]
    found = eh.audit(y, [-2.0, 0.5, 3.0, -1.0], list("aabb"), before=labels, threshold=0)
    assert (found.groups[0].change.up, found.groups[0].change.down) == (1, 0)


@pytest.mark.parametrize("threshold", ["0.5", True, np.nan, np.inf, [0.5], 1j])
def test_invalid_thresholds_are_refused(threshold):
    with pytest.raises(InputError, match="threshold must be a finite number or 'median', got"):
        eh.audit(None, SCORES, list("aaabbb"), threshold=threshold)


def test_a_threshold_needs_finite_scores():
    with pytest.raises(InputError, match="threshold is for scores, but y_pred holds no numbers"):
        eh.audit(["no", "yes"], ["no", "yes"], list("ab"), threshold=0.5)
    with pytest.raises(InputError, match="y_pred has 1 of 2 scores that are NaN or infinite"):
        eh.audit(None, [0.3, np.nan], list("ab"), threshold=0.5)


@pytest.mark.parametrize("before", [None, ["hire", "hire"]])
def test_a_misspelt_positive_label_is_refused_if_labels_are_not_known(before):
    with pytest.raises(InputError, match=r"pos_label='Hire' does not occur among the labels 'hire' of"):
        eh.audit(None, ["hire", "hire"], list("ab"), pos_label="Hire", before=before)


def test_earlier_decisions_must_have_the_same_labels():
    with pytest.raises(InputError, match="must hold the same two labels, got 'hire', 'no', 'HIRE'"):
        eh.audit(None, ["hire", "no"], list("ab"), pos_label="hire", before=["HIRE", "HIRE"])


def test_nobody_may_be_selected():
    found = eh.audit(None, ["no", "no"], list("ab"), pos_label="hire", before=["hire", "no"])
    assert found.groups[0].selected == 0
    assert eh.audit(None, [0, 0], list("ab"), pos_label=1).groups[0].selected == 0


def test_a_requirement_about_one_of_several_actions_is_refused():
    parity = eh.DemographicParity(difference=0.1, action="review")
    with pytest.raises(InputError, match=r"action= is for decisions among several actions"):
        eh.audit([0, 1], [0, 1], {"sex": ["F", "M"]}, constraint=parity)
