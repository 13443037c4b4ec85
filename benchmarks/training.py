"""How in-processing trains, on synthetic populations whose truth is known.

Its settings were chosen here and not on the tables of ``benchmarks.paper``. Populations are random mixtures
of normal distributions with 2 to 6 groups; for each, models are trained on 1,500 or 4,000 rows and judged by
the true posteriors of 15,000 others. ``regret`` is the accuracy that the optimum for the true posteriors has
more at the disparity that the model really has, in points; ``over`` is that disparity minus the tolerance.

Run: ``python -m benchmarks.training`` (about an hour on one core); ``--populations 4`` for a part. What is
measured is kept as soon as it is, and an interrupted run goes on.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
from fairlearn.reductions import (
    DemographicParity,
    EqualizedOdds,
    ErrorRateParity,
    ExponentiatedGradient,
    TruePositiveRateParity,
)
from rich.progress import track
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import evenhand as eh
from benchmarks.record import RESULTS, write
from benchmarks.stages import learn
from evenhand.estimators import column_generation
from evenhand.estimators.column_generation import choose_mixture, choose_single
from evenhand.estimators.cost_sensitive import RateEstimator
from evenhand.estimators.fair_training import generate_pool
from evenhand.requirements.rates import CellRates

KEPT = RESULTS / "training-cells.jsonl"
ASKED = [
    (eh.DemographicParity, "difference", 0.0),
    (eh.DemographicParity, "difference", 0.05),
    (eh.EqualOpportunity, "difference", 0.02),
    (eh.DemographicParity, "ratio", 0.8),
    (eh.AccuracyParity, "difference", 0.01),
    (eh.EqualizedOdds, "difference", 0.02),
]
PEERS = {
    eh.DemographicParity: DemographicParity,
    eh.EqualOpportunity: TruePositiveRateParity,
    eh.AccuracyParity: ErrorRateParity,
    eh.EqualizedOdds: EqualizedOdds,
}
LEARNERS = {
    "logistic": LogisticRegression(max_iter=500),
    "tree of depth 4": DecisionTreeClassifier(max_depth=4, random_state=0),
    "deep tree": DecisionTreeClassifier(min_samples_leaf=10, random_state=0),
}
VARIANTS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "labels only": {"_DISTILLATION": 0.0},
    "decisions only": {"_DISTILLATION": 1.0},
    "groups not counted": {"counted": False},
    "multipliers not smoothed": {"_SMOOTHING": 0.0},
    "price 4": {"_ABOVE_OPTIMUM": 4.0},
}
GRID = {"difference": [0, 0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5]}
GRID["ratio"] = [1, 0.97, 0.93, 0.85, 0.75, 0.6, 0.45, 0.3, 0.15, 0.02]


@dataclass(frozen=True)
class Population:
    """Cells that are mixtures of normal distributions with unit covariance."""

    masses: np.ndarray
    shares: np.ndarray
    means: np.ndarray

    @classmethod
    def random(cls, seed: int) -> Population:
        """Groups that differ in size, in their share of positives and in their features."""
        rng = np.random.default_rng(seed)
        M, d, parts = (int(rng.choice(some)) for some in ((2, 4, 6), (3, 8), (1, 3)))
        separation, shift = rng.choice([0.8, 1.5, 2.5]), rng.choice([0.7, 1.5])
        sizes = np.maximum(rng.dirichlet(np.full(M, 1.5)), 0.04)
        positive = rng.uniform(0.2, 0.6, M)
        masses = (sizes / sizes.sum())[:, None] * np.column_stack([1 - positive, positive])
        of_group = 1.2 * rng.normal(0, shift, (M, 1, 1, d)) * (rng.random(d) < 0.6) / np.sqrt(d)
        direction = rng.normal(size=(M if parts > 1 else 1, 1, parts, d))
        direction *= separation / np.linalg.norm(direction, axis=-1, keepdims=True)
        offset = 1.2 * rng.normal(size=(M, 1, parts, d)) if parts > 1 else 0.0
        means = of_group + offset + direction * np.array([-0.5, 0.5])[None, :, None, None]
        shares = rng.dirichlet(np.full(parts, 3.0), size=(M, 2))
        return cls(masses, shares, np.broadcast_to(means, (M, 2, parts, d)))

    def sample(self, n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Features, labels and groups of independent rows."""
        rng = np.random.default_rng([seed, n])
        joint = (self.masses[..., None] * self.shares).ravel()
        drawn = rng.choice(len(joint), n, p=joint)
        m, y, _ = np.unravel_index(drawn, self.shares.shape)
        d = self.means.shape[-1]
        return self.means.reshape(-1, d)[drawn] + rng.normal(size=(n, d)), y, m

    def posteriors(self, X: np.ndarray) -> np.ndarray:
        """P(S=m, Y=y | x), shape (n, M, 2)."""
        logs = np.log(self.masses)[..., None] + np.log(self.shares)
        far = ((X[:, None, None, None] - self.means) ** 2).sum(axis=-1)
        cells = logsumexp(logs - far / 2, axis=-1)
        return np.exp(cells - logsumexp(cells, axis=(1, 2), keepdims=True))


