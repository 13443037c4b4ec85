import numpy as np
import pytest

import evenhand as eh
from evenhand.groups.groups import Groups
from evenhand.requirements.constraints import LinearConstraints

GROUPS = Groups.product({"sex": ["F", "M"]})
MASSES = [[0.3, 0.2], [0.4, 0.1]]


def test_constraints_have_readable_names():
    linear = eh.EqualizedOdds(difference=0.1).linear(MASSES, GROUPS)
    assert [str(name) for name in linear.names] == [
        "equalized odds, true-positive rate: sex=F",
        "equalized odds, true-positive rate: sex=M",
        "equalized odds, false-positive rate: sex=F",
        "equalized odds, false-positive rate: sex=M",
    ]
    assert linear.C.shape == (4, 2, 2)


def test_the_violation_is_that_of_the_worst_constraint():
    linear = eh.PredictiveEquality(difference=0.1).linear(MASSES, GROUPS)
    rho = [[1.0, 0.3], [0.0, 0.3]]  # false-positive rates 1 and 0, overall 3/7
    assert linear.violation(rho) == pytest.approx(4 / 7 - 0.1)
    assert linear.violation(np.full((2, 2), 0.3)) == 0


def test_stacking_keeps_every_constraint():
    one = eh.DemographicParity(difference=0.1).linear(MASSES, GROUPS)
    two = eh.EqualOpportunity(ratio=0.8).linear(MASSES, GROUPS)
    both = LinearConstraints.stack([one, two])
    assert len(both) == 4
    assert both.hi.tolist() == [0.1, 0.1, 0.0, 0.0]
    assert both.lo == pytest.approx([-0.1, -0.1, -0.2, -0.2])


def test_rates_of_empty_cells_do_not_matter():
    linear = eh.DemographicParity(difference=0.1).linear([[0.5, 0.0], [0.2, 0.3]], GROUPS)
    assert linear.values([[0.3, np.nan], [0.3, 0.3]]) == pytest.approx([0, 0])


def test_an_unknown_rate_is_not_zero():
    linear = eh.DemographicParity(difference=0.1).linear(MASSES, GROUPS)
    assert np.isnan(linear.violation(np.full((2, 2), np.nan)))


def test_a_requirement_without_constraints_is_never_violated():
    linear = eh.EqualOpportunity(difference=0.1).linear([[0.5, 0.0], [0.5, 0.0]], GROUPS)
    assert len(linear) == 0
    assert linear.violation(np.zeros((2, 2))) == 0
