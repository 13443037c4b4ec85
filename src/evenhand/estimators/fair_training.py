"""Training for a requirement: multipliers, the costs that they give, and a classifier that is fair enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

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
from evenhand.estimators.trained_models import ClassifierMixture, TrainedModel
from evenhand.estimators.training_certificate import TrainingCertificate
from evenhand.estimators.training_data import TrainingData
from evenhand.exceptions import InfeasibleError
from evenhand.guarantee.guarantee import Candidate, GuaranteeResult, guaranteed
from evenhand.guarantee.margins import internal_requirements
from evenhand.optimum.problem import FairnessProblem
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.tabular import TabularClassifier
from evenhand.requirements.constraints import ConstraintName
from evenhand.requirements.measurement import AnyMeasurement
from evenhand.requirements.rates import CellRates
from evenhand.requirements.requirement import Constraint

if TYPE_CHECKING:
    from evenhand.estimators.inprocess import FairInprocessor

_TIGHTENED = (1.0, 0.5)
"""By how much tolerances are tightened to train for a guarantee: exact parity, and halfway."""


@dataclass(frozen=True, eq=False)
class FairTraining:
    """A classifier trained for a requirement, and how it was found.

    Attributes
    ----------
    model : Learner, GroupThresholds or ClassifierMixture
        The classifier.
    constraint : Constraint
        The requirement, with the rates of its references if it has any.
    rates : CellRates
        Of the classifier, estimated.
    selection : array, shape (n,)
        Of the rows, by classifiers that have not seen them.
    achieved : tuple of Measurement and BoundMeasurement
        The requirement's measures of these rates, or on held-out rows.
    multipliers : dict
        By the name of each constraint.
    certificate : TrainingCertificate
    guarantee : GuaranteeResult or None
    fits : int
        Classifiers trained.
    missed : float
        How far the requirement is violated, as it is estimated; 0 if there is a guarantee instead.
    clear : bool
        Whether that is more than chance explains.
    """

    model: TrainedModel
    constraint: Constraint
    rates: CellRates
    selection: NDArray[np.float64]
    achieved: tuple[AnyMeasurement, ...]
    multipliers: Mapping[ConstraintName, float]
    certificate: TrainingCertificate
    guarantee: GuaranteeResult | None
    fits: int
    missed: float
    clear: bool


def train_fair(
    classifier: FairInprocessor,
    constraint: Constraint,
    data: TrainingData,
    posteriors: LearnedPosteriors,
    *,
    seed: int,
    held_out: Examples | None = None,
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
        For the halves that classifiers are judged on, and the hash key of a mixture.
    held_out : Examples, default=None
        Rows to test a guarantee on.

    Returns
    -------
    FairTraining
    """
    confidence, key = classifier.settings().confidence, f"{seed:08x}"
    tightened = () if held_out is None else _TIGHTENED
    pool, generated = generate_pool(classifier, constraint, data, posteriors, seed=seed, tightened=tightened)
    if held_out is None or confidence is None:
        return _trained(pool, generated, _choose(classifier, pool, generated, key))
    candidates = _GuaranteeCandidates(classifier, constraint, pool, generated, held_out, key)
    resolved = generated.problem.constraint
    (chosen, counted), guarantee = guaranteed(
        candidates.from_strictest(),
        constraint,
        confidence,
        resolved=resolved,
        all_rows=data.everyone,
    )
    trained = _trained(pool, generated, chosen)
    return replace(trained, achieved=measured(resolved, counted), guarantee=guarantee, missed=0.0)


