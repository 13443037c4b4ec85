import math

import numpy as np
import pytest
from benchmarks.exact import GaussianProblem
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression
from tests.flat import build

import evenhand as eh
from evenhand.exceptions import GuaranteeWarning, InfeasibleError, InputError
from evenhand.guarantee.group_tests import run_tests
from evenhand.guarantee.noninferiority import bound_p_value, pair_p_value
from evenhand.requirements.statistic import Statistic

LEVEL = 0.05
PROBLEM = GaussianProblem.random(levels=(2,), seed=3)
DATA = PROBLEM.sample(4000, seed=0)
GROUPS = {"g": np.repeat(["a", "b"], 1000)}


def fit(constraint, confidence=0.95, kind=eh.FairPostprocessor, data=DATA, **settings):
    fair = build(
        kind, LogisticRegression(), constraint, **{"aware": True, "cv": 2, **settings}, confidence=confidence
    )
    return fair.fit(data.X, data.y, sensitive_features=data.sensitive)


def counted(first, second, n=1000):
    """Two groups of n rows, with as many hits; half of all labels are positive."""
    decisions = np.concatenate([np.arange(n) < first, np.arange(n) < second]).astype(int)
    return eh.cell_rates(np.tile([0, 1], n), decisions, {"g": np.repeat(["a", "b"], n)})


def chance_of_passing(passes, n, other, q, r):
    ks, js = np.arange(n + 1), np.arange(other + 1)
    return binom.pmf(ks, n, q) @ passes @ binom.pmf(js, other, r)


@pytest.mark.parametrize(
    ("n", "other", "tolerance", "measure", "level"),
    [
        (25, 25, 0.3, "difference", 0.1),
        (40, 12, 0.4, "difference", 0.05),
        (30, 30, 0.3, "ratio", 0.1),
        (15, 45, 0.4, "ratio", 0.05),
    ],
)
def test_two_groups_that_are_too_far_apart_pass_no_more_often_than_the_level(
    n, other, tolerance, measure, level
):
    """Exactly, as a sum over all counts, along the whole border."""
    given = {"tolerance": tolerance, "measure": measure, "level": level}
    passes = np.array(
        [[pair_p_value((k, n), (j, other), **given) <= level for j in range(other + 1)] for k in range(n + 1)]
    )
    assert passes.any()
    for q in np.linspace(0, 1, 101):
        r = q + tolerance if measure == "difference" else tolerance * q
        if r <= 1:
            assert chance_of_passing(passes, n, other, q, r) <= level
            assert chance_of_passing(passes, n, other, r, q) <= level


def test_between_two_groups_no_point_of_the_border_is_more_likely_than_the_p_value():
    """The bound of a piece of the border holds for all of it, not for a few of its points only."""
    own, other = (31, 60), (20, 45)
    p = pair_p_value(own, other, tolerance=0.25, measure="difference", level=LEVEL)
    t = abs(own[0] / own[1] - other[0] / other[1])
    q = np.linspace(0.25, 1, 2001)
    x, y = np.arange(61), np.arange(46)
    as_good = (x[:, None] / 60 - y / 45) <= t + 1e-12
    chances = [binom.pmf(x, 60, a) @ as_good @ binom.pmf(y, 45, a - 0.25) for a in q]
    assert max(chances) <= p <= 1.2 * max(chances) + 0.02 * LEVEL


def test_groups_that_are_alike_pass_between_each_other():
    assert pair_p_value((300, 1000), (310, 1000), tolerance=0.1, measure="difference", level=LEVEL) < 0.001
    assert pair_p_value((300, 1000), (300, 1000), tolerance=0.7, measure="ratio", level=LEVEL) < 0.001
    assert pair_p_value((0, 1000), (0, 1000), tolerance=0.7, measure="ratio", level=LEVEL) == 1
    assert pair_p_value((0, 1000), (300, 1000), tolerance=0.0, measure="ratio", level=LEVEL) == 0
    assert pair_p_value((0, 0), (300, 1000), tolerance=0.5, measure="difference", level=LEVEL) == 1


@pytest.mark.parametrize("n", [1, 13, 80])
@pytest.mark.parametrize("bound", [0.05, 0.3, 0.9])
def test_the_test_of_a_bound_is_exact(n, bound):
    for k in range(n + 1):
        assert bound_p_value((k, n), at_most=bound) == pytest.approx(binom.cdf(k, n, bound))
        assert bound_p_value((k, n), at_least=bound) == pytest.approx(binom.sf(k - 1, n, bound))
        both = bound_p_value((k, n), at_least=bound / 2, at_most=bound)
        assert both == pytest.approx(max(binom.sf(k - 1, n, bound / 2), binom.cdf(k, n, bound)))


