"""Column generation: a pool of trained classifiers, the best mixture of them, and what to train next.

A column is a classifier, known by its cell rates. The master program (:mod:`evenhand.solver.master`) finds
the best mixture of the pool that satisfies the requirement, and its multipliers give each row's costs; the
classifier that is trained with these costs is the next column. First columns are the two constants, the plain
classifier, and classifiers trained at the multipliers of the optimum for the posteriors, so that few more are
needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.isotonic import IsotonicRegression

from evenhand.estimators.cost_sensitive import CostSensitiveTrainer
from evenhand.estimators.estimated_rates import measured, standard_errors
from evenhand.estimators.search import Trial
from evenhand.estimators.trained_models import ClassifierMixture, GroupThresholds
from evenhand.estimators.training_certificate import risk_of, violation_of
from evenhand.exceptions import CertificateError, InfeasibleError
from evenhand.fairness.rates import CellRates
from evenhand.fairness.scores import GroupedScores
from evenhand.optimum.problem import FairnessProblem
from evenhand.optimum.solution import Solution
from evenhand.posteriors.learner import Learner
from evenhand.solver.master import Mixed, mix_columns

__all__ = [
    "Chosen",
    "Column",
    "ColumnPool",
    "Generated",
    "beyond_chance",
    "choose_mixture",
    "choose_single",
    "excess",
    "generate",
]

Floats = NDArray[np.float64]
Target = Literal["constant", "labels", "decisions", "thresholds"]

_ABOVE_OPTIMUM = 2.0
"""Price of a violation, in multiples of what the optimum pays, its largest multiplier.

At any price above that the optimum violates nothing; a pool of few classifiers may have to pay more, so that
the price is also raised where it does not suffice.
"""
_RAISE = 4.0
"""By how much the price of a violation is raised; a few steps cover any price."""
_PLAIN = 2
"""Place of the plain classifier in a pool, behind the two constants."""
_ALIKE = 1e-9
"""Share of people decided differently from which on a classifier tells them apart; less is rounding."""
_SMOOTHING = 0.5
"""How far the multipliers to train with are drawn from those of the master program to the optimum's.

