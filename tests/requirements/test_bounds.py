"""Bounds on rates: written out, measured, and as parameters."""

import math
import re

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone

import evenhand as eh
from evenhand.exceptions import InputError
from evenhand.groups.groups import Groups
from evenhand.requirements.bounds import BOUNDED_RATES

# Rows of each group: true positives, misses, false alarms, true negatives.
TABLE = {"a": (3, 1, 2, 4), "b": (1, 4, 1, 4), "c": (0, 0, 0, 5)}
RATES = {
    "selection rate": {"a": 5 / 10, "b": 2 / 10, "c": 0.0},
    "true-positive rate": {"a": 3 / 4, "b": 1 / 5, "c": math.nan},
    "false-positive rate": {"a": 2 / 6, "b": 1 / 5, "c": 0.0},
    "precision": {"a": 3 / 5, "b": 1 / 2, "c": math.nan},
    "accuracy": {"a": 7 / 10, "b": 5 / 10, "c": 1.0},
}
OVERALL = {
    "selection rate": 7 / 25,
    "true-positive rate": 4 / 9,
    "false-positive rate": 3 / 16,
    "precision": 4 / 7,
    "accuracy": 17 / 25,
}


def counted(table=TABLE):
    y, decided, group = [], [], []
    for name, counts in table.items():
        for (label, decision), rows in zip(((1, 1), (1, 0), (0, 1), (0, 0)), counts, strict=True):
            y += [label] * rows
            decided += [decision] * rows
            group += [name] * rows
    return eh.cell_rates(y, decided, {"g": group})


@pytest.mark.parametrize("rate", BOUNDED_RATES)
def test_rates_are_those_of_the_rows(rate):
    rates = counted()
    [found] = eh.RateBound(rate, at_least=0.5, groups="intersectional").measure(rates)
    assert found.values == pytest.approx(list(RATES[found.statistic].values()), nan_ok=True)
    assert [str(name) for name in found.names] == ["g=a", "g=b", "g=c"]
    unknown = [f"g={name}" for name, value in RATES[found.statistic].items() if math.isnan(value)]
    assert [str(name) for name in found.undefined] == unknown
    [everybody] = eh.RateBound(rate, at_most=0.5).measure(rates)
    assert everybody.values == pytest.approx([OVERALL[found.statistic]])
    assert everybody.excess == pytest.approx(max(0.0, OVERALL[found.statistic] - 0.5))


@pytest.mark.parametrize("rate", BOUNDED_RATES)
@pytest.mark.parametrize("groups", ["population", "intersectional", "independent"])
def test_linear_constraints_hold_exactly_where_the_bound_does(rate, groups):
    rates = counted()
    bound = eh.RateBound(rate, at_least=0.3, at_most=0.55, groups=groups)
    [found] = bound.measure(rates)
    linear = bound.linear(rates.masses, rates.groups)
    values = linear.values(rates.rates)
    for k, (group, excess) in enumerate(zip(found.names, found.excesses, strict=True)):
        own = [j for j, name in enumerate(linear.names) if name.group == group]
        over = max((max(linear.lo[j] - values[j], values[j] - linear.hi[j]) for j in own), default=math.nan)
        if math.isnan(found.values[k]):
            assert math.isnan(over) or over <= 0  # a bound on precision is written out, and holds
        else:
            assert (over > 1e-12) == (excess > 1e-12)
    if rate == "precision":
        return
    known = {name.group: value for name, value in zip(linear.names, values, strict=True)}
    for group, value in zip(found.names, found.values, strict=True):
        assert known.get(group, math.nan) == pytest.approx(value, nan_ok=True)


def test_a_bound_on_precision_holds_where_nobody_is_selected():
    rates = counted({"a": (0, 3, 0, 3), "b": (2, 1, 1, 3)})
    bound = eh.RateBound("precision", at_least=0.9, groups="intersectional")
    linear = bound.linear(rates.masses, rates.groups)
    assert linear.values(rates.rates)[0] == 0
    assert linear.lo[0] == 0
    [found] = bound.measure(rates)
    assert np.isnan(found.values[0])
    assert found.excess == pytest.approx(0.9 - 2 / 3)


