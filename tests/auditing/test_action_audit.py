"""Audits of decisions among several actions."""

import json

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.exceptions import InputError

RNG = np.random.default_rng(0)
N = 3000
SEX, RACE = RNG.choice(["F", "M"], N), RNG.choice(["a", "b", "c"], N)
Y = RNG.choice(["bad", "good"], N, p=[0.4, 0.6])
TAKEN = np.where(
    RNG.random(N) < 0.1 + 0.1 * (SEX == "F"), "review", np.where(Y == "good", "approve", "decline")
)
TAKEN = np.where(RNG.random(N) < 0.2, RNG.choice(["approve", "decline", "review"], N), TAKEN)
GROUPS = {"sex": SEX, "race": RACE}
COSTS = eh.Costs(
    {
        "approve": {"bad": 2, "good": 0},
        "decline": {"bad": 0, "good": 1},
        "review": {"bad": 0.3, "good": 0.3},
    }
)


def audited(constraint=None, y=Y, taken=TAKEN, groups=GROUPS, actions=COSTS, **more):
    return eh.audit(y, taken, groups, actions=actions, constraint=constraint, **more)


def test_rates_of_actions_are_those_of_audits_of_each():
    found = audited(y=None)
    for action in COSTS.table:
        alone = eh.audit(None, action == TAKEN, GROUPS)
        assert [one.group for one in found.groups] == [one.group for one in alone.groups]
        for here, there in zip(found.groups, alone.groups, strict=True):
            assert here.rates[action] == there.rates["selection rate"]
    table = found.to_frame(backend="polars").filter(pl.col("quantity") != "rows")
    sums = table.group_by("group").agg(pl.col("value").sum())["value"]
    assert sums.to_list() == pytest.approx([1.0] * len(sums))


@pytest.mark.parametrize("against", ["population", "groups", {"race": "a", "sex": "M"}])
@pytest.mark.parametrize("measure", [{"difference": 0.08}, {"ratio": 0.6}])
def test_parity_is_judged_by_intervals_that_hold_for_all_actions(measure, against):
    [found] = audited(eh.DemographicParity(**measure, against=against)).comparisons
    alone = [
        eh.audit(
            None,
            action == TAKEN,
            GROUPS,
            constraint=eh.DemographicParity(**measure, against=against),
            confidence=1 - 0.05 / 3,
        ).comparisons[0]
        for action in COSTS.table
    ]
    most = max if "difference" in measure else min
    assert found.value == most(one.value for one in alone)
    assert (found.low, found.high) == (most(one.low for one in alone), most(one.high for one in alone))
    assert found.statistic.startswith("rate of ")
    assert len(found.distances) == 3 * len(alone[0].distances)


@pytest.mark.parametrize(
    "kind", [eh.EqualOpportunity, eh.EqualizedOdds, eh.PredictiveEquality, eh.AccuracyParity]
)
def test_notions_about_labels_agree_with_their_measurement(kind):
    notion = kind(difference=0.1)
    [found] = audited(notion).comparisons
    right = {"bad": "decline", "good": "approve"}
    groups = [(a, b) for a in ("F", "M") for b in ("a", "b", "c")]

    def gap(values, rows):
        overall = values[rows].mean()
        return max(abs(values[rows & (a == SEX) & (b == RACE)].mean() - overall) for a, b in groups)

    every, good = np.ones(N, bool), Y == "good"
    hit = np.array([right[one] for one in Y]) == TAKEN
    gaps = {
        "EqualOpportunity": [gap(TAKEN == "approve", good)],
        "PredictiveEquality": [gap(TAKEN != "decline", ~good)],
        "AccuracyParity": [gap(~hit, every)],
        "EqualizedOdds": [gap(a == TAKEN, rows) for a in COSTS.table for rows in (good, ~good)],
    }
    assert found.value == pytest.approx(max(gaps[kind.__name__]))
    assert found.low < found.value < found.high


def test_bounds_on_actions_have_verdicts():
    share = (TAKEN == "review").mean()
    asked = (
        eh.RateBound("review", at_most=share + 0.05, at_least=share - 0.05)
        & eh.RateBound(["approve", "review"], at_most=0.1, groups="independent")
        & eh.RateBound("accuracy", at_least=0.99)
    )
    below, above, tiers, accuracy = audited(asked).comparisons
    assert (below.verdict, above.verdict, tiers.verdict) == ("satisfied", "satisfied", "violated")
    assert (accuracy.notion, accuracy.verdict) == ("accuracy", "violated")
    assert above.value == pytest.approx(share)


