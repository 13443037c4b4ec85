import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import betainc, betaincinv

import evenhand as eh
from evenhand.exceptions import InputError
from evenhand.guarantee.ranks import Ranks, _largest, counted_labels, rank_of, violation_chances

GROUPS = eh.Groups.product({"group": range(3)})
TWO = eh.Groups.product({"group": range(2)})
MANY = np.array([10**9, 10**9])
ALL, POSITIVES, NEGATIVES = (True, True), (False, True), (True, False)


@pytest.mark.parametrize(
    ("constraint", "labels"),
    [
        (eh.DemographicParity(difference=0.1), ALL),
        (eh.EqualOpportunity(ratio=0.8, against="groups"), POSITIVES),
        (eh.PredictiveEquality(difference=0.1), NEGATIVES),
        (eh.DemographicParity(difference=0.1) & eh.RateBound("selection rate", at_most=0.4), ALL),
        (eh.RateBound("true-positive rate", at_least=0.5, groups="intersectional"), POSITIVES),
        (eh.DemographicParity(difference=0.1) & eh.RateBound("true-positive rate", at_least=0.5), None),
        (eh.EqualizedOdds(difference=0.1), None),
        (eh.AccuracyParity(difference=0.1), None),
        (eh.DemographicParity(difference=0.1) & eh.RateBound("precision", at_least=0.5), None),
    ],
    ids=str,
)
def test_requirements_about_one_rate_that_a_threshold_fixes(constraint, labels):
    assert counted_labels(constraint, GROUPS) == labels


def test_groups_that_consist_of_several_thresholds_have_no_rank():
    both = eh.Groups.product({"sex": ["F", "M"], "old": [False, True]})
    assert counted_labels(eh.DemographicParity(difference=0.1), both) == ALL
    assert counted_labels(eh.DemographicParity(difference=0.1, groups="independent"), both) is None


def exact_chance(k, n, d):
    """P(abs(q_0 - q_1) > d) by quadrature: q is between the (k - 1)-th and the k-th uniform number."""
    points = (np.arange(4000) + 0.5) / 4000
    (k0, k1), (n0, n1) = k, n
    total = 0.0
    for (a, na), (b, nb) in (((k0, n0), (k1, n1)), ((k1, n1), (k0, n0))):
        lower = betaincinv(b - 1, nb + 2 - b, points)
        total += float(np.mean(1 - betainc(a, na + 1 - a, np.clip(lower + d, 0, 1))))
    return total


@pytest.mark.parametrize(
    ("k", "n", "d"), [((30, 60), (50, 100), 0.1), ((40, 200), (50, 250), 0.08), ((90, 45), (100, 50), 0.1)]
)
def test_the_chance_of_a_violation_is_that_of_uniform_order_statistics(k, n, d):
    constraint = eh.DemographicParity(difference=d, against="groups")
    chance, by_group = violation_chances(constraint, TWO, Ranks(ALL, k, (0, 0), n), MANY, 0.9)
    exact = exact_chance(k, n, d)
    assert exact < chance - 0.9 / 50 < exact + 0.01  # three standard errors are added
    assert [found for _, found in by_group] == pytest.approx([exact, exact], abs=0.005)


def test_ties_widen_what_is_possible():
    constraint, n = eh.DemographicParity(difference=0.1, against="groups"), (200, 200)
    chances = [
        violation_chances(constraint, TWO, Ranks(ALL, (100, 100), (w, w), n), MANY, 0.05)[0]
        for w in (0, 3, 9)
    ]
    assert chances[0] < chances[1] < chances[2]


def test_ties_are_too_many_beyond_half_a_standard_error():
    assert not Ranks(ALL, (50, 200), (2, 5), (99, 399)).tied
    assert Ranks(ALL, (50, 200), (3, 5), (99, 399)).tied
    assert Ranks(ALL, (0, 200), (0, 6), (99, 399)).tied