@dataclass(frozen=True)
class Truth:
    """Rows to judge on, by their true posteriors."""

    X: np.ndarray
    codes: np.ndarray
    posteriors: np.ndarray
    groups: eh.Groups
    aware: bool

    @property
    def known(self) -> np.ndarray:
        """Posteriors given what may be used."""
        if not self.aware:
            return self.posteriors
        own = self.posteriors[np.arange(len(self.X)), self.codes]
        p = np.zeros_like(self.posteriors)
        p[np.arange(len(p)), self.codes] = own / own.sum(axis=1, keepdims=True)
        return p

    def point(self, selection: np.ndarray, notion: Any, measure: str) -> tuple[float, float]:
        """Accuracy and disparity of decisions."""
        p = self.known
        rates = CellRates(self.groups, p.mean(axis=0), np.tensordot(selection, p, axes=1) / len(p))
        found = notion(**{measure: 0.5}).measure(rates)
        if measure == "difference":
            return 1 - 2 * rates.risk(), max(one.difference for one in found)
        return 1 - 2 * rates.risk(), 1 - min(one.ratio for one in found)

    def curve(self, notion: Any, measure: str) -> np.ndarray:
        """Accuracy and disparity of the optimum over tolerances."""
        p: Any = self.known
        if self.aware:
            eta = p[np.arange(len(p)), self.codes, 1]
            p = eh.GroupedScores(eta, self.codes, len(self.groups))
        solved = (eh.solve(p, notion(**{measure: t}), groups=self.groups) for t in GRID[measure])
        return np.array([self.point(one.selection, notion, measure) for one in solved])


@dataclass(frozen=True)
class Judge:
    """Judges decisions by what was asked, against the optimum."""

    truth: Truth
    curve: np.ndarray
    notion: Any
    measure: str
    tolerance: float

    def __call__(self, selection: np.ndarray, fits: int) -> dict[str, float]:
        """Regret, excess over the tolerance, and the fits that it took."""
        accuracy, disparity = self.truth.point(selection, self.notion, self.measure)
        slack = self.tolerance if self.measure == "difference" else 1 - self.tolerance
        best = float(np.interp(disparity, self.curve[:, 1], self.curve[:, 0]))
        return {"regret": 100 * (best - accuracy), "over": disparity - slack, "fits": fits}


def measured(seed: int, learner: str) -> Iterator[dict[str, Any]]:
    """Every variant and ExponentiatedGradient on one population."""
    rng = np.random.default_rng([seed, 1])
    n, aware = int(rng.choice([1500, 4000])), bool(rng.random() < 0.4)
    population, model = Population.random(seed), LEARNERS[learner]
    X, y, codes = population.sample(n, seed)
    new, _, new_codes = population.sample(15_000, seed + 10_000)
    fair = eh.FairInprocessor(model, eh.DemographicParity(difference=0.5), aware=aware)
    # Posteriors of trees are those of boosted trees, so that all learners are compared with the same ones.
    other = fair if learner == "logistic" else clone(fair).set_params(estimator=eh.TabularClassifier())
    learned = learn(other, X, y, {"group": codes})
    visible = learned.data.access.read(other, new, {"group": new_codes} if aware else None).X
    truth = Truth(new, new_codes, population.posteriors(new), learned.data.groups, aware)
    for notion, measure, tolerance in ASKED:
        curve, constraint = truth.curve(notion, measure), notion(**{measure: tolerance})
        where = {"seed": seed, "learner": learner, "aware": aware, "asked": repr(constraint)}
        judge = Judge(truth, curve, notion, measure, tolerance)
        for name, change in VARIANTS.items():
            pool, generated = _generated(fair, constraint, learned, change)
            single = choose_single(pool, generated)
            mixture = choose_mixture(pool, generated, "")
            for kind, chosen in (("one", single), ("mixture", mixture)):
                fits = learned.fits + pool.trainer.fits
                yield {**where, "name": f"{name}, {kind}", **judge(chosen.model.selection(visible), fits)}
        yield {**where, "name": "ExponentiatedGradient", **judge(*_peer(model, judge, (X, y, codes)))}


