"""Training for a requirement: multipliers, the costs that they give, and a classifier that is fair enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.display.progress import track
from evenhand.estimators.cost_sensitive import CostSensitiveTrainer, TrainedClassifier
from evenhand.estimators.learned_posteriors import LearnedPosteriors
from evenhand.estimators.search import DualAscent, GridSearch, Trial, best_trial, read_search
from evenhand.estimators.training_data import TrainingData
from evenhand.exceptions import CertificateError, InfeasibleError
from evenhand.fairness.constraints import ByConstraint, ConstraintName
from evenhand.fairness.rates import CellRates
from evenhand.fairness.requirement import Constraint
from evenhand.fairness.scores import GroupedScores
from evenhand.inference.guarantee import Promise, promised
from evenhand.optimum.problem import FairnessProblem
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.learner import Learner
from evenhand.posteriors.tabular import TabularClassifier
from evenhand.solver.certificate import Certificate

if TYPE_CHECKING:
    from evenhand.estimators.inprocess import FairInprocessor

__all__ = ["NEAR", "FairTraining", "search_of", "train_fair"]

_SHARES = (1.0, 0.75, 0.5, 0.25, 0.0)
"""By how much tolerances are tightened for a promise, the tightest first."""
_STEP = 0.25
"""Smallest share by which a requirement is tightened."""
NEAR = 0.01
"""Smaller violations are ignored."""
_FAR_OFF = 0.05
"""From this violation on at exact parity, the other target (labels or decisions) is learned."""
_EXPLAINED = 0.2
"""Share of the labels' variance from which on blind decisions of the optimum are learned by themselves."""
_MOST_REFITS = 500
"""Points of a grid that is asked for by name: each of them is a training."""


@dataclass(frozen=True, eq=False)
class FairTraining:
    """A classifier trained for a requirement, and how it was found.

    Attributes
    ----------
    learner : Learner
        The classifier.
    best : TrainedClassifier
        The trial whose multipliers it was trained with.
    multipliers : dict
        By the name of each constraint.
    certificate : Certificate
        Of the optimum for the posteriors at these multipliers.
    promise : Promise or None
    history : tuple of Trial
        Every trial.
    fits : int
        Classifiers trained.
    """

    learner: Learner
    best: TrainedClassifier
    multipliers: Mapping[ConstraintName, float]
    certificate: Certificate
    promise: Promise | None
    history: tuple[Trial, ...]
    fits: int


def train_fair(
    classifier: FairInprocessor,
    constraint: Constraint,
    data: TrainingData,
    posteriors: LearnedPosteriors,
    *,
    seed: int,
    reserved: Examples | None = None,
) -> FairTraining:
    """Choose multipliers for a requirement, and train with the costs that they give.

    Parameters
    ----------
    classifier : FairInprocessor
        Its parameters say how; it stays as it is.
    constraint : Constraint
    data : TrainingData
    posteriors : LearnedPosteriors
    seed : int
        For the rows that are held out.
    reserved : Examples, default=None
        Rows to test a promise on.

    Returns
    -------
    FairTraining
    """
    problem = posteriors.problem(constraint, classifier.cost, data.compared)
    trainer = CostSensitiveTrainer.of(
        problem,
        data.examples.take(posteriors.rows),
        TabularClassifier() if classifier.estimator is None else classifier.estimator,
        cost=classifier.cost,
        distillation=classifier.distillation,
        weights=posteriors.weights,
        holdout=classifier.holdout,
        reserved=reserved,
        seed=seed,
    )
    promise, trials = None, []
    if reserved is None:
        trials = _search(classifier, problem, trainer)
        best = best_trial(trials)
    else:
        candidates = _candidates(classifier, constraint, problem, trainer, trials)
        best, promise = promised(candidates, constraint, classifier.confidence, resolved=problem.constraint)
    learner = best.learner
    if classifier.refit and reserved is None:
        learner = trainer.train(best.multipliers, best.distillation, slice(None))
    names = problem.linear_constraints.names
    return FairTraining(
        learner,
        best,
        ByConstraint(zip(names, best.multipliers.tolist(), strict=True)),
        problem.at(best.multipliers).certificate,
        promise,
        tuple(Trial(t.multipliers, t.risk, t.values, t.violation) for t in trials),
        trainer.fits,
    )


