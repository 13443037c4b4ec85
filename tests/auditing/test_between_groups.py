"""Groups compared with each other in an audit, by any notion."""

import math

import numpy as np
import pytest
from tests.auditing.helpers import sample

import evenhand as eh
from evenhand.exceptions import VacuousConstraintWarning
from evenhand.guarantee.intervals import clopper_pearson, critical_value, difference, quotient
from evenhand.requirements.notions import NOTIONS

Y, DECIDED, FEATURES = sample(least=0.3, favoured=("race", "B"), by=0.2)


@pytest.mark.parametrize("kind", NOTIONS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("limit", [{"difference": 0.1}, {"ratio": 0.8}])
@pytest.mark.parametrize("mode", ["intersectional", "independent"])
def test_an_audit_agrees_with_the_measurement(kind, limit, mode):
    notion = kind(**limit, groups=mode, against="groups")
    found = eh.audit(Y, DECIDED, FEATURES, constraint=notion)[notion.label]
    measured = notion.measure(eh.cell_rates(Y, DECIDED, FEATURES))
    worst = (max if "difference" in limit else min)(measured, key=lambda part: part.value)
    assert found.value == pytest.approx(worst.value)
    assert (found.group, found.reference) == (worst.worst, worst.reference)
    assert (found.statistic, found.against, found.groups) == (worst.statistic, "groups", mode)
    assert found.low <= found.value <= found.high
    assert found.tolerance == notion.tolerance
    flat = np.concatenate([-part.differences if "difference" in limit else part.ratios for part in measured])
    assert [part.value for part in found.distances] == pytest.approx(list(flat))
    assert all(part.low <= part.value <= part.high for part in found.distances)


def test_the_four_fifths_rule_is_demographic_parity_between_groups():
    parity = eh.DemographicParity(ratio=0.8, against="groups")
    asked, rule, *_ = eh.audit(Y, DECIDED, FEATURES, constraint=parity).comparisons
    assert rule.notion == "four-fifths rule"
    for name in ("value", "low", "high", "group", "reference", "verdict", "distances", "tolerance"):
        assert getattr(asked, name) == getattr(rule, name)


@pytest.mark.parametrize(("limit", "by"), [({"difference": 0.1}, difference), ({"ratio": 0.8}, quotient)])
def test_two_groups_are_one_pair(limit, by):
    """With two groups the interval is that of the difference or the quotient of their rates."""
    notion = eh.DemographicParity(**limit, against="groups")
    decided = [1] * 400 + [0] * 600 + [1] * 500 + [0] * 500
    found = eh.audit(None, decided, ["a"] * 1000 + ["b"] * 1000, constraint=notion).comparisons[0]
    z = critical_value(0.95)
    low, high = (clopper_pearson(share, 1000, z) for share in (0.4, 0.5))
    first, second = (high, low) if by is difference else (low, high)
    expected = by(first, second)
    assert (found.value, found.low, found.high) == pytest.approx(
        tuple(float(x) for x in (expected.value, expected.low, expected.high))
    )


def test_features_are_not_compared_with_each_other():
    """Half of each sex is selected, but all of the young and nobody else."""
    notion = eh.DemographicParity(difference=0.1, groups="independent", against="groups")
    features = {"sex": ["F", "M"] * 200, "young": ["y", "y", "n", "n"] * 100}
    found = eh.audit(None, [1, 1, 0, 0] * 100, features, constraint=notion).comparisons[0]
    assert (str(found.group), str(found.reference)) == ("young=n", "young=y")
    assert [part.value for part in found.distances] == [0.0, 0.0, -1.0, 0.0]
    assert found.value == 1.0


@pytest.mark.parametrize(
    ("notion", "verdict"),
    [
        (eh.DemographicParity(difference=0.05, against="groups"), "violated"),
        (eh.DemographicParity(difference=0.6, against="groups"), "satisfied"),
        (eh.DemographicParity(difference=0.22, against="groups"), "insufficient evidence"),
        (eh.EqualizedOdds(ratio=0.9, against="groups"), "violated"),
        (eh.EqualizedOdds(ratio=0.1, against="groups"), "satisfied"),
    ],
    ids=repr,
)
def test_a_verdict_needs_the_whole_interval_on_one_side(notion, verdict):
    assert eh.audit(Y, DECIDED, FEATURES, constraint=notion).comparisons[0].verdict == verdict


def test_a_group_without_relevant_rows_leaves_the_interval_open():
    y = [1, 0] * 500 + [0] * 500
    group = ["a", "a", "b", "b"] * 250 + ["c"] * 500
    both = eh.EqualOpportunity(difference=0.2, against="groups") & eh.EqualOpportunity(
        ratio=0.5, against="groups"
    )
    by_difference, by_ratio = eh.audit(y, [1] * 1000 + [0] * 500, group, constraint=both).comparisons[:2]
    assert (by_difference.high, by_difference.verdict) == (1.0, "insufficient evidence")
    assert (by_ratio.low, by_ratio.verdict) == (0.0, "insufficient evidence")
    assert [str(name) for name in by_difference.undefined] == ["sensitive_feature=c"]
    assert math.isnan(by_difference.distances[-1].value)


@pytest.mark.parametrize("limit", [{"difference": 0.1}, {"ratio": 0.8}])
def test_one_group_has_nothing_to_be_compared_with(limit):
    with pytest.warns(VacuousConstraintWarning, match="only one group"):
        found = eh.audit(
            None, [1, 0] * 500, ["a"] * 1000, constraint=eh.DemographicParity(**limit, against="groups")
        )
    assert found.comparisons[0].verdict == "insufficient evidence"


def test_hidden_groups_are_not_named():
    sex = ["F"] * 500 + ["M"] * 500 + ["X"] * 5
    decided = [1, 0] * 500 + [1] * 5
    for limit in ({"difference": 0.1}, {"ratio": 0.8}):
        notion = eh.DemographicParity(**limit, against="groups")
        one = eh.audit(None, decided, {"sex": sex}, min_count=10, constraint=notion).comparisons[0]
        assert (one.reference, one.distances, one.undefined) == (None, (), ())
        assert all(number == round(number, 2) for number in (one.value, one.low, one.high))
