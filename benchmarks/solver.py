"""How fast and how exact the solver is, against peers and against another solver in the same run.

Run: ``python -m benchmarks.solver`` (about four minutes on two cores).
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import cvxpy as cp
import numpy as np
from fairlearn.postprocessing import ThresholdOptimizer
from sklearn.base import BaseEstimator, ClassifierMixin

import evenhand as eh
from benchmarks.problems import aware_scores, random_problem, smooth_posteriors
from benchmarks.record import peak_bytes, seconds, write
from evenhand.exceptions import EvenhandWarning, InputError
from evenhand.solver import optimize as optimize_module

FAIR = eh.DemographicParity(difference=0.02)
TOL = 1e-9
RANDOM = 2000
LABELS = {
    "DemographicParity(difference=0.02) & RateBound('selection rate', at_most=0.4) & "
    "RateBound('true-positive rate', at_least=0.3, groups='intersectional')": (
        "parity, capacity and a floor by group"
    ),
    "DemographicParity(ratio=0.8, against='groups')": "four-fifths between groups",
}
"""Names of joined requirements in the results."""


def general_program(posteriors: np.ndarray, delta: float) -> float:
    """The linear program of LP post-processing, with 2n variables, through cvxpy and HiGHS; its accuracy."""
    n, _, _ = posteriors.shape
    eta = posteriors[:, :, 1].sum(axis=1)
    groups = posteriors.sum(axis=2)
    decide = cp.Variable((n, 2), nonneg=True)
    rates = (groups / groups.sum(axis=0)).T @ decide[:, 1]
    overall = cp.sum(decide[:, 1]) / n
    goal = cp.Maximize((eta @ decide[:, 1] + (1 - eta) @ decide[:, 0]) / n)
    rules = [cp.sum(decide, axis=1) == 1, cp.abs(rates - overall) <= delta]
    return float(cp.Problem(goal, rules).solve(solver=cp.HIGHS))


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose only feature is the score that it returns."""

    def fit(self, X: Any, y: Any) -> Given:  # noqa: D102, ARG002
        self.classes_ = np.array([0, 1])
        return self

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: D102
        return np.column_stack([1 - X[:, 0], X[:, 0]])


def threshold_optimizer(scores: eh.GroupedScores) -> None:
    """Fairlearn's post-processing for known groups, by demographic parity."""
    y = (np.random.default_rng(1).random(len(scores)) < scores.eta).astype(int)
    peer = ThresholdOptimizer(estimator=Given().fit(None, None), prefit=True, predict_method="predict_proba")
    peer.fit(scores.eta[:, None], y, sensitive_features=scores.codes)


def one_pass(posteriors: np.ndarray) -> float:
    """Seconds for h = P v and then P^T f."""
    P = posteriors.reshape(len(posteriors), -1)
    v = np.random.default_rng(0).normal(size=P.shape[1])
    return seconds(lambda: P.T @ (P @ v > 0).astype(np.float64), repeats=5)


def passes(results: dict[str, Any]) -> None:
    """Solver time in units of one pass, scaling, and memory."""
    bounded = (
        FAIR
        & eh.RateBound("selection rate", at_most=0.4)
        & eh.RateBound("true-positive rate", at_least=0.3, groups="intersectional")
    )
    cases = [
        (4, FAIR),
        (16, FAIR),
        (64, FAIR),
        (16, eh.EqualizedOdds(difference=0.02)),
        (4, bounded),
        (16, bounded),
        (16, eh.DemographicParity(ratio=0.8, against="groups")),
    ]
    alone: dict[int, float] = {}
    for n_groups, constraint in cases:
        small, large = smooth_posteriors(100_000, n_groups), smooth_posteriors(1_000_000, n_groups)
        label = f"{LABELS.get(repr(constraint), type(constraint).__name__)}, M={n_groups}"
        unit = one_pass(large)
        took = seconds(lambda: eh.solve(large, constraint, tol=TOL))  # noqa: B023
        took_small = seconds(lambda: eh.solve(small, constraint, tol=TOL))  # noqa: B023
        certificate = eh.solve(large, constraint, tol=TOL).certificate
        memory = peak_bytes(lambda: eh.solve(large, constraint, tol=TOL))  # noqa: B023
        results |= {
            f"{label}, n=10^6: seconds": took,
            f"{label}, n=10^6: passes (goal: at most 45)": took / unit,
            f"{label}, n=10^6: certified gap": abs(certificate.gap),
            f"{label}, n=10^6: violation": certificate.violation,
            f"{label}: time at 10^6 over 10^5 (goal: at most 12)": took / took_small,
            f"{label}, n=10^6: extra memory over posteriors (goal: at most 1)": memory / large.nbytes,
        }
        if constraint is FAIR:
            alone[n_groups] = took / unit
        elif repr(constraint) in LABELS:
            ratio = took / unit / alone[n_groups]
            results[f"{label}: passes over those of demographic parity alone (goal: at most 1.5)"] = ratio