def test_a_bound_that_nothing_violates_needs_no_evidence_and_others_need_rows():
    assert bound_p_value((7, 7), at_most=1.0) == bound_p_value((0, 0), at_least=0.0) == 0
    assert bound_p_value((0, 0), at_most=0.9) == bound_p_value((0, 0), at_least=0.1) == 1
    assert bound_p_value((0, 10**6), at_most=0.0) == bound_p_value((10, 10), at_least=1.0) == 1


def test_a_bound_is_tested_in_the_population_or_in_each_group():
    rates = counted(150, 250)
    [one] = run_tests(eh.RateBound("selection rate", at_most=0.25), rates, LEVEL)
    assert (str(one.name), one.n, one.value, one.passed) == ("selection rate: everybody", 2000, 0.2, True)
    assert one.against == "at most 0.25"
    assert math.isnan(one.rest)
    first, second = run_tests(
        eh.RateBound("selection rate", at_most=0.25, groups="intersectional"), rates, LEVEL
    )
    assert (first.passed, second.passed) == (True, False)


def test_precision_is_tested_among_the_selected():
    rates = counted(200, 0)  # every second of the selected is positive
    both = eh.RateBound("precision", at_least=0.4, groups="intersectional")
    first, second = run_tests(both, rates, LEVEL)
    assert (first.n, first.value, first.passed) == (200, 0.5, True)
    assert first.p_value == pytest.approx(binom.sf(99, 200, 0.4))
    # That nobody was selected among these rows does not show that nobody ever is.
    assert (second.n, second.p_value, second.passed) == (0, 1.0, False)


def test_no_worse_is_tested_against_the_rates_of_its_reference():
    reference = eh.cell_rates(None, [1, 0] * 1000, GROUPS)
    tests = run_tests(eh.NoWorse("selection rate", than=reference), counted(600, 510), LEVEL)
    assert [test.against for test in tests] == ["at least 0.5"] * 2
    assert [test.passed for test in tests] == [True, False]
    errors = run_tests(eh.NoWorse("error rate", than=counted(1000, 1000)), counted(1, 999), LEVEL)
    assert [test.against for test in errors] == ["at most 0.5"] * 2
    with pytest.raises(InputError, match="known only where rows"):
        run_tests(eh.NoWorse("selection rate"), reference, LEVEL)


def test_every_pair_of_groups_must_pass():
    decisions = np.concatenate([np.arange(2000) < hits for hits in (600, 700, 800)])
    rates = eh.cell_rates(None, decisions, {"g": np.repeat(["a", "b", "c"], 2000)})
    wide = run_tests(eh.DemographicParity(difference=0.15, against="groups"), rates, LEVEL)
    assert [test.passed for test in wide] == [True] * 3
    narrow = run_tests(eh.DemographicParity(difference=0.08, against="groups"), rates, LEVEL)
    assert [test.passed for test in narrow] == [False, True, False]
    assert [narrow[0].against, narrow[2].against] == ["g=c", "g=a"]
    fifths = run_tests(eh.DemographicParity(ratio=0.7, against="groups"), rates, LEVEL)
    assert [test.passed for test in fifths] == [False, True, False]  # 0.3 / 0.4 is 0.75: not enough rows


def test_values_of_a_feature_are_compared_with_each_other_only():
    rng = np.random.default_rng(0)
    sex, old = rng.integers(0, 2, 4000), rng.integers(0, 3, 4000)
    rates = eh.cell_rates(None, (rng.random(4000) < 0.3 + 0.2 * sex).astype(int), {"sex": sex, "old": old})
    notion = eh.DemographicParity(difference=0.1, groups="independent", against="groups")
    tests = {str(test.name.group): test for test in run_tests(notion, rates, LEVEL)}
    assert not tests["sex=0"].passed
    assert tests["sex=0"].against == "sex=1"
    assert all(tests[f"old={k}"].passed and tests[f"old={k}"].against.startswith("old") for k in range(3))


def test_a_group_without_rows_fails_and_the_others_are_compared_without_it():
    rates = eh.cell_rates([1] * 2000 + [0] * 100, [1, 0] * 1050, {"g": ["a", "b"] * 1000 + ["c"] * 100})
    tests = {
        str(test.name.group): test
        for test in run_tests(eh.EqualOpportunity(difference=0.2, against="groups"), rates, LEVEL)
    }
    assert (tests["g=c"].n, tests["g=c"].passed) == (0, False)
    assert tests["g=a"].against == "g=b"


