"""Random combinations of notions and bounds against a linear program on all rows by SciPy."""

import numpy as np
import pytest
from scipy.optimize import linprog

import evenhand as eh
from evenhand.exceptions import InfeasibleError
from evenhand.fairness.bounds import BOUNDS
from evenhand.fairness.notions import NOTIONS
from evenhand.optimum.problem import FairnessProblem

pytestmark = pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")

RATES = ("selection rate", "true-positive rate", "false-positive rate", "error rate", "accuracy")


def random_part(rng):
    scope = str(rng.choice(["population", "intersectional", "independent"]))
    kind = rng.integers(0, 10)
    if kind < 5:
        slack = float(rng.choice([0.0, 0.01, 0.05, 0.2, 0.5]))
        tolerance = {"difference": slack} if rng.random() < 0.5 else {"ratio": 1 - slack}
        groups = str(rng.choice(["intersectional", "independent"]))
        return NOTIONS[kind](**tolerance, groups=groups, against=str(rng.choice(["population", "groups"])))
    if kind == 5:
        return eh.NoWorse(str(rng.choice(RATES)), groups=scope)
    low, high = np.sort(rng.random(2)).round(3).tolist()
    bounds = [{"at_least": 0.7 * low}, {"at_most": high}, {"at_least": 0.5 * low, "at_most": high}]
    return BOUNDS[rng.integers(5)](**bounds[rng.integers(3)], groups=scope)


def random_task(seed, most_rows=400):
    rng = np.random.default_rng(seed)
    levels = [(2,), (3,), (2, 2), (2, 3)][rng.integers(4)]
    M, n = int(np.prod(levels)), int(rng.integers(20, most_rows))
    groups = eh.Groups.product({f"A{k}": range(size) for k, size in enumerate(levels)})
    if rng.random() < 0.3:
        codes, eta = rng.integers(0, M, n), rng.beta(1, 2, n)
        eta = np.round(6 * eta) / 6 if rng.random() < 0.4 else eta
        p = np.zeros((n, M, 2))
        p[np.arange(n), codes] = np.column_stack([1 - eta, eta])
        rows = eh.GroupedScores(eta, codes, M)
    else:
        p = rng.dirichlet(np.full(2 * M, rng.choice([0.2, 1.0])), n).reshape(n, M, 2)
        if rng.random() < 0.3:
            p = np.round(8 * p) / 8 + 1e-6
            p /= p.sum(axis=(1, 2), keepdims=True)
        rows = p
    weights = rng.random(n) if rng.random() < 0.5 else None
    constraint = random_part(rng)
    for _ in range(rng.integers(0, 3)):
        constraint = constraint & random_part(rng)
    cost = float(rng.choice([0.5, 0.3, 0.8]))
    task = FairnessProblem.read(rows, constraint, cost=cost, sample_weight=weights, groups=groups)
    return task, p.reshape(n, -1), np.full(n, 1 / n) if weights is None else weights / weights.sum()


def full_program(task, p, weights):
    """The smallest risk, by a program with a variable for each row and each scalar; None if infeasible."""
    A, lo, hi = task.linear_constraints.in_sums(task.masses)
    D = task.masses.size
    per_row = weights[:, None] * p
    matrix = np.hstack([A[:, :D] @ per_row.T, A[:, D:]])
    gain = np.concatenate([per_row @ task.program.gain[:D], np.zeros(A.shape[1] - D)])
    # In units of one row: the tolerances of HiGHS are absolute, and entries of 1/n have led it astray.
    matrix, gain, lo, hi = (len(p) * part for part in (matrix, gain, lo, hi))
    both = {"A_ub": np.vstack([matrix, -matrix]), "b_ub": np.concatenate([hi, -lo])}
    found = linprog(-gain, **both, bounds=(0, 1), method="highs")
    if found.status == 2:
        return None
    assert found.status == 0
    return task.unit * (task.program.constant + found.fun / len(p))


@pytest.mark.parametrize("block", range(10))
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


@pytest.fixture
def posteriors():
    return np.random.default_rng(3).dirichlet([2.0, 1.0, 1.0, 2.0], 4000).reshape(-1, 2, 2)


@pytest.mark.parametrize(
    ("make", "bound"),
    [
        (lambda b: eh.SelectionRate(at_most=b), 0.3),
        (lambda b: eh.TruePositiveRate(at_least=b, groups="intersectional"), 0.75),
        (lambda b: eh.FalsePositiveRate(at_most=b), 0.2),
        (lambda b: eh.Precision(at_least=b), 0.8),
        (lambda b: eh.Accuracy(at_least=b, groups="intersectional"), 0.6),
        (lambda b: eh.DemographicParity(ratio=b, against="groups"), 0.9),
        (lambda b: eh.EqualOpportunity(difference=b, against="groups"), 0.05),
        (lambda b: eh.SelectionRate(at_most=b) & eh.DemographicParity(difference=0.02), 0.25),
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
    fair = eh.DemographicParity(difference=0.02) & eh.SelectionRate(at_most=0.3)
    implied = (
        fair
        & eh.SelectionRate(at_most=0.4)
        & eh.FalsePositiveRate(at_most=1.0)
        & eh.SelectionRate(at_most=0.3)
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
    found = eh.solve(posteriors, eh.SelectionRate(at_most=0.1))
    eta = posteriors[:, :, 1].sum(axis=1)
    assert found.selection.mean() == pytest.approx(0.1)
    assert eta[found.selection > 0].min() >= eta[found.selection < 1].max() - 1e-12


def test_precision_holds_where_nobody_is_selected():
    hopeless = (
        np.tile([[[0.45, 0.05], [0.45, 0.05]]], (100, 1, 1))
        + np.random.default_rng(0).random((100, 2, 2)) * 1e-3
    )
    hopeless /= hopeless.sum(axis=(1, 2), keepdims=True)
    found = eh.solve(hopeless, eh.Precision(at_least=0.9))
    assert not found.selection.any()
    [measured] = eh.Precision(at_least=0.9).measure(found.rates)
    assert np.isnan(measured.values).all()
    with pytest.raises(InfeasibleError, match="precision"):
        eh.solve(hopeless, eh.Precision(at_least=0.9) & eh.SelectionRate(at_least=0.1))


def test_the_four_fifths_rule_can_be_asked_for(posteriors):
    found = eh.solve(posteriors, eh.DemographicParity(ratio=0.8, against="groups"))
    rates = found.rates.selected.sum(axis=1) / found.rates.mass.sum(axis=1)
    assert rates.min() / rates.max() >= 0.8 - 1e-9
    [measured] = eh.DemographicParity(ratio=0.8, against="groups").measure(found.rates)
    assert measured.ratio == pytest.approx(rates.min() / rates.max())
    assert measured.difference == pytest.approx(np.ptp(rates))
