"""Every method as a curve: accuracy and disparity on test rows over its own tolerances."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from fairlearn.postprocessing import ThresholdOptimizer
from fairlearn.reductions import (
    DemographicParity,
    EqualizedOdds,
    ErrorRateParity,
    ExponentiatedGradient,
    FalsePositiveRateParity,
    TruePositiveRateParity,
)

import evenhand as eh
from benchmarks.paper import bias_score, linear_post
from benchmarks.paper.asked import DIFFERENCES, Asked, Point, judged
from benchmarks.paper.tables import Half, Logistic, Table
from benchmarks.stages import Learned, learn
from evenhand.estimators.column_generation import choose_mixture, choose_single
from evenhand.estimators.fair_training import generate_pool
from evenhand.posteriors.tabular import TabularClassifier

__all__ = ["METHODS", "OURS", "Curve", "Method", "Task", "half_posteriors", "our_curves"]

REDUCTIONS = {
    "DP": DemographicParity,
    "EO": TruePositiveRateParity,
    "PE": FalsePositiveRateParity,
    "AP": ErrorRateParity,
    "odds": EqualizedOdds,
}
THRESHOLDS = {
    "DP": "demographic_parity",
    "EO": "true_positive_rate_parity",
    "PE": "false_positive_rate_parity",
    "odds": "equalized_odds",
}
REDUCED = {"difference": [0.005, 0.03, 0.08], "ratio": [0.95, 0.7]}
"""ExponentiatedGradient takes most of the time: these tolerances with trees."""
REDUCED_LARGE = {"difference": [0.005, 0.05], "ratio": [0.8]}
"""With trees on all of Adult."""
REDUCED_SURVEY = {"difference": [0.02]}
"""With trees on the survey, up to 87,000 rows to learn from."""
REDUCED_SMALL = {"difference": [0.005, 0.02, 0.04, 0.07, 0.11], "ratio": [0.95, 0.85, 0.7, 0.5]}
"""With logistic regression, which is quick."""
ROUNDS = {"trees": 15, "logistic": 50}
UNLIMITED = 100
"""Twice the default of fairlearn: nearly always it stops by its own rule before."""
THRESHOLD_TOLERANCES = [0.0, 0.02, 0.05, 0.1, 0.15]


@dataclass(frozen=True)
class Task:
    """One split of a table, and whether decisions may use the group."""

    table: Table
    seed: int
    aware: bool
    train: Half
    test: Half

    @property
    def shown(self) -> Any:
        """Sensitive features of test rows, if they may be used."""
        return self.test.sensitive if self.aware else None


@dataclass
class Curve:
    """Points of one method, what it took, and what else is to be kept."""

    points: list[Point] = field(default_factory=list)
    fits: float = 0.0
    seconds: float = 0.0
    also: dict[str, Curve] = field(default_factory=dict)
    """Of other methods, found on the way."""


Curves = Iterator[tuple[Asked, Curve]]


def our_curves(task: Task, asked: list[Asked], **settings: Any) -> Curves:
    """Post-processing: all curves of a form of posteriors from one model."""
    for some, learned, posteriors, shared in _learned(task, asked, **settings):
        for one in some:
            start = time.process_time()
            curve = Curve(fits=learned.fits)
            for tolerance in one.tolerances():
                solution = learned.solve(one.at(tolerance))
                selection = learned.rule(solution).selection(posteriors)
                curve.points.append(one.point(judged(task.test, selection)))
            curve.seconds = shared + time.process_time() - start
            yield one, curve


def _learned(
    task: Task, asked: list[Asked], **settings: Any
) -> Iterator[tuple[list[Asked], Learned, Any, float]]:
    """Posteriors of training and test rows as `fit` learns them: demographic parity needs another form."""
    for parity in (True, False):
        some = [one for one in asked if (one.notion == "DP") == parity]
        if some:
            start = time.process_time()
            fair = eh.FairPostprocessor(task.table.model(), some[0].at(0.5), aware=task.aware)
            fair.set_params(**settings)
            learned = learn(fair, task.train.X, task.train.y, task.train.sensitive)
            new = learned.new(task.test.X, task.shown)
            yield some, learned, new, time.process_time() - start


def trained(task: Task, asked: list[Asked]) -> Curves:
    """In-processing: a few models are trained for each tolerance, and the best single one is judged."""
    for one, curve in _trained(task, asked):
        curve.also = {"in, mixture": curve.also["in, mixture"]}
        yield one, curve


def trained_mixture(task: Task, asked: list[Asked]) -> Curves:
    """In-processing: the best mixture of the models that are trained for each tolerance."""
    for one, curve in _trained(task, asked):
        mixture = curve.also.pop("in, mixture")
        mixture.also = {"in": curve}
        yield one, mixture


def _trained(task: Task, asked: list[Asked]) -> Curves:
    """The single classifier, and beside it the mixture of the same pool."""
    start = time.process_time()
    fair = eh.FairInprocessor(task.table.model(), eh.DemographicParity(difference=0.5), aware=task.aware)
    learned = learn(fair, task.train.X, task.train.y, task.train.sensitive)
    new = learned.data.access.read(fair, task.test.X, task.shown)
    shared = time.process_time() - start
    for one in asked:
        start = time.process_time()
        single, mixture, fits = Curve(), Curve(), []
        for tolerance in one.tolerances(few=True):
            pool, generated = generate_pool(
                fair, one.at(tolerance), learned.data, learned.posteriors, seed=learned.seed
            )
            for curve, chosen in (
                (single, choose_single(pool, generated)),
                (mixture, choose_mixture(pool, generated, "")),
            ):
                curve.points.append(one.point(judged(task.test, chosen.model.selection(new.X))))
            fits.append(learned.fits + pool.trainer.fits)
        single.seconds = mixture.seconds = shared + time.process_time() - start
        single.fits = mixture.fits = float(np.mean(fits))
        single.also = {"in, mixture": mixture}
        yield one, single


def plain_trees(task: Task, asked: list[Asked]) -> Curves:
    """Boosted trees without any constraint."""
    X, new = _seen(task)
    start = time.process_time()
    model = TabularClassifier().fit(X, task.train.y)
    yield from _one_point(task, asked, model.predict(new), start)


def plain_logistic(task: Task, asked: list[Asked]) -> Curves:
    """Logistic regression without any constraint."""
    X, new = task.train.numbers, task.test.numbers
    if task.aware:
        X, new = task.train.numbers_with_group, task.test.numbers_with_group
    start = time.process_time()
    model = Logistic().fit(X, task.train.y)
    yield from _one_point(task, asked, model.predict(new), start)


def reduction(task: Task, asked: list[Asked]) -> Curves:
    """Fairlearn's ExponentiatedGradient."""
    yield from _reduced(task, asked, ROUNDS[task.table.learner])


