import math
from dataclasses import replace

import numpy as np
import pytest

import evenhand as eh

GROUP = {"g": list("aaaabbbb")}


def test_difference_and_ratio_are_those_of_the_minimax():
    counted = eh.cell_rates(None, [1, 1, 1, 0, 1, 0, 0, 0], GROUP)  # 3/4 and 1/4, overall 1/2
    [found] = eh.DemographicParity(difference=0.1).measure(counted)
    assert found.difference == 0.25
    assert found.ratio == 0.5
    assert found.excess == pytest.approx(0.15)
    assert str(found.worst) == "g=a"
    [found] = eh.DemographicParity(ratio=0.8).measure(counted)
    assert found.value == 0.5
    assert found.excess == pytest.approx(0.3)


def test_within_the_tolerance_there_is_no_excess():
    counted = eh.cell_rates(None, [1, 1, 0, 0] * 2, GROUP)
    for constraint in (eh.DemographicParity(difference=0), eh.DemographicParity(ratio=1)):
        assert constraint.measure(counted)[0].excess == 0


@pytest.mark.parametrize("decision", [0, 1])
def test_the_ratio_is_one_if_all_rows_are_decided_alike(decision):
    counted = eh.cell_rates(None, [decision] * 8, GROUP)
    assert eh.DemographicParity(ratio=1).measure(counted)[0].ratio == 1


@pytest.mark.parametrize("few", [[3e-13, 0.0], [1.0, 1 - 3e-13]])
def test_the_ratio_of_rounding_errors_is_one(few):
    counted = eh.cell_rates(None, np.repeat([1, 0], 4), GROUP)

    def ratio(rates):
        selected = counted.mass * np.array(rates)[:, None]
        return eh.DemographicParity(ratio=1).measure(replace(counted, selected=selected))[0].ratio

    assert ratio(few) == pytest.approx(1, abs=1e-9)
    assert ratio([2e-6, 1e-6]) == pytest.approx(2 / 3)


def test_undefined_groups_are_named_and_not_counted_as_zero():
    counted = eh.cell_rates([0, 0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1, 0, 0], GROUP)
    [found] = eh.EqualOpportunity(difference=0.1).measure(counted)
    assert [str(name) for name in found.undefined] == ["g=a"]
    assert found.difference == 0
    assert str(found.worst) == "g=b"


def test_a_statistic_undefined_in_all_groups_is_undefined():
    counted = eh.cell_rates(None, [1, 0] * 4, GROUP)
    empty = eh.Statistic("rate among no rows", mask=(0, 0))

    class Nothing(eh.Notion):
        label = "nothing"
        statistics = (empty,)

    [found] = Nothing(difference=0.1).measure(counted)
    assert math.isnan(found.difference)
    assert math.isnan(found.ratio)
    assert math.isnan(found.excess)
    assert found.worst is None
    assert np.isnan(found.values).all()


@pytest.mark.parametrize("asked", [{"difference": 0.1}, {"ratio": 0.9}])
def test_a_named_group_without_a_rate_leaves_nothing_to_compare(asked):
    counted = eh.cell_rates([0, 0, 1, 0, 1, 1], [1, 0, 1, 0, 1, 0], {"s": list("aabbcc")})
    [found] = eh.EqualOpportunity(**asked, against={"s": "a"}).measure(counted)
    assert np.isnan([found.difference, found.ratio, found.value, found.excess]).all()
    assert found.worst is None
    assert len(found.undefined) == 3
