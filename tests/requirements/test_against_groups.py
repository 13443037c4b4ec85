"""Groups compared with each other: the largest rate with the smallest, as in the four-fifths rule."""

import numpy as np
import pytest

import evenhand as eh
from evenhand.exceptions import InputError
from evenhand.groups.groups import Groups
from evenhand.requirements.rates import CellRates


def counted(rates, rows=20):
    """Decisions with these selection rates, without labels."""
    decided = [int(k < round(rate * rows)) for rate in rates.values() for k in range(rows)]
    return eh.cell_rates(None, decided, {"g": [name for name in rates for _ in range(rows)]})


def measured(constraint, rates):
    [found] = constraint.measure(rates)
    return found


def test_the_lowest_group_is_compared_with_the_highest():
    rates = counted({"a": 0.5, "b": 0.2, "c": 0.4})
    by_difference = measured(eh.DemographicParity(difference=0.1, against="groups"), rates)
    assert by_difference.value == pytest.approx(0.3)
    assert by_difference.differences == pytest.approx([0.0, 0.3, 0.1])
    assert by_difference.excess == pytest.approx(0.2)
    by_ratio = measured(eh.DemographicParity(ratio=0.8, against="groups"), rates)
    assert by_ratio.value == pytest.approx(0.4)
    assert by_ratio.ratios == pytest.approx([1.0, 0.4, 0.8])
    assert by_ratio.excess == pytest.approx(0.4)
    for found in (by_difference, by_ratio):
        assert (str(found.worst), str(found.reference)) == ("g=b", "g=a")
    assert measured(eh.DemographicParity(ratio=0.8), rates).reference is None


def test_the_ratio_is_one_sided():
    """Against the population, the ratio of the rates of not being selected counts too."""
    rates = counted({"a": 1.0, "b": 0.9})
    assert measured(eh.DemographicParity(ratio=0.8, against="groups"), rates).value == pytest.approx(0.9)
    assert measured(eh.DemographicParity(ratio=0.8), rates).value == 0.0


def test_if_nobody_is_selected_the_ratio_is_1():
    rates = counted({"a": 0.0, "b": 0.0})
    assert measured(eh.DemographicParity(ratio=0.8, against="groups"), rates).value == 1.0


def test_values_are_compared_within_each_feature():
    decided = [int(k < n) for n in (9, 7, 3, 1) for k in range(10)]
    features = {"sex": np.repeat(["F", "F", "M", "M"], 10), "old": np.repeat([0, 1, 0, 1], 10)}
    rates = eh.cell_rates(None, decided, features)
    found = measured(eh.DemographicParity(difference=0.1, against="groups", groups="independent"), rates)
    assert found.values == pytest.approx([0.8, 0.2, 0.6, 0.4])  # F, M, young, old
    assert found.differences == pytest.approx([0.0, 0.6, 0.0, 0.2])
    assert (str(found.worst), str(found.reference)) == ("sex=M", "sex=F")


def test_an_undefined_rate_is_neither_lowest_nor_highest():
    rates = eh.cell_rates([1, 1, 0, 0, 1, 1], [1, 0, 0, 0, 1, 1], {"g": list("aabbcc")})
    found = measured(eh.EqualOpportunity(difference=0.1, against="groups"), rates)
    assert found.value == 0.5
    assert [str(name) for name in found.undefined] == ["g=b"]
    assert (str(found.worst), str(found.reference)) == ("g=a", "g=c")


def test_odds_are_measured_one_by_one():
    rates = eh.cell_rates([1, 1, 0, 0] * 2, [1, 1, 1, 0, 1, 0, 0, 0], {"g": list("aaaabbbb")})
    found = eh.EqualizedOdds(ratio=0.8, against="groups").measure(rates)
    assert [part.value for part in found] == pytest.approx([0.5, 0.0])


@pytest.mark.parametrize("limit", [{"difference": 0.3}, {"ratio": 0.4}])
@pytest.mark.parametrize("mode", ["intersectional", "independent"])
def test_linear_constraints_agree_with_the_measurement(limit, mode):
    """Some scalar satisfies all of them exactly where the measured value is within the tolerance."""
    groups = Groups.product({"a": [0, 1], "b": [0, 1, 2]})
    rng = np.random.default_rng(0)
    masses = rng.dirichlet(np.ones(12)).reshape(6, 2)
    outcomes = set()
    for _ in range(60):
        rho = rng.uniform(0.2, 0.8, (6, 2))
        rates = CellRates(groups, masses, masses * rho)
        notion = eh.DemographicParity(**limit, groups=mode, against="groups")
        holds = measured(notion, rates).excess == 0
        linear = notion.linear(masses, groups)
        assert (linear.violation(rho) < 1e-9) == holds
        outcomes.add(holds)
    assert outcomes == {True, False}


def test_against_is_checked():
    with pytest.raises(InputError, match="against must be one of 'population', 'groups', got 'men'"):
        eh.DemographicParity(ratio=0.8, against="men")
    assert repr(eh.DemographicParity(ratio=0.8, against="groups")) == (
        "DemographicParity(ratio=0.8, against='groups')"
    )
