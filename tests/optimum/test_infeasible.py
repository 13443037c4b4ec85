import re
from copy import deepcopy

import numpy as np
import pytest
from benchmarks.exact import FiniteProblem

import evenhand as eh
from evenhand.exceptions import InfeasibleError


class Benefit(eh.Notion):
    """Everybody whose label is positive benefits, and so does everybody who is selected."""

    label = "benefit"
    statistics = (eh.Statistic("benefit", slope=(1, 1), intercept=(0, 1)),)


@pytest.fixture
def posteriors():
    """Two groups with very different shares of positives, and features that hardly distinguish them."""
    rng = np.random.default_rng(0)
    group = np.array([0.5, 0.5]) + 0.01 * rng.normal(size=(3000, 1)) * [1, -1]
    label = np.array([[0.95, 0.05], [0.05, 0.95]])
    return group[:, :, None] * label


def test_the_conflict_is_named_and_the_smallest_tolerance_works(posteriors):
    with pytest.raises(InfeasibleError, match="these cannot hold together: benefit: group=") as caught:
        eh.solve(posteriors, Benefit(difference=0.1))
    assert {str(name) for name in caught.value.conflict} <= {
        "benefit: group=0",
        "benefit: group=1",
    }
    works = caught.value.works
    assert 0.1 < works.difference < 1
    eh.solve(posteriors, works)
    with pytest.raises(InfeasibleError):
        eh.solve(posteriors, Benefit(difference=works.difference - 1e-4))


@pytest.mark.parametrize("seed", range(4))
def test_the_numbers_of_the_message_are_short_and_possible(posteriors, seed):
    rng = np.random.default_rng(seed)
    wanted = eh.RateBound("true-positive rate", at_least=rng.uniform(0.5, 0.9), groups="intersectional")
    wanted = wanted & eh.RateBound("selection rate", at_most=rng.uniform(0.05, 0.2))
    with pytest.raises(InfeasibleError) as caught:
        eh.solve(posteriors, wanted)
    names = {name: getattr(eh, name) for name in eh.__all__}
    [together] = re.findall(r"It becomes feasible at (.*)\.$", str(caught.value))
    singly = re.search(r"as they are, (.*) or (.*) would work", str(caught.value)).groups()
    for text in (together, *singly):
        assert max(len(digits) for digits in re.findall(r"0\.0*(\d+)", text)) <= 3
    shown = eval(together, names)  # noqa: S307
    assert eh.solve(posteriors, shown).certificate.violation < 1e-9
    floor, capacity = caught.value.works.requirements
    assert shown.requirements[0].at_least == pytest.approx(floor.at_least, rel=0.01)
    assert shown.requirements[1].at_most == pytest.approx(capacity.at_most, rel=0.01)
    for place, text in enumerate(singly):
        alone = list(wanted.requirements)
        alone[place] = eval(text, names)  # noqa: S307
        assert eh.solve(posteriors, alone[0] & alone[1]).certificate.violation < 1e-9


def test_contradictions_between_notions_are_found(posteriors):
    with pytest.raises(InfeasibleError) as caught:
        eh.solve(posteriors, Benefit(ratio=0.9) & eh.DemographicParity(difference=0.001))
    assert "ratio" in str(caught.value.works)


def test_infeasibility_is_proven_on_many_rows(posteriors):
    with pytest.raises(InfeasibleError, match="It becomes feasible at"):
        eh.solve(np.tile(posteriors, (10, 1, 1)), Benefit(difference=0.1))


def test_the_message_says_if_no_tolerance_works():
    class Fiftyfold(eh.Notion):
        label = "fiftyfold"
        statistics = (eh.Statistic("fiftyfold", slope=(0.01, 0.01), intercept=(0, 50)),)

    problem = FiniteProblem.random(30, levels=(2,), seed=0, concentration=0.1)
    with pytest.raises(InfeasibleError, match="No tolerance makes it possible"):
        eh.solve(problem.posteriors, Fiftyfold(difference=0.1))


def test_built_in_notions_are_always_possible(notion):
    problem = FiniteProblem.random(20, levels=(2, 2), seed=1)
    everything = notion(difference=0) & eh.AccuracyParity(ratio=1) & eh.DemographicParity(difference=0)
    assert (
        eh.solve(problem.posteriors, everything, sample_weight=problem.weights).certificate.violation < 1e-9
    )


@pytest.mark.slow
def test_the_suggested_tolerance_works_on_many_rows_with_a_rare_group():
    n = 21_000
    rng = np.random.default_rng(0)
    codes = np.zeros(n, int)
    codes[5] = 1
    eta = np.where(codes == 1, 1.0, 0.01 * rng.random(n))
    posteriors = np.zeros((n, 2, 2))
    posteriors[np.arange(n), codes] = np.column_stack([1 - eta, eta])
    with pytest.raises(InfeasibleError) as caught:
        eh.solve(posteriors, Benefit(difference=0.005) & eh.EqualOpportunity(difference=0.1))
    assert eh.solve(posteriors, caught.value.works).certificate.violation < 1e-9


