"""The nearest deterministic rule, against all others."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import evenhand as eh
from evenhand.optimum import rounding
from evenhand.optimum.problem import FairnessProblem
from evenhand.optimum.rule import Rule
from evenhand.solver.thresholds import Steps

RNG = np.random.default_rng(0)
FEW = RNG.dirichlet(np.full(6, 0.7), size=7).reshape(-1, 3, 2)  # posteriors that many rows share
ROWS = FEW[RNG.integers(0, 7, 400)]
PARITY, ODDS = eh.DemographicParity(difference=0.02), eh.EqualizedOdds(difference=0.05)


def solved(rows, constraint):
    problem = FairnessProblem.read(rows, constraint)
    return problem, problem.solve()


def attained(problem, solution, rule):
    certificate = problem.shipped(solution, rule).certificate
    return round(certificate.shipped_violation, 9), round(certificate.shipped_objective, 9)


@pytest.mark.parametrize("constraint", [PARITY, ODDS], ids=["parity", "odds"])
@pytest.mark.parametrize("most", [256, 4, 1], ids=["all choices", "two together", "one after the other"])
def test_no_choice_has_a_smaller_violation(constraint, most, monkeypatch):
    """Where not all are tried, none that differs in a single tie."""
    monkeypatch.setattr(rounding, "_MOST", most)
    problem, solution = solved(ROWS, constraint)
    rule = solution.rule
    ties = np.flatnonzero((rule.chances > 0) & (rule.chances < 1))
    assert len(ties) > 0
    found = problem.deterministic(rule)
    others, own = [], found.chances[ties]
    for bits in itertools.product((0.0, 1.0), repeat=len(ties)):
        chances = np.array(rule.chances)
        chances[ties] = bits
        if most == 256 or np.count_nonzero(bits != own) <= 1:
            others.append(attained(problem, solution, replace(rule, chances=chances)))
    assert attained(problem, solution, found) == min(others)
    assert not found.randomises


def test_a_range_of_scores_is_cut_where_the_violation_is_smallest():
    eta, codes = RNG.beta(2, 2, 4000), RNG.integers(0, 3, 4000)
    scores = eh.GroupedScores(np.where(codes == 0, eta**2, eta), codes, 3)
    problem, solution = solved(scores, eh.EqualizedOdds(difference=0.0))
    assert solution.rule.randomises
    found = problem.deterministic(solution.rule)
    assert all(len(edges) <= 1 for edges in found.steps.edges)  # one threshold in each group
    assert all((np.diff(chances) > 0).all() for chances in found.steps.chances)
    cut = attained(problem, solution, found)
    for value in (0.0, 1.0):  # without cuts, ranges would be decided as a whole
        whole = [np.where((c > 0) & (c < 1), value, c) for c in solution.rule.steps.chances]
        other = replace(solution.rule, steps=Steps(solution.rule.steps.edges, tuple(whole)))
        assert cut < attained(problem, solution, other)


def test_a_range_that_falls_is_cut_the_other_way():
    """Selected below a score, as where a group's weights are reversed."""
    steps = Steps((np.array([0.3, 0.6]), np.array([0.5])), (np.array([1.0, 0.5, 0.0]), np.array([0.0, 1.0])))
    rule = Rule(np.array([[0.1, -0.2], [-0.5, 0.5]]), steps=steps)
    scores = eh.GroupedScores(RNG.random(500), RNG.integers(0, 2, 500), 2)
    problem, _ = solved(scores, PARITY)
    found = problem.deterministic(rule)
    [edge], levels = found.steps.edges[0], found.steps.chances[0]
    assert 0.3 <= edge <= 0.6
    assert levels.tolist() == [1.0, 0.0]
    assert found.steps.edges[1].tolist() == [0.5]


def test_a_lot_for_everybody_becomes_a_threshold_or_one_answer():
    steps = Steps((np.empty(0), np.array([0.5])), (np.array([0.5]), np.array([0.0, 1.0])))
    rule = Rule(np.zeros((2, 2)), steps=steps)
    scores = eh.GroupedScores(RNG.random(800), RNG.integers(0, 2, 800), 2)
    problem, solution = solved(scores, eh.DemographicParity(difference=0.03))
    found = problem.deterministic(rule)
    assert not found.randomises
    assert attained(problem, solution, found)[0] < 0.02


def test_ties_that_no_row_has_are_rounded_and_a_rule_without_ties_stays():
    problem, solution = solved(ROWS, PARITY)
    nowhere = np.full((1, 3, 2), 1 / 6)
    for chance in (0.2, 0.8):
        rule = replace(
            solution.rule,
            atoms=np.concatenate([solution.rule.atoms, nowhere]),
            chances=np.append(solution.rule.chances, chance),
        )
        assert problem.deterministic(rule).chances[-1] == round(chance)
    plain = Rule(np.array([[-0.5, 0.5]] * 3))
    assert problem.deterministic(plain) is plain
