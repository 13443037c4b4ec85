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
        InputError, match="cannot set 'tolerance'; it has action, against, difference, given, groups, ratio"
    ):
        eh.EqualOpportunity(difference=0.1).set_params(tolerance=0.2)


def test_an_invalid_value_is_refused_where_it_is_set_and_where_it_is_used():
    notion = eh.EqualOpportunity(difference=0.1)
    with pytest.raises(InputError, match="exactly one of difference and ratio"):
        notion.set_params(ratio=0.9)
    both = eh.DemographicParity(difference=0.1) & notion
    with pytest.raises(InputError, match="exactly one of difference and ratio"):
        both.check(None)
    with pytest.raises(InputError, match="from 0 to 1, got 5"):
        both.set_params(demographicparity__difference=5)


def test_parameters_can_be_set_to_their_current_values():
    both = eh.DemographicParity(difference=0.1) & eh.EqualOpportunity(ratio=0.9)
    assert both.set_params(**both.get_params()) == both


def test_parts_are_changed_by_their_parameters():
    both = eh.DemographicParity(difference=0.1) & eh.EqualOpportunity(ratio=0.9)
    for name in ("equalopportunity", "accuracyparity"):
        with pytest.raises(InputError, match=f"cannot set {name!r}; it has demographicparity__action"):
            both.set_params(**{name: eh.AccuracyParity(ratio=0.8)})
