import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from benchmarks.exact import FiniteProblem, GaussianProblem
from tests.conftest import often

import evenhand as eh
from evenhand.exceptions import CertificateError, ConstantScoreWarning, InputError, VacuousConstraintWarning
from evenhand.groups.groups import Groups
from evenhand.requirements.rates import CellRates
from evenhand.solver import optimize as optimize_module

FAIR = eh.DemographicParity(difference=0.02)


@pytest.fixture
def posteriors():
    problem = GaussianProblem.random(levels=(2, 2), seed=1)
    return problem.posteriors(problem.sample(2500).X)


def test_everything_a_user_needs_is_there(posteriors):
    groups = Groups.product({"sex": ["F", "M"], "old": [False, True]})
    found = eh.solve(posteriors, FAIR, groups=groups)
    assert found.selection.shape == (2500,)
    assert found.certificate.gap < 1e-9
    assert found.certificate.violation < 1e-9
    assert found.certificate.objective == pytest.approx(found.rates.risk())
    assert str(next(iter(found.multipliers))) == "demographic parity, selection rate: sex=F, old=False"
    [measured] = FAIR.measure(found.rates)
    assert measured.difference <= 0.02 + 1e-9


def test_the_same_call_gives_the_same_answer(posteriors):
    one, two = eh.solve(posteriors, FAIR), eh.solve(posteriors, FAIR)
    assert np.array_equal(one.selection, two.selection)
    assert one.multipliers == two.multipliers


def test_float32_rows_and_any_layout_give_the_same_optimum(posteriors):
    expected = eh.solve(posteriors, FAIR).certificate.objective
    single = posteriors.astype(np.float32)
    assert eh.solve(single, FAIR).certificate.objective == pytest.approx(expected, abs=1e-6)
    for layout in (np.asfortranarray(posteriors), np.repeat(posteriors, 2, axis=0)[::2]):
        layout.flags.writeable = False
        assert eh.solve(layout, FAIR).certificate.objective == pytest.approx(expected, abs=1e-12)


def test_weight_two_is_the_same_as_a_row_twice(posteriors):
    weights = np.random.default_rng(0).integers(0, 3, len(posteriors))
    weighted = eh.solve(posteriors, FAIR, sample_weight=weights)
    repeated = eh.solve(np.repeat(posteriors, weights, axis=0), FAIR)
    assert weighted.certificate.objective == pytest.approx(repeated.certificate.objective, abs=1e-12)


@pytest.mark.parametrize("cost", [0.3, (0.3, 0.7), [[0.3, 0.7]] * 4])
def test_costs_have_three_forms(posteriors, cost):
    expected = eh.solve(posteriors, FAIR, cost=0.3).certificate.objective
    assert eh.solve(posteriors, FAIR, cost=cost).certificate.objective == pytest.approx(expected, abs=1e-13)


def test_each_group_can_have_its_own_costs():
    problem = FiniteProblem.random(20, levels=(2,), seed=2)
    cost = np.array([[0.2, 0.9], [0.6, 0.1]])
    found = eh.solve(problem.posteriors, FAIR, cost=cost, sample_weight=problem.weights)
    s, pi = found.rates.selected, problem.masses
    assert found.certificate.objective == pytest.approx(cost[:, 0] @ s[:, 0] + cost[:, 1] @ (pi - s)[:, 1])


def test_a_group_without_positives_is_left_out_and_named():
    posteriors = np.random.default_rng(0).dirichlet(np.ones(4), 300).reshape(-1, 2, 2)
    posteriors[:, 0, 0] += posteriors[:, 0, 1]
    posteriors[:, 0, 1] = 0
    found = eh.solve(posteriors, eh.EqualOpportunity(difference=0.01))
    assert [str(name) for name in found.linear_constraints.undefined] == [
        "equal opportunity, true-positive rate: group=0"
    ]