With few columns those of the master jump from one extreme to the other; halfway is what is used where neither
is trusted more. Where nothing is gained so, the master's own are used.
"""
_NEGLIGIBLE = 1e-6
"""Weights of a mixture below this are left out: fewer than one person in a million."""


@dataclass(frozen=True, eq=False)
class Column(Trial):
    """A classifier of the pool, as it is told in ``history_``.

    Attributes
    ----------
    multipliers : array, shape (J,)
        Whose costs it was trained with; zeros for the plain classifier and the constants.
    risk : float
        Estimated, as all that follows.
    values : array, shape (J,)
        Of the linear constraints.
    violation : float
        How far the worst constraint is out of bounds; 0 if none is.
    target : {"constant", "labels", "decisions", "thresholds"}
        What was learned: labels with costs, the optimum's decisions, or the plain classifier has a threshold
        for each group.
    rates : CellRates
    gain : float
        By how much a mixture with it could have been better than the one before, at most; NaN for first
        columns.
    weight : float
        Its share in the last mixture.
    """

    target: Target = "labels"
    rates: CellRates | None = None
    gain: float = np.nan
    weight: float = 0.0


@dataclass(eq=False)
class ColumnPool:
    """Trained classifiers with their estimated rates.

    Attributes
    ----------
    trainer : CostSensitiveTrainer
    models : list of Learner and GroupThresholds
    rates : list of CellRates
        Estimated, of each model.
    origins : list of (Target, multipliers or None, gain)
    """

    trainer: CostSensitiveTrainer
    models: list[Learner | GroupThresholds] = field(default_factory=list)
    rates: list[CellRates] = field(default_factory=list)
    origins: list[tuple[Target, Floats | None, float]] = field(default_factory=list)

    @classmethod
    def start(cls, trainer: CostSensitiveTrainer) -> ColumnPool:
        """A pool of the two constants and the plain classifier."""
        pool = cls(trainer)
        for label in (0, 1):
            pool.add(Learner(None, np.array([label]), 2), "constant")
        none = np.zeros_like(trainer.prices)
        pool.add(trainer.train(none, 0.0, slice(None)), "labels")
        return pool

    def add(
        self,
        model: Learner | GroupThresholds,
        target: Target,
        multipliers: Floats | None = None,
    ) -> Floats:
        """Add a classifier; returns the selected mass of each cell."""
        rates = self.trainer.rate_estimator.rates(model.selection(self.trainer.examples.X))
        self.models.append(model)
        self.rates.append(rates)
        self.origins.append((target, multipliers, np.nan))
        return rates.selected.ravel()

    @property
    def sums(self) -> Floats:
        """Selected mass of the cells by each classifier, shape (T, D)."""
        return np.array([rates.selected.ravel() for rates in self.rates])

    def train(self, problem: FairnessProblem, multipliers: Floats, distillation: float) -> Floats:
        """Train a classifier with the costs of some multipliers and add it."""
        table = (multipliers @ problem.program.A)[: problem.masses.size].reshape(-1, 2)
        model = self.trainer.train(table, distillation, slice(None))
        return self.add(model, "decisions" if distillation == 1 else "labels", multipliers)

    def history(self, problem: FairnessProblem, weights: Floats | None = None) -> tuple[Column, ...]:
        """The pool as it is told to users; `weights` are those of a mixture."""
        J = len(problem.linear_constraints)
        shares = np.zeros(len(self.models)) if weights is None else weights
        return tuple(
            Column(
                np.zeros(J) if multipliers is None else multipliers,
                risk_of(problem, rates),
                problem.linear_constraints.values(rates.rates),
                violation_of(problem, rates),
                target,
                rates,
                gain,
                float(weight),
            )
            for (target, multipliers, gain), rates, weight in zip(
                self.origins, self.rates, shares, strict=True
            )
        )


@dataclass(frozen=True, eq=False)
class Generated:
    """What generation found for a requirement.

    Attributes
    ----------
    problem : FairnessProblem
    optimum : Solution
        For the posteriors.
    mixed : Mixed
        The last mixture.
    price : float
        Of a violation, in the last master program.
    remaining : float
        By how much one more classifier of this learner could have improved it, by the last that was trained;
        infinite if there is none.
    """

    problem: FairnessProblem
    optimum: Solution
    mixed: Mixed
    price: float
    remaining: float


def generate(
    pool: ColumnPool,
    problem: FairnessProblem,
    *,
    steps: Iterator[int],
    distillation: float,
    cost: ArrayLike,
    tol: float,
) -> Generated:
    """Add classifiers to a pool until no new one improves the mixture by more than chance.

    Parameters
    ----------
    pool : ColumnPool
        Is extended.
    problem : FairnessProblem
        The requirement, and the rows of the pool.
    steps : iterator
        One for each classifier that may be trained.
    distillation : float
        How far labels are replaced by their posteriors.
    cost : float, pair or array
        As in the problem.
    tol : float
        Of the solver.

    Returns
    -------
    Generated
    """
    optimum = problem.solve(tol=tol)
    multipliers = np.array(list(optimum.multipliers.values()))
    largest = float(np.abs(multipliers).max(initial=0.0)) / problem.unit
    price = _ABOVE_OPTIMUM * largest if largest > 0 else 1.0
    mixed, gain = mix_columns(problem.program, pool.sums, price), np.inf
    if largest == 0 and not _missed(pool, problem, mixed):  # nothing is asked that the plain one does not do
        return Generated(problem, optimum, mixed, price, 0.0)
    first = [1.0, distillation] if distillation < 1 else [1.0]
    if largest == 0:
        first = []
    else:
        _add_thresholds(pool, problem, multipliers, cost, tol)
        mixed = mix_columns(problem.program, pool.sums, price)
    centre, smoothing = multipliers / problem.unit, _SMOOTHING
    for _ in steps:
        if first:
            gain = mixed.gain(problem.program, pool.train(problem, multipliers, first.pop()))
            mixed = mix_columns(problem.program, pool.sums, price)
            continue
        point = smoothing * centre + (1 - smoothing) * mixed.multipliers
        sums = pool.train(problem, problem.unit * point, distillation)
        gain = mixed.gain(problem.program, sums)
        pool.origins[-1] = (*pool.origins[-1][:2], problem.unit * gain)
        missed = _missed(pool, problem, mixed)
        mixed = mix_columns(problem.program, pool.sums, price)
        if gain <= _precision(problem, mixed, len(pool.trainer.examples)):
            if smoothing > 0:
                smoothing = 0.0
            elif missed:
                price *= _RAISE
                mixed = mix_columns(problem.program, pool.sums, price)
            else:
                break
    return Generated(problem, optimum, mixed, price, problem.unit * max(0.0, gain))


def _precision(problem: FairnessProblem, mixed: Mixed, n_rows: int) -> float:
    """Standard error of the mixture's risk: what is gained below it cannot be told from chance."""
    largest = float(np.abs(problem.program.gain).max())
    program = problem.program
    risk = program.constant - float(program.gain[: len(mixed.sums)] @ mixed.sums)
    risk = min(max(risk, 0.0), largest)
    return float(np.sqrt(risk * (largest - risk) / n_rows))


