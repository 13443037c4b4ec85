import numpy as np
import pytest
from benchmarks.exact import FiniteProblem, GaussianProblem
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from evenhand.exceptions import InputError
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.spec import PosteriorSpec

FORMS = ["joint", "label_then_group"]


def examples(problem, n, seed=0, **more):
    drawn = problem.sample(n, seed=seed)
    return Examples(drawn.X, drawn.codes, drawn.y.astype(bool), len(problem.groups), **more)


@pytest.fixture(scope="module")
def finite():
    """Five feature values, so that a tree learns every posterior by counting."""
    return FiniteProblem.random(5, levels=(2, 2), concentration=1.0, seed=2)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_finds_the_posteriors(finite, form):
    rows = examples(finite, 40_000)
    model = PosteriorSpec(form, DecisionTreeClassifier(), DecisionTreeClassifier()).fit(rows)
    found = model.cells(np.arange(5.0)[:, None], None)
    assert found.shape == finite.posteriors.shape
    assert np.allclose(found.sum(axis=(1, 2)), 1)
    assert np.abs(found - finite.posteriors).max() < 0.03


def test_a_known_group_needs_the_label_model_alone(finite):
    rows = examples(finite, 5000)
    p = PosteriorSpec("known", DecisionTreeClassifier(), None).fit(rows).cells(np.arange(5.0)[:, None], None)
    assert p.shape == (5, 1, 2)
    assert np.abs(p[:, 0] - finite.posteriors.sum(axis=1)).max() < 0.06  # the tree sees no group here


@pytest.mark.parametrize("form", FORMS)
def test_a_cell_that_never_occurs_has_no_posterior(form):
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 3, 900)
    positive = (rng.random(900) < 0.4) & (codes != 1)  # group 1 has no positives
    rows = Examples(rng.normal(size=(900, 2)), codes, positive, 3)
    p = PosteriorSpec(form, LogisticRegression(), LogisticRegression()).fit(rows).cells(rows.X, None)
    assert np.isfinite(p).all()
    assert np.allclose(p.sum(axis=(1, 2)), 1)
    assert (p[:, 1, 1] == 0).all()


@pytest.mark.parametrize("form", FORMS)
def test_groups_that_are_not_possible_have_no_posterior(form):
    problem = GaussianProblem.random(levels=(2, 2), seed=0)
    drawn = problem.sample(3000)
    possible = np.array([[True, True, False, False], [False, False, True, True]])
    allowed = possible[drawn.codes // 2]
    rows = Examples(drawn.X, drawn.codes, drawn.y.astype(bool), 4, allowed)
    p = PosteriorSpec(form, LogisticRegression(), LogisticRegression()).fit(rows).cells(rows.X, allowed)
    assert (p[~allowed] == 0).all()
    assert np.allclose(p.sum(axis=(1, 2)), 1)


def test_posteriors_are_uniform_if_no_possible_group_has_any():
    rows = Examples(np.zeros((4, 1)), np.array([0, 0, 0, 0]), np.array([True, False, True, False]), 3)
    allowed = np.array([[False, True, True]] * 4)
    p = PosteriorSpec("label_then_group", DecisionTreeClassifier(), DecisionTreeClassifier()).fit(rows)
    assert np.allclose(p.cells(rows.X, allowed), [[0, 0], [0.25, 0.25], [0.25, 0.25]])


def test_a_cell_of_one_row_does_not_prevent_stratification():
    codes = np.repeat([0, 1, 2, 3], [900, 20, 80, 1])
    rows = Examples(np.zeros((1001, 1)), codes, np.arange(1001) % 2 == 0, 4)
    for seed in range(50):
        _, second = rows.split(0.3, seed)
        assert np.bincount(rows.cells[second], minlength=6)[:6].min() >= 2


def test_a_split_with_an_empty_side_is_refused():
    rows = Examples(np.zeros((10, 1)), np.zeros(10, int), np.arange(10) % 2 == 0, 1)
    with pytest.raises(InputError, match=r"a share of 0.999 of 10 rows leaves one part empty"):
        rows.split(0.999, 0)
