"""Random combinations of notions, bounds and strata against a linear program on all rows by SciPy."""

import numpy as np
import pytest
from benchmarks.requirements import full_program, random_task

import evenhand as eh
from evenhand.exceptions import InfeasibleError
from evenhand.optimum.problem import FairnessProblem

pytestmark = pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")


@pytest.mark.parametrize(
    "block", [*range(4), *(pytest.param(k, marks=pytest.mark.slow) for k in range(4, 12))]
)
def test_the_optimum_is_that_of_the_full_program_and_measures_agree(block):
    for seed in range(30 * block, 30 * block + 30):
        task, p, weights = random_task(seed)
        expected = full_program(task, p, weights)
        try:
            found = task.solve(tol=1e-8)
        except InfeasibleError:
            assert expected is None, (seed, task.constraint)
            continue
        assert expected is not None, (seed, task.constraint)
        assert found.certificate.objective == pytest.approx(expected, abs=1e-7), (seed, task.constraint)
        assert found.certificate.violation <= 1e-8
        # What was enforced is what is measured; a ratio is right to 3e-5.
        excesses = [one.excess for one in task.constraint.measure(found.rates)]
        assert max((excess for excess in excesses if not np.isnan(excess)), default=0.0) <= 3e-5
        assert len(found.multipliers) == len(found.linear_constraints)


def free_ends(task):
    """Which linear constraints have no lower, and no upper end, from the parameters of the requirement."""
    linear, parts = task.linear_constraints, task.constraint.requirements
    owners = task.constraint.owners(task.masses, task.groups)
    free = np.zeros((2, len(linear)), bool)
    for j, (owner, name) in enumerate(zip(owners, linear.names, strict=True)):
        part = parts[owner]
        if isinstance(part, eh.NoWorse):
            free[:, j] = not part.more_is_better, part.more_is_better
        elif getattr(part, "rate", None) == "precision":  # each end has a constraint of its own
            upper = "at most" in name.side if name.side else part.at_least is None
            free[:, j] = upper, not upper
        elif isinstance(part, eh.RateBound):
            free[:, j] = part.at_least is None, part.at_most is None
        elif part.against == "groups" and part.ratio is not None:
            free[:, j] = name.side.startswith("highest"), name.side.startswith("lowest")
    return free


@pytest.mark.parametrize("cost", [0.5, (1.0, 20.0), (20.0, 1.0)])
@pytest.mark.parametrize("block", range(3))
def test_only_ends_that_are_set_have_a_price_and_only_where_they_bind(block, cost):
    solved = 0
    for seed in range(20 * block, 20 * block + 20):
        drawn, _, _ = random_task(seed)
        task = FairnessProblem.read(drawn.posteriors, drawn.constraint, cost=cost, groups=drawn.groups)
        try:
            found = task.solve(tol=1e-8, advise=False)
        except InfeasibleError:
            continue
        solved += 1
        linear = found.linear_constraints
        no_lower, no_upper = free_ends(task)
        multipliers = np.array([found.multipliers[name] for name in linear.names])
        assert not (multipliers[no_lower] > 0).any(), (seed, task.constraint)
        assert not (multipliers[no_upper] < 0).any(), (seed, task.constraint)
        known = np.full(len(linear), True) if linear.B is None else ~linear.B.any(axis=1)
        values = linear.values(np.nan_to_num(found.rates.rates))
        room = np.where(multipliers > 0, values - linear.lo, linear.hi - values)
        prices = np.array([found.shadow_prices[name] for name in linear.names])
        assert np.isfinite(prices).all()
        loose = known & (room > 1e-3)
        assert np.abs(multipliers[loose]).max(initial=0.0) <= 1e-4, (seed, task.constraint)
        assert np.abs(prices[loose]).max(initial=0.0) <= 1e-4, (seed, task.constraint)
    assert solved > 10


@pytest.mark.parametrize("objective", ["risk", "minimax"])
def test_a_floor_has_no_price_where_everyone_is_selected(objective):
    rng = np.random.default_rng(0)
    scores = eh.GroupedScores(rng.uniform(0.2, 0.9, 50), rng.integers(0, 2, 50), 2)
    floor = eh.RateBound("true-positive rate", at_least=0.5, groups="intersectional")
    found = eh.solve(scores, floor, cost=(1.0, 20.0), objective=objective)
    assert found.selection.all()
    assert list(found.multipliers.values()) == list(found.shadow_prices.values()) == [0.0, 0.0]


@pytest.fixture
def posteriors():
    return np.random.default_rng(3).dirichlet([2.0, 1.0, 1.0, 2.0], 4000).reshape(-1, 2, 2)