def _missed(pool: ColumnPool, problem: FairnessProblem, mixed: Mixed) -> bool:
    """Whether a mixture violates a constraint by more than the standard error of that constraint."""
    rates = CellRates(problem.groups, problem.masses, mixed.sums.reshape(-1, 2))
    return beyond_chance(pool, problem, rates) > 0


def _add_thresholds(
    pool: ColumnPool, problem: FairnessProblem, multipliers: Floats, cost: ArrayLike, tol: float
) -> None:
    """Where the group is known, add the plain classifier with the optimal threshold for each group.

    Given its score, P(Y=1) is the posterior averaged monotonically over the score in each group. For these
    the solver finds the share of each group to be selected, and the threshold is where the score has that
    share above it.
    """
    posteriors, plain = problem.posteriors, pool.models[_PLAIN]
    if not isinstance(posteriors, GroupedScores) or not isinstance(plain, Learner) or problem.groups.strata:
        return
    scores, codes = plain.score(pool.trainer.examples.X), np.asarray(posteriors.codes)
    weights = pool.trainer.weights
    given = np.ones(len(scores)) if weights is None else weights
    # A row of weight 0 is no example: a group of such rows keeps the classifier's own threshold.
    members = [np.flatnonzero((codes == m) & (given > 0)) for m in range(posteriors.n_groups)]
    eta = np.array(posteriors.eta, dtype=np.float64)
    for rows in members:
        if len(rows):
            monotone = IsotonicRegression().fit(scores[rows], eta[rows], given[rows])
            eta[rows] = monotone.predict(scores[rows])
    try:
        solution = FairnessProblem.read(
            GroupedScores(np.clip(eta, 0.0, 1.0), codes, posteriors.n_groups),
            problem.constraint,
            cost=cost,
            sample_weight=weights,
            groups=problem.groups,
        ).solve(tol=tol)
    except (InfeasibleError, CertificateError):
        return
    thresholds = np.zeros(len(members))
    for m, rows in enumerate(members):
        if len(rows):
            own = given[rows]
            thresholds[m] = _threshold(scores[rows], own, float(own @ solution.selection[rows]))
    pool.add(GroupThresholds(plain, thresholds), "thresholds", multipliers)


def _threshold(scores: Floats, weights: Floats, selected: float) -> float:
    """The threshold that has the weight above it nearest to the one given."""
    values, where = np.unique(scores, return_inverse=True)
    weight = np.bincount(where, weights)
    above = np.append(np.cumsum(weight[::-1])[::-1], 0.0)
    place = int(np.argmin(np.abs(above - selected)))
    padded = np.concatenate([[values[0] - 1.0], values, [values[-1] + 1.0]])
    return float((padded[place] + padded[place + 1]) / 2)