def test_one_group_is_vacuous():
    posteriors = np.random.default_rng(0).dirichlet(np.ones(2), 50).reshape(-1, 1, 2)
    with pytest.warns(VacuousConstraintWarning):
        found = eh.solve(posteriors, FAIR)
    assert np.array_equal(found.selection, posteriors[:, 0, 1] > 0.5)


@pytest.mark.parametrize("n", [1, 7, 5000])
def test_constant_scores_are_solved_with_a_warning(n):
    posteriors = np.tile([[[0.1, 0.2], [0.4, 0.3]]], (n, 1, 1))
    if n > 1:
        with pytest.warns(ConstantScoreWarning, match="can only be randomised"):
            found = eh.solve(posteriors, eh.AccuracyParity(difference=0.0))
    else:
        found = eh.solve(posteriors, eh.AccuracyParity(difference=0.0))
    assert found.certificate.violation < 1e-12
    assert len(set(found.selection)) == 1


@pytest.mark.parametrize("n", [3000, 30_000])
def test_heavy_ties_are_solved_exactly(n):
    problem = FiniteProblem.random(8, levels=(2, 2), seed=5)
    atoms = problem.sample(n, seed=0).X[:, 0].astype(int)
    constraint = eh.EqualizedOdds(difference=0.005)
    found = eh.solve(problem.posteriors[atoms], constraint, tol=1e-9)
    weights = np.bincount(atoms, minlength=8) / n
    exact = FiniteProblem(weights, problem.posteriors, problem.groups).optimum(constraint)
    assert found.certificate.objective == pytest.approx(exact.risk, abs=1e-9)


BAD = [
    (np.zeros((3, 2)), "shape \\(n, M, 2\\), got \\(3, 2\\)"),
    (np.zeros((0, 2, 2)), "no rows"),
    (np.full((3, 2, 2), np.nan), "NaN, negative or do not sum to 1 in 3 of 3 rows"),
    (np.full((3, 2, 2), 0.3), "do not sum to 1 in 3 of 3 rows"),
    (np.array([[[0.5, 0.5]], [[0.5, 0.6]]]), r"in 1 of 2 rows \(row 1, counted from 0\)"),
    (np.array([[[0.5, 0.6], [0.1, -0.2]]]), "negative"),
    (np.array([[["a", "b"]]]), "must be numbers"),
]


@pytest.mark.parametrize(("rows", "message"), BAD)
def test_posteriors_that_cannot_be_used_are_refused(rows, message):
    with pytest.raises(InputError, match=message):
        eh.solve(rows, FAIR)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cost": 1.5}, "cost must be a number from 0 to 1"),
        ({"cost": (1, 2, 3)}, "a pair or of shape"),
        ({"cost": (-1, 2)}, "non-negative"),
        ({"cost": "high"}, "cost must be numbers"),
        ({"tol": 0}, "tol must be strictly between 0 and 1"),
        ({"groups": Groups.product({"g": "ab"})}, "posteriors have 4 groups, and groups names 2"),
        ({"sample_weight": [1.0]}, "sample_weight has 1 where 2,500 were expected"),
    ],
)
def test_options_that_cannot_be_used_are_refused(posteriors, options, message):
    with pytest.raises(InputError, match=message):
        eh.solve(posteriors, FAIR, **options)


def test_a_constraint_must_be_a_notion(posteriors):
    with pytest.raises(InputError, match="must be a notion of fairness or a bound, got 'dp'"):
        eh.solve(posteriors, "dp")


def test_what_cannot_be_proven_is_not_returned(posteriors, monkeypatch):
    monkeypatch.setattr(optimize_module, "_attempts", lambda *_: iter(()))
    with pytest.raises(CertificateError, match="no algorithm proved a solution"):
        eh.solve(posteriors, FAIR)


