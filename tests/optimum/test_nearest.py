"""A notion as the objective: the least disparity, against linear programs of all rows."""

import numpy as np
import pytest
from scipy.optimize import linprog

import evenhand as eh
from evenhand.exceptions import InfeasibleError, InputError

GROUPS = eh.Groups.product({"race": ["A", "B"], "sex": ["F", "M"]})
REFERENCE = {"race": "A", "sex": "M"}
NOTIONS = [
    lambda d: eh.DemographicParity(**d),
    lambda d: eh.DemographicParity(**d, against="groups"),
    lambda d: eh.DemographicParity(**d, against=REFERENCE),
    lambda d: eh.DemographicParity(**d, groups="independent", against=REFERENCE),
    lambda d: eh.DemographicParity(**d, groups="independent", against="groups"),
    lambda d: eh.EqualOpportunity(**d, against="groups"),
    lambda d: eh.EqualizedOdds(**d),
    lambda d: eh.PredictiveEquality(**d, against=REFERENCE) & eh.RateBound("selection rate", at_least=0.2),
]


def problem(seed, n=150):
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(rng.uniform(0.1, 1.0, 8), n).reshape(n, 4, 2)
    weights = rng.integers(1, 4, n).astype(float)
    return rows, weights


def allowed(rows, weights, loss, share):
    """Bounds that allow a little less accuracy than the best rule with this share selected."""
    share = eh.RateBound("selection rate", at_least=share, at_most=share)
    best = eh.solve(rows, share, sample_weight=weights, groups=GROUPS)
    return eh.RateBound("accuracy", at_least=1 - 2 * best.certificate.objective - loss) & share


def feasible(rows, weights, requirement):
    """Whether a linear program of all rows finds a selection that satisfies a requirement."""
    w = weights / weights.sum()
    masses = np.tensordot(w, rows, axes=1)
    linear = requirement.linear(masses, GROUPS)
    A, lo, hi = linear.in_sums(masses)
    columns = np.hstack([A[:, :8] @ (w[:, None] * rows.reshape(-1, 8)).T, A[:, 8:]])
    above, below = np.isfinite(hi), np.isfinite(lo)
    # One more variable: by how much bounds are broken.
    matrix = np.vstack([columns[above], -columns[below]])
    found = linprog(
        np.append(np.zeros(matrix.shape[1]), 1.0),
        A_ub=np.hstack([matrix, -np.ones((len(matrix), 1))]),
        b_ub=np.concatenate([hi[above], -lo[below]]),
        bounds=[(0, 1)] * matrix.shape[1] + [(0, None)],
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert found.status == 0
    return found.fun <= 1e-9


def least(rows, weights, requirement, notion):
    """The smallest distance from a notion, by bisection."""
    low, high = 0.0, 1.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        ok = feasible(rows, weights, requirement & notion.with_slack(middle))
        low, high = (low, middle) if ok else (middle, high)
    return high


@pytest.mark.parametrize("measure", [{"difference": 0.0}, {"ratio": 1.0}], ids=["difference", "ratio"])
@pytest.mark.parametrize("kind", range(len(NOTIONS)))
def test_the_least_distance_is_that_of_linear_programs(kind, measure):
    rows, weights = problem(10 * kind)
    notion = NOTIONS[kind](measure).requirements[0]
    requirement = allowed(rows, weights, 0.004, 0.4)
    found = eh.solve(rows, requirement, objective=notion, sample_weight=weights, groups=GROUPS)
    proof = found.certificate
    assert proof.violation <= 1e-8
    assert -1e-9 <= proof.gap <= 2e-6
    assert proof.bound == pytest.approx(least(rows, weights, requirement, notion), abs=3e-6)
    assert all(one.excess <= 1e-6 for one in requirement.measure(found.rates))
    measured = notion.measure(found.rates)
    values = [1 - one.ratio if "ratio" in measure else one.difference for one in measured]
    assert max(values) == pytest.approx(proof.objective, abs=1e-8)
    assert found.nearest.with_slack(0.5) == notion.with_slack(0.5)
    assert all(one.excess <= 1e-6 for one in found.nearest.measure(found.rates))


def test_known_groups_by_a_linear_program():
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 4, 400)
    eta = np.clip(rng.beta(2, 2, 400) + 0.15 * (codes % 2) - 0.1 * (codes > 1), 0, 1)
    scores = eh.GroupedScores(eta, codes, 4)
    rows = np.zeros((400, 4, 2))
    rows[np.arange(400), codes] = np.column_stack([1 - eta, eta])
    notion = eh.DemographicParity(ratio=1, against=REFERENCE)
    requirement = allowed(scores, None, 0.01, 0.3)
    found = eh.solve(scores, requirement, objective=notion, groups=GROUPS)
    assert found.certificate.bound == pytest.approx(least(rows, np.ones(400), requirement, notion), abs=3e-6)
    assert found.rule.selection(scores) == pytest.approx(found.selection, abs=1e-9)


