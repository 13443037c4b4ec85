import numpy as np
import pytest

import evenhand as eh
from evenhand.datasets import FiniteProblem, GaussianProblem
from evenhand.exceptions import InputError


def test_the_rule_reproduces_the_selection_with_ties():
    problem = FiniteProblem.random(12, levels=(2, 2), seed=3)
    drawn = problem.sample(4000, seed=1)
    posteriors = problem.posteriors[drawn.X[:, 0].astype(int)]
    found = eh.solve(posteriors, eh.EqualizedOdds(difference=0.01))
    assert np.array_equal(found.rule.selection(posteriors), found.selection)
    assert ((found.selection > 0) & (found.selection < 1)).any()


def test_rows_that_are_alike_get_the_same_probability():
    problem = FiniteProblem.random(10, levels=(3,), seed=0)
    atoms = problem.sample(3000, seed=2).X[:, 0].astype(int)
    found = eh.solve(problem.posteriors[atoms], eh.DemographicParity(difference=0.0))
    for atom in range(10):
        assert len(set(found.selection[atoms == atom])) <= 1


def test_the_rule_of_known_groups_is_a_step_function_of_the_score():
    problem = GaussianProblem.random(levels=(3,), seed=1)
    drawn = problem.sample(3000, seed=0)
    scores = eh.GroupedScores(problem.scores(drawn.X, drawn.codes), drawn.codes, 3)
    found = eh.solve(scores, eh.EqualizedOdds(difference=0.02))
    assert np.array_equal(found.rule.selection(scores), found.selection)
    assert all(len(edges) <= 4 for edges in found.rule.steps.edges)
    with pytest.raises(InputError, match="needs the group of each row"):
        found.rule.selection(problem.posteriors(drawn.X))


def test_decisions_are_the_sign_of_h_elsewhere():
    problem = GaussianProblem.random(levels=(2,), seed=1)
    posteriors = problem.posteriors(problem.sample(3000).X)
    found = eh.solve(posteriors, eh.DemographicParity(ratio=0.9))
    H = found.rule.decision(posteriors)
    assert (found.selection[found.rule.reach < H] == 1).all()
    assert (found.selection[-found.rule.reach > H] == 0).all()


def test_posteriors_about_other_groups_are_refused():
    with pytest.raises(InputError, match="posteriors of 1 groups"):
        eh.Rule(np.array([[-0.5, 0.5]])).decision(np.full((2, 2, 2), 0.25))


def test_scores_have_the_same_h_as_rows_written_out():
    rule = eh.Rule(np.array([[-0.5, 0.5], [-0.2, 0.7]]))
    scores = eh.GroupedScores(np.array([0.3, 0.6]), np.array([0, 1]), 2)
    written = np.array([[[0.7, 0.3], [0, 0]], [[0, 0], [0.4, 0.6]]])
    assert rule.decision(scores) == pytest.approx(rule.decision(written))


def test_lists_are_read_and_unknown_posteriors_refused():
    rule = eh.Rule(np.array([[-0.5, 0.5]]))
    assert rule.selection([[[0.3, 0.7]]]).tolist() == [1.0]
    with pytest.raises(InputError, match="NaN in 1 of 2 rows"):
        rule.selection(np.array([[[0.3, 0.7]], [[np.nan, 0.5]]]))


def test_scores_of_more_groups_than_the_rule_knows_are_refused():
    scores = eh.GroupedScores(np.array([0.3, 0.6]), np.array([0, 1]), 2)
    with pytest.raises(InputError, match="the rule is for posteriors of 1 groups"):
        eh.Rule(np.array([[-0.5, 0.5]])).decision(scores)
