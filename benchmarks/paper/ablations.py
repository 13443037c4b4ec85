"""What each part is worth: noise, calibration, cross-fitting, independent groups, guarantees, multipliers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import evenhand as eh
from benchmarks.paper.as_printed import as_printed
from benchmarks.paper.asked import Asked, judged
from benchmarks.paper.methods import Task, our_curves
from benchmarks.stages import learn
from evenhand.exceptions import GuaranteeWarning

__all__ = ["ABLATIONS", "WORST"]

Lines = Iterator[tuple[str, dict[str, Any]]]
"""The name of a variant, and what was measured of it."""
DP = Asked("DP")
NOISE = [0.0, 0.05, 0.1, 0.15, 0.2, 0.3]
LIMITS = [0.05, 0.1]
WORST = 0.3
AS_PRINTED = ("COMPAS, race, logistic", "COMPAS, race x sex", "Adult, sex x race")


def noise(task: Task) -> Lines:
    """P(Y | x, s) moved by Unif(-e, 2e), of training rows and test rows alike."""
    learned, new = _known_groups(task)
    rng = np.random.default_rng(task.seed)
    for size in NOISE:
        old, test = (
            _moved(scores, rng.uniform(-size, 2 * size, len(scores)))
            for scores in (learned.posteriors.out_of_fold, new)
        )
        for limit in LIMITS:
            rule = eh.solve(old, DP.at(limit), groups=learned.data.groups).rule
            point = DP.point(judged(task.test, rule.selection(test)))
            yield f"e={size:g}, tolerance {limit:g}", {"points": [point]}


def noise_apart(task: Task) -> Lines:
    """Where the accuracy goes at e = 0.3: the noise one part at a time, tolerance 0.1."""
    learned, new = _known_groups(task)
    old, groups = learned.posteriors.out_of_fold, learned.data.groups
    labels = task.train.y[learned.posteriors.rows]
    rng = np.random.default_rng(task.seed)
    moves = [rng.uniform(-WORST, 2 * WORST, len(scores)) for scores in (old, new)]
    noisy_old, noisy = _moved(old, moves[0]), _moved(new, moves[1])
    shifted = [_moved(scores, np.full(len(scores), WORST / 2)) for scores in (old, new)]
    tries = {
        "nothing moved": (old, new),
        "all rows moved by their mean, e/2": (shifted[0], shifted[1]),
        "training rows moved": (noisy_old, new),
        "test rows moved": (old, noisy),
        "all rows moved": (noisy_old, noisy),
        "all rows moved, then calibrated": _calibrated(labels, noisy_old, noisy),
    }
    for name, (train, test) in tries.items():
        rule = eh.solve(train, DP.at(0.1), groups=groups).rule
        told = {"points": [DP.point(judged(task.test, rule.selection(test)))]}
        yield name, {**told, "auc": _auc(task.test.y, test.eta), "spread": float(np.std(test.eta))}
    for name, test in {"nothing moved": new, "all rows moved": noisy}.items():
        point = DP.point(judged(task.test, test.eta > 0.5))
        yield f"no constraint, {name}", {"points": [point], "auc": _auc(task.test.y, test.eta)}


def _known_groups(task: Task) -> tuple[Any, Any]:
    fair = eh.FairPostprocessor(task.table.model(), DP.at(0.5), aware=True)
    learned = learn(fair, task.train.X, task.train.y, task.train.sensitive)
    return learned, learned.new(task.test.X, task.test.sensitive)


def _moved(scores: Any, by: np.ndarray) -> Any:
    return eh.GroupedScores(np.clip(scores.eta + by, 0, 1), scores.codes, scores.n_groups)


def _calibrated(y: np.ndarray, old: Any, new: Any) -> tuple[Any, Any]:
    """Scores as P(Y=1) given the noisy score and the group, by logistic regression on training rows."""
    both = [np.copy(scores.eta) for scores in (old, new)]
    for group in range(old.n_groups):
        rows = old.codes == group
        model = LogisticRegression().fit(old.eta[rows, None], y[rows])
        for values, scores in zip(both, (old, new), strict=True):
            some = scores.codes == group
            values[some] = model.predict_proba(scores.eta[some, None])[:, 1]
    moved = (_moved(scores, eta - scores.eta) for eta, scores in zip(both, (old, new), strict=True))
    return next(moved), next(moved)


def _auc(y: np.ndarray, score: np.ndarray) -> float:
    return round(float(roc_auc_score(y, score)), 5)


def calibration(task: Task) -> Lines:
    """Ways to calibrate the posteriors."""
    for name, how in {"none": None, "dirichlet": "auto"}.items():
        yield from _variant(name, task, eh.CrossFit(calibration=how))


def folds(task: Task) -> Lines:
    """Cross-fitting, and the paper's half to learn from and half to choose multipliers on."""
    yield from _variant("five folds, averaged", task)
    yield from _variant("five folds, one model of all rows", task, eh.CrossFit(average=False))
    yield from _variant("half and half", task, eh.CrossFit(0.5))
    yield from _variant("half and half, joint model, not calibrated", task, THE_PAPERS)


