"""Accuracy and disparity on new rows, against the published figures and against fairlearn in the same run.

Run: ``python -m benchmarks.quality`` (about half an hour on two cores); ``--splits 2`` for a first look.
The protocol is the paper's: half of the rows to learn from, half to test on, ten splits, demographic parity
by mean difference for sex x race. The same learner is inside every method: logistic regression on COMPAS,
boosted trees on Adult.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from fairlearn.postprocessing import ThresholdOptimizer
from fairlearn.reductions import DemographicParity, ExponentiatedGradient
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenhand as eh
from benchmarks.record import write
from evenhand.tabular import TabularClassifier

TOLERANCES = [0.0, 0.01, 0.02, 0.03, 0.045, 0.06, 0.08, 0.1, 0.125, 0.15, 0.18, 0.22, 0.26, 0.3]
THEIR_TOLERANCES = [0.005, 0.02, 0.04, 0.07, 0.11]
PUBLISHED = {
    ("compas", "blind"): [
        (0.5936, 0.1096),
        (0.6233, 0.1596),
        (0.6461, 0.2108),
        (0.6650, 0.2571),
        (0.6735, 0.2927),
    ],
    ("compas", "aware"): [
        (0.6413, 0.0916),
        (0.6419, 0.1403),
        (0.6408, 0.2038),
        (0.6438, 0.2387),
        (0.6569, 0.2877),
    ],
    ("adult", "blind"): [(0.8425, 0.0712), (0.8507, 0.1552), (0.8540, 0.2072)],
    ("adult", "aware"): [(0.8416, 0.0703), (0.8536, 0.1592), (0.8556, 0.2071)],
}
"""Accuracy and MD of the paper's post-processing: COMPAS means of ten runs, Adult one run."""

Point = tuple[float, float]
"""Accuracy and MD on test rows."""


@dataclass(frozen=True)
class Half:
    """Rows to learn from, or to test on."""

    X: np.ndarray
    y: np.ndarray
    codes: np.ndarray

    @property
    def with_group(self) -> np.ndarray:
        """X, and the group as columns of 0 and 1."""
        return np.hstack([self.X, np.eye(self.codes.max() + 1)[self.codes]])

    def point(self, selection: np.ndarray) -> Point:
        """Accuracy and MD of decisions with these probabilities, without the noise of lots."""
        f = np.clip(selection, 0, 1)
        rates = eh.cell_rates(self.y, f, {"group": self.codes})
        [parity] = eh.DemographicParity(difference=0.5).measure(rates)
        return 1 - 2 * rates.risk(), parity.difference


@dataclass
class Case:
    """A data set and the learner inside every method."""

    name: str
    data: Any
    learner: Any
    curves: dict[str, list[list[Point]]] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def halves(self, seed: int) -> tuple[Half, Half]:
        """Split the rows."""
        X, _ = self.data.one_hot(drop_first=self.name == "adult")
        label = self.data.label.to_numpy()
        y = (label == np.unique(label)[1]).astype(int)
        _, codes = eh.Groups.fit(self.data.sensitive)
        first, second = train_test_split(np.arange(len(y)), test_size=0.5, random_state=seed)
        return Half(X[first], y[first], codes[first]), Half(X[second], y[second], codes[second])


def evenhand(train: Half, test: Half, learner: Any, *, aware: bool) -> list[Point]:
    """Our whole curve, from one model of the posteriors."""
    fair = eh.FairPostprocessor(learner, eh.DemographicParity(difference=0.5), aware=aware)
    evidence = fair._estimate(train.X, train.y, {"group": train.codes}, None)
    points, solution = [], None
    for tolerance in TOLERANCES:
        solution = fair._solve(evidence, eh.DemographicParity(difference=tolerance), start=solution)
        fair._adopt(evidence, solution)
        chances = fair.predict_proba(test.X, sensitive_features={"group": test.codes} if aware else None)
        points.append(test.point(chances[:, 1]))
    return points


def exponentiated_gradient(train: Half, test: Half, learner: Any, *, aware: bool) -> list[Point]:
    """Fairlearn's reduction, one run of up to 15 rounds per tolerance."""
    name = "logisticregression__sample_weight" if hasattr(learner, "steps") else "sample_weight"
    X, new = (train.with_group, test.with_group) if aware else (train.X, test.X)
    points = []
    for tolerance in THEIR_TOLERANCES:
        bound = DemographicParity(difference_bound=tolerance)
        peer = ExponentiatedGradient(
            clone(learner), bound, eps=tolerance, max_iter=15, sample_weight_name=name
        )
        peer.fit(X, train.y, sensitive_features=train.codes)
        points.append(test.point(peer._pmf_predict(new)[:, 1]))
    return points


def threshold_optimizer(train: Half, test: Half, learner: Any, *, aware: bool) -> list[Point]:  # noqa: ARG001
    """Fairlearn's post-processing, which needs the group; its learner is fitted once."""
    fitted = clone(learner).fit(train.with_group, train.y)
    points = []
    for tolerance in (None, *THEIR_TOLERANCES):
        peer = ThresholdOptimizer(
            estimator=fitted, prefit=True, predict_method="predict_proba", tol=tolerance
        )
        peer.fit(train.with_group, train.y, sensitive_features=train.codes)
        points.append(test.point(peer._pmf_predict(test.with_group, sensitive_features=test.codes)[:, 1]))
    return points