def search_of(classifier: FairInprocessor) -> GridSearch | DualAscent | None:
    """The search that a classifier names; None for the exact solver."""
    return read_search(classifier.search, max_iter=int(classifier.max_refits), budget=_MOST_REFITS)


def _search(
    classifier: FairInprocessor, problem: FairnessProblem, trainer: CostSensitiveTrainer
) -> list[TrainedClassifier]:
    search = search_of(classifier)

    def watch(steps: Iterator[Any], total: int) -> Iterator[Any]:
        return track(steps, what="training", total=total, verbose=classifier.verbose)

    if search is not None:
        return search.run(trainer, watch=watch)
    steps = watch(iter(range(int(classifier.max_refits))), int(classifier.max_refits))
    return _tighten_until_fair(problem, trainer, steps, classifier.tol)


def _candidates(
    classifier: FairInprocessor,
    constraint: Constraint,
    problem: FairnessProblem,
    trainer: CostSensitiveTrainer,
    trials: list[TrainedClassifier],
) -> Iterator[tuple[Constraint, TrainedClassifier, list[CellRates]]]:
    """Classifiers trained for ever looser tolerances; those that are asked for are added to `trials`.

    Tolerances that nothing satisfies are left out.
    """
    steps = [(1.0, 1.0), *((share, classifier.distillation) for share in _SHARES)]
    for share, distillation in track(
        iter(steps), what="training", total=len(steps), verbose=classifier.verbose
    ):
        internal = constraint.tightened(share)
        try:
            solution = problem.under(internal).solve(tol=classifier.tol, advise=share == 0)
        except InfeasibleError:
            if share == 0:
                raise
            continue
        multipliers = np.array(list(solution.multipliers.values()))
        trials.append(trainer.attempt(multipliers, distillation))
        yield internal, trials[-1], [trials[-1].rates]


def _tighten_until_fair(
    problem: FairnessProblem, trainer: CostSensitiveTrainer, steps: Iterator[int], tol: float
) -> list[TrainedClassifier]:
    """Train at the optimum's multipliers, and tighten the requirement until the trained classifier is fair.

    The requirement is tightened by what was missed, up to exact parity; where that is still far off, the
    optimum's own decisions are learned instead of labels. Where exact parity is asked for, decisions are
    learned first, and labels only if that is far off, as where the optimum randomises whole groups. Where
    groups are guessed and the posteriors explain little of the labels, the optimum's decisions are mostly
    noise: there they are learned last, and only if held-out rows are clearly far off.
    """
    trials: list[TrainedClassifier] = []
    informed = isinstance(problem.posteriors, GroupedScores) or trainer.explained >= _EXPLAINED
    share, room = 0.0, 0.0
    targets = list(dict.fromkeys([trainer.distillation, 1.0]))
    if problem.constraint == problem.constraint.tightened(1.0):
        share, targets = 1.0, targets[::-1] if informed else targets
    for _ in steps:
        try:
            multipliers = problem.tightened(share).solve(tol=tol).multipliers
            trials.append(trainer.attempt(np.array(list(multipliers.values())), targets[0]))
            if trials[-1].excess <= NEAR:
                break
            room = room if share else _room(problem, tol)
        except (InfeasibleError, CertificateError):
            if not trials:
                raise
            break
        if share < 1 and room > 0:
            share = min(1.0, share + max(_STEP, trials[-1].violation / room))
        elif len(targets) > 1 and (trials[-1].excess if informed else trials[-1].clear) > _FAR_OFF:
            share, targets = 1.0, targets[1:]
        else:
            break
    return trials


def _room(problem: FairnessProblem, tol: float) -> float:
    """How far inside the requirement the optimum is at exact parity."""
    linear = problem.linear_constraints
    values = linear.values(problem.tightened(1.0).solve(tol=tol).rates.rates)
    return float(np.nanmin(np.fmin(linear.hi - values, values - linear.lo), initial=np.inf))