def reduction_unlimited(task: Task, asked: list[Asked]) -> Curves:
    """The same, with as many rounds as it wants."""
    yield from _reduced(task, asked, UNLIMITED)


def _reduced(task: Task, asked: list[Asked], rounds: int) -> Curves:
    X, new = _seen(task)
    some = reduced(task.table)
    for one in asked:
        start = time.process_time()
        curve, fits = Curve(), []
        for tolerance in some[one.measure]:
            bound = {f"{one.measure}_bound": tolerance}
            peer = ExponentiatedGradient(
                task.table.model(),
                REDUCTIONS[one.notion](**bound),
                eps=tolerance if one.measure == "difference" else 0.01,
                max_iter=rounds,
            )
            peer.fit(X, task.train.y, sensitive_features=task.train.codes)
            curve.points.append(one.point(judged(task.test, peer._pmf_predict(new)[:, 1])))
            fits.append(peer.n_oracle_calls_)
        curve.fits = float(np.mean(fits))
        curve.seconds = time.process_time() - start
        yield one, curve


def reduced(table: Table) -> dict[str, list[float]]:
    """Tolerances of ExponentiatedGradient."""
    if table.learner == "logistic":
        return REDUCED_SMALL
    if table.survey:
        return REDUCED_SURVEY
    return REDUCED_LARGE if (table.source, table.variant) == ("adult", "single") else REDUCED


def thresholds(task: Task, asked: list[Asked]) -> Curves:
    """Fairlearn's ThresholdOptimizer, which knows no ratios: its classifiers are measured by them as well."""
    X, new = _seen(task)
    start = time.process_time()
    model = task.table.model().fit(X, task.train.y)
    shared = time.process_time() - start
    for notion in dict.fromkeys(one.notion for one in asked):
        start, found = time.process_time(), []
        for tolerance in (None,) if notion == "odds" else THRESHOLD_TOLERANCES:
            peer = ThresholdOptimizer(
                estimator=model,
                constraints=THRESHOLDS[notion],
                prefit=True,
                predict_method="predict_proba",
                tol=tolerance or None,
            )
            peer.fit(X, task.train.y, sensitive_features=task.train.codes)
            chances = peer._pmf_predict(new, sensitive_features=task.test.codes)
            found.append(judged(task.test, chances[:, 1]))
        took = shared + time.process_time() - start
        yield from _measured(asked, notion, found, took)


