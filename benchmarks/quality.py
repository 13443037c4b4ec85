"""Accuracy and disparity on new rows, against the published figures and against fairlearn in the same run.

Run: ``python -m benchmarks.quality`` (about an hour on two cores); ``--splits 2`` for a first look. What is
measured is kept split by split in ``results/quality-points.json``, so that an interrupted run goes on where
it was; ``--fresh`` starts anew. The protocol is the paper's: half of the rows to learn from, half to test on,
ten splits, mean difference for sex x race; the same learner is inside every method.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from fairlearn.postprocessing import ThresholdOptimizer
from fairlearn.reductions import (
    DemographicParity,
    EqualizedOdds,
    ExponentiatedGradient,
    TruePositiveRateParity,
)
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenhand as eh
from benchmarks.record import RESULTS, write
from evenhand.tabular import TabularClassifier

TOLERANCES = [0.0, 0.01, 0.02, 0.03, 0.045, 0.06, 0.08, 0.1, 0.125, 0.15, 0.18, 0.22, 0.26, 0.3]
TRAINED_TOLERANCES = [0.0, 0.01, 0.03, 0.06, 0.1, 0.15, 0.3]
THEIR_TOLERANCES = [0.005, 0.02, 0.04, 0.07, 0.11]
NOTIONS = {"DP": eh.DemographicParity, "EO": eh.EqualOpportunity, "odds": eh.EqualizedOdds}
REDUCTIONS = {"DP": DemographicParity, "EO": TruePositiveRateParity, "odds": EqualizedOdds}
THRESHOLDS = {"DP": "demographic_parity", "EO": "true_positive_rate_parity", "odds": "equalized_odds"}
PUBLISHED = {
    ("compas", "post", "blind"): "0.5936 0.1096, 0.6233 0.1596, 0.6461 0.2108, 0.6650 0.2571, 0.6735 0.2927",
    ("compas", "post", "aware"): "0.6413 0.0916, 0.6419 0.1403, 0.6408 0.2038, 0.6438 0.2387, 0.6569 0.2877",
    ("compas", "in", "blind"): "0.5737 0.1045, 0.6264 0.2617, 0.6783 0.2932",
    ("compas", "in", "aware"): "0.6499 0.1147, 0.6635 0.1938, 0.6722 0.3121",
    ("adult", "post", "blind"): "0.8425 0.0712, 0.8507 0.1552, 0.8540 0.2072",
    ("adult", "post", "aware"): "0.8416 0.0703, 0.8536 0.1592, 0.8556 0.2071",
    ("adult", "in", "blind"): "0.8251 0.0290, 0.8336 0.0556, 0.8550 0.1604",
    ("adult", "in", "aware"): "0.8449 0.0794, 0.8544 0.1534, 0.8592 0.2382",
}
"""Accuracy and MD of the paper under DP: "post" on COMPAS is the mean of ten runs, others are one run."""
MOST_SPLITS = 100
POINTS = RESULTS / "quality-points.json"

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


@dataclass(frozen=True)
class Case:
    """A data set, a notion, and the learner inside every method."""

    data: str
    notion: str
    learner: str
    peers: bool = True

    def __str__(self) -> str:
        return f"{self.data}, {self.learner}, {self.notion}"

    def halves(self, seed: int) -> tuple[Half, Half]:
        """Split the rows."""
        data = {"compas": eh.datasets.load_compas, "adult": eh.datasets.load_adult}[self.data]()
        X, _ = data.one_hot(drop_first=self.data == "adult")
        label = data.label.to_numpy()
        y = (label == np.unique(label)[1]).astype(int)
        _, codes = eh.Groups.fit(data.sensitive)
        first, second = train_test_split(np.arange(len(y)), test_size=0.5, random_state=seed)
        return Half(X[first], y[first], codes[first]), Half(X[second], y[second], codes[second])

    def model(self) -> Any:
        """The learner, not fitted."""
        if self.learner == "trees":
            return TabularClassifier()
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))

    def point(self, test: Half, selection: np.ndarray) -> Point:
        """Accuracy and MD of decisions with these probabilities, without the noise of lots."""
        rates = eh.cell_rates(test.y, np.clip(selection, 0, 1).astype(float), {"group": test.codes})
        found = NOTIONS[self.notion](difference=0.5).measure(rates)
        return 1 - 2 * rates.risk(), max(statistic.difference for statistic in found)


def post(case: Case, train: Half, test: Half, *, aware: bool) -> tuple[list[Point], list[int]]:
    """Our post-processing: the whole curve from one model of the posteriors."""
    notion = NOTIONS[case.notion]
    fair = eh.FairPostprocessor(case.model(), notion(difference=0.5), aware=aware)
    evidence = fair._estimate(train.X, train.y, {"group": train.codes}, None)
    points, solution = [], None
    for tolerance in TOLERANCES:
        solution = fair._solve(evidence, notion(difference=tolerance), start=solution)
        fair._adopt(evidence, solution)
        chances = fair.predict_proba(test.X, sensitive_features={"group": test.codes} if aware else None)
        points.append(case.point(test, chances[:, 1]))
    return points, [evidence.fits] * len(points)


def trained(case: Case, train: Half, test: Half, *, aware: bool) -> tuple[list[Point], list[int]]:
    """Our in-processing."""
    notion = NOTIONS[case.notion]
    fair = eh.FairInprocessor(case.model(), notion(difference=0.5), aware=aware)
    evidence = fair._estimate(train.X, train.y, {"group": train.codes}, None)
    points, fits = [], []
    for tolerance in TRAINED_TOLERANCES:
        fair._adopt(evidence, notion(difference=tolerance))
        chances = fair.predict_proba(test.X, sensitive_features={"group": test.codes} if aware else None)
        points.append(case.point(test, chances[:, 1]))
        fits.append(fair.n_fits_)
    return points, fits


def reduction(case: Case, train: Half, test: Half, *, aware: bool) -> tuple[list[Point], list[int]]:
    """Fairlearn's ExponentiatedGradient: its default of 50 rounds, 15 with trees, per tolerance."""
    name = "sample_weight" if case.learner == "trees" else "logisticregression__sample_weight"
    X, new = (train.with_group, test.with_group) if aware else (train.X, test.X)
    points, fits = [], []
    for tolerance in THEIR_TOLERANCES:
        peer = ExponentiatedGradient(
            case.model(),
            REDUCTIONS[case.notion](difference_bound=tolerance),
            eps=tolerance,
            max_iter=15 if case.learner == "trees" else 50,
            sample_weight_name=name,
        )
        peer.fit(X, train.y, sensitive_features=train.codes)
        points.append(case.point(test, peer._pmf_predict(new)[:, 1]))
        fits.append(peer.n_oracle_calls_)
    return points, fits