def test_a_group_without_positives_has_no_constraint_and_is_named():
    linear = eh.RateBound("true-positive rate", at_least=0.5, groups="intersectional").linear(
        [[0.5, 0.0], [0.2, 0.3]], Groups.product({"g": "ab"})
    )
    assert [str(name) for name in linear.names] == ["true-positive rate: g=b"]
    assert [str(name) for name in linear.undefined] == ["true-positive rate: g=a"]


def test_without_any_rate_nothing_is_known():
    rates = counted({"a": (0, 0, 1, 3), "b": (0, 0, 2, 2), "c": (1, 1, 0, 0)})
    [found] = eh.NoWorse("true-positive rate", than=rates).measure(rates)
    assert (found.excess, str(found.worst)) == (0.0, "g=c")
    nothing = eh.cell_rates(None, [0, 0], {"g": ["a", "b"]})
    with pytest.raises(InputError, match="a bound on the precision needs labels: pass y_true"):
        eh.RateBound("precision", at_least=0.5).measure(nothing)
    [found] = eh.RateBound("selection rate", at_most=0.5).measure(nothing)
    assert found.excess == 0
    nobody = counted({"a": (0, 3, 0, 3), "b": (0, 1, 0, 3)})
    [found] = eh.RateBound("precision", at_least=0.5).measure(nobody)
    assert math.isnan(found.excess)
    assert math.isnan(found.value)
    assert found.worst is None


def test_a_rate_between_its_bounds_has_no_excess():
    [found] = eh.RateBound("accuracy", at_least=0.4, at_most=1.0, groups="intersectional").measure(counted())
    assert found.excess == 0
    assert str(found.worst) == "g=c"  # nearest to a bound


@pytest.mark.parametrize("rate", BOUNDED_RATES)
@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf"), "0.5", True, [0.5]])
def test_bounds_are_numbers_from_0_to_1(rate, value):
    for which in ("at_least", "at_most"):
        with pytest.raises(InputError, match=rf"{which} must be a number from 0 to 1, got"):
            eh.RateBound(rate, **{which: value})


@pytest.mark.parametrize("rate", BOUNDED_RATES)
def test_bounds_that_make_no_sense_are_refused(rate):
    with pytest.raises(InputError, match="takes at_least, at_most, or both"):
        eh.RateBound(rate)
    with pytest.raises(InputError, match=r"at_least=0.6 is above at_most=0.4, so nothing satisfies both"):
        eh.RateBound(rate, at_least=0.6, at_most=0.4)
    with pytest.raises(InputError, match="groups must be one of 'population', 'intersec"):
        eh.RateBound(rate, at_least=0.5, groups="everyone")
    with pytest.raises(TypeError):
        eh.RateBound(rate, 0.5)


@pytest.mark.parametrize(
    ("rate", "hint"),
    [
        ("selecton rate", "unknown rate 'selecton rate'. Did you mean 'selection rate'?"),
        ("true positive rate", "Did you mean 'true-positive rate' or 'false-positive rate'?"),
        (None, "unknown rate None. The rates are "),
    ],
)
def test_an_unknown_rate_is_refused_with_the_near_ones(rate, hint):
    with pytest.raises(InputError, match=re.escape(hint)):
        eh.RateBound(rate, at_least=0.5)
    with pytest.raises(InputError, match=r"^NoWorse: unknown rate"):
        eh.NoWorse(rate)


@pytest.mark.parametrize(
    "bound",
    [
        eh.RateBound("selection rate", at_most=0.2),
        eh.RateBound("true-positive rate", at_least=0.6, groups="intersectional"),
        eh.RateBound("precision", at_least=0.2, at_most=0.9, groups="independent"),
        eh.NoWorse("error rate", groups="independent"),
        eh.NoWorse(),
    ],
    ids=repr,
)
def test_a_repr_makes_the_same_bound(bound):
    assert eval(repr(bound), vars(eh) | {name: getattr(eh, name) for name in eh.__all__}) == bound  # noqa: S307


class Holder(ClassifierMixin, BaseEstimator):
    """An estimator that has a constraint among its parameters."""

    def __init__(self, constraint=None):
        self.constraint = constraint