def test_an_optimum_by_hand():
    """A is positive, B is not: with accuracy 1 - e, at least 1 - 2 e of the difference stays."""
    rows = np.array([[[0.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]]])
    floor = eh.RateBound("accuracy", at_least=0.9)
    found = eh.solve(rows, floor, objective=eh.DemographicParity(difference=0, against="groups"))
    assert found.certificate.objective == pytest.approx(0.8, abs=1e-6)
    assert found.certificate.bound == pytest.approx(0.8, abs=1e-9)
    # A unit of accuracy is two units of difference.
    assert list(found.shadow_prices.values()) == pytest.approx([2.0])
    assert "difference of" not in repr(found.certificate)
    assert "distance from demographic parity (difference)" in repr(found.certificate)


def test_among_the_nearest_the_risk_is_least():
    rows, weights = problem(5)
    notion = eh.DemographicParity(difference=0.0, against="groups")
    found = eh.solve(rows, eh.DemographicParity(difference=1), objective=notion, sample_weight=weights)
    exact = eh.solve(rows, notion, sample_weight=weights)
    assert found.rates.risk() == pytest.approx(exact.certificate.objective, abs=1e-5)
    assert found.certificate.bound == 0


def test_nothing_is_gained_below_the_tolerance_of_the_objective():
    rows, weights = problem(6)
    loose = eh.DemographicParity(difference=0.9)
    found = eh.solve(rows, eh.DemographicParity(difference=1), objective=loose, sample_weight=weights)
    plain = eh.solve(rows, eh.DemographicParity(difference=1), sample_weight=weights)
    assert found.selection == pytest.approx(plain.selection, abs=1e-9)
    assert found.certificate.objective == found.certificate.bound == pytest.approx(0.9)


def test_a_price_is_the_change_of_the_least_distance():
    rows, weights = problem(7, n=600)
    notion = eh.DemographicParity(ratio=1, against="groups")
    requirement, step = allowed(rows, weights, 0.0005, 0.4), 1e-5

    def solved(asked):
        return eh.solve(rows, asked, objective=notion, sample_weight=weights, groups=GROUPS, tol=1e-8)

    found = solved(requirement)
    [price] = [value for name, value in found.shadow_prices.items() if name.notion == "accuracy"]
    bounds = [
        solved(requirement.requirements[1] & eh.RateBound("accuracy", at_least=floor)).certificate.bound
        for at in [requirement.requirements[0].at_least]
        for floor in (at - step, at + step)
    ]
    assert price > 0.1
    assert (bounds[1] - bounds[0]) / (2 * step) == pytest.approx(price, rel=0.05)


def test_many_rows_are_proven_too():
    task = eh.datasets.GaussianProblem.random(levels=(2, 2), seed=1)
    rows = task.posteriors(task.sample(20_000, seed=1).X)
    plain = eh.solve(rows, eh.DemographicParity(difference=1))
    floor = eh.RateBound("accuracy", at_least=1 - 2 * plain.certificate.objective - 0.005)
    for notion in (eh.DemographicParity(ratio=1, against="groups"), eh.EqualizedOdds(difference=0)):
        found = eh.solve(rows, floor, objective=notion)
        assert 0 < found.certificate.gap < 3e-6
        assert found.certificate.bound > 0.01
        shipped = found.rule.selection(rows)
        assert shipped == pytest.approx(found.selection, abs=1e-9)


def test_what_cannot_be_an_objective_is_refused():
    rows, _ = problem(8)
    free = eh.DemographicParity(difference=1)
    for objective, message in (
        ("parity", "objective must be one of 'risk', 'minimax'"),
        (eh.RateBound("selection rate", at_most=0.5), "only one notion"),
        (eh.DemographicParity(difference=0) & eh.EqualOpportunity(difference=0), "only one notion"),
        (eh.DemographicParity(difference=0, given=["level"]), "`given` cannot be an objective"),
        (eh.DemographicParity(difference=0, against={"group": 7}), "no row is in the reference group"),
    ):
        with pytest.raises(InputError, match=message):
            eh.solve(rows, free, objective=objective)
    impossible = eh.RateBound("accuracy", at_least=0.999)
    with pytest.raises(InfeasibleError, match="accuracy"):
        eh.solve(rows, impossible, objective=eh.DemographicParity(difference=0))
