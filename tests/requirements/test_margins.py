"""Requirements with a margin for each group."""

import numpy as np
import pytest

import evenhand as eh
from evenhand.exceptions import InputError
from evenhand.requirements.bounds import with_reference
from evenhand.requirements.rates import CellRates
from evenhand.requirements.requirement import WithMargins

GROUPS = eh.Groups.product({"sex": ["F", "M"]})
MASSES = np.array([[0.3, 0.2], [0.1, 0.4]])
PARITY = eh.DemographicParity(difference=0.1)


def careful(constraint=PARITY):
    first, second = PARITY.linear(MASSES, GROUPS).names
    return WithMargins(constraint, lower={first: 0.02, second: 0.05}, upper={first: 0.03})


def test_margins_narrow_the_linear_constraints_and_nothing_else():
    plain, narrow = PARITY.linear(MASSES, GROUPS), careful().linear(MASSES, GROUPS)
    np.testing.assert_allclose(narrow.lo, plain.lo + np.array([0.02, 0.05]))
    np.testing.assert_allclose(narrow.hi, plain.hi - [0.03, 0.0])
    np.testing.assert_array_equal(narrow.C, plain.C)
    assert narrow.names == plain.names


def test_decisions_are_measured_by_the_requirement_itself():
    rates = CellRates(GROUPS, MASSES, MASSES * [[0.5, 0.5], [0.6, 0.6]])
    assert careful().measure(rates)[0].excess == PARITY.measure(rates)[0].excess
    assert repr(careful()) == "DemographicParity(difference=0.1) with margins of 0.02 to 0.05"


def test_solutions_keep_the_margins():
    rng = np.random.default_rng(0)
    scores = eh.GroupedScores(rng.beta([2, 5], [5, 2], (500, 2)).T.ravel(), np.repeat([0, 1], 500), 2)
    plain = eh.solve(scores, PARITY, groups=GROUPS)
    narrow = eh.solve(scores, WithMargins(PARITY, **margins(plain, 0.06)), groups=GROUPS)
    gaps = [
        abs(found.values - found.overall).max()
        for solution in (plain, narrow)
        for found in PARITY.measure(solution.rates)
    ]
    np.testing.assert_allclose(gaps, [0.1, 0.04], atol=1e-5)
    assert narrow.certificate.objective > plain.certificate.objective


def margins(solution, size):
    each = dict.fromkeys(solution.linear_constraints.names, size)
    return {"lower": each, "upper": each}


def test_a_reference_is_filled_in_without_losing_the_margins():
    floor = eh.NoWorse("selection rate")
    today = CellRates(GROUPS, MASSES, MASSES * 0.3)
    [name, _] = with_reference(floor, today).linear(MASSES, GROUPS).names
    found = with_reference(WithMargins(floor, lower={name: 0.05}, upper={}), today)
    np.testing.assert_allclose(found.linear(MASSES, GROUPS).lo, [0.35, 0.3])


@pytest.mark.parametrize("lower", [{}, {"a": np.nan}, {"a": np.inf}])
def test_margins_are_finite_numbers(lower):
    with pytest.raises(InputError, match="margins must be finite"):
        WithMargins(PARITY, lower=lower, upper={})


def test_margins_belong_to_a_requirement():
    with pytest.raises(InputError, match="constraint must be a requirement"):
        WithMargins("parity", lower={}, upper={})