def test_bounds_are_cloned_and_set_with_their_estimator():
    both = eh.RateBound("selection rate", at_most=0.2) & eh.DemographicParity(ratio=0.8, against="groups")
    copy = clone(Holder(both))
    assert copy.constraint == both
    assert copy.constraint is not both
    copy.set_params(constraint__selection_rate__at_most=0.3)
    assert (copy.constraint.bounds[0].at_most, both.bounds[0].at_most) == (0.3, 0.2)
    assert both.get_params()["demographicparity__against"] == "groups"
    one = eh.RateBound("selection rate", at_most=0.2)
    assert one.get_params() == {
        "rate": "selection rate",
        "at_least": None,
        "at_most": 0.2,
        "groups": "population",
    }
    with pytest.raises(InputError, match="is above at_most"):
        one.set_params(at_least=0.5)


def test_bounds_join_with_each_other_and_with_themselves():
    one = eh.RateBound("selection rate", at_most=0.2)
    twice = one & one & eh.EqualOpportunity(difference=0.1)
    assert [type(part).__name__ for part in twice.requirements] == [
        "RateBound",
        "RateBound",
        "EqualOpportunity",
    ]
    assert (len(twice.bounds), len(twice.notions)) == (2, 1)
    twice.set_params(**{"selection_rate-2__at_most": 0.4})
    assert one.at_most == 0.2
    linear = twice.linear(np.full((2, 2), 0.25), Groups.product({"g": "ab"}))
    assert [str(name) for name in linear.names[:2]] == [
        "selection rate: everybody",
        "selection rate: everybody, (2)",
    ]
    assert linear.hi[:2].tolist() == [0.2, 0.4]


def test_a_bound_of_ones_own():
    missed = eh.Statistic("miss rate", mask=(0, 1), slope=(0, -1), intercept=(0, 1))
    rates = counted()
    [found] = eh.RateBound(missed, at_most=0.5, groups="intersectional").measure(rates)
    assert found.values == pytest.approx([1 / 4, 4 / 5, np.nan], nan_ok=True)
    assert found.excess == pytest.approx(0.3)
    scores = np.linspace(0.02, 0.98, 50)
    posteriors = np.stack([1 - scores, scores], axis=1)[:, None, :]
    solved = eh.solve(posteriors, eh.RateBound(missed, at_most=0.1))
    assert 1 - solved.rates.rates[0, 1] <= 0.1 + 1e-9


# No worse than a reference


@pytest.mark.parametrize(
    ("rate", "excess", "worst"),
    [
        ("selection rate", 0.2, "g=a"),  # 0.5 before, 0.3 now
        ("true-positive rate", 0.5, "g=a"),  # 3/4 before, 1/4 now
        ("accuracy", 0.2, "g=a"),
        ("error rate", 0.2, "g=a"),
        ("false-positive rate", 0.0, None),
    ],
)
def test_a_group_is_compared_with_its_rate_under_the_reference(rate, excess, worst):
    now = counted({"a": (1, 3, 2, 4), "b": (2, 3, 1, 4), "c": (0, 0, 0, 5)})
    [found] = eh.NoWorse(rate, than=counted()).measure(now)
    assert found.excess == pytest.approx(excess, abs=1e-12)
    assert worst is None or str(found.worst) == worst


def test_references_are_checked():
    rates = counted()
    with pytest.raises(InputError, match="NoWorse: unknown rate"):
        eh.NoWorse("precision")
    with pytest.raises(InputError, match="than must be 'unconstrained' or the CellRates"):
        eh.NoWorse("selection rate", than="today")
    with pytest.raises(InputError, match="groups must be"):
        eh.NoWorse("selection rate", groups="all")
    with pytest.raises(InputError, match=r"pass than=evenhand.cell_rates.*or, to an audit, those decisions"):
        eh.NoWorse("selection rate").measure(rates)
    other = eh.cell_rates([0, 1], [0, 1], {"g": ["x", "y"]})
    with pytest.raises(InputError, match="counted for other groups"):
        eh.NoWorse("selection rate", than=other).measure(rates)
