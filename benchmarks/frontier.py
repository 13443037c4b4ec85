"""What the whole curve costs: 25 tolerances against one cold solve, and a report with its pictures.

Run: ``python -m benchmarks.frontier`` (about a minute).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import evenhand as eh
from benchmarks.problems import smooth_posteriors
from benchmarks.record import seconds, write

N_ROWS, N_GROUPS = 100_000, 4
PARITY = eh.DemographicParity(difference=0.05)


class Known(ClassifierMixin, BaseEstimator):
    """Posteriors that are known; X is the number of the row."""

    def __init__(self, posteriors: np.ndarray) -> None:
        self.posteriors = posteriors
        self.classes_ = np.arange(posteriors.shape[1] * 2)

    def fit(self, X: np.ndarray, y: np.ndarray) -> Known:  # noqa: ARG002
        """Nothing is learned."""
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Look them up."""
        return self.posteriors[X[:, 0].astype(int)].reshape(len(X), -1)


def processor_seconds(work: Callable[[], Any], repeats: int) -> float:
    """Smallest processor time of a few runs."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def curve(results: dict[str, Any]) -> None:
    """25 tolerances, the model being known, so that only the solver and the counting take time."""
    posteriors = smooth_posteriors(N_ROWS, N_GROUPS)
    rng = np.random.default_rng(0)
    flat = posteriors.reshape(N_ROWS, -1)
    cells = (flat.cumsum(axis=1) < rng.random((N_ROWS, 1))).sum(axis=1)
    X, (codes, y) = np.arange(N_ROWS, dtype=float)[:, None], np.divmod(cells, 2)
    fair = eh.FairPostprocessor(
        FrozenEstimator(Known(posteriors)), PARITY, posteriors=eh.CrossFit(form="joint", calibration=None)
    )
    few = slice(0, 10_000)
    given = {"sensitive_features": {"g": codes}, "test": (X[few], y[few], {"g": codes[few]})}
    cold = processor_seconds(lambda: eh.solve(posteriors, PARITY), 5)
    whole = processor_seconds(lambda: eh.frontier(fair, X, y, **given), 3)
    two = processor_seconds(lambda: eh.frontier(fair, X, y, tolerances=2, **given), 3)
    found = eh.frontier(fair, X, y, **given)
    gap = max(point.risk - point.bound for point in found.points)
    results["25 tolerances, n=10^5, M=4, reading and counting included: processor seconds"] = whole
    results["2 tolerances: processor seconds"] = two
    results["one cold solve: processor seconds"] = cold
    results["largest proven distance from the optimum"] = gap


def report(results: dict[str, Any]) -> None:
    """A report on Adult, sex x race, from a fitted model and a curve."""
    adult = eh.datasets.load_adult()
    X, _ = adult.one_hot(drop_first=True)
    X = X / np.maximum(X.max(axis=0), 1)
    y, sensitive = adult.label.to_numpy(), adult.sensitive
    train, test = train_test_split(np.arange(len(y)), test_size=0.5, random_state=0)
    learner = LogisticRegression(max_iter=500)
    groups = [
        {name: sensitive[name].to_numpy()[rows] for name in sensitive.columns} for rows in (train, test)
    ]
    model = eh.FairPostprocessor(learner, PARITY).fit(X[train], y[train], sensitive_features=groups[0])
    plain = learner.fit(X[train], y[train]).predict(X[test])
    found = eh.frontier(
        eh.FairPostprocessor(learner, PARITY),
        X[train],
        y[train],
        sensitive_features=groups[0],
        test=(X[test], y[test], groups[1]),
    )
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"

        def work() -> None:
            audit = eh.audit(y[test], model.predict(X[test]), groups[1], before=plain, constraint=PARITY)
            before = eh.audit(y[test], plain, groups[1])
            rows = (X[test], y[test], groups[1])
            eh.write_report(page, audit, before=before, model=model, frontier=found, test=rows)

        results["report on Adult with all pictures, seconds"] = seconds(work, 2)
        results["report on Adult, megabytes"] = page.stat().st_size / 1e6


def main() -> None:
    results: dict[str, Any] = {}
    curve(results)
    report(results)
    write("frontier", results, ["evenhand", "scikit-learn", "altair", "vl-convert-python"])


if __name__ == "__main__":
    main()
