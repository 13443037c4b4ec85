import re

import numpy as np
import pytest

import evenhand as eh
from evenhand.exceptions import InputError
from evenhand.requirements.action_rates import ActionRates
from evenhand.requirements.actions import Actions, on_actions

LENDING = eh.Costs(
    {
        "approve": {"bad": 5, "good": 0},
        "decline": {"bad": 0, "good": 1},
        "review": {"good": 0.2, "bad": 0.2},
    }
)


TWO_DECISIONS = eh.cell_rates([0, 1, 1], [0, 1, 0], {"g": list("abc")})
WITHOUT_LABELS = eh.cell_rates(None, ["approve", "decline", "review"], {"g": list("abc")}, actions=LENDING)


@pytest.fixture
def rates():
    rng = np.random.default_rng(0)
    mass = rng.random((3, 2))
    selected = mass[:, :, None] * rng.dirichlet(np.ones(3), (3, 2))
    actions = Actions.of(LENDING, ("bad", "good"))
    return ActionRates(eh.Groups.product({"g": "abc"}), actions, mass / mass.sum(), selected / mass.sum())


@pytest.mark.parametrize(
    "constraint",
    [
        eh.DemographicParity(difference=0.1),
        eh.DemographicParity(ratio=0.9, against="groups", action=["approve", "review"]),
        eh.DemographicParity(difference=0.1, action={"approve": 1, "review": 0.5, "decline": 0}),
        eh.EqualOpportunity(ratio=0.8, against={"g": "b"}),
        eh.PredictiveEquality(difference=0.1, action="approve"),
        eh.EqualizedOdds(difference=0.05, against="groups"),
        eh.AccuracyParity(difference=0.02),
        eh.RateBound("review", at_most=0.1) & eh.RateBound("accuracy", at_least=0.6, groups="intersectional"),
    ],
    ids=str,
)
def test_what_is_measured_is_what_is_enforced(constraint, rates):
    written = on_actions(constraint, rates.actions)
    violation = written.linear(rates.masses, rates.groups).violation(rates.rates)
    excess = [found.excess for found in written.measure(rates)]
    assert (violation > 1e-12) == (max(excess) > 1e-12)
    free = [part for part in constraint.notions if part.ratio is not None or part.against == "groups"]
    if not free:
        assert violation == pytest.approx(max(0.0, *excess), abs=1e-12)


def test_rates_are_quotients_of_counts(rates):
    parity = on_actions(eh.DemographicParity(difference=0.1), rates.actions)
    found = {one.statistic: one for one in parity.measure(rates)}
    for a, name in enumerate(("approve", "decline", "review")):
        one = found[f"rate of {name}"]
        assert one.values == pytest.approx(rates.selected.sum(axis=1)[:, a] / rates.mass.sum(axis=1))
        assert one.overall == pytest.approx(rates.selected.sum(axis=(0, 1))[a])
    [right] = on_actions(eh.EqualOpportunity(difference=0.1), rates.actions).measure(rates)
    assert right.values == pytest.approx(rates.selected[:, 1, 0] / rates.mass[:, 1])
    [wrong] = on_actions(eh.AccuracyParity(difference=0.1), rates.actions).measure(rates)
    right_mass = rates.selected[:, 0, 1] + rates.selected[:, 1, 0]
    assert wrong.values == pytest.approx(1 - right_mass / rates.mass.sum(axis=1))


@pytest.mark.parametrize("groups", ["intersectional", "population"])
@pytest.mark.parametrize("rate", ["approve", ["approve", "review"], "accuracy"])
def test_no_group_is_worse_off_than_under_a_reference(rate, groups, rates):
    before = ActionRates(rates.groups, rates.actions, rates.mass, rates.selected[:, :, ::-1])
    written = on_actions(eh.NoWorse(rate, than=before, groups=groups, margin=0.05), rates.actions)
    linear, [found] = written.linear(rates.masses, rates.groups), written.measure(rates)
    [then] = on_actions(eh.RateBound(rate, at_least=0, groups=groups), rates.actions).measure(before)
    assert linear.lo == pytest.approx(np.clip(then.values + 0.05, 0, 1))
    assert linear.violation(rates.rates) == pytest.approx(max(0.0, found.excess), abs=1e-12)
    assert found.excess == pytest.approx((linear.lo - found.values).max())
    assert "than=<ActionRates>" in repr(written)


def test_decisions_are_counted_by_group_label_and_action():
    rng = np.random.default_rng(1)
    y, taken = rng.choice(["bad", "good"], 500), rng.choice(["approve", "decline", "review"], 500)
    group, weights = rng.choice(["a", "b", None], 500), rng.random(500)
    counted = eh.cell_rates(y, taken, {"g": group}, actions=LENDING, sample_weight=weights, missing="exclude")
    for m, k, a in np.ndindex(2, 2, 3):
        rows = (group == "ab"[m]) & (y == LENDING.labels[k]) & (taken == list(LENDING.table)[a])
        assert counted.selected[m, k, a] == pytest.approx(weights[rows].sum())
    assert counted.mass == pytest.approx(counted.selected.sum(axis=2))
    unlabelled = eh.cell_rates(None, y, {"g": group}, actions=["bad", "good"], missing="category")
    assert unlabelled.by_group[:, 0] == pytest.approx(
        [(y[group == name] == "bad").mean() for name in ("a", "b", None)]
    )
    with pytest.raises(InputError, match="leave out pos_label"):
        eh.cell_rates(y, taken, {"g": group}, actions=LENDING, pos_label="good")
    with pytest.raises(InputError, match="y_true has 499"):
        eh.cell_rates(y[1:], taken, {"g": group}, actions=LENDING)


