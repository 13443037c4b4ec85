"""Forms of the posteriors, and what each of them fits."""

import numpy as np
import polars as pl
import pytest
from benchmarks.exact import FiniteProblem
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from tests.flat import build

import evenhand as eh
from evenhand.optimum.problem import label_and_group_suffice
from evenhand.posteriors.crossfit import GROUP_FOLDS, cross_fit
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.models import GroupByFeature, Product
from evenhand.posteriors.spec import PosteriorSpec

LEVELS = np.array([[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]])
TREE = DecisionTreeClassifier()


@pytest.fixture(scope="module")
def problem():
    """Five feature values, two sensitive features that depend on each other and on the label."""
    return FiniteProblem.random(5, levels=(2, 3), concentration=1.0, seed=2)


@pytest.fixture(scope="module")
def rows(problem):
    drawn = problem.sample(60_000, seed=0)
    return Examples(drawn.X, drawn.codes, drawn.y.astype(bool), 6)


@pytest.mark.parametrize("n", [5, 5_000], ids=["few rows", "many rows"])
@pytest.mark.parametrize("levels", [None, LEVELS], ids=["as one feature", "one after the other"])
def test_groups_and_labels_are_each_right_where_they_are_learned_separately(problem, rows, levels, n):
    model = PosteriorSpec("separate", TREE, TREE, levels=levels).fit(rows)
    found = model.cells(np.arange(n)[:, None] % 5.0, None)[:5]
    assert np.abs(found.sum(axis=2) - problem.posteriors.sum(axis=2)).max() < 0.02
    assert np.abs(found.sum(axis=1) - problem.posteriors.sum(axis=1)).max() < 0.02


def test_a_feature_is_learned_given_those_before_it(problem, rows):
    """The product of the features by themselves would be another distribution."""
    groups = problem.posteriors.sum(axis=2).reshape(5, 2, 3)
    apart = groups.sum(axis=2)[:, :, None] * groups.sum(axis=1)[:, None, :]
    assert np.abs(apart - groups).max() > 0.05
    model = PosteriorSpec("group", None, TREE, levels=LEVELS).fit(rows)
    assert isinstance(model, GroupByFeature)
    assert [learner.n_classes for learner in model.features] == [2, 3]
    assert np.abs(model.cells(np.arange(5.0)[:, None], None)[:, :, 0].reshape(5, 2, 3) - groups).max() < 0.02


@pytest.mark.parametrize("as_table", [False, True], ids=["matrix", "table"])
def test_known_values_leave_the_other_groups_no_probability(rows, as_table):
    X = pl.DataFrame({"x": rows.X[:, 0]}) if as_table else rows.X
    some = Examples(X, rows.codes, rows.positive, 6)
    allowed = np.tile([True, False, False], 2)[None].repeat(len(X), axis=0)
    p = PosteriorSpec("separate", TREE, TREE, levels=LEVELS).fit(some).cells(X, allowed)
    assert (p[~allowed] == 0).all()
    assert np.allclose(p.sum(axis=(1, 2)), 1)


def test_a_cell_without_examples_has_no_posterior(rows):
    kept = np.flatnonzero((rows.codes != 4) | rows.positive)
    p = PosteriorSpec("separate", TREE, TREE, levels=LEVELS).fit(rows.take(kept)).cells(rows.X[:9], None)
    assert (p[:, 4, 0] == 0).all()
    assert (p[:, 4, 1] > 0).all()
    assert np.allclose(p.sum(axis=(1, 2)), 1)


def test_the_groups_need_fewer_folds_than_the_label(rows):
    few = rows.take(np.arange(600))
    separate = PosteriorSpec("separate", TREE, TREE, levels=LEVELS)
    for cv, folds in ((5, GROUP_FOLDS), (2, 2)):
        model = cross_fit(separate, few, cv=cv, average=True).model
        assert (len(model.label.models), len(model.group.models)) == (cv, folds)
    given_label = PosteriorSpec("label_then_group", TREE, TREE)
    assert len(cross_fit(given_label, few, cv=5, average=True).model.models) == 5


