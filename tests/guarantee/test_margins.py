"""The sequence of internal requirements of a guarantee."""

from itertools import pairwise

import numpy as np
import pytest

import evenhand as eh
from evenhand.guarantee.margins import internal_requirements
from evenhand.requirements.rates import CellRates

GROUPS = eh.Groups.product({"sex": ["F", "M"], "race": ["a", "b"]})
MASSES = np.array([[0.3, 0.2], [0.1, 0.15], [0.1, 0.1], [0.03, 0.02]])
RATES = CellRates(GROUPS, MASSES, MASSES * [[0.2, 0.6]])
TODAY = CellRates(GROUPS, MASSES, MASSES * [[0.1, 0.4]])
REQUIREMENTS = [
    eh.DemographicParity(difference=0.1),
    eh.EqualizedOdds(ratio=0.8),
    eh.AccuracyParity(difference=0.1, groups="independent"),
    eh.DemographicParity(difference=0.1, against="groups"),
    eh.EqualOpportunity(ratio=0.8, against="groups", groups="independent"),
    eh.RateBound("selection rate", at_most=0.5),
    eh.RateBound("true-positive rate", at_least=0.5, groups="intersectional")
    & eh.DemographicParity(ratio=0.7),
    eh.RateBound("precision", at_least=0.5, at_most=0.9),
    eh.NoWorse("selection rate", than=TODAY),
    eh.NoWorse("error rate", than=TODAY, groups="independent"),
    eh.DemographicParity(difference=0.1) & eh.DemographicParity(ratio=0.8),
]


def sequence(constraint, n_rows=2000):
    return list(internal_requirements(constraint, RATES, n_rows))


@pytest.mark.parametrize("constraint", REQUIREMENTS, ids=str)
def test_the_sequence_goes_from_the_strictest_to_the_requirement(constraint):
    steps = sequence(constraint)
    assert steps[-1] is constraint
    inner = [step.linear(MASSES, GROUPS) for step in steps]
    assert len(inner) > 10
    for stricter, looser in pairwise(inner):
        assert (stricter.lo >= looser.lo).all()
        assert (stricter.hi <= looser.hi).all()
        assert (stricter.lo <= stricter.hi + 1e-12).all()
    assert (inner[0].lo > inner[-1].lo).any() or (inner[0].hi < inner[-1].hi).any()


@pytest.mark.parametrize("constraint", REQUIREMENTS[:5], ids=str)
def test_a_classifier_with_equal_rates_satisfies_every_step(constraint):
    """Errors are equal too if half of each cell is selected."""
    for step in internal_requirements(constraint, CellRates(GROUPS, MASSES, MASSES / 2), 2000):
        assert step.linear(MASSES, GROUPS).violation(np.full(MASSES.shape, 0.5)) < 1e-9


def test_large_groups_have_small_margins_and_more_rows_make_all_smaller():
    few, many = (sequence(REQUIREMENTS[0], n)[-2] for n in (1000, 100_000))
    small, large = few.upper[name("M", "b")], few.upper[name("F", "a")]
    assert small > 3 * large > 0
    assert few.upper[name("F", "a")] == pytest.approx(10 * many.upper[name("F", "a")], rel=0.02)


def name(*values):
    names = REQUIREMENTS[0].linear(MASSES, GROUPS).names
    [found] = [one for one in names if one.group.values == values]
    return found


def test_an_end_that_is_no_bound_stays():
    for constraint, end in (
        (eh.RateBound("selection rate", at_most=0.5), "lower"),
        (REQUIREMENTS[8], "upper"),
    ):
        for step in sequence(constraint)[:-1]:
            assert set(getattr(step, end).values()) == {0.0}


def test_between_groups_each_end_of_a_ratio_is_one_constraint():
    step = sequence(eh.DemographicParity(ratio=0.8, against="groups"))[-2]
    assert {one.side for one, margin in step.upper.items() if margin} == {"highest"}
    assert {one.side for one, margin in step.lower.items() if margin} == {"lowest"}


def test_strata_have_margins_of_their_own():
    strata = eh.Groups.product({"job": ["x", "y"]})
    groups = GROUPS.within(strata)
    masses = np.concatenate([0.9 * MASSES, 0.1 * MASSES])
    rates = CellRates(groups, masses, masses * [[0.2, 0.6]])
    given = eh.DemographicParity(difference=0.1, given=["job"])
    step = list(internal_requirements(given, rates, 5000))[-2]
    by_stratum = {}
    for one, margin in step.upper.items():
        by_stratum.setdefault(str(one.stratum), []).append(margin)
    assert set(by_stratum) == {"job=x", "job=y"}
    np.testing.assert_allclose(by_stratum["job=y"], 3 * np.array(by_stratum["job=x"]), rtol=0.05)


def test_with_few_rows_the_strictest_is_exact_parity_and_it_is_tried_once():
    strictest, second = (step.linear(MASSES, GROUPS) for step in sequence(REQUIREMENTS[0], 100)[:2])
    assert (strictest.hi == 0).all()
    assert (second.hi > 0).any()