def strata(results: dict[str, Any]) -> None:
    """Fifty strata against one, for a million rows of four groups."""
    posteriors, rng = smooth_posteriors(1_000_000, 4), np.random.default_rng(2)
    one, fifty = ({"level": rng.integers(0, count, len(posteriors))} for count in (1, 50))
    within = eh.DemographicParity(difference=0.02, given=["level"])
    cases = {
        "parity within strata": within,
        "parity within strata and a capacity": within & eh.RateBound("selection rate", at_most=0.4),
        "equalized odds within strata": eh.EqualizedOdds(difference=0.02, given=["level"]),
        "four-fifths within strata": eh.DemographicParity(ratio=0.8, against="groups", given=["level"]),
    }
    for label, constraint in cases.items():
        single, many = (
            seconds(lambda: eh.solve(posteriors, constraint, control_features=levels, tol=TOL))  # noqa: B023
            for levels in (one, fifty)
        )
        certificate = eh.solve(posteriors, constraint, control_features=fifty, tol=TOL).certificate
        results |= {
            f"{label}, n=10^6, M=4, 50 strata: seconds": many,
            f"{label}, n=10^6, M=4: time of 50 strata over one (goal: at most 3)": many / single,
            f"{label}, n=10^6, M=4, 50 strata: certified gap": abs(certificate.gap),
        }


def peers(results: dict[str, Any]) -> None:
    """Against a general linear program and against fairlearn."""
    posteriors = smooth_posteriors(100_000, 4)
    start = time.perf_counter()
    accuracy = general_program(posteriors, 0.02)
    theirs = time.perf_counter() - start
    ours = seconds(lambda: eh.solve(posteriors, FAIR, tol=TOL))
    found = eh.solve(posteriors, FAIR, tol=TOL).certificate.objective
    scores = aware_scores(1_000_000, 16)
    aware = seconds(lambda: eh.solve(scores, FAIR, tol=TOL))
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        threshold_optimizer(scores)
    fairlearn = time.perf_counter() - start
    odds = seconds(lambda: eh.solve(scores, eh.EqualizedOdds(difference=0.02), tol=TOL))
    results |= {
        "blind DP, n=10^5, M=4: seconds": ours,
        "cvxpy + HiGHS, 2n variables, same problem: seconds": theirs,
        "cvxpy + HiGHS over evenhand (goal: at least 100)": theirs / ours,
        "difference of the two accuracies": abs((1 - 2 * found) - accuracy),
        "aware DP, n=10^6, M=16: seconds": aware,
        "aware equalized odds, n=10^6, M=16: seconds": odds,
        "fairlearn ThresholdOptimizer, DP, same scores: seconds": fairlearn,
        "ThresholdOptimizer over evenhand (goal: at least 100)": fairlearn / aware,
    }


def against_another_solver(results: dict[str, Any]) -> None:
    """Random problems against a linear program on all rows, half of them by way of Newton."""
    worst = {"objective": 0.0, "violation": 0.0, "gap": 0.0}
    unsolved, without_reference = 0, 0
    for seed in range(RANDOM):
        by_newton = seed % 2 == 1
        optimize_module._SMALL = 30 if by_newton else 2000
        problem, rows, constraint, cost = random_problem(seed, 1500 if by_newton else 300)
        try:
            found = eh.solve(
                rows, constraint, cost=cost, sample_weight=problem.weights, groups=problem.groups, tol=1e-8
            )
        except eh.exceptions.CertificateError:
            unsolved += 1
            print(f"unsolved: seed {seed}, {constraint}")
            continue
        rates = problem.rates(found.selection)
        worst["gap"] = max(worst["gap"], found.certificate.gap)
        worst["violation"] = max(worst["violation"], found.linear_constraints.violation(rates.rates))
        try:
            known = problem.optimum(constraint, cost=cost).risk
        except InputError:
            without_reference += 1
            continue
        worst["objective"] = max(worst["objective"], abs(rates.risk(cost) - known))
    optimize_module._SMALL = 2000
    results |= {
        "random problems": RANDOM,
        "not proven to 1e-8": unsolved,
        "of which the other solver failed on": without_reference,
        "worst difference of objectives (goal: 1e-8)": worst["objective"],
        "worst violation (goal: 1e-9)": worst["violation"],
        "worst certified gap": worst["gap"],
    }


def main() -> None:
    warnings.simplefilter("ignore", EvenhandWarning)
    results: dict[str, Any] = {}
    peers(results)
    passes(results)
    strata(results)
    against_another_solver(results)
    write(
        "solver",
        results,
        ["evenhand", "numpy", "scipy", "highspy", "cvxpy", "fairlearn", "scikit-learn"],
    )


if __name__ == "__main__":
    main()
