import numpy as np
import pytest

import evenhand as eh
from evenhand.optimum.atoms import FurtherRows, randomise_atoms
from evenhand.optimum.rule import Rule
from evenhand.posteriors.posteriors import DensePosteriors
from evenhand.solver.thresholds import Steps

TABLE = np.array([[-0.5, 0.5]])


def copies(eta, times):
    return np.repeat([[[1 - eta, eta]]], times, axis=0)


def test_an_atom_is_selected_in_the_share_of_its_rows():
    rows = np.concatenate([copies(0.6, 40), copies(0.3, 40), copies(0.9, 40)])
    selection = np.concatenate([np.arange(40) < 30, np.zeros(40), np.ones(40)]).astype(float)
    rule = randomise_atoms(Rule(TABLE), DensePosteriors(rows), selection, None)
    assert rule.selection(rows[[0, 40, 80]]).tolist() == [0.75, 0.0, 1.0]
    assert Rule.from_json(rule.to_json()).selection(rows[[0]]).tolist() == [0.75]


def test_weights_count_in_the_share():
    rows, selection = copies(0.6, 40), (np.arange(40) < 30).astype(float)
    weights = np.where(np.arange(40) < 30, 1.0, 3.0)
    assert randomise_atoms(Rule(TABLE), DensePosteriors(rows), selection, weights).selection(
        rows[[0]]
    ).tolist() == [0.5]


def test_a_few_rows_that_differ_change_nothing():
    rows, selection = copies(0.6, 40), (np.arange(40) > 3).astype(float)
    rule = Rule(TABLE)
    randomised = randomise_atoms(rule, DensePosteriors(rows), selection, None)
    assert (randomised.atoms, randomised.steps, randomised.ties) == (None, None, None)
    np.testing.assert_array_equal(randomised.selection(rows), rule.selection(rows))


@pytest.mark.parametrize("edges", [[0.5], [0.2, 0.6], [], [0.6], [np.nextafter(0.6, 0)]])
def test_an_atom_is_cut_out_of_a_step_function(edges):
    steps = Steps((np.array(edges),), (np.linspace(0, 1, len(edges) + 1),))
    rule = Rule(TABLE, steps=steps)
    near = [0.1, 0.59, 0.61, 0.9]
    scores = eh.GroupedScores(np.array([0.6] * 40 + near), np.zeros(44, int), 1)
    selection = np.append(np.arange(40) < 10, rule.selection(scores)[40:]).astype(float)
    randomised = randomise_atoms(rule, scores, selection, None)
    assert randomised.selection(scores)[0] == 0.25
    assert np.array_equal(randomised.selection(scores)[40:], rule.selection(scores)[40:])


def test_many_atoms_are_looked_up_too():
    eta = np.repeat(np.linspace(0.1, 0.9, 30), 60)
    scores = eh.GroupedScores(eta, np.zeros(1800, int), 1)
    steps = Steps((np.array([0.5]),), (np.array([0.0, 1.0]),))
    selection = np.tile(np.arange(60) < 15, 30).astype(float)
    randomised = randomise_atoms(Rule(TABLE, steps=steps), scores, selection, None)
    assert np.allclose(randomised.selection(scores), 0.25)


def further(count, weight):
    return FurtherRows(count, lambda atoms: np.full(len(atoms), float(weight)))


def test_further_rows_at_an_atom_are_decided_as_the_rule_decides():
    rows, selection = copies(0.6, 40), (np.arange(40) < 30).astype(float)
    rule = randomise_atoms(Rule(TABLE), DensePosteriors(rows), selection, None, further=further(60, 60))
    assert rule.selection(rows[[0]]).tolist() == [pytest.approx((30 + 60) / 100)]


def test_further_rows_count_for_what_is_few():
    """Of 100,000 rows, 40 decided otherwise change less than one in a thousand."""
    rows, selection = copies(0.6, 40), np.zeros(40)
    rule = randomise_atoms(Rule(TABLE), DensePosteriors(rows), selection, None, further=further(100_000, 500))
    assert rule.selection(rows[[0]]).tolist() == [1.0]


def test_further_rows_count_where_groups_are_known():
    steps = Steps((np.array([0.5]),), (np.array([0.0, 1.0]),))
    scores = eh.GroupedScores(np.full(40, 0.6), np.zeros(40, int), 1)
    selection = (np.arange(40) < 10).astype(float)
    rule = randomise_atoms(Rule(TABLE, steps=steps), scores, selection, None, further=further(60, 60))
    assert rule.selection(scores)[0] == pytest.approx((10 + 60) / 100)