def certain(shares, n=1000):
    """Two groups of rows whose group and label are known, with given shares of positives."""
    posteriors = np.zeros((2 * n, 2, 2))
    for group, share in enumerate(shares):
        positive = (np.arange(n) < share * n).astype(int)
        posteriors[group * n + np.arange(n), group, positive] = 1.0
    return posteriors


@pytest.mark.parametrize(
    ("constraint", "conflict", "nearest"),
    [
        (
            eh.RateBound("true-positive rate", at_least=0.6) & eh.RateBound("selection rate", at_most=0.05),
            {"true-positive rate: everybody", "selection rate: everybody"},
            {"true_positive_rate__at_least": 0.1, "selection_rate__at_most": 0.3},
        ),
        (
            eh.RateBound("selection rate", at_least=0.5)
            & eh.RateBound("selection rate", at_most=0.2)
            & eh.RateBound("accuracy", at_least=0.3),
            {"selection rate: everybody", "selection rate: everybody, (2)"},
            {"selection_rate-1__at_least": 0.2, "selection_rate-2__at_most": 0.5},
        ),
        (
            eh.RateBound("precision", at_least=0.9) & eh.RateBound("selection rate", at_least=0.8),
            {"precision: everybody", "selection rate: everybody"},
            {"precision__at_least": 0.5 / 0.8, "selection_rate__at_least": 0.5 / 0.9},
        ),
        (
            eh.DemographicParity(difference=0.05, against="groups")
            & eh.RateBound("true-positive rate", at_least=1.0, groups="intersectional")
            & eh.RateBound("false-positive rate", at_most=0.0, groups="intersectional"),
            None,
            {
                "demographicparity__difference": 0.2,
                "true_positive_rate__at_least": 0.75,
                "false_positive_rate__at_most": 0.25,
            },
        ),
    ],
)
def test_the_nearest_values_are_those_that_can_be_worked_out(constraint, conflict, nearest):
    """Labels are known, and positive in 0.4 of one group and 0.6 of the other."""
    posteriors = certain([0.4, 0.6])
    with pytest.raises(InfeasibleError, match="With the others as they are") as caught:
        eh.solve(posteriors, constraint)
    error = caught.value
    if conflict is not None:
        assert {str(name) for name in error.conflict} == conflict
    assert error.nearest == pytest.approx(nearest, abs=1e-4)
    for name, value in error.nearest.items():
        assert eh.solve(posteriors, deepcopy(constraint).set_params(**{name: value})) is not None
        tighter = value + (1e-3 if "at_least" in name else -1e-3)
        with pytest.raises(InfeasibleError):
            eh.solve(posteriors, deepcopy(constraint).set_params(**{name: tighter}))


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConstantScoreWarning")
def test_a_precision_that_nobody_reaches_leaves_everybody_out():
    posteriors = np.tile([[[0.15, 0.35], [0.15, 0.35]]], (500, 1, 1))
    assert eh.solve(posteriors, eh.RateBound("precision", at_least=0.8)).rates.rates.max() < 1e-6
    with pytest.raises(InfeasibleError, match=r"RateBound\('precision', at_least=0\.69\d\)") as caught:
        eh.solve(
            posteriors,
            eh.RateBound("precision", at_least=0.8) & eh.RateBound("true-positive rate", at_least=0.1),
        )
    assert caught.value.nearest["precision__at_least"] == pytest.approx(0.7, abs=1e-4)


def test_no_constraint_of_a_conflict_can_be_left_out():
    """Twelve groups, of which only one cannot have its recall within the capacity of its group."""
    rng = np.random.default_rng(0)
    shares = np.r_[0.9, np.full(11, 0.3)]
    codes = np.repeat(np.arange(12), 300)
    scores = eh.GroupedScores((rng.random(3600) < shares[codes]).astype(float), codes, 12)
    constraint = (
        eh.RateBound("true-positive rate", at_least=0.8, groups="intersectional")
        & eh.RateBound("selection rate", at_most=0.5, groups="intersectional")
        & eh.DemographicParity(difference=0.4)
    )
    with pytest.raises(InfeasibleError) as caught:
        eh.solve(scores, constraint)
    assert {str(name) for name in caught.value.conflict} == {
        "true-positive rate: group=0",
        "selection rate: group=0",
    }


def test_a_reference_that_is_out_of_reach_has_a_nearest_margin():
    posteriors = certain([0.4, 0.6])
    with pytest.raises(InfeasibleError) as caught:
        eh.solve(posteriors, eh.NoWorse("selection rate") & eh.RateBound("selection rate", at_most=0.4))
    assert caught.value.nearest == pytest.approx(
        {"noworse__margin": -0.1, "selection_rate__at_most": 0.5}, abs=1e-4
    )


def test_a_single_requirement_has_the_nearest_value_too(posteriors):
    with pytest.raises(InfeasibleError) as caught:
        eh.solve(posteriors, Benefit(difference=0.1))
    assert caught.value.nearest["difference"] == pytest.approx(caught.value.works.difference, abs=1e-4)
    assert "With the others" not in str(caught.value)
