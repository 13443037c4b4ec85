import pytest

import evenhand as eh
from evenhand.exceptions import InputError


def test_parameters_of_a_single_notion():
    notion = eh.EqualOpportunity(difference=0.1)
    assert notion.get_params() == {
        "difference": 0.1,
        "ratio": None,
        "groups": "intersectional",
        "against": "population",
        "given": None,
        "action": None,
    }
    assert notion.set_params(difference=0.2) is notion
    assert notion.difference == 0.2
    notion.set_params(difference=None, ratio=0.8)
    assert notion.tolerance == 0.8


def test_parameters_of_several_notions_are_set_by_name():
    both = eh.DemographicParity(difference=0.1) & eh.EqualOpportunity(ratio=0.9)
    both.set_params(equalopportunity__ratio=None, equalopportunity__difference=0.3)
    assert both.notions[1].difference == 0.3
    assert both.get_params()["demographicparity__difference"] == 0.1


def test_notions_of_the_same_kind_are_numbered():
    both = eh.DemographicParity(difference=0.1) & eh.DemographicParity(difference=0.2, groups="independent")
    assert {"demographicparity-1__difference", "demographicparity-2__difference"} <= set(both.get_params())


def test_an_unknown_parameter_is_refused_with_the_known_ones():
    with pytest.raises(
        InputError, match="no parameter 'tolerance'; it has action, against, difference, given, groups, ratio"
    ):
        eh.EqualOpportunity(difference=0.1).set_params(tolerance=0.2)


def test_an_invalid_value_changes_nothing():
    notion = eh.EqualOpportunity(difference=0.1)
    with pytest.raises(InputError, match="exactly one of difference and ratio"):
        notion.set_params(ratio=0.9)
    assert notion == eh.EqualOpportunity(difference=0.1)


def test_an_invalid_value_for_one_part_changes_no_other():
    both = eh.DemographicParity(difference=0.1) & eh.EqualOpportunity(ratio=0.9)
    with pytest.raises(InputError, match="from 0 to 1, got 5"):
        both.set_params(demographicparity__difference=0.3, equalopportunity__ratio=5)
    assert both.notions[0].difference == 0.1


def test_parameters_can_be_set_to_their_current_values():
    both = eh.DemographicParity(difference=0.1) & eh.EqualOpportunity(ratio=0.9)
    assert both.set_params(**both.get_params()) == both


def test_a_part_can_be_replaced():
    both = eh.DemographicParity(difference=0.1) & eh.EqualOpportunity(ratio=0.9)
    both.set_params(equalopportunity=eh.AccuracyParity(ratio=0.8))
    assert both.notions[1] == eh.AccuracyParity(ratio=0.8)
    with pytest.raises(InputError, match="takes a list of notions"):
        both.set_params(accuracyparity=3)
    assert both.notions[1] == eh.AccuracyParity(ratio=0.8)
