"""Missing race: what does inferring it cost against knowing it, and what does dropping rows without it cost.

Run: ``python -m benchmarks.missing`` (about twenty minutes; ``--splits 2 --tree-splits 2`` for a first look).
An interrupted run goes on where it was; ``--fresh`` starts anew. The ACS data are read from
``../shared/data`` or EVENHAND_DATA.

Rows are split in halves. In the training half, race is hidden in 50 or 90 % of the rows: at random, or by one
feature (education, or the number of earlier offences), so that the rows that keep it are of another
population. Decisions are blind, sex is always known in the fit, and the disparity is measured on the other
half with the true groups of sex and race. Every method has the same rows, so that differences are paired:
each is the mean over the splits with a 95 % t-interval. "drop" is a fit to the rows that have race.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import t
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenhand as eh
from benchmarks.acs import load_acs
from benchmarks.record import RESULTS, write
from evenhand.exceptions import EvenhandWarning

CELLS = RESULTS / "missing-cells.jsonl"
FOLDER = Path(os.environ.get("EVENHAND_DATA", Path(__file__).parents[2] / "shared" / "data"))
SHARES = (0.5, 0.9)
WAYS = ("at random", "by x")
SLOPE = 1.5
"""Log-odds of hiding race per standard deviation of the feature, where it depends on that."""
ROWS = 24_000
"""Of a larger table, a random sample of so many rows."""


@dataclass(frozen=True)
class Data:
    """A table with sex and race of every row, and the feature by which race is hidden."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    sex: NDArray[Any]
    race: NDArray[Any]
    driver: NDArray[np.float64]


def _adult() -> Data:
    found = eh.datasets.load_adult("all")
    race = np.where(found.sensitive["race"].to_numpy() == "White", "White", "other")
    return _data(found, (found.label == ">50K").to_numpy(), found.sensitive["sex"], race, "education-num")


def _compas() -> Data:
    found = eh.datasets.load_compas()
    race = found.sensitive["race"].to_numpy()
    return _data(found, found.label.to_numpy() == 1, found.sensitive["sex"], race, "priors_count")


def _acs() -> Data:
    found = load_acs("income", folder=FOLDER)
    race = np.where(found.sensitive["RAC1P"].to_numpy() == 1, "White", "other")
    return _data(found, found.label.to_numpy() == 1, found.sensitive["SEX"], race, "SCHL")


def _data(found: Any, y: NDArray[Any], sex: Any, race: NDArray[Any], driver: str) -> Data:
    X, names = found.one_hot()
    rng = np.random.default_rng(0)
    rows = np.sort(rng.permutation(len(y))[:ROWS])
    chosen = X[rows, names.index(driver)]
    scaled = (chosen - chosen.mean()) / chosen.std()
    return Data(X[rows], y[rows].astype(np.int64), sex.to_numpy()[rows], race[rows], scaled)


DATA: dict[str, Callable[[], Data]] = {"Adult": _adult, "COMPAS": _compas, "ACS income": _acs}
NOTIONS = {"DP": eh.DemographicParity(difference=0.02), "EO": eh.EqualOpportunity(difference=0.02)}
LEARNERS: dict[str, Callable[[], Any]] = {
    "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "trees": lambda: None,
}
SETTINGS = [("logistic", "DP"), ("logistic", "EO"), ("trees", "DP")]


def hidden(driver: NDArray[np.float64], share: float, way: str, seed: int) -> NDArray[np.bool_]:
    """Rows whose race is hidden."""
    chance = np.full(len(driver), share)
    if way == "by x":
        start = brentq(lambda a: expit(a + SLOPE * driver).mean() - share, -50, 50)
        chance = expit(start + SLOPE * driver)
    return np.random.default_rng(seed).random(len(driver)) < chance