def thresholds(case: Case, train: Half, test: Half, *, aware: bool) -> tuple[list[Point], list[int]]:  # noqa: ARG001
    """Fairlearn's ThresholdOptimizer, which needs the group; under odds it has no tolerance."""
    fitted = clone(case.model()).fit(train.with_group, train.y)
    points = []
    for tolerance in (None,) if case.notion == "odds" else (None, *THEIR_TOLERANCES):
        peer = ThresholdOptimizer(
            estimator=fitted,
            constraints=THRESHOLDS[case.notion],
            prefit=True,
            predict_method="predict_proba",
            tol=tolerance,
        )
        peer.fit(train.with_group, train.y, sensitive_features=train.codes)
        chances = peer._pmf_predict(test.with_group, sensitive_features=test.codes)
        points.append(case.point(test, chances[:, 1]))
    return points, [1] * len(points)


METHODS: dict[str, tuple[Callable[..., tuple[list[Point], list[int]]], bool]] = {
    "post, blind": (post, False),
    "post, aware": (post, True),
    "in, blind": (trained, False),
    "in, aware": (trained, True),
    "ExponentiatedGradient, blind": (reduction, False),
    "ExponentiatedGradient, aware": (reduction, True),
    "ThresholdOptimizer, aware": (thresholds, True),
}
OURS = [name for name in METHODS if name.startswith(("post", "in"))]
PEERS = [name for name in METHODS if name not in OURS]

CASES = [
    Case("compas", "DP", "trees", peers=False),
    Case("compas", "DP", "logistic"),
    Case("compas", "EO", "logistic"),
    Case("compas", "odds", "logistic"),
    Case("adult", "DP", "trees"),
    Case("adult", "EO", "trees"),
    Case("adult", "odds", "trees"),
]


def measure(splits: int, *, fresh: bool) -> dict[str, Any]:
    """Measure what is not kept yet, split by split."""
    kept: dict[str, Any] = {} if fresh or not POINTS.exists() else json.loads(POINTS.read_text("utf-8"))
    for seed in range(splits):
        for case in CASES:
            train, test = case.halves(seed)
            for name in METHODS if case.peers else OURS:
                key = f"{case}; {name}; {seed}"
                if key in kept:
                    continue
                method, aware = METHODS[name]
                start = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    points, fits = method(case, train, test, aware=aware)
                took = time.perf_counter() - start
                kept[key] = {"points": points, "fits": fits, "seconds": took}
                POINTS.write_text(json.dumps(kept) + "\n", encoding="utf-8")
            print(f"{case}: split {seed} done", flush=True)
    return kept


def seeds_of(kept: dict[str, Any], case: Case) -> list[int]:
    """The splits of a case that every method has been measured on."""
    found = []
    for seed in range(MOST_SPLITS):
        names = METHODS if case.peers else OURS
        if all(f"{case}; {name}; {seed}" in kept for name in names):
            found.append(seed)
    return found