@pytest.mark.parametrize(
    ("make", "bound"),
    [
        (lambda b: eh.RateBound("selection rate", at_most=b), 0.3),
        (lambda b: eh.RateBound("true-positive rate", at_least=b, groups="intersectional"), 0.75),
        (lambda b: eh.RateBound("false-positive rate", at_most=b), 0.2),
        (lambda b: eh.RateBound("precision", at_least=b), 0.8),
        (lambda b: eh.RateBound("accuracy", at_least=b, groups="intersectional"), 0.6),
        (lambda b: eh.DemographicParity(ratio=b, against="groups"), 0.9),
        (lambda b: eh.EqualOpportunity(difference=b, against="groups"), 0.05),
        (lambda b: eh.RateBound("selection rate", at_most=b) & eh.DemographicParity(difference=0.02), 0.25),
    ],
)
def test_prices_are_slopes_of_the_optimal_risk(posteriors, make, bound):
    step = 1e-3
    low, here, high = (eh.solve(posteriors, make(b), tol=1e-10) for b in (bound - step, bound, bound + step))
    slope = (high.certificate.objective - low.certificate.objective) / (2 * step)
    first = type(make(bound).requirements[0])
    label = make(bound).requirements[0].label
    price = sum(value for name, value in here.shadow_prices.items() if name.notion == label)
    assert price == pytest.approx(slope, abs=2e-3), first


def test_a_bound_that_is_implied_changes_nothing(posteriors):
    fair = eh.DemographicParity(difference=0.02) & eh.RateBound("selection rate", at_most=0.3)
    implied = (
        fair
        & eh.RateBound("selection rate", at_most=0.4)
        & eh.RateBound("false-positive rate", at_most=1.0)
        & eh.RateBound("selection rate", at_most=0.3)
    )
    one, other = eh.solve(posteriors, fair), eh.solve(posteriors, implied)
    assert one.certificate.objective == pytest.approx(other.certificate.objective, abs=1e-9)
    assert len(other.multipliers) == len(other.linear_constraints) == 6


def test_no_group_is_worse_off_with_parity_by_raising_only(posteriors):
    plain = eh.solve(posteriors, eh.DemographicParity(difference=1.0)).rates
    levelled = eh.solve(posteriors, eh.DemographicParity(difference=0.0)).rates
    raised = eh.solve(posteriors, eh.DemographicParity(difference=0.0) & eh.NoWorse("selection rate")).rates

    def selection(rates):
        return rates.selected.sum(axis=1) / rates.mass.sum(axis=1)

    assert (selection(levelled) < selection(plain) - 1e-3).any()
    assert (selection(raised) >= selection(plain) - 1e-9).all()
    assert np.ptp(selection(raised)) <= 1e-8


def test_a_capacity_selects_those_with_the_highest_risk(posteriors):
    found = eh.solve(posteriors, eh.RateBound("selection rate", at_most=0.1))
    eta = posteriors[:, :, 1].sum(axis=1)
    assert found.selection.mean() == pytest.approx(0.1)
    assert eta[found.selection > 0].min() >= eta[found.selection < 1].max() - 1e-12


def test_precision_holds_where_nobody_is_selected():
    hopeless = (
        np.tile([[[0.45, 0.05], [0.45, 0.05]]], (100, 1, 1))
        + np.random.default_rng(0).random((100, 2, 2)) * 1e-3
    )
    hopeless /= hopeless.sum(axis=(1, 2), keepdims=True)
    found = eh.solve(hopeless, eh.RateBound("precision", at_least=0.9))
    assert not found.selection.any()
    [measured] = eh.RateBound("precision", at_least=0.9).measure(found.rates)
    assert np.isnan(measured.values).all()
    with pytest.raises(InfeasibleError, match="precision"):
        eh.solve(
            hopeless, eh.RateBound("precision", at_least=0.9) & eh.RateBound("selection rate", at_least=0.1)
        )


def test_the_four_fifths_rule_can_be_asked_for(posteriors):
    found = eh.solve(posteriors, eh.DemographicParity(ratio=0.8, against="groups"))
    rates = found.rates.selected.sum(axis=1) / found.rates.mass.sum(axis=1)
    assert rates.min() / rates.max() >= 0.8 - 1e-9
    [measured] = eh.DemographicParity(ratio=0.8, against="groups").measure(found.rates)
    assert measured.ratio == pytest.approx(rates.min() / rates.max())
    assert measured.difference == pytest.approx(np.ptp(rates))
