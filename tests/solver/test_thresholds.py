import numpy as np
import pytest
from benchmarks.problems import aware_scores

import evenhand as eh
from evenhand.solver.grouped import GroupedRows
from evenhand.solver.oracle import Problem
from evenhand.solver.thresholds import Steps


def test_steps_are_looked_up_by_group():
    steps = Steps(
        (np.array([0.2, 0.7]), np.array([]), np.array([0.5])),
        (np.array([0.0, 0.4, 1.0]), np.array([0.3]), np.array([1.0, 0.0])),
    )
    eta, codes = np.array([0.1, 0.5, 0.9, 0.9, 0.4, 0.6]), np.array([0, 0, 0, 1, 2, 2])
    assert steps.selection(eta, codes).tolist() == [0.0, 0.4, 1.0, 0.3, 1.0, 0.0]


def test_a_group_that_must_leave_its_curve_mixes_thresholds():
    """Both sums of the only group are fixed to a point inside: no single threshold attains it."""
    rng = np.random.default_rng(0)
    eta = rng.random(4000)
    scores = GroupedRows(eta, np.zeros(4000, int), 1, None)
    mixed = np.where(eta > 0.6, 0.7, 0.3)
    goal = np.array([((1 - eta) * mixed).mean(), (eta * mixed).mean()])
    problem = Problem(np.array([-0.5, 0.5]), np.eye(2), goal, goal)
    steps = scores.direct(problem).steps
    f = steps.selection(eta, np.zeros(4000, int))
    assert [((1 - eta) * f).mean(), (eta * f).mean()] == pytest.approx(goal, abs=1e-10)
    assert len(steps.edges[0]) >= 1


@pytest.mark.parametrize("weights", [None, np.tile([0.0, 1.0, 3.0, 0.0], 1000) / 4000])
def test_a_group_of_which_only_the_error_counts_needs_no_lottery(weights):
    """The error is fixed, above that of the best threshold: two others have it, and one of them is enough."""
    eta = np.random.default_rng(0).random(4000)
    scores = GroupedRows(eta, np.zeros(4000, int), 1, weights)
    w = np.full(4000, 1 / 4000) if weights is None else weights
    error, goal = np.array([[1.0, -1.0]]), np.array([0.35 - w @ eta])
    steps = scores.direct(Problem(np.array([-0.5, 0.5]), error, goal, goal)).steps
    f = steps.selection(eta, np.zeros(4000, int))
    assert w @ ((1 - eta) * f + eta * (1 - f)) == pytest.approx(0.35, abs=1e-12)
    assert np.count_nonzero((f > 0) & (f < 1)) <= 1
    new = np.linspace(0, 1, 10_001)
    chance = steps.selection(new, np.zeros(len(new), int))
    assert set(chance) == {0.0, 1.0}
    assert (np.diff(chance) >= 0).all()


def test_bounds_that_cannot_be_met_have_no_solution():
    scores = GroupedRows(np.random.default_rng(0).random(50), np.zeros(50, int), 1, None)
    problem = Problem(np.array([-0.5, 0.5]), np.eye(2), np.array([0.9, 0.9]), np.array([1.0, 1.0]))
    assert scores.direct(problem) is None


def test_bounds_that_the_first_thresholds_do_not_meet_are_met_by_others():
    """The error of the group may be no larger than that of the best threshold, which is not among them."""
    eta = np.random.default_rng(1).random(5000)
    scores = GroupedRows(eta, np.zeros(5000, int), 1, None)
    best = np.minimum(eta, 1 - eta).mean()
    error, missed = np.array([[1.0, -1.0]]), eta.mean()
    problem = Problem(np.array([0.3, 0.1]), error, np.array([-2.0]), np.array([best + 1e-5 - missed]))
    steps = scores.direct(problem).steps
    f = steps.selection(eta, np.zeros(5000, int))
    assert ((1 - eta) * f + eta * (1 - f)).mean() == pytest.approx(best, abs=1.1e-5)


@pytest.mark.parametrize("flipped", [False, True])
@pytest.mark.parametrize("seen", [[0.7, 0.9], [0.1, 0.3], [0.5, 0.7], [0.3, 0.5], [0.1, 0.5, 0.9]])
def test_scores_beyond_and_between_those_of_the_fit_are_decided_by_the_sign_of_h(seen, flipped):
    """Also where all rows of a group are on the same side, and where one is on the boundary."""
    v = np.array([0.5, -0.5]) if flipped else np.array([-0.5, 0.5])
    scores = GroupedRows(np.array(seen), np.zeros(len(seen), int), 1, None)
    steps = scores.direct(Problem(v, np.zeros((1, 2)), np.zeros(1), np.zeros(1))).steps
    new = np.array([0.0, 0.2, 0.45, 0.49, 0.51, 0.55, 0.8, 1.0])
    assert steps.selection(new, np.zeros(8, int)).tolist() == ((v[0] + (v[1] - v[0]) * new) > 0).tolist()


def test_scores_are_counted_again_while_the_multipliers_move():
    """Eighteen counts, where fewer would leave it to Newton and a program of seconds."""
    found = eh.solve(aware_scores(200_000, 4), eh.EqualizedOdds(difference=0.02))
    assert found.rule.steps is not None
    assert found.certificate.gap < 1e-9