def test_an_interrupt_is_a_keyboard_interrupt():
    code = (
        "import signal, numpy as np, evenhand as eh\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # jobs in the background ignore it
        "P = np.random.default_rng(0).dirichlet(np.ones(32), 20_000).reshape(-1, 16, 2)\n"
        "eh.solve(P[:100], eh.EqualizedOdds(difference=0.01))\n"  # so that nothing is imported later
        "print('ready', flush=True)\n"
        "try:\n"
        "    while True:\n"
        "        eh.solve(P, eh.EqualizedOdds(difference=0.01))\n"
        "except KeyboardInterrupt:\n"
        "    print('stopped', flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)  # noqa: S603
    assert process.stdout.readline().strip() == "ready"
    time.sleep(0.5)
    os.kill(process.pid, signal.SIGINT)
    try:
        assert process.communicate(timeout=60)[0].strip() == "stopped"
    finally:
        process.kill()


def one_hot(eta, codes, M):
    posteriors = np.zeros((len(eta), M, 2))
    posteriors[np.arange(len(eta)), codes] = np.column_stack([1 - eta, eta])
    return posteriors


@pytest.mark.parametrize("n", [300, 5000])
def test_rounding_errors_are_not_enforced(notion, n):
    """The features say nothing about the group, so the plain rule is fair up to rounding errors."""
    eta = np.random.default_rng(0).random(n)
    shares = np.array([0.2, 0.5, 0.3])[:, None]
    posteriors = np.stack([shares * (1 - eta), shares * eta], axis=-1).transpose(1, 0, 2)
    found = eh.solve(posteriors, notion(difference=0.0))
    assert np.array_equal(found.selection, eta > 0.5)
    assert np.array_equal(found.rule.selection(posteriors), found.selection)


@pytest.mark.parametrize("seed", often(range(12), 3))
@pytest.mark.parametrize("n", [1, 100, 5000])
@pytest.mark.filterwarnings("ignore:all rows have the same scores")
def test_constant_rows_are_solved_under_exact_parity(notion, n, seed):
    row = np.random.default_rng(seed).dirichlet(np.full(6, 0.3)).reshape(1, 3, 2)
    row[row < 1e-9] = 0
    row /= row.sum()
    found = eh.solve(np.repeat(row, n, axis=0), notion(difference=0.0))
    exact = FiniteProblem(np.ones(1), row, Groups.product({"g": range(3)})).optimum(notion(difference=0.0))
    assert found.certificate.objective <= exact.risk + 1e-8


@pytest.mark.parametrize("n", [3000, 5000])
def test_the_rule_holds_where_whole_groups_are_randomised(n):
    rng = np.random.default_rng(3)
    codes = rng.integers(3, size=n)
    eta = np.where(codes == 0, rng.beta(0.1, 0.1, n), rng.beta(2, 2, n))
    posteriors = one_hot(eta, codes, 3)
    for constraint in (eh.AccuracyParity(difference=0.0), eh.AccuracyParity(ratio=0.9)):
        found = eh.solve(posteriors, constraint)
        assert np.array_equal(found.rule.selection(posteriors), found.selection)


@pytest.mark.parametrize("share", [1e-7, 1e-9])
@pytest.mark.parametrize("n", [1500, 5000])
def test_a_gap_is_never_below_zero(share, n):
    rng = np.random.default_rng(1)
    g, eta = share * rng.random(n), rng.random(n)
    posteriors = np.stack(
        [np.stack([(1 - g) * (1 - eta), (1 - g) * eta], -1), np.stack([g * (1 - eta), g * eta], -1)], 1
    )
    try:
        found = eh.solve(posteriors, eh.DemographicParity(difference=0.0))
    except CertificateError:
        return  # acceptable for a group of one in 1e9
    assert abs(found.certificate.gap) < 1e-6
    fresh = np.stack([np.stack([1 - eta, eta], -1), np.zeros((n, 2))], 1)
    assert set(found.rule.selection(fresh)) <= {0.0, 1.0}


def test_a_light_group_behind_heavy_ones_is_held_to_its_bound():
    rng = np.random.default_rng(0)
    n = 50_000
    codes, eta = rng.integers(3, size=n), rng.random(n)
    weights = np.where(codes == 2, 1e-10, 1.0) * rng.random(n)
    constraint = eh.EqualizedOdds(difference=0.02)
    found = eh.solve(eh.GroupedScores(eta, codes, 3), constraint, sample_weight=weights)
    cells = [[(weights * (codes == m) * part)[:] for part in (1 - eta, eta)] for m in range(3)]
    mass = np.array([[part.sum() for part in row] for row in cells])
    selected = np.array([[(part * found.selection).sum() for part in row] for row in cells])
    counted = CellRates(found.rates.groups, mass, selected)
    assert max(measured.excess for measured in constraint.measure(counted)) < 1e-9


def test_negative_zeros_are_zeros():
    problem = FiniteProblem.random(12, levels=(2, 2), seed=3)
    atoms = problem.sample(400, seed=1).X[:, 0].astype(int)
    posteriors = np.where(problem.posteriors < 0.05, 0.0, problem.posteriors)
    posteriors /= posteriors.sum(axis=(1, 2), keepdims=True)
    rows = posteriors[atoms]
    rows[::2] = np.where(rows[::2] == 0, -0.0, rows[::2])
    found = eh.solve(rows, eh.EqualizedOdds(difference=0.0))
    assert np.array_equal(found.rule.selection(rows), found.selection)


def test_with_no_constraint_left_the_plain_rule_is_optimal():
    posteriors = np.zeros((6, 2, 2))
    posteriors[:3, 0, 0] = posteriors[3:, 1, 0] = 1
    found = eh.solve(posteriors, eh.EqualOpportunity(difference=0.1), cost=0)
    assert np.array_equal(found.rule.selection(posteriors), found.selection)


@pytest.mark.parametrize("unit", [1e9, 1e-3])
def test_costs_of_any_size_are_solved(posteriors, unit):
    exact = eh.solve(posteriors, eh.DemographicParity(difference=0.0), cost=(1.0, 2.0))
    found = eh.solve(posteriors, eh.DemographicParity(difference=0.0), cost=(unit, 2 * unit), tol=1e-6)
    assert found.certificate.objective == pytest.approx(unit * exact.certificate.objective, rel=1e-9)
    assert np.array_equal(found.rule.selection(posteriors), found.selection)
    name = next(iter(found.multipliers))
    assert found.multipliers[name] == pytest.approx(unit * exact.multipliers[name], rel=1e-6)


def test_neighbouring_scores_are_distinguished():
    eta = np.array([0.5, np.nextafter(0.5, 1), 0.2, 0.9, 0.4, 0.6])
    codes = np.array([0, 0, 0, 1, 1, 1])
    found = eh.solve(eh.GroupedScores(eta, codes, 2), eh.DemographicParity(difference=0.1))
    assert found.rule.steps is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tol": "a"}, "tol must be strictly between"),
        ({"groups": ["a", "b"]}, "groups must be made by Groups"),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused(posteriors, options, message):
    with pytest.raises(InputError, match=message):
        eh.solve(posteriors, FAIR, **options)


def test_ragged_rows_are_refused():
    with pytest.raises(InputError, match="rows of different lengths"):
        eh.solve([[[0.5, 0.5]], [[0.5]]], FAIR)


def test_redundant_and_overlapping_requirements_change_nothing(posteriors):
    groups = Groups.product({"sex": ["F", "M"], "old": [False, True]})
    each = eh.DemographicParity(difference=0.02)
    alone = eh.solve(posteriors, each, groups=groups).certificate.objective
    twice = eh.solve(posteriors, each & each, groups=groups).certificate.objective
    assert twice == pytest.approx(alone, abs=1e-12)
    features = eh.DemographicParity(difference=0.02, groups="independent")
    both = eh.solve(posteriors, each & features, groups=groups).certificate
    assert both.objective >= alone - 1e-12
    assert both.violation < 1e-12
