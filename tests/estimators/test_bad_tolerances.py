"""Tolerances that FairPostprocessor takes or refuses, down to exact parity."""

import pytest
from tests.estimators.small_fits import EXACT, Unfittable, fair, fit

import evenhand as eh
from evenhand.exceptions import (
    InputError,
)

# Tolerances and constraints


@pytest.mark.parametrize("tolerance", [-0.1, float("nan"), 1.5, float("inf"), "0.1", True])
@pytest.mark.parametrize("measure", ["difference", "ratio"])
def test_a_tolerance_outside_0_and_1_is_refused(measure, tolerance):
    message = f"DemographicParity: {measure} must be a number from 0 to 1, got {tolerance!r}"
    with pytest.raises(InputError, match=message):
        eh.DemographicParity(**{measure: tolerance})
    with pytest.raises(InputError, match=message):
        fair(constraint=eh.DemographicParity(**{measure: 0.5})).set_params(
            **{f"constraint__{measure}": tolerance}
        )


def test_a_tolerance_assigned_later_is_refused_before_any_work():
    constraint = eh.DemographicParity(difference=0.1)
    constraint.difference = float("nan")
    with pytest.raises(InputError, match="difference must be a number from 0 to 1, got nan"):
        fit(constraint=constraint, estimator=Unfittable())


@pytest.mark.parametrize("constraint", [None, "parity", eh.DemographicParity])
def test_an_object_that_is_not_a_constraint_is_refused(constraint):
    with pytest.raises(InputError, match=r"constraint must be a notion of fairness, such as Demographic"):
        fit(constraint=constraint)


# Exact parity


@pytest.mark.parametrize("tolerance", [0, 1e-12])
@pytest.mark.parametrize("aware", [False, True])
def test_a_tolerance_of_zero_is_solved_as_an_equality(notion, tolerance, aware):
    constraint = notion(difference=tolerance)
    found = fit(constraint=constraint, aware=aware)
    assert abs(found.certificate_.gap) < 1e-6
    assert found.certificate_.violation < 1e-9
    assert max(measured.difference for measured in constraint.measure(found.rates_)) < 1e-9


def test_a_ratio_of_one_is_the_same_as_a_difference_of_zero():
    ratio = fit(constraint=eh.DemographicParity(ratio=1.0))
    assert ratio.certificate_.objective == pytest.approx(
        fit(constraint=EXACT).certificate_.objective, abs=1e-9
    )
