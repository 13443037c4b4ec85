"""P(S | x, y) learned from rows that know some of their sensitive features."""

import numpy as np
import pytest
from benchmarks.exact import FiniteProblem
from sklearn.frozen import FrozenEstimator
from sklearn.tree import DecisionTreeClassifier

from evenhand.posteriors.calibration import fit_calibrator
from evenhand.posteriors.chain import FeatureChain
from evenhand.posteriors.crossfit import cross_fit
from evenhand.posteriors.examples import Examples, KnownFeatures
from evenhand.posteriors.models import LabelThenGroup, Restricted
from evenhand.posteriors.spec import PosteriorSpec

LEVELS = np.array([[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]])
TREE = DecisionTreeClassifier()
ATOMS = np.arange(5.0)[:, None]


@pytest.fixture(scope="module")
def problem():
    """Five feature values, two sensitive features that depend on each other and on the label."""
    return FiniteProblem.random(5, levels=(2, 3), concentration=1.0, seed=2)


def examples(drawn, hidden, levels=LEVELS):
    """Rows of which some lack some features; `hidden` is a boolean column per feature."""
    own = levels[drawn.codes]
    values = tuple(
        np.eye(levels[:, k].max() + 1)[own[:, k]] * ~hidden[:, [k]] for k in range(levels.shape[1])
    )
    codes = np.where(hidden.any(axis=1), -1, drawn.codes)
    known = KnownFeatures(levels, values)
    return Examples(drawn.X, codes, drawn.y.astype(bool), len(levels), known=known)


def hide(drawn, seed=1):
    """Hide the second feature by atom, label and the first feature."""
    rng = np.random.default_rng(seed)
    atom, first = drawn.X[:, 0].astype(int), LEVELS[drawn.codes, 0]
    chance = np.array([0.1, 0.5, 0.9, 0.3, 0.7])[atom] * np.where(drawn.y == 1, 1.0, 0.6)
    hidden = np.zeros((len(first), 2), bool)
    hidden[:, 1] = rng.random(len(first)) < chance * np.where(first == 1, 1.0, 0.4)
    return hidden


def test_posteriors_are_those_of_complete_rows(problem):
    """Hiding depends on features, label, and the feature before: all of that is allowed."""
    drawn = problem.sample(200_000, seed=0)
    hidden = hide(drawn)
    rows = examples(drawn, hidden)
    model = PosteriorSpec("label_then_group", TREE, TREE, levels=LEVELS, imputed=True).fit(rows)
    found = model.cells(ATOMS, None)
    assert np.abs(found - problem.posteriors).max() < 0.015

    complete = rows.take(np.flatnonzero(rows.codes >= 0))
    dropped = PosteriorSpec("label_then_group", TREE, TREE).fit(
        Examples(complete.X, complete.codes, complete.positive, 6)
    )
    assert np.abs(dropped.cells(ATOMS, None) - problem.posteriors).max() > 0.05


def test_rows_with_one_feature_teach_that_feature(problem):
    """No more than 50 rows have both features, 50,000 have the first: its shares are then exact."""
    drawn = problem.sample(50_000, seed=3)
    hidden = np.zeros((50_000, 2), bool)
    hidden[50:, 1] = True
    model = PosteriorSpec("label_then_group", TREE, TREE, levels=LEVELS, imputed=True).fit(
        examples(drawn, hidden)
    )
    found = model.cells(ATOMS, None)
    first = found.reshape(5, 2, 3, 2).sum(axis=2)
    assert np.abs(first - problem.posteriors.reshape(5, 2, 3, 2).sum(axis=2)).max() < 0.02


def test_calibration_corrects_each_feature_on_the_rows_that_know_it(problem):
    """Posteriors that are wrong in one direction become nearly right, although hiding is uneven."""
    drawn = problem.sample(100_000, seed=4)
    rows = examples(drawn, hide(drawn))
    true = problem.posteriors[drawn.X[:, 0].astype(int)]
    wrong = true ** np.array([0.5, 1.0])  # less sure about groups of one label
    wrong /= wrong.sum(axis=(1, 2), keepdims=True)
    flat = wrong.reshape(len(wrong), -1)
    curves = fit_calibrator(flat, rows)
    new = curves(flat)
    assert new.sum(axis=1) == pytest.approx(1)
    masses = true.mean(axis=0).reshape(-1)
    assert np.abs(new.mean(axis=0) - masses).max() < 0.2 * np.abs(flat.mean(axis=0) - masses).max()


def test_calibration_of_right_posteriors_changes_little(problem):
    drawn = problem.sample(40_000, seed=5)
    rows = examples(drawn, hide(drawn))
    flat = problem.posteriors[drawn.X[:, 0].astype(int)].reshape(40_000, -1)
    assert np.abs(fit_calibrator(flat, rows)(flat) - flat).max() < 0.02