@dataclass(frozen=True, eq=False)
class Chosen:
    """A classifier or a mixture, chosen from a pool for a requirement.

    Attributes
    ----------
    model : Learner, GroupThresholds or ClassifierMixture
    rates : CellRates
        Estimated.
    weights : array
        Of the pool's classifiers.
    """

    model: Learner | GroupThresholds | ClassifierMixture
    rates: CellRates
    weights: Floats


def choose_mixture(pool: ColumnPool, problem: FairnessProblem, weights: Floats, key: str) -> Chosen:
    """The mixture of a pool with given weights.

    Parameters
    ----------
    pool : ColumnPool
    problem : FairnessProblem
    weights : array
        Of each classifier in the pool.
    key : str
        Hash key of the draw.

    Returns
    -------
    Chosen
    """
    weights = np.where(weights < _NEGLIGIBLE, 0.0, weights)
    weights = weights / weights.sum()
    members = np.flatnonzero(weights)
    mixture = ClassifierMixture(tuple(pool.models[t] for t in members), weights[members], key)
    selected = (weights @ pool.sums).reshape(-1, 2)
    return Chosen(mixture, CellRates(problem.groups, problem.masses, selected), weights)


def choose_single(pool: ColumnPool, problem: FairnessProblem, mixed: Mixed) -> Chosen:
    """The single classifier of a pool with the least risk and violation together.

    What counts as violation is beyond standard errors, because less cannot be told from fair. Its price is
    above what the mixture pays: the worst violation of all constraints is what is bought, so that the price
    of it is the sum of their multipliers. Those that decide everybody alike are left out, unless the plain
    classifier does.

    Parameters
    ----------
    pool : ColumnPool
    problem : FairnessProblem
    mixed : Mixed
        The best mixture of the pool.

    Returns
    -------
    Chosen
    """
    shares = np.array([rates.selected.sum() / rates.mass.sum() for rates in pool.rates])
    candidates = np.flatnonzero((shares > _ALIKE) & (shares < 1 - _ALIKE)).tolist()
    if _PLAIN not in candidates:
        candidates.append(_PLAIN)  # then costs, not fairness, make it decide everybody alike
    paid = float(np.abs(mixed.multipliers).sum())
    price = problem.unit * (_ABOVE_OPTIMUM * paid if paid > 0 else 1.0)

    def penalised(t: int) -> float:
        return risk_of(problem, pool.rates[t]) + price * beyond_chance(pool, problem, pool.rates[t])

    best = min(candidates, key=penalised)
    weights = np.zeros(len(pool.models))
    weights[best] = 1.0
    return Chosen(pool.models[best], pool.rates[best], weights)


def beyond_chance(pool: ColumnPool, problem: FairnessProblem, rates: CellRates) -> float:
    """How far a requirement is missed beyond standard errors; 0 if these could explain it.

    Each constraint is judged by its own: that of a group with few rows excuses no violation in a large one.
    """
    linear, counts = problem.linear_constraints, pool.trainer.rate_estimator.counts
    values, allowed = linear.values(rates.rates), standard_errors(linear, rates.rates, counts)
    over = np.fmax(linear.lo - values, values - linear.hi) - allowed
    measures = excess(problem, rates) - float(allowed.max(initial=0.0))
    return max(measures, float(np.nanmax(over, initial=0.0)))


def excess(problem: FairnessProblem, rates: CellRates) -> float:
    """How far the measures of a requirement exceed their tolerances; 0 if they do not.

    Measures rather than linear constraints, because by ratio a classifier that selects almost nobody nearly
    satisfies the constraints but not the ratio.
    """
    return float(np.nanmax([0.0, *(one.excess for one in measured(problem.constraint, rates))]))