def test_a_frozen_factor_is_not_fitted(rows):
    few = rows.take(np.arange(600))
    frozen = FrozenEstimator(LogisticRegression().fit(few.X, few.positive))
    found = cross_fit(PosteriorSpec("separate", frozen, TREE, levels=LEVELS), few, average=True)
    assert len(found.model.group.models) == GROUP_FOLDS
    own = frozen.predict_proba(few.X)
    assert np.allclose(found.cells.sum(axis=1), own)
    assert np.allclose(found.model.cells(few.X, None).sum(axis=1), own)


def test_splits_are_used_for_both_factors(rows):
    """An iterator of splits can be read only once, and may leave out rows."""
    few = rows.take(np.arange(600))
    splits = iter([(np.arange(300, 600), np.arange(200)), (np.arange(300), np.arange(300, 500))])
    separate = PosteriorSpec("separate", TREE, TREE, levels=LEVELS)
    found = cross_fit(separate, few, cv=splits, average=True)
    assert found.rows.tolist() == [*range(200), *range(300, 500)]
    assert len(found.model.label.models) == len(found.model.group.models) == 2


LOANS = FiniteProblem.random(6, levels=(2, 2), concentration=1.0, seed=5).sample(900, seed=1)


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConstantClassifierWarning")
@pytest.mark.parametrize(
    ("settings", "chosen"),
    [
        ({}, "separate"),
        ({"constraint": eh.DemographicParity(ratio=0.8)}, "separate"),
        ({"constraint": eh.DemographicParity(difference=0.1, groups="independent")}, "separate"),
        ({"cost": 0.3}, "separate"),
        ({"aware": ["A1"]}, "label_then_group"),
        ({"cost": [[0.5, 0.5], [0.5, 0.5], [0.2, 0.8], [0.5, 0.5]]}, "label_then_group"),
        ({"constraint": eh.EqualOpportunity(difference=0.1)}, "label_then_group"),
        ({"constraint": eh.EqualizedOdds(difference=0.2)}, "label_then_group"),
        ({"constraint": eh.AccuracyParity(difference=0.2)}, "label_then_group"),
        (
            {"constraint": eh.DemographicParity(difference=0.2) & eh.PredictiveEquality(difference=0.2)},
            "label_then_group",
        ),
    ],
    ids=str,
)
def test_the_form_is_chosen_by_what_requirement_and_costs_depend_on(settings, chosen):
    def found(posterior, estimator=None):
        given = {"constraint": eh.DemographicParity(difference=0.1), "calibration": None} | settings
        fair = build(eh.FairPostprocessor, estimator, posterior=posterior, cv=2, **given)
        fair.fit(LOANS.X, LOANS.y, sensitive_features=LOANS.sensitive)
        seen = fair.access_.read(fair, LOANS.X, {"A1": LOANS.sensitive["A1"]} if "aware" in given else None)
        return fair.posterior_model_.cells(seen.X, fair.access_.allowed(fair.groups_, seen.known))

    auto = found("auto")
    assert np.array_equal(auto, found(chosen))
    assert not np.allclose(auto, found({"separate", "label_then_group"}.difference({chosen}).pop()))
    assert np.array_equal(found("auto", TREE), found("label_then_group", TREE))  # only our trees are separate


def test_a_group_without_a_label_ties_label_and_group_together():
    rng = np.random.default_rng(0)
    x, sex = rng.normal(size=3000), rng.choice(["F", "M"], 3000)
    y = ((x + 0.5 * rng.normal(size=3000) > 0) & (sex == "M")).astype(int)
    fair = eh.FairPostprocessor(
        constraint=eh.DemographicParity(difference=0.02), posteriors=eh.CrossFit(2, calibration=None)
    )
    fair.fit(x[:, None], y, sensitive_features=sex)
    assert fair.predict_label_proba(x[:, None]).mean() == pytest.approx(y.mean(), abs=0.02)