def test_known_attributes_rule_out_groups_after_calibration(problem):
    drawn = problem.sample(5_000, seed=6)
    rows = examples(drawn, hide(drawn))
    allowed = LEVELS[:, 0] == LEVELS[drawn.codes, 0][:, None]
    rows = Examples(rows.X, rows.codes, rows.positive, 6, allowed, known=rows.known)
    spec = PosteriorSpec("label_then_group", TREE, TREE, levels=LEVELS, imputed=True)
    found = cross_fit(spec, rows, cv=3, calibration="auto")
    assert isinstance(found.model, Restricted)
    assert (found.cells[~allowed] == 0).all()
    assert found.cells.sum(axis=(1, 2)) == pytest.approx(1)
    blind = found.model.cells(drawn.X, None)
    seen = found.model.cells(drawn.X, allowed)
    kept = np.where(allowed[:, :, None], blind, 0.0)
    assert seen == pytest.approx(kept / kept.sum(axis=(1, 2), keepdims=True))


def test_probabilities_count_as_so_many_rows(problem):
    """A feature by probabilities gives the same shares as values drawn with them."""
    drawn = problem.sample(30_000, seed=7)
    chances = np.random.default_rng(0).dirichlet([1, 1, 1], size=5)[drawn.X[:, 0].astype(int)]
    known = KnownFeatures(LEVELS, (np.eye(2)[LEVELS[drawn.codes, 0]], chances))
    rows = Examples(drawn.X, np.full(30_000, -1), drawn.y.astype(bool), 6, known=known)
    model = PosteriorSpec("label_then_group", TREE, TREE, levels=LEVELS, imputed=True).fit(rows)
    found = model.cells(ATOMS, None).reshape(5, 2, 3, 2)
    shares = found.sum(axis=(1, 3))
    assert shares == pytest.approx(np.random.default_rng(0).dirichlet([1, 1, 1], size=5), abs=1e-6)


def test_a_branch_without_rows_is_learned_from_all_rows_that_have_the_feature():
    """No row with the first feature 1 knows the second: its shares are those of the others."""
    levels = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    first, second = np.array([0, 0, 0, 0, 1, 1]), np.array([0, 0, 0, 1, 0, 1])
    values = (np.eye(2)[first], np.eye(2)[second] * (first == 0)[:, None])
    rows = Examples(
        np.zeros((6, 1)), np.full(6, -1), np.ones(6, bool), 4, known=KnownFeatures(levels, values)
    )
    model = PosteriorSpec("label_then_group", TREE, TREE, levels=levels, imputed=True).fit(rows)
    p = model.cells(np.zeros((1, 1)), None)[0, :, 1]
    assert p == pytest.approx([4 / 6 * 0.75, 4 / 6 * 0.25, 2 / 6 * 0.75, 2 / 6 * 0.25])


def test_values_that_nothing_is_known_of_get_even_shares():
    levels = np.array([[0], [1], [2]])
    rows = Examples(
        np.zeros((2, 1)),
        np.full(2, -1),
        np.array([True, False]),
        3,
        known=KnownFeatures(levels, (np.zeros((2, 3)),)),
    )
    model = PosteriorSpec("label_then_group", TREE, TREE, levels=levels, imputed=True).fit(rows)
    assert model.cells(np.zeros((1, 1)), None).sum(axis=2) == pytest.approx(1 / 3)


def test_a_combination_that_does_not_occur_has_no_model_and_no_share(problem):
    levels = np.array(
        [[0, 0], [1, 0], [1, 1]]
    )  # the first value of the first feature has only one of the second
    drawn = problem.sample(1_000, seed=8)
    codes = drawn.codes % 3
    own = levels[codes]
    known = KnownFeatures(levels, tuple(np.eye(2)[own[:, k]] for k in range(2)))
    rows = Examples(drawn.X, codes, drawn.y.astype(bool), 3, known=known)
    model = PosteriorSpec("label_then_group", TREE, TREE, levels=levels, imputed=True).fit(rows)
    assert isinstance(model, LabelThenGroup)
    assert isinstance(model.groups[0], FeatureChain)
    assert model.cells(ATOMS, None).sum(axis=(1, 2)) == pytest.approx(1)
    shares = np.bincount(codes, minlength=3) / 1_000
    by_atom = np.bincount(drawn.X[:, 0].astype(int), minlength=5) / 1_000
    assert by_atom @ model.cells(ATOMS, None).sum(axis=2) == pytest.approx(shares, abs=0.01)


def test_a_frozen_group_model_is_taken_as_it_is(problem):
    drawn = problem.sample(3_000, seed=10)
    frozen = FrozenEstimator(DecisionTreeClassifier().fit(drawn.X, drawn.codes))
    spec = PosteriorSpec("label_then_group", TREE, frozen, levels=LEVELS, imputed=True)
    found = spec.fit(examples(drawn, hide(drawn))).cells(ATOMS, None)
    assert found.sum(axis=2) == pytest.approx(frozen.predict_proba(ATOMS))


def test_rows_of_weight_zero_teach_nothing(problem):
    drawn = problem.sample(4_000, seed=11)
    rows = examples(drawn, hide(drawn))
    weights = (np.arange(4_000) < 2_000).astype(float)
    weighted = Examples(rows.X, rows.codes, rows.positive, 6, weights=weights, known=rows.known)
    spec = PosteriorSpec("label_then_group", TREE, TREE, levels=LEVELS, imputed=True)
    half = rows.take(np.arange(2_000))
    assert spec.fit(weighted).cells(ATOMS, None) == pytest.approx(spec.fit(half).cells(ATOMS, None))