def test_a_constant_classifier_violates_no_parity_but_a_bound():
    parity, floor = eh.DemographicParity(difference=0.01), eh.RateBound("selection rate", at_least=0.5)
    everybody, nobody = Ranks(ALL, (12, 22), (0, 0), (10, 20)), Ranks(ALL, (0, 0), (0, 0), (10, 20))
    for constraint in (
        parity,
        eh.DemographicParity(ratio=0.8),
        eh.DemographicParity(ratio=0.8, against="groups"),
    ):
        assert violation_chances(constraint, TWO, everybody, MANY, 0.05)[0] < 0.01
        assert violation_chances(constraint, TWO, nobody, MANY, 0.05)[0] < 0.01
    five = eh.Groups.product({"group": range(5)})
    parts = np.array([100, 300, 70, 41, 900])
    all_of_five = Ranks(ALL, (12,) * 5, (0,) * 5, (10,) * 5)
    assert violation_chances(eh.DemographicParity(ratio=0.8), five, all_of_five, parts, 0.05)[0] < 0.01
    assert violation_chances(floor, TWO, everybody, MANY, 0.05)[0] < 0.01
    assert violation_chances(floor, TWO, nobody, MANY, 0.05)[0] >= 1


def test_a_rate_of_the_rows_that_are_not_selected_is_tested():
    class MissParity(eh.Notion):
        label = "miss parity"
        statistics = (eh.Statistic("miss rate", mask=(0, 1), slope=(0, -1), intercept=(0, 1)),)

    assert counted_labels(eh.EqualOpportunity(difference=0.1), TWO) == POSITIVES
    assert counted_labels(MissParity(difference=0.1), TWO) is None


def test_uncertain_parts_of_the_population_cost_something():
    ranks = Ranks(ALL, (400, 200, 100), (0, 0, 0), (1000, 500, 250))
    constraint = eh.DemographicParity(difference=0.03)
    few, many = (
        violation_chances(constraint, GROUPS, ranks, np.array([4, 2, 1]) * by, 0.05)[0] for by in (100, 10**7)
    )
    assert many < few


def test_the_population_s_rate_is_a_linear_program():
    rng = np.random.default_rng(0)
    for _ in range(50):
        rates = rng.random((1, 4))
        middle = rng.dirichlet(np.ones(4))
        low, high = middle * rng.random(4), middle + (1 - middle) * rng.random(4)
        found = linprog(-rates[0], A_eq=np.ones((1, 4)), b_eq=[1], bounds=list(zip(low, high, strict=True)))
        assert _largest(rates, (low, high))[0] == pytest.approx(-found.fun)


def test_a_rank_has_its_share_on_average():
    n = np.array([99, 99, 99, 99, 0])
    assert rank_of(np.array([0.0, 0.5, 1.0, 0.999, 0.3]), n).tolist() == [0, 50, 101, 100, 1]


def test_below_all_rows_is_not_everybody():
    """With few rows a high rate is uncertain, however it is reached."""
    constraint, few = eh.RateBound("selection rate", at_least=0.8, groups="intersectional"), (7, 1000)
    chance, _ = violation_chances(constraint, TWO, Ranks(ALL, (8, 950), (0, 0), few), MANY, 0.9)
    assert chance - 0.9 / 50 == pytest.approx(0.8**7, abs=0.01)


def test_probabilities_are_in_the_order_of_tests():
    both = eh.RateBound("selection rate", at_least=0.4) & eh.RateBound("selection rate", at_most=0.52)
    ranks = Ranks(ALL, (50, 50), (0, 0), (100, 100))
    _, by_group = violation_chances(both, TWO, ranks, np.array([10**6, 10**6]), 0.9)
    low, high = (found for _, found in by_group)
    assert low < 0.02
    assert high > 0.2


@pytest.mark.parametrize("ranks", [(1,), (1, -1), (1, 1.5)])
def test_ranks_are_whole_numbers_one_for_each_group(ranks):
    with pytest.raises(InputError, match="must be integers"):
        Ranks(ALL, ranks, (0, 0), (5, 5))