def linear(task: Task, asked: list[Asked]) -> Curves:
    """The linear program of Xian and Zhao, on posteriors of one half of the training rows for the other."""
    start = time.process_time()
    _, p, new = half_posteriors(task)
    yield from _linear(task, asked, p, new, time.process_time() - start)


def _linear(task: Task, asked: list[Asked], p: np.ndarray, new: np.ndarray, shared: float) -> Curves:
    for notion in dict.fromkeys(one.notion for one in asked):
        start = time.process_time()
        found = [
            judged(task.test, linear_post.fit(p, notion, tolerance, task.seed).selection(new, task.seed))
            for tolerance in DIFFERENCES
        ]
        yield from _measured(asked, notion, found, shared + time.process_time() - start)


def linear_alike(task: Task, asked: list[Asked]) -> Curves:
    """The same linear program on the cross-fitted, calibrated posteriors that post-processing has."""
    for some, learned, posteriors, shared in _learned(task, asked):
        p, new = learned.posteriors.out_of_fold.dense(), posteriors.dense()
        for one, curve in _linear(task, some, p, new, shared):
            curve.fits = learned.fits
            yield one, curve


def biased(task: Task, asked: list[Asked]) -> Curves:
    """The bias scores of Chen and others, chosen on one half of the training rows."""
    start = time.process_time()
    rows, p, new = half_posteriors(task)
    shared = time.process_time() - start
    for notion in dict.fromkeys(one.notion for one in asked):
        start = time.process_time()
        score = bias_score.fit(
            p, task.train.y[rows], task.train.codes[rows], notion, tolerances=DIFFERENCES, seed=task.seed
        )
        found = [judged(task.test, score.selection(new, tolerance)) for tolerance in DIFFERENCES]
        yield from _measured(asked, notion, found, shared + time.process_time() - start)


def half_posteriors(task: Task) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Learn from half of the training rows; give the other, its posteriors, and those of test rows."""
    order = np.random.default_rng(task.seed).permutation(len(task.train.y))
    first, second = order[: len(order) // 2], order[len(order) // 2 :]
    train, groups = task.train, task.train.codes.max() + 1
    X, new = _seen(task)

    def cells(model: Any, X: Any, codes: np.ndarray) -> np.ndarray:
        chances = model.predict_proba(X)
        p = np.zeros((len(X), 2 * groups))
        if task.aware:
            p[np.arange(len(X)), 2 * codes] = chances[:, 0]
            p[np.arange(len(X)), 2 * codes + 1] = chances[:, 1]
        else:
            p[:, model.classes_] = chances
        return p.reshape(len(X), groups, 2)

    target = train.y if task.aware else 2 * train.codes + train.y
    model = task.table.model().fit(X.iloc[first], target[first])
    return second, cells(model, X.iloc[second], train.codes[second]), cells(model, new, task.test.codes)


def _seen(task: Task) -> tuple[Any, Any]:
    if task.aware:
        return task.train.with_group, task.test.with_group
    return task.train.X, task.test.X


def _one_point(task: Task, asked: list[Asked], selection: np.ndarray, start: float) -> Curves:
    rates = judged(task.test, selection)
    for one in asked:
        yield one, Curve([one.point(rates)], 1.0, time.process_time() - start)


def _measured(asked: list[Asked], notion: str, found: list[Any], took: float) -> Curves:
    for one in asked:
        if one.notion == notion:
            yield one, Curve([one.point(rates) for rates in found], 1.0, took)


@dataclass(frozen=True)
class Method:
    """How it is run, the settings it has, on how many splits at most, and the notions it is made for."""

    run: Callable[[Task, list[Asked]], Curves]
    settings: tuple[str, ...] = ("blind", "aware")
    splits: int = 10
    notions: tuple[str, ...] = ("DP", "EO", "PE", "AP", "odds")


_RATES = ("DP", "EO", "PE", "odds")
METHODS = {
    "post": Method(our_curves),
    "in": Method(trained),
    "in, mixture": Method(trained_mixture),
    "plain trees": Method(plain_trees),
    "plain logistic": Method(plain_logistic),
    "ThresholdOptimizer": Method(thresholds, ("aware",), notions=_RATES),
    "LinearPost": Method(linear, notions=_RATES),
    "LinearPost, our posteriors": Method(linear_alike, notions=_RATES),
    "bias score": Method(biased, notions=_RATES),
    "ExponentiatedGradient": Method(reduction, splits=5),
    "ExponentiatedGradient, unlimited": Method(reduction_unlimited, splits=5),
}
OURS = ("post", "in", "in, mixture")