THE_PAPERS = eh.CrossFit(0.5, form="joint", calibration=None)


def groups(task: Task) -> Lines:
    """Each feature by itself, or every combination: what either does to both."""
    single, every = Asked("DP", groups="independent"), DP
    fair = eh.FairPostprocessor(task.table.model(), DP.at(0.5), aware=task.aware)
    learned = learn(fair, task.train.X, task.train.y, task.train.sensitive)
    posteriors = learned.new(task.test.X, task.shown)
    for name, one in {"independent": single, "intersectional": every}.items():
        points, others = [], []
        for tolerance in one.tolerances():
            rule = learned.rule(learned.solve(one.at(tolerance)))
            rates = judged(task.test, rule.selection(posteriors))
            points.append(every.point(rates))
            others.append(single.point(rates))
        yield name, {"points": points, "by feature": others}


def guarantee(task: Task) -> Lines:
    """The guarantee switched on, and off."""
    tolerance = 0.15
    for confidence in (None, 0.95):
        fair = eh.FairPostprocessor(
            task.table.model(), DP.at(tolerance), aware=task.aware, guarantee=confidence
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GuaranteeWarning)
            fair.fit(task.train.X, task.train.y, sensitive_features=task.train.sensitive)
        chances = fair.predict_proba(task.test.X, sensitive_features=task.shown)
        point = DP.point(judged(task.test, chances[:, 1]))
        told = {} if fair.guarantee_ is None else {"holds": fair.guarantee_.holds}
        yield "off" if confidence is None else "on", {"points": [point], "tolerance": tolerance, **told}


def multipliers(task: Task) -> Lines:
    """What is chosen at three tolerances, as the paper shows it for one run."""
    for name, kind in {"post": eh.FairPostprocessor, "in": eh.FairInprocessor}.items():
        for tolerance in (0.03, 0.08, 0.2):
            fair = kind(task.table.model(), DP.at(tolerance), aware=task.aware)
            fair.fit(task.train.X, task.train.y, sensitive_features=task.train.sensitive)
            chances = fair.predict_proba(task.test.X, sensitive_features=task.shown)
            yield (
                f"{name}, tolerance {tolerance:g}",
                {
                    "points": [DP.point(judged(task.test, chances[:, 1]))],
                    "multipliers": {str(row): value for row, value in fair.multipliers_.items()},
                },
            )


def _variant(name: str, task: Task, posteriors: eh.CrossFit | None = None) -> Lines:
    for _, curve in our_curves(task, [DP], posteriors=posteriors):
        yield name, {"points": curve.points, "fits": curve.fits}


ABLATIONS: dict[str, tuple[Callable[[Task], Lines], tuple[str, ...], tuple[str, ...], int]] = {
    "noise": (noise, ("COMPAS, race, logistic", "COMPAS, race x sex"), ("aware",), 10),
    "noise apart": (noise_apart, ("COMPAS, race, logistic", "COMPAS, race x sex"), ("aware",), 10),
    "calibration": (calibration, ("COMPAS, race, logistic", "COMPAS, race x sex"), ("blind", "aware"), 10),
    "folds": (folds, ("COMPAS, race x sex", "Adult, sex x race"), ("blind", "aware"), 10),
    "groups": (groups, ("COMPAS, race x sex", "Adult, sex x race"), ("blind", "aware"), 10),
    "guarantee": (guarantee, ("Adult, sex x race", "Adult, sex"), ("blind", "aware"), 5),
    "as printed": (as_printed, AS_PRINTED, ("blind", "aware"), 10),
    "multipliers": (multipliers, ("COMPAS, race x sex", "Adult, sex x race"), ("blind", "aware"), 1),
}
"""How each is run, on which tables, in which settings, and on how many splits at most."""