def test_empty_cells_and_costs_by_group_need_the_cells():
    groups = eh.Groups.product({"sex": ["F", "M"]})
    parity, halves = eh.DemographicParity(difference=0.1), np.full((2, 2), 0.25)
    assert label_and_group_suffice(parity, 0.5, halves, groups)
    assert not label_and_group_suffice(parity, [[0.5, 0.5], [0.4, 0.6]], halves, groups)
    for notion in (parity, eh.AccuracyParity(difference=0.1), eh.EqualOpportunity(difference=0.1)):
        assert not label_and_group_suffice(notion, 0.5, np.array([[0, 0.5], [0.5, 0]]), groups)


def test_what_is_known_restricts_groups_that_were_learned_without_it():
    """A frozen model sees no column of the known feature; the groups given it are still right."""
    rng = np.random.default_rng(0)
    race = rng.choice(["a", "b"], 4000)
    sex = np.where(rng.random(4000) < np.where(race == "a", 0.9, 0.1), "F", "M")
    X = rng.normal(size=(4000, 1))
    y = (X[:, 0] + rng.normal(size=4000) > 0).astype(int)
    frozen = FrozenEstimator(LogisticRegression().fit(X[:2000], y[:2000]))
    parity = eh.DemographicParity(difference=0.1)
    fair = eh.FairPostprocessor(
        frozen, parity, aware=["race"], posteriors=eh.CrossFit(form="separate", calibration=None)
    )
    sensitive = {"race": race[2000:], "sex": sex[2000:]}
    fair.fit(X[2000:], y[2000:], sensitive_features=sensitive)
    seen = fair.access_.read(fair, X[2000:], {"race": race[2000:]})
    groups = fair.posterior_model_.cells(seen.X, fair.access_.allowed(fair.groups_, seen.known)).sum(axis=2)
    assert groups[race[2000:] == "a"].mean(axis=0) == pytest.approx([0.9, 0.1, 0, 0], abs=0.03)


def test_settings_of_trees_hold_for_the_groups_too():
    own = eh.TabularClassifier(max_iter=7)
    parity = eh.DemographicParity(difference=0.1)
    assert eh.FairPostprocessor(own, parity).settings().learners == (own, own)
    assert eh.FairPostprocessor(None, parity).settings().learners[1].learning_rate == 0.2


@pytest.mark.parametrize(
    ("learner", "requirement", "ours"),
    [
        (RandomForestClassifier(5, random_state=0), eh.DemographicParity(difference=0.1), True),
        (make_pipeline(StandardScaler(), RandomForestClassifier(5)), eh.DemographicParity(ratio=0.8), True),
        (RandomForestClassifier(5, random_state=0), eh.EqualOpportunity(difference=0.1), False),
        (LogisticRegression(), eh.DemographicParity(difference=0.1), False),
    ],
    ids=["forest", "pipeline", "rates by label", "linear"],
)
def test_groups_of_tree_ensembles_are_learned_by_our_trees_where_the_label_tells_nothing_more(
    learner, requirement, ours
):
    rng = np.random.default_rng(0)
    X, sex = rng.normal(size=(400, 2)), rng.choice(["F", "M"], 400)
    y = (X[:, 0] + rng.normal(size=400) > 0).astype(int)
    fair = eh.FairPostprocessor(learner, requirement, posteriors=eh.CrossFit(2))
    fair.fit(X, y, sensitive_features={"sex": sex})
    found = fair.posterior_model_.model
    assert isinstance(found, Product) == ours
    together = fair.predict_proba(X)
    single = np.vstack([fair.predict_proba(X[k : k + 1]) for k in range(20)])
    np.testing.assert_array_equal(single, together[:20])
