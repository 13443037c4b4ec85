"""The smallest possible risk of the worst group against linear programs on all rows by SciPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from tests.conftest import examples

import evenhand as eh
from evenhand.exceptions import InfeasibleError
from evenhand.optimum.minimax import MinimaxProblem
from evenhand.requirements.bounds import BOUNDED_RATES
from evenhand.requirements.notions import NOTIONS

pytestmark = pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")

NOTHING = eh.DemographicParity(difference=1.0)
seeds = st.integers(0, 2**32 - 1)


def random_part(rng):
    scope = str(rng.choice(["population", "intersectional", "independent"]))
    kind = rng.integers(0, 10)
    if kind < 5:
        slack = float(rng.choice([0.0, 0.01, 0.05, 0.2, 1.0]))
        tolerance = {"difference": slack} if rng.random() < 0.5 else {"ratio": 1 - slack}
        return NOTIONS[kind](**tolerance, against=str(rng.choice(["population", "groups"])))
    if kind == 5:
        return eh.NoWorse(str(rng.choice(["selection rate", "true-positive rate"])), groups=scope)
    low, high = np.sort(rng.random(2)).round(3).tolist()
    bounds = [{"at_least": 0.7 * low}, {"at_most": high}]
    return eh.RateBound(BOUNDED_RATES[rng.integers(5)], **bounds[rng.integers(2)], groups=scope)


def random_rows(rng, n, M, aware):
    """Rows as `solve` takes them, and as a matrix of cells."""
    if aware:
        codes, eta = rng.integers(0, M, n), rng.beta(1, 2, n)
        eta = np.round(6 * eta) / 6 if rng.random() < 0.4 else eta
        p = np.zeros((n, M, 2))
        p[np.arange(n), codes] = np.column_stack([1 - eta, eta])
        return eh.GroupedScores(eta, codes, M), p.reshape(n, -1)
    p = rng.dirichlet(np.full(2 * M, rng.choice([0.2, 1.0])), n).reshape(n, M, 2)
    if rng.random() < 0.3:  # ties
        p = np.round(8 * p) / 8 + 1e-6
        p /= p.sum(axis=(1, 2), keepdims=True)
    return p, p.reshape(n, -1)


def random_task(seed, *, aware):
    rng = np.random.default_rng(seed)
    levels = [(1,), (2,), (3,), (2, 2), (2, 3)][rng.integers(5)]
    M, n = int(np.prod(levels)), int(rng.integers(20, 300))
    groups = eh.Groups.product({f"A{k}": range(size) for k, size in enumerate(levels)})
    rows, p = random_rows(rng, n, M, aware)
    weights = rng.random(n) if rng.random() < 0.5 else None
    constraint = random_part(rng)
    for _ in range(rng.integers(0, 3)):
        constraint = constraint & random_part(rng)
    costs = [0.5, 0.3, (2.0, 7.0), rng.random((M, 2)), 20 * rng.random((M, 2))]
    task = MinimaxProblem.read(
        rows, constraint, cost=costs[rng.integers(5)], sample_weight=weights, groups=groups
    )
    return task, p, np.full(n, 1 / n) if weights is None else weights / weights.sum()


class FullProgram:
    """Linear programs with a variable for each row, each scalar of the requirement, and t."""

    def __init__(self, task, p, weights):
        A, self.lo, self.hi = task.linear_constraints.in_sums(task.masses)
        D, self.n = task.masses.size, len(p)
        self.costs = task.unit * task.program.gain[:D].reshape(-1, 2) * [-1, 1]
        self.masses = task.masses
        sums = (weights[:, None] * p).T
        self.sums, self.required = sums, np.hstack([A[:, :D] @ sums, A[:, D:]])
        self.scalars = A.shape[1] - D
        held = task.masses.sum(axis=1) > 0
        sizes = np.where(held, task.masses.sum(axis=1), 1.0)
        false_positives, false_negatives = sums[0::2], sums[1::2]
        priced = self.costs[:, :1] * false_positives - self.costs[:, 1:] * false_negatives
        self.group = (priced / sizes[:, None])[held]
        self.missed = (self.costs[:, 1] * task.masses[:, 1] / sizes)[held]

    def solve(self, gain_rows, gain_t, most=None):
        """Minimise over rows, scalars and t, with every group's risk at most t, or at most a number."""
        pad = np.zeros((len(self.group), self.scalars))
        t = -np.ones((len(self.group), 1)) if most is None else np.zeros((len(self.group), 1))
        groups = np.hstack([self.group, pad, t])
        required = np.hstack([self.required, np.zeros((len(self.required), 1))])
        limit = -self.missed + (0.0 if most is None else most)
        objective = np.concatenate([gain_rows, np.zeros(self.scalars), [gain_t]])
        limits = self.n * np.concatenate([self.hi, -self.lo, limit])
        # In units of one row: the tolerances of HiGHS are absolute, and entries of 1/n have led it astray.
        for method, presolve in (("highs", True), ("highs", False), ("highs-ipm", True)):
            found = linprog(
                self.n * objective,
                A_ub=self.n * np.vstack([required, -required, groups])[np.isfinite(limits)],
                b_ub=limits[np.isfinite(limits)],
                bounds=[(0, 1)] * (len(objective) - 1) + [(None, None)],
                method=method,
                options={"presolve": presolve},
            )
            if found.status in (0, 2):  # 4 is a failure of HiGHS
                break
        assert found.status in (0, 2)
        return None if found.status == 2 else found.fun / self.n

    def largest(self):
        return self.solve(np.zeros(self.sums.shape[1]), 1.0)

    def risk(self, most):
        gain = self.costs[:, 0] @ self.sums[0::2] - self.costs[:, 1] @ self.sums[1::2]
        found = self.solve(gain, 0.0, most)
        return None if found is None else found + self.costs[:, 1] @ self.masses[:, 1]