def test_a_single_group_is_like_all_others():
    rates = eh.cell_rates(None, [1, 0] * 50, {"g": ["a"] * 100})
    with pytest.warns(eh.exceptions.VacuousConstraintWarning):
        eh.DemographicParity(difference=0.1, against="groups").measure(rates)
    [test] = run_tests(eh.DemographicParity(difference=0.1, against="groups"), rates, LEVEL)
    assert (test.passed, test.against) == (True, "no other group")


@pytest.mark.parametrize("kind", [eh.FairPostprocessor, eh.FairInprocessor])
def test_a_capacity_is_guaranteed_with_a_notion(kind):
    both = eh.DemographicParity(difference=0.15) & eh.RateBound("selection rate", at_most=0.45)
    fair = fit(both, kind=kind)
    guarantee = fair.guarantee_
    assert guarantee.holds
    assert len(guarantee.tests) == 3
    assert guarantee.constraint == both
    rates = PROBLEM.rates_of(lambda X, codes: fair.predict(X, sensitive_features={"A1": codes}))
    assert max(found.excess for found in both.measure(rates)) == 0
    assert "compared with" in guarantee._repr_html_()


def test_tolerances_that_nothing_satisfies_are_left_out_of_the_sequence():
    """A recall of 0.6 and a capacity of 0.5 can hold together, but not if both are much stricter."""
    both = eh.RateBound("true-positive rate", at_least=0.6) & eh.RateBound("selection rate", at_most=0.5)
    with pytest.raises(InfeasibleError):
        eh.FairPostprocessor(LogisticRegression(), both.tightened(1.0), posteriors=eh.CrossFit(2)).fit(
            DATA.X, DATA.y, sensitive_features=DATA.sensitive
        )
    fair = fit(both)
    assert fair.guarantee_.holds
    asked = both.linear(fair.rates_.masses, fair.groups_)
    inside = fair.guarantee_.internal.linear(fair.rates_.masses, fair.groups_)
    assert 0.6 <= inside.lo[0] < 0.8  # the strictest would be 0.8, and 0.25
    assert 0.25 < inside.hi[1] <= 0.5
    assert (inside.hi[0], inside.lo[1]) == (asked.hi[0], asked.lo[1])


def test_what_nothing_satisfies_is_refused_with_a_guarantee_too():
    with pytest.raises(InfeasibleError, match="It becomes feasible at"):
        fit(eh.RateBound("true-positive rate", at_least=0.9) & eh.RateBound("selection rate", at_most=0.1))


def test_no_worse_than_unconstrained_is_guaranteed_with_the_rates_of_the_fit():
    asked = eh.NoWorse("true-positive rate", margin=-0.05)
    fair = fit(asked)
    guarantee = fair.guarantee_
    assert guarantee.holds
    assert guarantee.constraint == asked
    assert guarantee.internal.constraint == asked
    assert max(guarantee.internal.lower.values()) > 0
    assert all(test.against.startswith("at least 0.") for test in guarantee.tests)


def test_a_guarantee_that_fails_names_the_population():
    with pytest.warns(GuaranteeWarning, match=r"limiting: everybody \(2,000 held-out rows\)"):
        fair = fit(eh.RateBound("selection rate", at_least=0.4999, at_most=0.5001))
    assert not fair.guarantee_.holds


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (
            eh.RateBound("selection rate", at_most=0.0),
            r"RateBound\('selection rate', at_most=0.0\) allows no exception",
        ),
        (
            eh.RateBound("true-positive rate", at_least=1),
            "allows no exception, which no number of rows can guarantee",
        ),
        (
            eh.DemographicParity(difference=0.1) & eh.RateBound("precision", at_least=1.0),
            r"RateBound\('precision', at_least=1.0\) allows no exception",
        ),
    ],
    ids=str,
)
def test_bounds_without_exception_cannot_be_guaranteed(constraint, message):
    with pytest.raises(InputError, match=message):
        fit(constraint)


def test_a_bound_on_something_that_is_not_a_share_cannot_be_guaranteed():
    cost = Statistic("cost", slope=(1, -2), intercept=(0, 2))
    with pytest.raises(InputError, match="the cost of cost is not a share of rows"):
        fit(eh.RateBound(cost, at_most=0.5))