def outcomes(data: Data, learner: str, notion: str, split: int) -> list[dict[str, Any]]:
    """Disparity and accuracy of every method on one split."""
    order = np.random.default_rng([split, 1]).permutation(len(data.y))
    train, test = np.array_split(order, 2)
    constraint = NOTIONS[notion]

    def measured(rows: NDArray[Any], race: NDArray[Any], policy: str) -> tuple[float, float]:
        fair = eh.FairPostprocessor(LEARNERS[learner](), constraint, groups=eh.GroupPolicy(missing=policy))
        fair.fit(data.X[rows], data.y[rows], sensitive_features={"sex": data.sex[rows], "race": race})
        decided = fair.predict(data.X[test])
        truth = {"sex": data.sex[test], "race": data.race[test]}
        [found] = constraint.measure(eh.cell_rates(data.y[test], decided, truth))
        return found.difference, float((decided == data.y[test]).mean())

    found = [{"way": "none hidden", "share": 0.0, "method": "complete"}]
    found[0]["MD"], found[0]["accuracy"] = measured(train, data.race[train], "error")
    for share in SHARES:
        for way in WAYS:
            gone = hidden(data.driver[train], share, way, seed=split)
            race = data.race[train].astype(object)
            race[gone] = None
            for method in ("impute", "drop"):
                rows, known = (train, race) if method == "impute" else (train[~gone], race[~gone])
                MD, accuracy = measured(rows, known, "impute" if method == "impute" else "error")
                found.append({"way": way, "share": share, "method": method, "MD": MD, "accuracy": accuracy})
    return found


def interval(values: list[float]) -> str:
    """Mean with a 95 % t-interval."""
    mean, n = float(np.mean(values)), len(values)
    half = float(t.ppf(0.975, n - 1) * np.std(values, ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
    return f"{mean:+.4f} [{mean - half:+.4f}, {mean + half:+.4f}]"


def summary(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean differences from complete data, for every setting."""
    results: dict[str, Any] = {}
    for name in DATA:
        for learner, notion in SETTINGS:
            own = [c for c in cells if (c["data"], c["learner"], c["notion"]) == (name, learner, notion)]
            splits = sorted({c["split"] for c in own})
            if not splits:
                continue
            base = {c["split"]: c for c in own if c["method"] == "complete"}
            label = f"{name}, {learner}, {notion}"
            results[f"{label}: splits"] = len(splits)
            results[f"{label}: complete, MD"] = round(float(np.mean([c["MD"] for c in base.values()])), 4)
            results[f"{label}: complete, accuracy"] = round(
                float(np.mean([c["accuracy"] for c in base.values()])), 4
            )
            for share in SHARES:
                for way in WAYS:
                    at = {(c["method"], c["split"]): c for c in own if (c["way"], c["share"]) == (way, share)}
                    line = f"{label}: {share:.0%} hidden {way}"
                    for key in ("MD", "accuracy"):
                        for method in ("impute", "drop"):
                            change = [at[method, s][key] - base[s][key] for s in splits]
                            results[f"{line}, {key} of {method} minus complete"] = interval(change)
                    better = [at["drop", s]["MD"] - at["impute", s]["MD"] for s in splits]
                    results[f"{line}, MD of drop minus infer"] = interval(better)
    return results


def main() -> None:
    """Run what is not kept yet, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=8, help="with logistic regression")
    parser.add_argument("--tree-splits", type=int, default=2, help="with the default trees")
    parser.add_argument("--fresh", action="store_true")
    options = parser.parse_args()
    if options.fresh:
        CELLS.unlink(missing_ok=True)
    cells = [json.loads(line) for line in CELLS.read_text().splitlines()] if CELLS.exists() else []
    done = {(c["data"], c["learner"], c["notion"], c["split"]) for c in cells}
    for name, load in DATA.items():
        data = load()
        for learner, notion in SETTINGS:
            splits = options.splits if learner == "logistic" else options.tree_splits
            for split in range(splits):
                if (name, learner, notion, split) in done:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", EvenhandWarning)
                    found = outcomes(data, learner, notion, split)
                own = [
                    {"data": name, "learner": learner, "notion": notion, "split": split, **c} for c in found
                ]
                with CELLS.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(c) + "\n" for c in own)
                cells += own
                print(name, learner, notion, split, flush=True)
    results = {"rows": ROWS, "tolerance": 0.02, **summary(cells)}
    write("missing", results, ["evenhand", "numpy", "scipy", "scikit-learn"])


if __name__ == "__main__":
    main()