def _generated(fair: Any, constraint: Any, learned: Any, change: dict[str, Any]) -> Any:
    with ExitStack() as changed:
        for name, value in change.items():
            if name.startswith("_"):
                changed.enter_context(mock.patch.object(column_generation, name, value))
        if not change.get("counted", True):
            changed.enter_context(mock.patch.object(RateEstimator, "_surprise", None))
        return generate_pool(fair, constraint, learned.data, learned.posteriors, seed=learned.seed)


def _peer(model: Any, judge: Judge, rows: Any) -> tuple[np.ndarray, int]:
    X, y, codes = rows
    truth, bound = judge.truth, max(judge.tolerance, 0.005)  # it divides by it
    peer = ExponentiatedGradient(
        model,
        PEERS[judge.notion](**{f"{judge.measure}_bound": bound}),
        eps=bound if judge.measure == "difference" else 0.01,
    )
    new, known = truth.X, np.eye(len(truth.groups))
    if truth.aware:
        X, new = np.hstack([X, known[codes]]), np.hstack([new, known[truth.codes]])
    peer.fit(X, y, sensitive_features=codes)
    return peer._pmf_predict(new)[:, 1], peer.n_oracle_calls_


def summary(cells: list[dict[str, Any]]) -> dict[str, str]:
    """Means over populations and requirements, and the regret against ExponentiatedGradient's, paired."""
    by_place: dict[Any, dict[str, dict[str, Any]]] = defaultdict(dict)
    for cell in cells:
        by_place[cell["seed"], cell["learner"], cell["asked"]][cell["name"]] = cell
    found = {}
    for learner in LEARNERS:
        for aware in (False, True):
            places = [
                names
                for (_, own, _), names in by_place.items()
                if own == learner and next(iter(names.values()))["aware"] == aware
            ]
            for name in dict.fromkeys(name for names in places for name in names):
                some = [names for names in places if name in names and "ExponentiatedGradient" in names]
                columns = ("regret", "over", "fits")
                regret, over, fits = (np.array([names[name][k] for names in some]) for k in columns)
                gain = np.array([names["ExponentiatedGradient"]["regret"] for names in some]) - regret
                half = 1.96 * gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
                found[f"{learner}, {'aware' if aware else 'blind'}, {name}"] = (
                    f"regret {regret.mean():.2f}, over {over.mean():+.4f}, fits {fits.mean():.1f}, "
                    f"{len(some)} cells; less than ExponentiatedGradient by {gain.mean():+.2f} ± {half:.2f}"
                )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--populations", type=int, default=30)
    parser.add_argument("--learners", nargs="+", choices=LEARNERS, default=list(LEARNERS))
    parser.add_argument("--fresh", action="store_true", help="measure everything anew")
    chosen = parser.parse_args()
    if chosen.fresh:
        KEPT.unlink(missing_ok=True)
    cells = [json.loads(line) for line in KEPT.read_text("utf-8").splitlines()] if KEPT.exists() else []
    done = {(cell["seed"], cell["learner"]) for cell in cells}
    todo = [(seed, name) for seed in range(chosen.populations) for name in chosen.learners]
    for seed, learner in track([one for one in todo if one not in done], description="populations"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            new = list(measured(seed, learner))
        cells += new
        with KEPT.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(cell) + "\n" for cell in new)
    write("training", summary(cells), ["evenhand", "scikit-learn", "fairlearn", "numpy"])


if __name__ == "__main__":
    main()
