"""What was asked for, what was forecast, and what new rows show; and what fairlearn's methods show on them.

Run: ``python -m benchmarks.forecast`` (an hour; ``--splits 1`` for a first look, ``--data`` and ``--methods``
for a part). An interrupted run goes on where it was; ``--fresh`` starts anew. The ACS data are read from
``../shared/data`` or EVENHAND_DATA.

A fit to a few hundred or thousand rows is measured on all others, at most 20,000. The measured disparity has
their sampling error in it, as has the forecast that it is compared with, ``forecast_.on(len(test))``;
"corrected" is without it, by a bootstrap. All methods have the same rows and learner. Accuracy with
``margin="forecast"`` is compared with the curve of the default over its tolerances, at the same measured
disparity.

The constants of the forecast were chosen on other splits of COMPAS and Adult and on ACS employment
(benchmarks/TUNING.md).
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from fairlearn import reductions
from fairlearn.postprocessing import ThresholdOptimizer
from lightgbm import LGBMClassifier
from numpy.typing import NDArray
from scipy.stats import t
from sklearn.linear_model import LogisticRegression

import evenhand as eh
from benchmarks.acs import load_acs
from benchmarks.record import RESULTS, write
from evenhand.requirements.rates import CellRates

CELLS = RESULTS / "forecast-cells.jsonl"
FOLDER = Path(os.environ.get("EVENHAND_DATA", Path(__file__).parents[2] / "shared" / "data"))
MOST_TESTED = 20_000
TOLERANCES = (0.01, 0.03, 0.06)
FIRST_SEED = 1000
"""Other splits than those that the constants were chosen on."""
NOTIONS: dict[str, Callable[[float], Any]] = {
    "DP": lambda asked: eh.DemographicParity(difference=asked),
    "EO": lambda asked: eh.EqualOpportunity(difference=asked),
    "odds": lambda asked: eh.EqualizedOdds(difference=asked),
}
REDUCTIONS = {
    "DP": reductions.DemographicParity,
    "EO": reductions.TruePositiveRateParity,
    "odds": reductions.EqualizedOdds,
}
POSTPROCESSED = {"DP": "demographic_parity", "EO": "true_positive_rate_parity", "odds": "equalized_odds"}


@dataclass(frozen=True)
class Data:
    """A table with standardised features, and the sizes of its training parts."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    groups: NDArray[Any]
    sizes: tuple[int, ...]


def _table(found: Any, positive: Any, groups: list[Any], sizes: tuple[int, ...]) -> Data:
    X, _ = found.one_hot()
    X = np.asarray(X, np.float64)
    spread = X.std(axis=0)
    X = ((X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0))[:, spread > 0]
    named = np.array([" ".join(map(str, row)) for row in zip(*groups, strict=True)])
    return Data(X, np.asarray(found.label == positive, np.int64), named, sizes)


def _compas() -> Data:
    found = eh.datasets.load_compas()
    return _table(found, 1, [found.sensitive["race"], found.sensitive["sex"]], (600, 1300, 2600))


def _adult() -> Data:
    found = eh.datasets.load_adult()
    return _table(found, ">50K", [found.sensitive["race"], found.sensitive["sex"]], (1000, 2500, 7000))


def _acs(task: str) -> Callable[[], Data]:
    def load() -> Data:
        found = load_acs(task, folder=FOLDER)
        names = {1: "White", 2: "Black", 6: "Asian"}
        race = [names.get(int(code), "other") for code in found.sensitive["RAC1P"]]
        return _table(found, 1, [race, found.sensitive["SEX"]], (1000, 2500, 7000))

    return load


DATA: dict[str, Callable[[], Data]] = {
    "COMPAS": _compas,
    "Adult": _adult,
    "ACS income": _acs("income"),
    "ACS public coverage": _acs("publiccoverage"),
}
LEARNERS: dict[str, Callable[[], Any]] = {
    "logistic": lambda: LogisticRegression(C=0.1, max_iter=500),
    "lightgbm": lambda: LGBMClassifier(
        n_estimators=40, num_leaves=8, learning_rate=0.1, verbose=-1, n_jobs=1
    ),
}


