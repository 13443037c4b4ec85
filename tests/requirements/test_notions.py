import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import ParameterGrid

import evenhand as eh
from evenhand.exceptions import InputError, VacuousConstraintWarning
from evenhand.groups.groups import Groups
from evenhand.requirements.requirement import AllOf


def test_exactly_one_measure_is_required(notion):
    with pytest.raises(InputError, match="exactly one of difference and ratio"):
        notion()
    with pytest.raises(InputError, match="exactly one"):
        notion(difference=0.1, ratio=0.9)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf"), "0.1", True])
def test_tolerances_are_numbers_from_0_to_1(notion, value):
    with pytest.raises(InputError, match="difference must be a number from 0 to 1"):
        notion(difference=value)
    with pytest.raises(InputError, match="ratio must be a number from 0 to 1"):
        notion(ratio=value)


def test_numpy_tolerances_are_accepted():
    assert eh.DemographicParity(difference=np.float32(0.5)).tolerance == 0.5


def test_an_unknown_group_mode_is_refused():
    with pytest.raises(InputError, match="'intersectional', 'independent', got 'both'"):
        eh.DemographicParity(difference=0.1, groups="both")


def test_and_flattens_notions():
    three = (
        eh.DemographicParity(difference=0.1) & eh.EqualOpportunity(ratio=0.9) & eh.AccuracyParity(ratio=0.5)
    )
    assert [type(part).__name__ for part in three.notions] == [
        "DemographicParity",
        "EqualOpportunity",
        "AccuracyParity",
    ]
    assert repr(three).count("&") == 2


def test_and_accepts_only_constraints():
    with pytest.raises(TypeError):
        eh.DemographicParity(difference=0.1) & 0.2
    for parts in ([0.2], [], eh.DemographicParity(difference=0.1), (part for part in ())):
        with pytest.raises(InputError, match="takes a list of notions"):
            AllOf(parts)


def test_equalized_odds_is_equal_opportunity_and_predictive_equality():
    groups = Groups.product({"g": "abc"})
    masses = np.random.default_rng(0).dirichlet(np.ones(6)).reshape(3, 2)
    together = eh.EqualizedOdds(ratio=0.8).linear(masses, groups)
    apart = (eh.EqualOpportunity(ratio=0.8) & eh.PredictiveEquality(ratio=0.8)).linear(masses, groups)
    for part in ("C", "k", "lo", "hi"):
        assert np.array_equal(getattr(together, part), getattr(apart, part))


def test_constraining_one_group_causes_a_warning():
    with pytest.warns(VacuousConstraintWarning, match="only one group"):
        linear = eh.DemographicParity(difference=0.1).linear([[0.5, 0.5]], Groups.product({"g": ["a"]}))
    assert linear.values([[0.1, 0.9]]) == pytest.approx([0])


def test_constraints_on_groups_without_positives_are_left_out_and_named():
    linear = eh.EqualizedOdds(difference=0.1).linear([[0.5, 0.0], [0.2, 0.3]], Groups.product({"g": "ab"}))
    assert [str(name) for name in linear.undefined] == ["equalized odds, true-positive rate: g=a"]
    assert len(linear) == 3
    assert np.isfinite(linear.C).all()


def test_single_features_and_intersections_can_be_constrained_together():
    groups = Groups.product({"a": [0, 1], "b": [0, 1]})
    both = eh.DemographicParity(difference=0.1) & eh.DemographicParity(difference=0.1, groups="independent")
    assert len(both.linear(np.full((4, 2), 1 / 8), groups)) == 8


def test_masses_of_the_wrong_shape_are_refused():
    with pytest.raises(InputError, match=r"shape \(2, 2\), got \(3, 2\)"):
        eh.DemographicParity(difference=0.1).linear(np.full((3, 2), 1 / 6), Groups.product({"g": "ab"}))


def test_too_large_a_requirement_is_refused_before_memory_is_allocated():
    groups = Groups.product({"g": range(7500)})
    with pytest.raises(InputError, match=r"7,500 constraints on 7,500 groups need 2.5 GiB"):
        eh.DemographicParity(difference=0.1).linear(np.full((7500, 2), 1 / 15_000), groups)


@pytest.mark.parametrize("masses", [[[np.nan, 0.2], [0.3, 0.2]], [[-0.1, 0.6], [0.3, 0.2]], np.zeros((2, 2))])
def test_invalid_masses_are_refused(masses):
    with pytest.raises(InputError, match="masses must be finite, not negative"):
        eh.DemographicParity(difference=0.1).linear(masses, Groups.product({"g": "ab"}))


def test_joining_copies_the_parts():
    one = eh.DemographicParity(difference=0.1)
    twice = one & one
    twice.set_params(**{"demographicparity-1__difference": 0.5})
    assert one.difference == 0.1
    assert twice.notions[1].difference == 0.1


def test_an_assigned_tolerance_is_checked_when_used():
    notion = eh.DemographicParity(difference=0.1)
    notion.difference = 7
    with pytest.raises(InputError, match="from 0 to 1, got 7"):
        notion.linear(np.full((2, 2), 0.25), Groups.product({"g": "ab"}))


def test_mistakes_in_a_custom_notion_are_found_when_it_is_defined():
    with pytest.raises(InputError, match="statistics as a tuple"):

        class NoComma(eh.Notion):
            label = "no comma"
            statistics = eh.Statistic("selection rate")

    with pytest.raises(InputError, match="must define its name"):

        class NoName(eh.Notion):
            statistics = (eh.Statistic("selection rate"),)

    with pytest.raises(InputError, match="use one of its subclasses"):
        eh.Notion(difference=0.1)


def test_measuring_one_group_causes_a_warning():
    counted = eh.cell_rates(None, [0, 1], {"g": ["a", "a"]})
    with pytest.warns(VacuousConstraintWarning, match="only one group"):
        eh.DemographicParity(difference=0.1).measure(counted)


def test_most_notions_need_labels(notion):
    counted = eh.cell_rates(None, [0, 1], {"g": ["a", "b"]})
    if notion is eh.DemographicParity:
        assert notion(difference=0.1).measure(counted)[0].difference == 0.5
    else:
        with pytest.raises(InputError, match="needs labels: pass y_true"):
            notion(difference=0.1).measure(counted)


class Holder(ClassifierMixin, BaseEstimator):
    """An estimator that has a constraint among its parameters."""

    def __init__(self, constraint=None):
        self.constraint = constraint


@pytest.mark.parametrize(
    "constraint",
    [
        eh.EqualizedOdds(ratio=0.8, groups="independent"),
        eh.DemographicParity(difference=0.1) & eh.EqualOpportunity(ratio=0.9),
    ],
)
def test_constraints_are_cloned_with_their_estimator(constraint):
    copy = clone(Holder(constraint))
    assert copy.constraint == constraint
    assert copy.constraint is not constraint


def test_a_grid_search_reaches_the_tolerance():
    holder = Holder(eh.DemographicParity(difference=0.1))
    for point in ParameterGrid({"constraint__difference": [0.2, 0.3]}):
        assert clone(holder).set_params(**point).constraint.difference == point["constraint__difference"]
    assert holder.constraint.difference == 0.1


def test_parts_are_cloned_deeply():
    both = eh.DemographicParity(difference=0.1) & eh.EqualOpportunity(ratio=0.9)
    changed = clone(Holder(both)).set_params(constraint__demographicparity__difference=0.4)
    assert changed.constraint.notions[0].difference == 0.4
    assert both.notions[0].difference == 0.1