def test_no_group_is_worse_off_than_before():
    before = RNG.permutation(TAKEN)
    counted = eh.cell_rates(Y, before, GROUPS, actions=COSTS)
    found = audited(eh.NoWorse("approve", margin=-0.1) & eh.NoWorse("accuracy"), before=before)
    better = eh.audit(
        None,
        TAKEN == "approve",
        GROUPS,
        before=before == "approve",
        constraint=eh.NoWorse("selection rate", margin=-0.1),
    ).comparisons[0]
    approved, accuracy = found.comparisons
    assert (approved.value, approved.low, approved.high) == (better.value, better.low, better.high)
    assert (approved.notion, approved.verdict) == ("rate of approve no worse", better.verdict)
    assert accuracy.verdict == "satisfied"
    assert all(group.change is None for group in found.groups)
    for rate in ("approve", ["approve", "review"], "accuracy"):
        [alone] = audited(eh.NoWorse(rate, than=counted)).comparisons
        [paired] = audited(eh.NoWorse(rate), before=before).comparisons
        assert alone.value == pytest.approx(paired.value)
        assert str(alone.group) == str(paired.group)


def test_labels_may_be_the_actions():
    taken = np.where(RNG.random(N) < 0.1, "good", Y)
    found = audited(eh.AccuracyParity(difference=0.5), taken=taken, actions=["bad", "good"])
    plain = eh.audit(Y, taken, GROUPS, constraint=eh.AccuracyParity(difference=0.5))
    assert found.comparisons[0].value == pytest.approx(plain.comparisons[0].value)
    assert found.comparisons[0].low == plain.comparisons[0].low


def test_intervals_cover_the_largest_difference_of_all_actions():
    truth = np.array([[0.5, 0.3, 0.2], [0.42, 0.35, 0.23]])
    largest = np.abs(truth - truth.mean(axis=0)).max()
    rng, inside = np.random.default_rng(1), 0
    group = np.repeat(["F", "M"], 400)
    for _ in range(200):
        taken = np.concatenate([rng.choice(3, 400, p=p) for p in truth])
        [found] = eh.audit(
            None, taken, group, actions=[0, 1, 2], constraint=eh.DemographicParity(difference=0.1)
        ).comparisons
        inside += found.low <= largest <= found.high
    assert inside >= 188


def test_a_group_without_rows_of_a_label_is_no_evidence():
    few = np.flatnonzero((SEX == "M") | (Y == "bad"))
    groups = {"sex": SEX[few]}
    [found] = audited(
        eh.EqualOpportunity(difference=0.9), y=Y[few], taken=TAKEN[few], groups=groups
    ).comparisons
    assert found.verdict == "insufficient evidence"
    assert [str(name) for name in found.undefined] == ["sex=F"]


def test_weights_and_missing_groups_are_as_in_other_audits():
    weights = RNG.uniform(0.5, 2, N)
    lacking = np.where(RNG.random(N) < 0.1, None, SEX)
    found = audited(y=None, groups={"sex": lacking}, sample_weight=weights, missing="exclude")
    alone = eh.audit(None, TAKEN == "review", {"sex": lacking}, sample_weight=weights, missing="exclude")
    assert found.excluded.rows == alone.excluded.rows
    assert [one.rates["review"] for one in found.groups] == [
        one.rates["selection rate"] for one in alone.groups
    ]


def test_it_is_shown_as_text_page_and_chart(tmp_path):
    found = audited(eh.DemographicParity(difference=0.1) & eh.RateBound("review", at_most=0.5))
    text = str(found)
    for word in ("approve", "sex=F, race=a", "rate of review, at most 0.5", "satisfied"):
        assert word in text
        assert word in found._repr_html_()
    assert "(rate of " in text
    assert "selected" not in text
    assert [*json.loads(json.dumps(found.to_dict()))["groups"][0]["rates"]] == [*COSTS.table]
    assert "demographic parity, rate of review, difference" in str(audited())
    for asked in (found.impact_ratios, found.significance):
        with pytest.raises(InputError):
            asked()
    page = eh.write_report(tmp_path / "audit.html", found, title="Loans <2026>").read_text("utf-8")
    assert "Loans &lt;2026&gt;" in page
    assert "rate of review" in page
    assert found.plot().description.startswith("Approve: ")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"actions": ["approve", "decline"], "y": None},
            "y_pred holds 'review', which is not among the actions",
        ),
        ({"actions": "approve"}, "actions must be Costs or a list of names"),
        ({"actions": ["approve"]}, "at least two"),
        ({"actions": ["approve", "decline", "review"]}, "y_true holds 'bad', which is not among the labels"),
        ({"taken": np.where(TAKEN == "review", None, TAKEN)}, "y_pred holds missing values"),
        ({"threshold": 0.5}, "takes neither data"),
        ({"before": TAKEN[1:]}, "before has 2,999"),
        ({"y": Y[1:]}, "y_true has 2,999"),
        ({"constraint": eh.NoWorse("approve")}, "pass than=evenhand.cell_rates"),
        ({"groups": eh.Proxy(sex=np.full((N, 2), 0.5))}, "takes neither data|Proxy"),
        ({"constraint": eh.DemographicParity(difference=0.1, action="wait")}, "there is no action 'wait'"),
        ({"constraint": eh.EqualOpportunity(difference=0.1), "y": None}, "about labels: pass y_true"),
        ({"constraint": eh.DemographicParity(difference=0.1, given=["x"])}, "control features"),
    ],
)
def test_bad_inputs_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        audited(**given)
