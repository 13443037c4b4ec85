import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import evenhand as eh
from evenhand.datasets import FiniteProblem, GaussianProblem
from evenhand.estimators.search import PlugIn, best_trial, read_search
from evenhand.exceptions import InputError, ToleranceWarning
from evenhand.optimum.problem import FairnessProblem

PROBLEM = GaussianProblem.random(levels=(3,), seed=2)
DRAWN = PROBLEM.sample(3000, seed=0)
DENSE = PROBLEM.posteriors(DRAWN.X)
KNOWN = eh.GroupedScores(PROBLEM.scores(DRAWN.X, DRAWN.codes), DRAWN.codes, 3)
CONSTRAINTS = [eh.DemographicParity(difference=0.05), eh.EqualOpportunity(ratio=0.8)]


def watched(steps, total):
    return steps


@pytest.mark.parametrize("rows", [DENSE, KNOWN], ids=["blind", "aware"])
@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
def test_a_trial_has_the_risk_and_values_of_the_rule(rows, constraint):
    asked = FairnessProblem.read(rows, constraint, cost=(2.0, 3.0))
    points = np.random.default_rng(0).normal(size=(5, len(asked.linear_constraints)))
    for point, trial in zip(points, PlugIn(asked, n_jobs=2).many(points), strict=True):
        found = asked.at(point)
        assert trial.risk == pytest.approx(found.certificate.objective)
        assert trial.violation == pytest.approx(found.certificate.violation, abs=1e-12)
        assert trial.values == pytest.approx(found.linear_constraints.values(found.rates.rates))


@pytest.mark.parametrize("rows", [DENSE, KNOWN], ids=["blind", "aware"])
@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
def test_neither_grid_nor_ascent_beats_the_exact_optimum(rows, constraint):
    exact = eh.solve(rows, constraint).certificate
    asked = FairnessProblem.read(rows, constraint)
    for search in (eh.GridSearch(step=0.1), eh.DualAscent(max_iter=200)):
        best = best_trial(search.run(PlugIn(asked), watch=watched))
        assert best.violation <= 1e-9
        assert best.risk >= exact.objective - 1e-9
        assert best.risk <= exact.objective + 0.03
        assert asked.at(best.multipliers).certificate.bound <= exact.objective + 1e-9


def test_the_ascent_approaches_the_dual_bound():
    exact = eh.solve(DENSE, CONSTRAINTS[0]).certificate
    asked = FairnessProblem.read(DENSE, CONSTRAINTS[0])
    trials = eh.DualAscent(max_iter=300, patience=300).run(PlugIn(asked), watch=watched)
    bounds = [asked.at(trial.multipliers).certificate.bound for trial in (trials[0], trials[-1])]
    assert bounds[0] < bounds[1] <= exact.objective + 1e-9
    assert exact.objective - bounds[1] < 1e-3


def test_the_ascent_stops_when_nothing_moves():
    easy = FairnessProblem.read(DENSE, eh.DemographicParity(difference=0.9))
    assert len(eh.DualAscent(patience=5).run(PlugIn(easy), watch=watched)) == 5


def test_multipliers_stay_within_the_radius():
    asked = FairnessProblem.read(DENSE, eh.DemographicParity(difference=0.0))
    trials = eh.DualAscent(rate=50.0, radius=0.2, max_iter=10).run(PlugIn(asked), watch=watched)
    assert max(np.abs(trial.multipliers).max() for trial in trials) == pytest.approx(0.2)


def test_a_grid_that_is_too_large_is_refused_with_its_size():
    asked = FairnessProblem.read(DENSE, CONSTRAINTS[0])
    with pytest.raises(InputError, match="201 values for each of 3 multipliers has 8,120,601 points"):
        eh.GridSearch(step=0.01).run(PlugIn(asked), watch=watched)


