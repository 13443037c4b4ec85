"""Training for a requirement: multipliers, the costs that they give, and a classifier that is fair enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evenhand.display.progress import track
from evenhand.estimators import column_generation
from evenhand.estimators.column_generation import Chosen, ColumnPool, Generated, choose_mixture, choose_single
from evenhand.estimators.cost_sensitive import CostSensitiveTrainer, broken, measured, risk_of
from evenhand.estimators.learned_posteriors import LearnedPosteriors
from evenhand.estimators.trained_models import ClassifierMixture
from evenhand.estimators.training_data import TrainingData
from evenhand.exceptions import InfeasibleError
from evenhand.guarantee.guarantee import Candidate, GuaranteeResult, guaranteed
from evenhand.guarantee.margins import internal_requirements
from evenhand.optimum.problem import FairnessProblem, multipliers_of
from evenhand.optimum.solution import Solution
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.tabular import TabularClassifier
from evenhand.requirements.measurement import AnyMeasurement
from evenhand.requirements.rates import CellRates
from evenhand.requirements.requirement import Constraint
from evenhand.solver.certificate import Certificate, small

if TYPE_CHECKING:
    from evenhand.estimators.inprocess import FairInprocessor

Floats = NDArray[np.float64]

_TIGHTENED = (1.0, 0.5)
"""By how much tolerances are tightened to train for a guarantee: exact parity, and halfway."""


@dataclass(frozen=True)
class TrainingCertificate(Certificate):
    """The risk of a trained classifier under the posteriors, and bounds that none goes below under them.

    Everything is by the same definition, so that it is proven: the posteriors of the rows of `fit`, and the
    decisions of the classifier, or of classifiers trained alike that have not seen the row. What it attains
    on new rows is estimated by labels and groups instead, in ``achieved_``.

    Attributes
    ----------
    objective : float
        Risk of the classifier under the posteriors.
    bound : float
        No classifier that satisfies the requirement has a smaller risk under the posteriors.
    violation : float
        How far the worst constraint is broken under the posteriors.
    relaxed : float, default=None
        No classifier that breaks each constraint by as much at most has a smaller risk under the posteriors;
        `bound` if it breaks none.

    Examples
    --------
    >>> print(TrainingCertificate(0.12, 0.10, 0.0, relaxed=0.10))
    Under the posteriors the risk is 0.120000, and no classifier that satisfies the requirement is below
    0.100000: no other learner, mixture or longer training would save more than 0.020000.
    """

    relaxed: float = np.nan

    @classmethod
    def of(cls, problem: FairnessProblem, optimum: Solution, selected: Floats) -> TrainingCertificate:
        """The certificate of a classifier, from the mass of each cell that it selects under the posteriors.

        With multipliers lambda, breaking constraints by v saves at most sum of |lambda| v.
        """
        rates = CellRates(problem.groups, problem.masses, selected)
        beyond = np.nan_to_num(np.fmax(0.0, broken(problem, rates)))
        worth = float(np.abs(multipliers_of(optimum.multipliers, problem.linear_constraints)) @ beyond)
        bound = optimum.certificate.bound
        return cls(risk_of(problem, rates), bound, float(beyond.max(initial=0.0)), relaxed=bound - worth)

    @property
    def gap(self) -> float:
        """The most by which another classifier that breaks no constraint further could be better."""
        return self.objective - self.relaxed

    def __str__(self) -> str:
        text = (
            f"Under the posteriors the risk is {self.objective:.6f}, and no classifier that satisfies the "
            f"requirement is below {self.bound:.6f}"
        )
        if self.violation > 1e-12:
            text += (
                f"; this one violates it by {small(self.violation)} under them, and none that violates it no "
                f"further is below {self.relaxed:.6f}"
            )
        saved = max(0.0, self.gap)  # of rounding
        return f"{text}: no other learner, mixture or longer training would save more than {saved:.6f}."


@dataclass(frozen=True, eq=False)
class FairTraining:
    """A classifier trained for a requirement, and how it was found.

    Attributes
    ----------
    pool : ColumnPool
    generated : Generated
        Its problem has the requirement, with the rates of its references if it has any.
    chosen : Chosen
        The classifier, with estimated rates.
    guarantee : GuaranteeResult or None
    counted : CellRates or None
        Rates on held-out rows, if there are any.
    """

    pool: ColumnPool
    generated: Generated
    chosen: Chosen
    guarantee: GuaranteeResult | None = None
    counted: CellRates | None = None

    @property
    def constraint(self) -> Constraint:
        """The requirement, with the rates of its references if it has any."""
        return self.generated.problem.constraint

    @property
    def achieved(self) -> tuple[AnyMeasurement, ...]:
        """The requirement's measures of the estimated rates, or on held-out rows."""
        return measured(self.constraint, self.chosen.rates if self.counted is None else self.counted)

    @property
    def selection(self) -> Floats:
        """Of the rows, by classifiers that have not seen them."""
        return self.chosen.weights @ np.array(self.pool.selections)

    @property
    def certificate(self) -> TrainingCertificate:
        """What no fair classifier goes below, and this one attains under the posteriors."""
        selected = self.pool.trainer.rate_estimator.by_posteriors(self.selection)
        return TrainingCertificate.of(self.generated.by_posteriors, self.generated.optimum, selected)


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

    def choose(found: Generated) -> Chosen:
        return choose_mixture(pool, found, key) if classifier.randomize else choose_single(pool, found)

    if held_out is None or confidence is None:
        return FairTraining(pool, generated, choose(generated))
    resolved = generated.problem.constraint
    candidates = _candidates(pool, generated, constraint, choose, held_out)
    (chosen, counted), guarantee = guaranteed(
        candidates, constraint, confidence, resolved=resolved, all_rows=data.everyone
    )
    return FairTraining(pool, generated, chosen, guarantee, counted)


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
    problem = posteriors.problem(constraint, classifier.cost, data.compared)
    learner = TabularClassifier() if classifier.estimator is None else classifier.estimator
    given = (posteriors.weights, classifier.cost, seed)
    trainer = CostSensitiveTrainer(problem, data.examples.take(posteriors.rows), learner, *given)
    pool = ColumnPool.start(trainer)
    # The plain classifier counts as one of the fits.
    count = max(2, classifier.rounds // 2) if tightened else classifier.rounds - 1

    def extended(asked: FairnessProblem) -> Generated:
        steps = track(iter(range(count)), what="training", total=count, verbose=classifier.verbose)
        return column_generation.generate(pool, asked, steps=steps)

    for share in tightened:
        with suppress(InfeasibleError):  # bounds can contradict each other where they are tightened
            extended(problem.under(constraint.tightened(share)))
    return pool, extended(problem)


def _candidates(
    pool: ColumnPool,
    generated: Generated,
    constraint: Constraint,
    choose: Callable[[Generated], Chosen],
    held_out: Examples,
) -> Iterator[Candidate[tuple[Chosen, CellRates]]]:
    """Classifiers or mixtures for ever looser requirements, with counts of their decisions on held-out rows.

    Those for exact parity and internal requirements; of several that choose the same, the strictest. Rates of
    a trained classifier are further from what is asked of it than those of an optimum, so the sequence begins
    with the fairest of the pool.
    """
    problem, decided, last = generated.problem, dict[int, Floats](), np.empty(0)
    rates, resolved = generated.optimum.rates, problem.constraint
    steps = internal_requirements(constraint, rates, len(held_out), resolved=resolved)
    for internal in (constraint.tightened(1.0), *steps):
        asked = problem.under(generated.by_posteriors.under(internal).constraint)
        chosen = choose(replace(generated, problem=asked, mixed=pool.mix(asked, generated.price)))
        if np.array_equal(chosen.weights, last):
            continue
        last, members = chosen.weights, np.flatnonzero(chosen.weights).tolist()
        decided |= {t: pool.model(t).selection(held_out.X) for t in members if t not in decided}
        decisions = np.array([decided[t] for t in members])
        ways = [decisions[0] == 1]
        if isinstance(chosen.model, ClassifierMixture):  # drawn by features, or by ids
            number = np.arange(len(held_out))[:, None]
            ways = [chosen.model.drawn(decisions, by) == 1 for by in (held_out.X, number)]
        counts = [CellRates.count(problem.groups, held_out.compared_cells, one) for one in ways]
        yield internal, (chosen, counts[0]), counts