def group_risks(found, costs):
    """Risk within each group that has mass, by the definition."""
    mass, selected = found.rates.mass, found.rates.selected
    errors = costs[:, 0] * selected[:, 0] + costs[:, 1] * (mass[:, 1] - selected[:, 1])
    held = mass.sum(axis=1) > 0
    return errors[held] / mass[held].sum(axis=1), errors.sum()


@pytest.mark.parametrize("aware", [False, True], ids=["blind", "aware"])
@settings(max_examples=examples(100))
@given(seed=seeds)
def test_both_stages_are_those_of_the_full_program(aware, seed):
    task, p, weights = random_task(seed, aware=aware)
    program = FullProgram(task, p, weights)
    expected = program.largest()
    try:
        found = task.solve(tol=1e-7)
    except InfeasibleError:
        assert expected is None
        return
    assert expected is not None
    unit, certificate = max(1.0, task.unit), found.certificate
    risks, risk = group_risks(found, program.costs)
    assert certificate.objective == pytest.approx(risks.max(), abs=1e-9 * unit)
    assert certificate.objective == pytest.approx(expected, abs=2e-7 * unit)
    assert certificate.bound <= expected + 1e-7 * unit
    assert certificate.violation <= 1e-8
    for slack in (0.0, 1e-9, 1e-8):  # just feasible, which HiGHS may take for infeasible
        least = program.risk(certificate.objective + slack * unit)
        if least is not None:
            break
    # How much the least risk changes with t: rounding errors of t count as often.
    of_groups = sum(value for name, value in found.rule_multipliers.items() if name.notion == "minimax")
    slope = -of_groups / (1 + of_groups)
    assert risk == pytest.approx(least, abs=(1e-6 + (1e-10 + slack) * slope) * unit)

    # The least favourable mixture: weights sum to 1, and are on groups with the largest risk only.
    mixture = np.array(list(found.group_weights.values()))
    assert (mixture >= 0).all()
    assert mixture.sum() == pytest.approx(1.0, abs=1e-7)
    assert mixture @ (certificate.objective - risks) <= 1e-6 * unit


@pytest.mark.parametrize(
    ("make", "bound"),
    [
        (lambda b: eh.RateBound("selection rate", at_most=b), 0.3),
        (lambda b: eh.RateBound("true-positive rate", at_least=b, groups="intersectional"), 0.8),
        (lambda b: eh.RateBound("precision", at_least=b), 0.85),
        (lambda b: eh.DemographicParity(difference=b), 0.02),
        (lambda b: eh.DemographicParity(ratio=b, against="groups"), 0.9),
        (lambda b: eh.RateBound("selection rate", at_most=b) & eh.DemographicParity(difference=0.02), 0.25),
    ],
    ids=["capacity", "floor", "precision", "difference", "ratio", "capacity-and-parity"],
)
@pytest.mark.parametrize("cost", [0.5, (4.0, 6.0)], ids=["half", "pair"])
def test_prices_are_slopes_of_the_largest_risk(make, bound, cost):
    posteriors = np.random.default_rng(3).dirichlet([2.0, 1.0, 1.0, 2.0], 4000).reshape(-1, 2, 2)
    step = 1e-3
    low, here, high = (
        eh.solve(posteriors, make(b), cost=cost, tol=1e-9, objective="minimax")
        for b in (bound - step, bound, bound + step)
    )
    slope = (high.certificate.objective - low.certificate.objective) / (2 * step)
    label = make(bound).requirements[0].label
    price = sum(value for name, value in here.shadow_prices.items() if name.notion == label)
    assert price == pytest.approx(slope, abs=4e-3 * np.max(cost))
    assert abs(slope) > 0.02 * np.max(cost)  # it binds


@settings(max_examples=examples(40))
@given(seed=seeds)
def test_with_one_group_it_is_the_smallest_risk(seed):
    rng = np.random.default_rng(seed)
    rows, _ = random_rows(rng, int(rng.integers(20, 200)), 1, aware=bool(rng.random() < 0.5))
    cost, constraint = (
        [0.5, (3.0, 1.0)][rng.integers(2)],
        eh.RateBound("selection rate", at_most=float(rng.random())),
    )
    one = eh.solve(rows, constraint, cost=cost)
    other = eh.solve(rows, constraint, cost=cost, objective="minimax")
    assert other.certificate.objective == pytest.approx(one.certificate.objective, abs=1e-6 * np.max(cost))
    assert list(other.group_weights.values()) == pytest.approx([1.0])