METHODS: dict[str, tuple[Callable[..., list[Point]], bool]] = {
    "evenhand, blind": (evenhand, False),
    "evenhand, aware": (evenhand, True),
    "ExponentiatedGradient, blind": (exponentiated_gradient, False),
    "ExponentiatedGradient, aware": (exponentiated_gradient, True),
    "ThresholdOptimizer, aware": (threshold_optimizer, True),
}


def run(case: Case, splits: Iterable[int]) -> None:
    """Fill in the curves of every method, split by split."""
    for seed in splits:
        train, test = case.halves(seed)
        for name, (method, aware) in METHODS.items():
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                case.curves.setdefault(name, []).append(method(train, test, case.learner, aware=aware))
            case.seconds.setdefault(name, []).append(time.perf_counter() - start)
        print(f"{case.name}: split {seed} done", flush=True)


def mean_curve(curve: list[list[Point]]) -> np.ndarray:
    """Accuracy and MD of each tolerance, averaged over splits."""
    return np.array(curve).mean(axis=0)


def reached(points: np.ndarray, disparity: np.ndarray | float) -> np.ndarray:
    """Accuracy at a disparity no larger, on the upper hull of a curve; NaN below its smallest disparity."""
    order = np.lexsort((-points[:, 0], points[:, 1]))
    hull: list[tuple[float, float]] = []
    for accuracy, md in points[order].tolist():
        while len(hull) > 1 and _bends_up(*hull[-2:], (md, accuracy)):
            hull.pop()
        if not hull or accuracy > hull[-1][1]:
            hull.append((md, accuracy))
    at = np.array(hull)
    return np.interp(disparity, at[:, 0], at[:, 1], left=np.nan)


def _bends_up(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[0] - a[0]) * (c[1] - a[1]) >= (b[1] - a[1]) * (c[0] - a[0])


def against_published(case: Case) -> dict[str, Any]:
    """At each published row: our mean accuracy at a mean MD no larger."""
    results = {}
    for setting in ("blind", "aware"):
        ours = mean_curve(case.curves[f"evenhand, {setting}"])
        for accuracy, disparity in PUBLISHED[case.name, setting]:
            best = float(reached(ours, disparity))
            verdict = "reached" if best >= accuracy else "MISSED"
            results[f"{case.name}, {setting}: published {accuracy:.4f} @ {disparity:.4f}"] = (
                f"{verdict}, {best:.4f} at no larger MD"
            )
    return results


def against_peers(case: Case) -> dict[str, Any]:
    """At each point of a peer: the paired difference in accuracy at the peer's disparity, split by split."""
    results = {}
    for name in METHODS:
        if name.startswith("evenhand"):
            continue
        ours = case.curves[f"evenhand, {name.split(', ')[1]}"]
        theirs = case.curves[name]
        for k, (accuracy, disparity) in enumerate(mean_curve(theirs)):
            gaps = np.array(
                [reached(np.array(o), t[k][1]) - t[k][0] for o, t in zip(ours, theirs, strict=True)]
            )
            gaps = gaps[np.isfinite(gaps)]
            label = f"{case.name}: {name} {accuracy:.4f} @ {disparity:.4f}"
            if len(gaps) < 2:
                results[label] = "below our smallest MD in nearly every split"
                continue
            half = student.ppf(0.975, len(gaps) - 1) * gaps.std(ddof=1) / np.sqrt(len(gaps))
            mean = gaps.mean()
            verdict = "ahead" if mean > half else "behind" if mean < -half else "level"
            results[label] = f"{verdict}, {mean:+.4f} ± {half:.4f} in {len(gaps)} splits"
    return results


def curves(case: Case) -> dict[str, Any]:
    """Every method's mean curve, and the time that it took for all of its tolerances."""
    ours = np.mean(case.seconds["evenhand, blind"])
    results: dict[str, Any] = {}
    for name, curve in case.curves.items():
        points = ", ".join(f"{accuracy:.4f} @ {md:.4f}" for accuracy, md in mean_curve(curve))
        results[f"{case.name}: {name}"] = points
        ratio = float(np.mean(case.seconds[name]) / ours)
        results[f"{case.name}: {name}, time over evenhand, blind"] = ratio
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10)
    splits = range(parser.parse_args().splits)
    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    cases = [
        Case("compas", eh.datasets.load_compas(), logistic),
        Case("adult", eh.datasets.load_adult(), TabularClassifier()),
    ]
    results: dict[str, Any] = {"splits": len(splits)}
    for case in cases:
        run(case, splits)
        results |= against_published(case) | against_peers(case) | curves(case)
    write("quality", results, ["evenhand", "scikit-learn", "fairlearn", "numpy"])


if __name__ == "__main__":
    main()