def test_the_trial_of_smallest_violation_is_kept_if_none_satisfies_the_requirement():
    plug_in = PlugIn(FairnessProblem.read(DENSE, eh.DemographicParity(difference=0.0)))
    [kept] = eh.GridSearch(step=0.5).run(plug_in, watch=watched)
    axis = eh.GridSearch(step=0.5).axis()
    every = plug_in.many(np.stack(np.meshgrid(axis, axis, axis), -1).reshape(-1, 3))
    assert kept.violation == min(trial.violation for trial in every) > 1e-6


@pytest.mark.parametrize(
    ("search", "message"),
    [("best", "should be 'exact', 'dual', 'grid'"), (3, "but is 3")],
)
def test_an_unknown_search_is_refused(search, message):
    with pytest.raises(InputError, match=message):
        read_search(search)


@pytest.mark.parametrize(
    "search", [eh.GridSearch(step=0), eh.GridSearch(box=-1), eh.DualAscent(rate=0), eh.DualAscent(radius="x")]
)
def test_parameters_of_a_search_are_checked(search):
    with pytest.raises(InputError, match="should be a positive number"):
        search.run(PlugIn(FairnessProblem.read(DENSE, CONSTRAINTS[0])), watch=watched)


@pytest.mark.parametrize("aware", [False, True], ids=["blind", "aware"])
@pytest.mark.parametrize("search", ["dual", "grid", eh.GridSearch(step=0.25)], ids=str)
def test_a_postprocessor_can_use_the_searches(search, aware):
    constraint = eh.DemographicParity(difference=0.05)
    fair = eh.FairPostprocessor(LogisticRegression(), constraint, search=search, aware=aware, cv=2, n_jobs=1)
    fair.fit(DRAWN.X, DRAWN.y, sensitive_features=DRAWN.sensitive)
    assert fair.certificate_.violation <= 1e-9
    assert fair.certificate_.gap > -1e-9
    chosen = min(fair.history_, key=lambda trial: (trial.violation > 1e-9, trial.risk))
    assert np.allclose(list(fair.multipliers_.values()), chosen.multipliers)


def test_a_tolerance_that_was_not_reached_is_warned_of():
    fair = eh.FairPostprocessor(
        LogisticRegression(), eh.DemographicParity(difference=0.0), search=eh.DualAscent(max_iter=3), cv=2
    )
    with pytest.warns(ToleranceWarning, match=r"the nearest violate it by 0\.\d+"):
        fair.fit(DRAWN.X, DRAWN.y, sensitive_features=DRAWN.sensitive)


def test_parameters_of_a_search_can_be_set():
    fair = eh.FairPostprocessor(search=eh.GridSearch())
    assert fair.set_params(search__step=0.5).search.step == 0.5


def test_no_search_beats_a_known_optimum():
    problem = FiniteProblem.random(40, levels=(2, 2), seed=4)
    constraint = eh.DemographicParity(difference=0.05)
    best = problem.optimum(constraint).risk
    settings = {"sample_weight": problem.weights, "groups": problem.groups}
    exact = eh.solve(problem.posteriors, constraint, **settings)
    assert exact.certificate.objective == pytest.approx(best, abs=1e-9)
    asked = FairnessProblem.read(problem.posteriors, constraint, **settings)
    for search in (eh.GridSearch(step=0.2), eh.DualAscent()):
        found = best_trial(search.run(PlugIn(asked), watch=watched))
        assert found.violation > 0 or found.risk >= best - 1e-9


def test_a_grid_has_only_the_signs_that_a_bound_can_have():
    """A capacity has an upper end only, so its multiplier is never positive."""
    problem = FairnessProblem.read(DENSE, eh.RateBound("selection rate", at_most=0.3))
    tried = []

    class Recorded(PlugIn):
        def many(self, points):
            tried.extend(points.ravel().tolist())
            return super().many(points)

    eh.GridSearch(step=0.5).run(Recorded(problem), watch=watched)
    assert tried == [-1.0, -0.5, 0.0]