def test_labels_are_actions_by_default():
    actions = Actions.of(0.5, ("low", "middle", "high"))
    assert actions.names == actions.labels
    assert (actions.right == np.eye(3)).all()
    tier = on_actions(eh.DemographicParity(difference=0.1, action=["middle", "high"]), actions)
    assert tier.statistics[0].name == "rate of middle or high"
    assert len(on_actions(eh.EqualOpportunity(difference=0.1), actions).statistics) == 3
    assert len(on_actions(eh.EqualizedOdds(difference=0.1), actions).statistics) == 9


def test_costs_are_in_the_order_of_the_labels():
    assert LENDING.array(("good", "bad")).tolist() == [[0, 1, 0.2], [5, 0, 0.2]]
    assert repr(LENDING).startswith("Costs({'approve': {'bad': 5, ")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: eh.Costs({}), "Costs takes a mapping"),
        (lambda: eh.Costs({"a": 1, "b": 2}), "Costs takes a mapping"),
        (lambda: eh.Costs({"a": {"x": 1, "y": 0}}), "at least two actions"),
        (lambda: eh.Costs({"a": {"x": 1}, "b": {"x": 0}}), "at least two labels"),
        (
            lambda: eh.Costs({"a": {"x": 1, "y": 0}, "b": {"x": 0}}),
            "the action 'b' has no cost for the label 'y'",
        ),
        (lambda: eh.Costs({"1": {"x": 1, "y": 0}, 1: {"x": 0, "y": 1}}), "two actions have the same name"),
        (lambda: eh.Costs({"a": {"1": 1, 1: 0}, "b": {"1": 0, 1: 1}}), "two labels have the same name"),
        (lambda: eh.Costs({"a": {"x": -1, "y": 0}, "b": {"x": 0, "y": 1}}), "non-negative number, got -1"),
        (lambda: eh.Costs({"a": {"x": "1", "y": 0}, "b": {"x": 0, "y": 1}}), "non-negative number, got '1'"),
        (
            lambda: LENDING.array(("bad", "godo")),
            "the label 'godo' is not among the costs. Did you mean 'good'",
        ),
        (lambda: LENDING.array(("bad",)), "the label 'good' is not among the labels of the rows"),
        (lambda: Actions.of(0.3, ("a", "b", "c")), "cost=0.3 is for two labels"),
        (lambda: Actions.of(np.ones((2, 3)), ("a", "b", "c")), "cost must have shape (3, actions)"),
        (lambda: Actions.of(-np.ones((3, 3)), ("a", "b", "c")), "finite and non-negative"),
        (lambda: eh.DemographicParity(difference=0.1, action={"a": 2}), "the value of the action 'a'"),
    ],
)
def test_costs_that_cannot_be_are_refused(make, said):
    with pytest.raises(InputError, match=re.escape(said)):
        make()


@pytest.mark.parametrize(
    ("constraint", "said"),
    [
        (eh.DemographicParity(difference=0.1, action="aprove"), "Did you mean 'approve'?"),
        (eh.DemographicParity(difference=0.1, action={"approve": 1}), "'decline' has no value"),
        (eh.AccuracyParity(difference=0.1, action="review"), "leave out action="),
        (eh.NoWorse("selection rate"), "there is no action 'selection rate'"),
        (eh.NoWorse("approve", than=TWO_DECISIONS), "must have rates of the actions ['approve', "),
        (eh.NoWorse("accuracy", than=WITHOUT_LABELS), "the reference was counted without labels"),
        (eh.RateBound("selection rate", at_most=0.1), "there is no action 'selection rate'"),
    ],
    ids=str,
)
def test_requirements_for_other_actions_are_refused(constraint, said, rates):
    with pytest.raises(InputError, match=re.escape(said)):
        on_actions(constraint, rates.actions)


def test_some_notions_need_two_labels_or_a_best_action():
    actions = Actions.of(np.array([[0, 1, 0.2], [1, 0, 0.2], [1, 1, 0.2]]), ("a", "b", "c"))
    with pytest.raises(InputError, match="use EqualizedOdds"):
        on_actions(eh.PredictiveEquality(difference=0.1), actions)
    review = Actions.of(np.array([[0, 1, 2.0], [1, 0, 2.0], [0, 1, 2.0]]), ("a", "b", "c"))
    with pytest.raises(InputError, match="best one for no label"):
        on_actions(eh.EqualOpportunity(difference=0.1, action="c"), review)

    class Own(eh.Notion):
        label = "own"
        statistics = (eh.Statistic("rate"),)

    with pytest.raises(InputError, match="Own is defined for two decisions"):
        on_actions(Own(difference=0.1), actions)


def test_actions_in_a_requirement_on_two_decisions_are_refused():
    posteriors = np.random.default_rng(0).dirichlet(np.ones(4), 9).reshape(9, 2, 2)
    with pytest.raises(InputError, match="action= is for decisions among several actions"):
        eh.solve(posteriors, eh.DemographicParity(difference=0.1, action="approve"))
    with pytest.raises(InputError, match=r"unknown rate 'review'\. The rates are 'precision'"):
        eh.solve(posteriors, eh.RateBound("review", at_most=0.1))
    with pytest.raises(InputError, match=r"NoWorse: unknown rate 'review'"):
        eh.solve(posteriors, eh.NoWorse("review"))
    with pytest.raises(InputError, match="the reference is about several actions, and decisions are two"):
        eh.solve(posteriors, eh.NoWorse("accuracy", than=WITHOUT_LABELS))