def generate_pool(
    classifier: FairInprocessor,
    constraint: Constraint,
    data: TrainingData,
    posteriors: LearnedPosteriors,
    *,
    seed: int,
    tightened: Sequence[float] = (),
) -> tuple[ColumnPool, Generated]:
    """The pool that :func:`train_fair` chooses from.

    It is generated for requirements that are tightened by some shares too, and for the requested one last.
    """
    trainer = CostSensitiveTrainer(
        posteriors.problem(constraint, classifier.cost, data.compared),
        data.examples.take(posteriors.rows),
        TabularClassifier() if classifier.estimator is None else classifier.estimator,
        weights=posteriors.weights,
        cost=classifier.cost,
        seed=seed,
    )
    pool, problem = ColumnPool.start(trainer), trainer.problem
    # The plain classifier counts as one of the fits.
    count = max(2, classifier.rounds // 2) if tightened else classifier.rounds - 1

    def extended(asked: FairnessProblem) -> Generated:
        steps = track(iter(range(count)), what="training", total=count, verbose=classifier.verbose)
        return generate(pool, asked, steps=steps)

    for share in tightened:
        with suppress(InfeasibleError):  # bounds can contradict each other where they are tightened
            extended(problem.under(constraint.tightened(share)))
    return pool, extended(problem)


def _choose(classifier: FairInprocessor, pool: ColumnPool, generated: Generated, key: str) -> Chosen:
    if classifier.randomize:
        return choose_mixture(pool, generated, key)
    return choose_single(pool, generated)


def _trained(pool: ColumnPool, generated: Generated, chosen: Chosen) -> FairTraining:
    problem, by_posteriors = generated.problem, generated.by_posteriors
    selection = chosen.weights @ np.array(pool.selections)
    selected = pool.trainer.rate_estimator.by_posteriors(selection)
    return FairTraining(
        chosen.model,
        problem.constraint,
        chosen.rates,
        selection,
        measured(problem.constraint, chosen.rates),
        generated.optimum.multipliers,
        TrainingCertificate.of(by_posteriors, generated.optimum, selected),
        None,
        pool.trainer.fits,
        excess(problem, chosen.rates),
        beyond_chance(pool.trainer.judge, problem, chosen.rates) > 0,
    )


@dataclass(frozen=True, eq=False)
class _GuaranteeCandidates:
    """Classifiers or mixtures of a pool for ever looser requirements, with counts on the held-out rows."""

    classifier: FairInprocessor
    constraint: Constraint
    pool: ColumnPool
    generated: Generated
    held_out: Examples
    key: str
    _decisions: dict[int, NDArray[np.float64]] = field(default_factory=dict)
    """Of those classifiers of the pool that were asked for, on the held-out rows."""

    def from_strictest(self) -> Iterator[Candidate[tuple[Chosen, CellRates]]]:
        """Those for exact parity and internal requirements; of several that choose the same, the strictest.

        Rates of a trained classifier are further from what is asked of it than those of an optimum, so the
        sequence begins with the fairest of the pool.
        """
        last = None
        rates, resolved = self.generated.optimum.rates, self.generated.problem.constraint
        steps = internal_requirements(self.constraint, rates, len(self.held_out), resolved=resolved)
        for internal in (self.constraint.tightened(1.0), *steps):
            found = self._under(internal)
            weights = found[1][0].weights
            if last is None or not np.array_equal(weights, last):
                yield found
            last = weights

    def _under(self, internal: Constraint) -> Candidate[tuple[Chosen, CellRates]]:
        resolved = self.generated.by_posteriors.under(internal).constraint
        problem = self.generated.problem.under(resolved)
        mixed = self.pool.mix(problem, self.generated.price)
        chosen = _choose(
            self.classifier, self.pool, replace(self.generated, problem=problem, mixed=mixed), self.key
        )
        members = np.flatnonzero(chosen.weights).tolist()
        for t in members:
            if t not in self._decisions:
                self._decisions[t] = self.pool.model(t).selection(self.held_out.X)
        decisions = np.array([self._decisions[t] for t in members])
        ways = [decisions[0] == 1]
        if isinstance(chosen.model, ClassifierMixture):  # drawn by features, or by ids
            number = np.arange(len(self.held_out))[:, None]
            ways = [chosen.model.drawn(decisions, by) == 1 for by in (self.held_out.X, number)]
        groups, cells = problem.groups, self.held_out.compared_cells
        counts = [CellRates.count(groups, cells, one) for one in ways]
        return internal, (chosen, counts[0]), counts
