"""The classifier against known optima."""

import numpy as np
import pytest
from benchmarks.exact import FiniteProblem, GaussianProblem
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import evenhand as eh

NOTIONS = [
    eh.DemographicParity(difference=0.05),
    eh.EqualOpportunity(ratio=0.9),
    eh.EqualizedOdds(difference=0.05),
    eh.AccuracyParity(difference=0.03, groups="independent"),
]


@pytest.mark.parametrize("constraint", NOTIONS, ids=str)
def test_with_counted_posteriors_the_population_optimum_is_approached(constraint):
    """A tree estimates a finite problem exactly, so only sampling error separates us from the optimum."""
    problem = FiniteProblem.random(8, levels=(2, 2), concentration=1.0, seed=5)
    best = problem.optimum(constraint)
    losses = []
    for n in (1_000, 100_000):
        drawn = problem.sample(n, seed=1)
        fair = eh.FairPostprocessor(
            DecisionTreeClassifier(), constraint, posteriors=eh.CrossFit(calibration=None, average=False)
        )
        fair.fit(drawn.X, drawn.y, sensitive_features=drawn.sensitive)
        selection = fair.predict_proba(np.arange(8.0)[:, None])[:, 1]
        rates = problem.rates(selection)
        linear = constraint.linear(rates.masses, rates.groups)
        losses.append(abs(rates.risk() - best.risk) + linear.violation(rates.rates))
    assert losses[1] < 0.02
    assert losses[1] < losses[0] + 1e-3


class TruePosteriors(ClassifierMixin, BaseEstimator):
    """The true P(S, Y | x) of a Gaussian problem."""

    def __init__(self, problem):
        self.problem = problem
        self.classes_ = np.arange(2 * len(problem.groups))

    def fit(self, X, y):  # noqa: ARG002
        return self

    def predict_proba(self, X):
        return self.problem.posteriors(X).reshape(len(X), -1)


@pytest.mark.parametrize("constraint", NOTIONS[:3], ids=str)
def test_with_true_posteriors_decisions_become_those_of_the_optimal_rule(constraint):
    problem = GaussianProblem.random(levels=(2, 2), seed=1)
    best = problem.optimum(constraint)
    grid = problem.sample(20_000, seed=9).X
    optimal = np.tensordot(problem.posteriors(grid), best.solution, axes=2) > 0
    shares = []
    for n in (500, 50_000):
        drawn = problem.sample(n, seed=2)
        model = FrozenEstimator(TruePosteriors(problem))
        fair = eh.FairPostprocessor(model, constraint, posteriors=eh.CrossFit(form="joint", calibration=None))
        fair.fit(drawn.X, drawn.y, sensitive_features=drawn.sensitive)
        shares.append(np.mean(fair.predict(grid) != optimal))
    assert shares[1] < 0.02
    assert shares[1] <= shares[0]


@pytest.mark.parametrize("constraint", [eh.DemographicParity(difference=0.1)], ids=str)
@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ToleranceWarning")
def test_in_and_post_processed_decisions_agree_with_the_optimal_rule_as_rows_grow(constraint):
    """Quadratic logistic models are well specified where groups and labels are normal in x."""
    problem = GaussianProblem.random(levels=(2,), seed=4)
    best = problem.optimum(constraint)
    grid = problem.sample(20_000, seed=9).X
    optimal = np.tensordot(problem.posteriors(grid), best.solution, axes=2) > 0
    model = make_pipeline(
        PolynomialFeatures(3, include_bias=False),
        StandardScaler(),
        LogisticRegression(C=100.0, max_iter=1000),
    )
    apart = {"post": [], "in": []}
    for n in (300, 3_000, 30_000):
        drawn = problem.sample(n, seed=3)
        for name, kind in (("post", eh.FairPostprocessor), ("in", eh.FairInprocessor)):
            fair = kind(model, constraint).fit(drawn.X, drawn.y, sensitive_features=drawn.sensitive)
            apart[name].append(np.mean(fair.predict(grid) != optimal))
    for shares in apart.values():
        assert shares[-1] < 0.03
        assert shares[-1] < shares[0]