@dataclass(frozen=True)
class Fit:
    """What a method is asked for, and the rows that it learns from and is measured on."""

    data: Data
    train: NDArray[np.intp]
    test: NDArray[np.intp]
    notion: str
    asked: float
    learner: str
    memory: str
    """Folder for posteriors, which all requirements, tolerances and margins share."""

    def of(self, rows: NDArray[np.intp]) -> tuple[Any, Any, Any]:
        """Features, labels and groups of some rows."""
        return self.data.X[rows], self.data.y[rows], self.data.groups[rows]

    def ours(self, kind: Any, **more: Any) -> tuple[Any, float]:
        """Decisions of one of our classifiers about the test rows, and what it expects of them."""
        X, y, groups = self.of(self.train)
        if kind is eh.FairPostprocessor:
            more["posteriors"] = eh.CrossFit(memory=self.memory)
        fair = kind(LEARNERS[self.learner](), NOTIONS[self.notion](self.asked), **more)
        fair.fit(X, y, sensitive_features=groups)
        new, _, own = self.of(self.test)
        decided = fair.predict(new, **({"sensitive_features": own} if more.get("aware") else {}))
        return decided, fair.forecast_.on(len(self.test)).expected[0].value

    def gradient(self) -> tuple[Any, float]:
        """Decisions of fairlearn's ExponentiatedGradient."""
        X, y, groups = self.of(self.train)
        requirement = REDUCTIONS[self.notion](difference_bound=self.asked)
        method = reductions.ExponentiatedGradient(LEARNERS[self.learner](), requirement, eps=self.asked)
        method.fit(X, y, sensitive_features=groups)
        return method.predict(self.of(self.test)[0], random_state=0), float("nan")

    def thresholds(self) -> tuple[Any, float]:
        """Decisions of fairlearn's ThresholdOptimizer, with a tolerance."""
        X, y, groups = self.of(self.train)
        method = ThresholdOptimizer(
            estimator=LEARNERS[self.learner](),
            constraints=POSTPROCESSED[self.notion],
            predict_method="predict_proba",
            tol=self.asked,
        )
        method.fit(X, y, sensitive_features=groups)
        new, _, own = self.of(self.test)
        return method.predict(new, sensitive_features=own, random_state=0), float("nan")


METHODS: dict[str, Callable[[Fit], tuple[Any, float]]] = {
    "blind": lambda fit: fit.ours(eh.FairPostprocessor),
    "aware": lambda fit: fit.ours(eh.FairPostprocessor, aware=True),
    "in-processed": lambda fit: fit.ours(eh.FairInprocessor),
    "blind, margin": lambda fit: fit.ours(eh.FairPostprocessor, margin="forecast"),
    "aware, margin": lambda fit: fit.ours(eh.FairPostprocessor, aware=True, margin="forecast"),
    "ExponentiatedGradient": Fit.gradient,
    "ThresholdOptimizer, aware": Fit.thresholds,
}


def _measured(constraint: Any, y: Any, decided: Any, groups: Any) -> tuple[float, float]:
    """The disparity of the test rows, and its value without their sampling error, by a bootstrap."""
    counted = eh.cell_rates(y, decided, groups)
    mass, rates = counted.mass.astype(np.int64), np.nan_to_num(counted.rates)
    drawn = np.random.default_rng(0).binomial(mass, rates, size=(200, *mass.shape))
    again = CellRates(counted.groups, np.broadcast_to(counted.mass, drawn.shape), drawn.astype(np.float64))
    value = max(found.difference for found in constraint.measure(counted))
    several = np.concatenate([found.differences for found in constraint.measure(again)], axis=1)
    return value, max(0.0, 2 * value - float(np.nanmax(several, axis=1).mean()))


def settings(splits: int) -> Iterator[tuple[str, str, str, int, float, str, int]]:
    """Table, method, notion, size, tolerance, learner and split of every cell."""
    for split, name, size in product(range(splits), DATA, range(3)):
        for method, notion, asked in product(METHODS, NOTIONS, (*TOLERANCES, 0.0)):
            ours = method in ("blind", "aware")
            if asked or ours:  # exact parity only for the curve of the default
                yield name, method, notion, size, asked, "logistic", split
            if asked and method in ("blind", "aware") and split < 2 and name in ("Adult", "ACS income"):
                yield name, method, notion, size, asked, "lightgbm", split


def cell(data: Data, setting: tuple[Any, ...], memory: str) -> dict[str, Any]:
    """One fit, measured on new rows."""
    _, method, notion, size, asked, learner, split = setting
    order = np.random.default_rng(FIRST_SEED + split).permutation(len(data.y))
    train, test = np.split(order[: data.sizes[size] + MOST_TESTED], [data.sizes[size]])
    try:
        decided, forecast = METHODS[method](Fit(data, train, test, notion, asked, learner, memory))
    except Exception as error:  # what a method cannot do is counted
        return {"failed": f"{type(error).__name__}: {error}"[:120]}
    value, corrected = _measured(NOTIONS[notion](asked), data.y[test], decided, data.groups[test])
    accuracy = float((np.asarray(decided) == data.y[test]).mean())
    return {"forecast": forecast, "measured": value, "corrected": corrected, "accuracy": accuracy}


KEYS = ("data", "method", "notion", "size", "asked", "learner", "split")


