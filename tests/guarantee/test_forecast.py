"""What is to be expected on new rows."""

import math

import numpy as np
import pytest

import evenhand as eh
from evenhand.exceptions import ForecastWarning, InputError
from evenhand.guarantee.forecast import Forecast, warn_if_exceeded
from evenhand.requirements.rates import CellRates

GROUPS = eh.Groups.product({"sex": ["F", "M"], "race": ["A", "B"]})
MASSES = np.array([[0.3, 0.2], [0.02, 0.01], [0.25, 0.15], [0.05, 0.02]])


def counted(rows, rate):
    """Covariances of the log-odds of rates that are counted on some rows."""
    return np.eye(2) / np.maximum(rows * rate * (1 - rate), 0.25)[:, :, None]


def forecast(constraint, n=2000, rate=0.4, errors=None):
    rates = CellRates(GROUPS, MASSES, rate * MASSES)
    errors = counted(n * MASSES, rate) if errors is None else errors
    return Forecast(constraint, rates, n * MASSES, errors)


def test_the_mean_of_the_largest_of_normal_differences():
    """Two groups of the same size at parity: |q - q_g| is half the absolute difference of two binomials."""
    groups = eh.Groups.product({"sex": ["F", "M"]})
    masses = np.full((2, 2), 0.25)
    rates = CellRates(groups, masses, masses / 2)
    found = Forecast(
        eh.EqualOpportunity(difference=0.0), rates, 1e6 * masses, counted(1e6 * masses, 0.5)
    ).expected[0]
    error = math.sqrt(2 * 0.25 / 250_000) / 2
    assert found.value == pytest.approx(error * math.sqrt(2 / math.pi), rel=0.08)


def test_it_falls_to_the_tolerance_with_rows_and_exceeds_it_without():
    values = [forecast(eh.DemographicParity(difference=0.05), n).expected[0].value for n in (300, 3000, 1e7)]
    assert values[0] > values[1] > values[2]
    assert values[2] < 0.005  # the claimed rates are at parity


def test_smaller_errors_lead_to_a_smaller_forecast():
    parity = eh.EqualOpportunity(difference=0.02)
    errors = np.tile(0.01 * np.eye(2), (4, 1, 1))
    sharp, usual = forecast(parity, errors=errors), forecast(parity)
    assert sharp.expected[0].value < usual.expected[0].value
    assert sharp.worth == pytest.approx(1 / (0.01 * 0.24), rel=1e-6)
    assert usual.worth == pytest.approx(2000 * MASSES, rel=1e-6)


def test_opposite_errors_of_both_labels_leave_demographic_parity_alone():
    parity, masses = eh.DemographicParity(difference=0.0), np.full((2, 2), 0.25)
    rates = CellRates(eh.Groups.product({"sex": ["F", "M"]}), masses, masses / 2)
    opposite, same = (np.tile([[0.04, sign * 0.04], [sign * 0.04, 0.04]], (2, 1, 1)) for sign in (-1.0, 1.0))
    few, many = (
        Forecast(parity, rates, 1e9 * masses, errors).expected[0].value for errors in (opposite, same)
    )
    assert few < 1e-4
    assert many > 0.02


def test_the_group_with_the_fewest_rows_is_named_with_the_rows_that_count():
    [found] = forecast(eh.EqualOpportunity(difference=0.01)).expected
    assert (found.who, found.rows) == ("sex=F, race=B", 20)
    assert found.low < found.value < found.high
    assert str(found) == (
        f"equal opportunity: asked for 0.010; expect about {found.value:.3f} on new data, mostly because "
        "only 20 rows of sex=F, race=B were seen"
    )


def test_each_requirement_has_its_own_forecast():
    both = eh.DemographicParity(ratio=0.9) & eh.EqualizedOdds(difference=0.05, groups="independent")
    capped = both & eh.RateBound("selection rate", at_most=0.4)
    parity, odds, cap = forecast(capped).expected
    assert (parity.measure, odds.measure, cap.measure) == ("ratio", "difference", "bound")
    assert parity.value < 1
    assert parity.excess == pytest.approx(0.9 - parity.value)
    assert odds.value < parity.high
    assert cap.asked == 0.4
    assert cap.value == pytest.approx(0.4, abs=0.005)
    assert abs(cap.excess) < 0.005
    assert not cap.exceeded
    assert (parity.asked, odds.asked) == (0.9, 0.05)


def test_strata_are_measured_one_by_one():
    levels = eh.Groups.product({"sex": ["F", "M"]}).within(eh.Groups.product({"level": ["1", "2"]}))
    masses = np.array([[0.3, 0.3], [0.15, 0.15], [0.04, 0.03], [0.02, 0.01]])
    rates = CellRates(levels, masses, masses / 2)
    given = eh.DemographicParity(difference=0.02, given=["level"])
    [found] = Forecast(given, rates, 1000 * masses, counted(1000 * masses, 0.5)).expected
    assert (found.who, found.rows) == ("sex=M given level=2", 30)


def test_a_sample_adds_its_own_error_and_covers_what_it_shows():
    """Claims that are right on average: 90 % of what samples show is in the interval."""
    parity, inside, draws = eh.DemographicParity(difference=0.02), 0, 300
    rng = np.random.default_rng(0)
    found = forecast(parity, n=1500).on(1000).expected[0]
    assert found.value > forecast(parity, n=1500).expected[0].value
    for _ in range(draws):
        n = 1500 * MASSES
        truth = rng.beta(n * 0.4, n * 0.6)
        mass = rng.poisson(1000 * MASSES)
        rates = CellRates(GROUPS, mass * 1.0, rng.binomial(mass, truth) * 1.0)
        inside += found.low <= parity.measure(rates)[0].value <= found.high
    assert 0.84 < inside / draws < 0.98


def test_rates_of_nobody_are_not_forecast():
    masses = MASSES * [1, 0]
    rates = CellRates(GROUPS, masses, masses / 2)
    [found] = Forecast(
        eh.EqualOpportunity(difference=0.1), rates, 100 * masses, counted(100 * masses, 0.5)
    ).expected
    assert math.isnan(found.value)
    assert found.who == ""
    assert not found.exceeded


def test_a_warning_names_what_is_exceeded_by_more_than_half():
    with pytest.warns(ForecastWarning, match=r"asked for 0\.010; expect about 0\.\d+ on new data, mostly"):
        warn_if_exceeded(forecast(eh.DemographicParity(difference=0.01)))
    warn_if_exceeded(forecast(eh.DemographicParity(difference=0.3)))  # silent: warnings are errors


@pytest.mark.parametrize("rows", [0, -1, 2.5, True, "many"])
def test_a_sample_has_a_number_of_rows(rows):
    with pytest.raises(InputError, match="`n_rows` must be a positive integer, got"):
        forecast(eh.DemographicParity(difference=0.01)).on(rows)
