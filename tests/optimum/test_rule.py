import json

import numpy as np
import pytest
from benchmarks.exact import FiniteProblem, GaussianProblem

import evenhand as eh
from evenhand.exceptions import InputError
from evenhand.optimum.rule import Rule, hashed_uniforms


def test_the_rule_reproduces_the_selection_with_ties():
    problem = FiniteProblem.random(12, levels=(2, 2), seed=3)
    drawn = problem.sample(4000, seed=1)
    posteriors = problem.posteriors[drawn.X[:, 0].astype(int)]
    found = eh.solve(posteriors, eh.EqualizedOdds(difference=0.01))
    assert np.array_equal(found.rule.selection(posteriors), found.selection)
    assert ((found.selection > 0) & (found.selection < 1)).any()


def test_equal_rows_get_the_same_probability():
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


def test_off_the_boundary_the_sign_of_h_decides():
    problem = GaussianProblem.random(levels=(2,), seed=1)
    posteriors = problem.posteriors(problem.sample(3000).X)
    found = eh.solve(posteriors, eh.DemographicParity(ratio=0.9))
    H = found.rule.decision(posteriors)
    assert (found.selection[found.rule.reach < H] == 1).all()
    assert (found.selection[-found.rule.reach > H] == 0).all()


def test_posteriors_of_other_groups_are_refused():
    with pytest.raises(InputError, match="for 1 groups, but the posteriors have 2"):
        Rule(np.array([[-0.5, 0.5]])).decision(np.full((2, 2, 2), 0.25))


def test_scores_have_the_same_h_as_dense_posteriors():
    rule = Rule(np.array([[-0.5, 0.5], [-0.2, 0.7]]))
    scores = eh.GroupedScores(np.array([0.3, 0.6]), np.array([0, 1]), 2)
    dense = np.array([[[0.7, 0.3], [0, 0]], [[0, 0], [0.4, 0.6]]])
    assert rule.decision(scores) == pytest.approx(rule.decision(dense))


def test_lists_are_read_and_nan_refused():
    rule = Rule(np.array([[-0.5, 0.5]]))
    assert rule.selection([[[0.3, 0.7]]]).tolist() == [1.0]
    with pytest.raises(InputError, match="NaN in 1 of 2 rows"):
        rule.selection(np.array([[[0.3, 0.7]], [[np.nan, 0.5]]]))


def test_scores_of_more_groups_than_the_rule_knows_are_refused():
    scores = eh.GroupedScores(np.array([0.3, 0.6]), np.array([0, 1]), 2)
    with pytest.raises(InputError, match="the rule is for 1 groups, but the posteriors have 2"):
        Rule(np.array([[-0.5, 0.5]])).decision(scores)


@pytest.fixture
def tied():
    """A randomised solution."""
    problem = FiniteProblem.random(12, levels=(2, 2), seed=3)
    posteriors = problem.posteriors[problem.sample(4000, seed=1).X[:, 0].astype(int)]
    return eh.solve(posteriors, eh.EqualizedOdds(difference=0.01)), posteriors


def test_a_rule_comes_back_from_text_exactly(tied):
    found, posteriors = tied
    again = Rule.from_json(found.rule.with_key("k").to_json())
    assert again.key == "k"
    assert np.array_equal(again.table, found.rule.table)
    assert np.array_equal(again.selection(posteriors), found.selection)
    assert again.to_json() == found.rule.with_key("k").to_json()


def test_a_rule_of_steps_comes_back_too():
    scores = eh.GroupedScores(np.linspace(0, 1, 100), np.arange(100) % 3, 3)
    rule = eh.solve(scores, eh.EqualizedOdds(difference=0.1)).rule
    assert np.array_equal(Rule.from_json(rule.to_json()).selection(scores), rule.selection(scores))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(format="other"), "its format is 'other'"),
        (lambda c: c.update(version=2), "has version 2; only version 1 can be read"),
        (lambda c: c.pop("table"), "not a rule: KeyError: 'table'"),
        (lambda c: c.update(table=[[1.0, 2.0, 3.0]]), r"numbers have shape \(1, 3\), not \(None, 2\)"),
        (lambda c: c.update(table="x"), "not a rule"),
        (lambda c: c.update(atoms=[[[0.5, 0.5]] * 4], chances=[1.5]), r"outside \[0, 1\]"),
        (lambda c: c.update(chances=[0.5] * 99), "numbers have shape"),
        (lambda c: c.update(unit=float("inf")), "it holds Infinity"),
        (lambda c: c.update(steps={"edges": [[]], "chances": [[0.0]]}), "steps for 1 groups, not 4"),
        (
            lambda c: c.update(steps={"edges": [[0.5, 0.5]] * 4, "chances": [[0, 0, 1]] * 4}),
            "do not increase",
        ),
    ],
)
def test_text_that_is_not_a_rule_is_refused(tied, change, message):
    content = json.loads(tied[0].rule.to_json())
    change(content)
    with pytest.raises(InputError, match=message):
        Rule.from_json(json.dumps(content))


def test_text_that_is_not_json_is_refused():
    with pytest.raises(InputError, match="not a rule: JSONDecodeError"):
        Rule.from_json("{")


def test_a_rule_cannot_be_changed(tied):
    with pytest.raises(ValueError, match="read-only"):
        tied[0].rule.table[0, 0] = 1.0


def test_hashed_uniforms_depend_on_person_and_key_and_are_uniform():
    tokens = [str(k).encode() for k in range(20_000)]
    drawn = hashed_uniforms(tokens, "a")
    assert np.array_equal(drawn, hashed_uniforms(tokens, "a"))
    assert np.array_equal(drawn[::-1], hashed_uniforms(tokens[::-1], "a"))
    assert abs(np.corrcoef(drawn, hashed_uniforms(tokens, "b"))[0, 1]) < 0.03
    assert np.abs(np.histogram(drawn, 10, (0, 1))[0] / 20_000 - 0.1).max() < 0.01


def test_hashed_uniforms_do_not_change_with_version_or_machine():
    assert hashed_uniforms([b"person"], "key").tolist() == [0.876823660685298]


def test_randomised_decisions_have_the_probabilities_of_the_selection(tied):
    found, posteriors = tied
    rule = found.rule.with_key("k")
    decided = rule.decide(posteriors, lambda rows: [b"%d" % row for row in rows])
    sure = (found.selection == 0) | (found.selection == 1)
    assert np.array_equal(decided[sure], found.selection[sure] == 1)
    assert decided[~sure].mean() == pytest.approx(found.selection[~sure].mean(), abs=0.05)