def summary(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Means by method and notion, errors of the forecast, and what margins cost."""
    results: dict[str, Any] = {}
    good = [c for c in cells if "failed" not in c]
    results["cells"], results["failed"] = len(good), len(cells) - len(good)
    tables = {
        "three tables": (list(DATA)[:3], "logistic"),
        "public coverage": (list(DATA)[3:], "logistic"),
        "boosted trees": (["Adult", "ACS income"], "lightgbm"),
    }
    for where, (names, learner) in tables.items():
        for method, notion in product(METHODS, NOTIONS):
            own = [
                c
                for c in good
                if (c["method"], c["notion"], c["learner"]) == (method, notion, learner)
                and c["data"] in names
                and c["asked"] > 0
            ]
            if own:
                results[f"{where}: {method}, {notion}"] = _line(own)
            if own and method.endswith(", margin"):
                margins = {tuple(c[key] for key in KEYS if key != "method") for c in own}
                plain = [
                    c["corrected"]
                    for c in good
                    if c["method"] == method.removesuffix(", margin")
                    and tuple(c[key] for key in KEYS if key != "method") in margins
                ]
                results[f"{where}: {method}, {notion}"]["corrected without it"] = round(
                    float(np.mean(plain)), 4
                )
    for way, notion in product(("blind", "aware"), NOTIONS):
        behind = _behind([c for c in good if c["notion"] == notion and c["learner"] == "logistic"], way)
        if behind:
            half = t.ppf(0.975, len(behind) - 1) * np.std(behind, ddof=1) / np.sqrt(len(behind))
            results[f"margin, {way}, {notion}: points of accuracy above the default's curve"] = (
                f"{np.mean(behind):+.2f} [{np.mean(behind) - half:+.2f}, {np.mean(behind) + half:+.2f}]"
            )
    return results


def _line(own: list[dict[str, Any]]) -> dict[str, Any]:
    asked, forecast, measured, corrected = (
        np.array([c[key] for c in own]) for key in ("asked", "forecast", "measured", "corrected")
    )
    line = {
        "fits": len(own),
        "asked": round(float(asked.mean()), 4),
        "measured": round(float(measured.mean()), 4),
        "corrected": round(float(corrected.mean()), 4),
    }
    if not np.isnan(forecast).any():
        error, word = np.abs(forecast - measured).mean(), np.abs(asked - measured).mean()
        parts: dict[tuple[str, int], list[float]] = {}
        for c in own:
            parts.setdefault((c["data"], c["split"]), []).append(c["forecast"] - c["measured"])
        by_split = [np.mean(differences) for differences in parts.values()]
        several = len(parts) > 1
        spread = round(float(np.std(by_split, ddof=1) / len(parts) ** 0.5), 4) if several else None
        line |= {
            "forecast for the test rows": round(float(forecast.mean()), 4),
            "forecast minus measured": round(float((forecast - measured).mean()), 4),
            "its standard error over splits": spread,
            "mean absolute error": round(float(error), 4),
            "ratio to that of the tolerance": round(float(error / word), 2),
            "correlation": round(float(np.corrcoef(forecast, measured)[0, 1]), 2),
        }
    return line


def _behind(cells: list[dict[str, Any]], way: str) -> list[float]:
    """Points of accuracy of margins above the default's curve, at the same measured disparity."""
    found = []
    for name, size in product(DATA, range(3)):
        own = [c for c in cells if (c["data"], c["size"]) == (name, size)]
        needed = [(way, asked) for asked in (0.0, *TOLERANCES)]
        needed += [(f"{way}, margin", asked) for asked in TOLERANCES]
        there = [{c["split"] for c in own if (c["method"], c["asked"]) == one} for one in needed]
        own = [c for c in own if c["split"] in set.intersection(*there)]
        curve = [_mean(own, way, asked) for asked in (0.0, *TOLERANCES)]
        points = [_mean(own, f"{way}, margin", asked) for asked in TOLERANCES]
        if any(point is None for point in (*curve, *points)):
            continue
        x, accuracy = np.array(sorted(curve)).T
        found += [100 * (point[1] - float(np.interp(point[0], x, accuracy))) for point in points]
    return found


def _mean(cells: list[dict[str, Any]], method: str, asked: float) -> tuple[float, float] | None:
    """Mean measured disparity and accuracy of a method."""
    own = [(c["measured"], c["accuracy"]) for c in cells if (c["method"], c["asked"]) == (method, asked)]
    return tuple(np.mean(own, axis=0).tolist()) if own else None


def main() -> None:
    """Run what is not kept yet, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--fresh", action="store_true")
    options = parser.parse_args()
    if options.fresh:
        CELLS.unlink(missing_ok=True)
    cells = [json.loads(line) for line in CELLS.read_text().splitlines()] if CELLS.exists() else []
    done = {tuple(c[key] for key in KEYS) for c in cells}
    loaded: dict[str, Data] = {}
    with tempfile.TemporaryDirectory() as memory:
        for setting in settings(options.splits):
            name, method, *_ = setting
            if setting in done or name not in options.data or method not in options.methods:
                continue
            if name not in loaded:
                loaded[name] = DATA[name]()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = dict(zip(KEYS, setting, strict=True)) | cell(loaded[name], setting, memory)
            with CELLS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")
            cells.append(found)
    results = {"tolerances": list(TOLERANCES), "splits": options.splits, **summary(cells)}
    write("forecast", results, ["evenhand", "numpy", "scikit-learn", "lightgbm", "fairlearn"])


if __name__ == "__main__":
    main()