def curve(kept: dict[str, Any], case: Case, name: str) -> np.ndarray:
    """Accuracy and MD of each split and tolerance: shape (splits, tolerances, 2)."""
    return np.array([kept[f"{case}; {name}; {seed}"]["points"] for seed in seeds_of(kept, case)])


def reached(points: np.ndarray, disparity: float) -> float:
    """Accuracy at a disparity no larger, on the upper hull of a curve; NaN below its smallest disparity."""
    order = np.lexsort((-points[:, 0], points[:, 1]))
    hull: list[tuple[float, float]] = []
    for accuracy, md in points[order].tolist():
        while len(hull) > 1 and _bends_up(*hull[-2:], (md, accuracy)):
            hull.pop()
        if not hull or accuracy > hull[-1][1]:
            hull.append((md, accuracy))
    at = np.array(hull)
    return float(np.interp(disparity, at[:, 0], at[:, 1], left=np.nan))


def _bends_up(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[0] - a[0]) * (c[1] - a[1]) >= (b[1] - a[1]) * (c[0] - a[0])


def against_published(kept: dict[str, Any]) -> dict[str, Any]:
    """At each published row: our mean accuracy at a mean MD no larger."""
    results = {}
    for (data, method, setting), rows in PUBLISHED.items():
        for case in CASES:
            if case.data != data or case.notion != "DP":
                continue
            mean = curve(kept, case, f"{method}, {setting}").mean(axis=0)
            for row in rows.split(", "):
                accuracy, disparity = map(float, row.split())
                best = reached(mean, disparity)
                verdict = "reached" if best >= accuracy else "MISSED"
                label = f"{case}: {method}, {setting}, published {accuracy:.4f} @ {disparity:.4f}"
                results[label] = f"{verdict}, {best:.4f} at no larger MD"
    return results


def against_peers(kept: dict[str, Any]) -> dict[str, Any]:
    """At each point of a peer: the paired difference in accuracy at the peer's disparity, split by split."""
    results = {}
    for case in CASES:
        for own in OURS:
            for name in PEERS if case.peers else []:
                if own.split(", ")[1] != name.split(", ")[1] or (own[:2] == "in" and name[0] == "T"):
                    continue
                ours, theirs = curve(kept, case, own), curve(kept, case, name)
                for k, (accuracy, disparity) in enumerate(theirs.mean(axis=0)):
                    gaps = [reached(o, t[k][1]) - t[k][0] for o, t in zip(ours, theirs, strict=True)]
                    label = f"{case}: {own} against {name} {accuracy:.4f} @ {disparity:.4f}"
                    results[label] = _verdict(np.array(gaps))
    return results


def _verdict(gaps: np.ndarray) -> str:
    known = gaps[np.isfinite(gaps)]
    if len(known) < 3:
        return f"our smallest MD is larger in {len(gaps) - len(known)} of {len(gaps)} splits"
    half = student.ppf(0.975, len(known) - 1) * known.std(ddof=1) / np.sqrt(len(known))
    verdict = "ahead" if known.mean() > half else "behind" if known.mean() < -half else "level"
    return f"{verdict}, {known.mean():+.4f} ± {half:.4f} in {len(known)} splits"


def curves(kept: dict[str, Any]) -> dict[str, Any]:
    """Every method's mean curve, its model fits per tolerance, and its time over our post-processing's."""
    results: dict[str, Any] = {}
    for case in CASES:
        seeds = seeds_of(kept, case)
        for name in METHODS if case.peers else OURS:
            cells = [kept[f"{case}; {name}; {seed}"] for seed in seeds]
            base = [kept[f"{case}; post, blind; {seed}"] for seed in seeds]
            points = curve(kept, case, name).mean(axis=0)
            ratio = sum(cell["seconds"] for cell in cells) / sum(cell["seconds"] for cell in base)
            results[f"{case}: {name}"] = ", ".join(f"{a:.4f} @ {md:.4f}" for a, md in points)
            results[f"{case}: {name}, model fits per tolerance"] = float(
                np.mean([cell["fits"] for cell in cells])
            )
            results[f"{case}: {name}, time for all tolerances over post, blind"] = float(ratio)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--fresh", action="store_true", help="measure everything anew")
    chosen = parser.parse_args()
    kept = measure(chosen.splits, fresh=chosen.fresh)
    results: dict[str, Any] = {f"{case}: splits": len(seeds_of(kept, case)) for case in CASES}
    results |= against_published(kept) | against_peers(kept) | curves(kept)
    write("quality", results, ["evenhand", "scikit-learn", "fairlearn", "numpy"])


if __name__ == "__main__":
    main()
