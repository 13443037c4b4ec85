"""Training for a requirement: multipliers, the costs that they give, and a classifier that is fair enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.display.progress import track
from evenhand.estimators.column_generation import (
    Chosen,
    ColumnPool,
    Generated,
    beyond_chance,
    choose_mixture,
    choose_single,
    excess,
    generate,
)
from evenhand.estimators.cost_sensitive import CostSensitiveTrainer
from evenhand.estimators.estimated_rates import measured
from evenhand.estimators.learned_posteriors import LearnedPosteriors
from evenhand.estimators.search import DualAscent, GridSearch, Trial, best_trial, read_search
from evenhand.estimators.trained_models import ClassifierMixture, TrainedModel
from evenhand.estimators.training_certificate import TrainingCertificate
from evenhand.estimators.training_data import TrainingData
from evenhand.exceptions import InfeasibleError
from evenhand.fairness.constraints import ByConstraint, ConstraintName
from evenhand.fairness.measurement import AnyMeasurement
from evenhand.fairness.rates import CellRates
from evenhand.fairness.requirement import Constraint
from evenhand.inference.guarantee import Promise, promised
from evenhand.optimum.problem import FairnessProblem
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.tabular import TabularClassifier
from evenhand.solver.master import mix_columns

if TYPE_CHECKING:
    from evenhand.estimators.inprocess import FairInprocessor

__all__ = ["FairTraining", "generate_pool", "search_of", "train_fair"]

_SHARES = (1.0, 0.75, 0.5, 0.25, 0.0)
"""By how much tolerances are tightened for a promise, the tightest first."""
_GENERATED = (1.0, 0.5, 0.0)
"""Those of them that classifiers are trained for; the pool then serves all."""
_MOST_REFITS = 500
"""Points of a grid that is asked for by name: each of them is a training."""


@dataclass(frozen=True, eq=False)
class FairTraining:
    """A classifier trained for a requirement, and how it was found.

    Attributes
    ----------
    model : Learner, GroupThresholds or ClassifierMixture
        The classifier.
    achieved : tuple of Measurement and BoundMeasurement
        The requirement's measures, estimated, or on held-out or reserved rows.
    multipliers : dict
        By the name of each constraint.
    certificate : TrainingCertificate
    promise : Promise or None
    history : tuple of Trial
        Every classifier that was trained on the way.
    fits : int
        Classifiers trained.
    missed : float
        How far the requirement is violated, if that is more than chance explains; otherwise 0.
    """

    model: TrainedModel
    achieved: tuple[AnyMeasurement, ...]
    multipliers: Mapping[ConstraintName, float]
    certificate: TrainingCertificate
    promise: Promise | None
    history: tuple[Trial, ...]
    fits: int
    missed: float


def train_fair(
    classifier: FairInprocessor,
    constraint: Constraint,
    data: TrainingData,
    posteriors: LearnedPosteriors,
    *,
    seed: int,
    reserved: Examples | None = None,
) -> FairTraining:
    """Train for a requirement.

    Parameters
    ----------
    classifier : FairInprocessor
        Its parameters say how; it stays as it is.
    constraint : Constraint
    data : TrainingData
    posteriors : LearnedPosteriors
    seed : int
        For the rows that are held out, and the hash key of a mixture.
    reserved : Examples, default=None
        Rows to test a promise on.

    Returns
    -------
    FairTraining
    """
    trainer = _trainer(classifier, constraint, data, posteriors, seed=seed, reserved=reserved)
    problem, search = trainer.problem, search_of(classifier)
    if search is not None and reserved is None:
        return _by_search(classifier, search, trainer)
    pool, key = ColumnPool.start(trainer), f"{seed:08x}"
    if reserved is None:
        generated = _generate(classifier, pool, problem)
        return _trained(pool, generated, _choose(classifier, pool, generated, key))
    generated = _generate_for_promise(classifier, constraint, pool, problem)
    candidates = _candidates(classifier, constraint, pool, generated, reserved=reserved, key=key)
    (chosen, counted), promise = promised(
        candidates, constraint, classifier.confidence, resolved=problem.constraint
    )
    trained = _trained(pool, generated, chosen)
    return replace(trained, achieved=measured(problem.constraint, counted), promise=promise, missed=0.0)


def generate_pool(
    classifier: FairInprocessor,
    constraint: Constraint,
    data: TrainingData,
    posteriors: LearnedPosteriors,
    *,
    seed: int,
) -> tuple[ColumnPool, Generated]:
    """The pool that :func:`train_fair` chooses from, for those who want a classifier and a mixture."""
    trainer = _trainer(classifier, constraint, data, posteriors, seed=seed, reserved=None)
    pool = ColumnPool.start(trainer)
    return pool, _generate(classifier, pool, trainer.problem)


def _trainer(
    classifier: FairInprocessor,
    constraint: Constraint,
    data: TrainingData,
    posteriors: LearnedPosteriors,
    *,
    seed: int,
    reserved: Examples | None,
) -> CostSensitiveTrainer:
    return CostSensitiveTrainer.of(
        posteriors.problem(constraint, classifier.cost, data.compared),
        data.examples.take(posteriors.rows),
        TabularClassifier() if classifier.estimator is None else classifier.estimator,
        cost=classifier.cost,
        distillation=classifier.distillation,
        weights=posteriors.weights,
        holdout=classifier.holdout,
        reserved=reserved,
        seed=seed,
    )


def search_of(classifier: FairInprocessor) -> GridSearch | DualAscent | None:
    """The search that a classifier names; None for column generation."""
    return read_search(classifier.search, max_iter=int(classifier.max_refits), budget=_MOST_REFITS)


def _generate(
    classifier: FairInprocessor, pool: ColumnPool, problem: FairnessProblem, refits: int | None = None
) -> Generated:
    """Extend a pool for a requirement; the plain classifier counts as one of the refits."""
    count = int(classifier.max_refits) - 1 if refits is None else refits
    steps = track(iter(range(count)), what="training", total=count, verbose=classifier.verbose)
    return generate(
        pool,
        problem,
        steps=steps,
        distillation=float(classifier.distillation),
        cost=classifier.cost,
        tol=classifier.tol,
    )


def _choose(classifier: FairInprocessor, pool: ColumnPool, generated: Generated, key: str) -> Chosen:
    if classifier.randomize:
        return choose_mixture(pool, generated.problem, generated.mixed.weights, key)
    return choose_single(pool, generated.problem, generated.price)


def _trained(pool: ColumnPool, generated: Generated, chosen: Chosen) -> FairTraining:
    problem, optimum = generated.problem, generated.optimum
    mixture = choose_mixture(pool, problem, generated.mixed.weights, "")
    return FairTraining(
        chosen.model,
        measured(problem.constraint, chosen.rates),
        optimum.multipliers,
        TrainingCertificate.of(
            problem,
            chosen.rates,
            bound=optimum.certificate.bound,
            mixture=mixture.rates,
            remaining=generated.remaining,
        ),
        None,
        pool.history(problem, mixture.weights),
        pool.trainer.fits,
        excess(problem, chosen.rates) if beyond_chance(pool, problem, chosen.rates) else 0.0,
    )


def _generate_for_promise(
    classifier: FairInprocessor, constraint: Constraint, pool: ColumnPool, problem: FairnessProblem
) -> Generated:
    """A pool for tightened requirements too, so that the requested one is generated last."""
    for share in _GENERATED[:-1]:
        try:
            tightened = problem.under(constraint.tightened(share))
            _generate(classifier, pool, tightened, max(2, int(classifier.max_refits) // 2))
        except InfeasibleError:
            continue  # bounds can contradict each other where they are tightened
    return _generate(classifier, pool, problem, max(2, int(classifier.max_refits) // 2))


def _candidates(
    classifier: FairInprocessor,
    constraint: Constraint,
    pool: ColumnPool,
    generated: Generated,
    *,
    reserved: Examples,
    key: str,
) -> Iterator[tuple[Constraint, tuple[Chosen, CellRates], list[CellRates]]]:
    """Classifiers or mixtures of the pool for ever looser tolerances, with counts on the reserved rows."""
    price = generated.price
    for share in _SHARES:
        internal = constraint.tightened(share)
        problem = generated.problem.under(internal)
        if classifier.randomize:
            weights = mix_columns(problem.program, pool.sums, price).weights
            chosen = choose_mixture(pool, problem, weights, key)
        else:
            chosen = choose_single(pool, problem, price)
        counts = _counted(chosen.model, reserved, generated.problem)
        yield internal, (chosen, counts[0]), counts


def _counted(model: TrainedModel, reserved: Examples, problem: FairnessProblem) -> list[CellRates]:
    """Counts of decisions on the reserved rows, by features and by ids if these differ."""
    ways = [model.choose(reserved.X) == 1]
    if isinstance(model, ClassifierMixture):
        by_id = model.choose(reserved.X, np.arange(len(reserved))) == 1
        ways += [by_id] if (by_id != ways[0]).any() else []
    return [CellRates.count(problem.groups, reserved.compared_cells, one) for one in ways]


def _by_search(
    classifier: FairInprocessor,
    search: GridSearch | DualAscent,
    trainer: CostSensitiveTrainer,
) -> FairTraining:
    """One of the paper's searches: trained on the rows that are not held out, and once more on all."""

    def watch(steps: Iterator[Any], total: int) -> Iterator[Any]:
        return track(steps, what="training", total=total, verbose=classifier.verbose)

    trials = search.run(trainer, watch=watch)
    best = best_trial(trials)
    model = best.learner
    if classifier.refit:
        model = trainer.train(trainer.table(best.multipliers), best.distillation, slice(None))
    problem = trainer.problem
    names = problem.linear_constraints.names
    rates = trainer.rate_estimator.rates(model.selection(trainer.examples.X))
    return FairTraining(
        model,
        best.measured,
        ByConstraint(zip(names, best.multipliers.tolist(), strict=True)),
        TrainingCertificate.of(problem, rates, bound=problem.at(best.multipliers).certificate.bound),
        None,
        tuple(Trial(t.multipliers, t.risk, t.values, t.violation) for t in trials),
        trainer.fits,
        best.violation if best.violation > 1e-9 else 0.0,
    )
