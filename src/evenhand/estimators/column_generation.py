"""Column generation: a pool of trained classifiers, the best mixture of them, and what to train next.

A column is a classifier, known by its cell rates: it is trained on each half of the rows and judged by the
labels of the other half. The master program (:mod:`evenhand.solver.master`) finds the best mixture of the
pool that satisfies the requirement, and its multipliers give each row's costs; the classifier that is trained
with these costs is the next column. First columns are the two constants, the plain classifier, and
classifiers trained at the multipliers of the optimum for the posteriors, so that few more are needed. Only
what is chosen in the end is trained on all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

from evenhand.estimators import cost_sensitive
from evenhand.estimators.cost_sensitive import CostSensitiveTrainer, OutOfFold, RateEstimator
from evenhand.estimators.trained_models import Alone, ClassifierMixture, GroupThresholds, TrainedModel
from evenhand.exceptions import CertificateError, InfeasibleError
from evenhand.optimum.problem import FairnessProblem, multipliers_of
from evenhand.optimum.solution import Solution
from evenhand.posteriors.learner import Learner
from evenhand.posteriors.posteriors import GroupedScores, Posteriors
from evenhand.requirements.rates import CellRates
from evenhand.solver.master import Mixed, mix_columns

Floats = NDArray[np.float64]

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
_DISTILLATION = 0.5
"""How far labels are replaced by their posteriors in training.

0 is the costs of the labels as they are, which are noisy; 1 is what the optimum decides itself, each row
alike, which is as wrong as the posteriors are. Halfway trusts neither more. One classifier is always trained
with 1.
"""
_SMOOTHING = 0.5
"""How far the multipliers to train with are drawn from those of the master program to the optimum's.

With few columns those of the master jump from one extreme to the other; halfway is what is used where neither
is trusted more. Where nothing is gained so, the master's own are used.
"""
_NEGLIGIBLE = 1e-6
"""Weights of a mixture below this are left out: fewer than one person in a million."""


@dataclass(eq=False)
class ColumnPool:
    """Classifiers with their estimated rates.

    Attributes
    ----------
    trainer : CostSensitiveTrainer
    plain : OutOfFold
        The plain classifier.
    selections : list of array
        Out-of-fold decisions of each classifier.
    learned : list of array
        Decisions of the same classifiers for the rows that they have learned from.
    rates : list of CellRates
        Estimated, of each classifier.
    trained : dict
        Those that were trained on all rows, by their place.
    """

    trainer: CostSensitiveTrainer
    plain: OutOfFold
    selections: list[Floats] = field(default_factory=list)
    learned: list[Floats] = field(default_factory=list)
    rates: list[CellRates] = field(default_factory=list)
    trained: dict[int, Alone] = field(default_factory=dict)
    _make: list[Callable[[], Alone]] = field(default_factory=list)

    @classmethod
    def start(cls, trainer: CostSensitiveTrainer) -> ColumnPool:
        """A pool of the two constants and the plain classifier."""
        none, n = np.zeros_like(trainer.prices), len(trainer.examples)
        pool = cls(trainer, trainer.out_of_fold(none, 0.0))
        for label in (0, 1):
            decided = np.full(n, float(label))
            pool.add(decided, decided, partial(Learner, None, np.array([label]), 2))
        pool.add(*pool.plain.answers(), partial(trainer.train, none, 0.0))
        return pool

    def add(self, selection: Floats, learned: Floats, make: Callable[[], Alone]) -> Floats:
        """Add a classifier by its decisions, out of fold and learned; `make` trains it on all rows.

        Returns the selected mass of each cell.
        """
        rates = self.trainer.judge.rates(selection)
        self.selections.append(selection)
        self.learned.append(learned)
        self.rates.append(rates)
        self._make.append(make)
        return rates.selected.ravel()

    def model(self, t: int) -> Alone:
        """A classifier of the pool, trained on all rows when it is first asked for.

        It is not those that were trained on halves: its rates are corrected by what it does differently for
        rows that were learned, where all of them remember labels alike.
        """
        if t not in self.trained:
            model = self.trained[t] = self._make[t]()
            other = model.selection(self.trainer.examples.X) - self.learned[t]
            rates, change = self.rates[t], self.trainer.rate_estimator.by_posteriors(other)
            selected = np.clip(rates.selected + change, 0.0, rates.mass)
            self.rates[t] = replace(rates, selected=selected)
        return self.trained[t]

    @property
    def sums(self) -> Floats:
        """Selected mass of the cells by each classifier, shape (T, D)."""
        return np.array([rates.selected.ravel() for rates in self.rates])

    def train(self, problem: FairnessProblem, multipliers: Floats, distillation: float) -> Floats:
        """Train a classifier with the costs of some multipliers and add it."""
        table = (multipliers @ problem.program.A)[: problem.masses.size].reshape(-1, 2)
        decided = self.trainer.out_of_fold(table, distillation).answers()
        return self.add(*decided, partial(self.trainer.train, table, distillation))

    def satisfied_by_plain(self, problem: FairnessProblem) -> bool:
        """Whether the plain classifier satisfies a requirement as it is, also trained on all rows."""
        rates = self.rates[_PLAIN]
        satisfied = excess(problem, rates) <= 0 and not (cost_sensitive.broken(problem, rates) > 0).any()
        if not satisfied or _PLAIN in self.trained:
            return satisfied
        self.model(_PLAIN)  # its rates are known better now
        return self.satisfied_by_plain(problem)

    def mix(self, problem: FairnessProblem, price: float) -> Mixed:
        """The best mixture; the plain classifier alone if it satisfies the requirement.

        Then nothing is to be bought, and what else seems better is chosen by chance.
        """
        if not self.satisfied_by_plain(problem):
            return mix_columns(problem.program, self.sums, price)
        alone = mix_columns(problem.program, self.sums[[_PLAIN]], price)
        return replace(alone, weights=np.eye(len(self.rates))[_PLAIN])


@dataclass(frozen=True, eq=False)
class Generated:
    """What generation found for a requirement.

    Attributes
    ----------
    problem : FairnessProblem
        By the labels, of which rates are estimated.
    by_posteriors : FairnessProblem
    optimum : Solution
        For the posteriors.
    mixed : Mixed
        The last mixture.
    price : float
        Of a violation, in the last master program.
    """

    problem: FairnessProblem
    by_posteriors: FairnessProblem
    optimum: Solution
    mixed: Mixed
    price: float


def generate(pool: ColumnPool, by_posteriors: FairnessProblem, *, steps: Iterator[int]) -> Generated:
    """Add classifiers to a pool until no new one improves the mixture by more than chance.

    Parameters
    ----------
    pool : ColumnPool
        Is extended.
    by_posteriors : FairnessProblem
        The requirement, and the rows of the pool.
    steps : iterator
        One for each classifier that may be trained.

    Returns
    -------
    Generated
    """
    optimum = by_posteriors.solve()
    problem = pool.trainer.judge.problem.under(by_posteriors.constraint)
    multipliers = multipliers_of(optimum.multipliers, problem.linear_constraints)
    largest = float(np.abs(multipliers).max(initial=0.0)) / problem.unit
    price = _ABOVE_OPTIMUM * largest if largest > 0 else 1.0
    mixed = pool.mix(problem, price)
    if pool.satisfied_by_plain(problem) or (largest == 0 and not _missed(pool, problem, mixed)):
        return Generated(problem, by_posteriors, optimum, mixed, price)
    first = [1.0, _DISTILLATION] if largest > 0 else []
    if first:
        _add_thresholds(pool, problem, by_posteriors)
        mixed = pool.mix(problem, price)
    centre, smoothing = multipliers / problem.unit, _SMOOTHING
    for _ in steps:
        if first:
            pool.train(problem, multipliers, first.pop())
            mixed = pool.mix(problem, price)
            continue
        point = smoothing * centre + (1 - smoothing) * mixed.multipliers
        sums = pool.train(problem, problem.unit * point, _DISTILLATION)
        gain = mixed.gain(problem.program, sums)
        missed = _missed(pool, problem, mixed)
        mixed = pool.mix(problem, price)
        if gain > _precision(problem, mixed, len(pool.trainer.examples)):
            continue
        if not missed:
            break
        if smoothing == 0:
            price *= _RAISE
            mixed = pool.mix(problem, price)
        smoothing = 0.0
    return Generated(problem, by_posteriors, optimum, mixed, price)


def _precision(problem: FairnessProblem, mixed: Mixed, n_rows: int) -> float:
    """Standard error of the mixture's risk: what is gained below it cannot be told from chance."""
    program = problem.program
    largest = float(np.abs(program.gain).max())
    risk = np.clip(program.constant - program.gain[: len(mixed.sums)] @ mixed.sums, 0.0, largest)
    return float(np.sqrt(risk * (largest - risk) / n_rows))


def _missed(pool: ColumnPool, problem: FairnessProblem, mixed: Mixed) -> bool:
    """Whether a mixture violates a constraint by more than the standard error of that constraint."""
    rates = CellRates(problem.groups, problem.masses, mixed.sums.reshape(-1, 2))
    return beyond_chance(pool.trainer.judge, problem, rates) > 0


def _add_thresholds(pool: ColumnPool, problem: FairnessProblem, by_posteriors: FairnessProblem) -> None:
    """Where the group is known, add the plain classifier with the optimal threshold for each group.

    Given its score, P(Y=1) is the posterior averaged monotonically over the score in each group. For these
    the solver finds the share of each group to be selected, and the threshold is where the score has that
    share above it.
    """
    posteriors, weights = cast("Posteriors", by_posteriors.posteriors), pool.trainer.weights
    if posteriors.codes is None or problem.groups.strata:
        return
    (scores, learned), codes = pool.plain.answers(Learner.score), np.asarray(posteriors.codes)
    given = np.ones(len(scores)) if weights is None else weights
    # A row of weight 0 is no example: a group of such rows keeps the classifier's own threshold.
    places = [np.flatnonzero((codes == m) & (given > 0)) for m in range(posteriors.n_groups)]
    members = [(m, rows) for m, rows in enumerate(places) if len(rows)]
    eta = posteriors.label().copy()
    for _, rows in members:
        eta[rows] = IsotonicRegression().fit(scores[rows], eta[rows], given[rows]).predict(scores[rows])
    grouped, groups = GroupedScores(np.clip(eta, 0.0, 1.0), codes, posteriors.n_groups), problem.groups
    try:
        solution = FairnessProblem.read(
            grouped, problem.constraint, cost=pool.trainer.cost, sample_weight=weights, groups=groups
        ).solve()
    except (InfeasibleError, CertificateError):
        return

    def placed(scores: Floats, selection: Floats, near: Floats) -> Floats:
        found = near.copy()
        for m, rows in members:
            share = float(given[rows] @ selection[rows])
            found[m] = _threshold(scores[rows], given[rows], share, near=near[m])
        return found

    thresholds = np.nan_to_num(placed(scores, solution.selection, np.full(len(places), np.nan)))
    out_of_fold, in_fold = ((some > thresholds[codes]).astype(np.float64) for some in (scores, learned))

    def make() -> GroupThresholds:  # with the same shares above them among rows that were learned
        plain = cast(Learner, pool.model(_PLAIN))
        return GroupThresholds(plain, placed(plain.score(pool.trainer.examples.X), in_fold, thresholds))

    pool.add(out_of_fold, in_fold, make)


def _threshold(scores: Floats, weights: Floats, selected: float, near: float = np.nan) -> float:
    """The threshold that has the weight above it nearest to the one given; `near` if that is one."""
    values, where = np.unique(scores, return_inverse=True)
    weight = np.bincount(where, weights)
    above = np.append(np.cumsum(weight[::-1])[::-1], 0.0)
    place = int(np.argmin(np.abs(above - selected)))
    padded = np.concatenate([[values[0] - 1.0], values, [values[-1] + 1.0]])
    low, high = padded[place], padded[place + 1]
    return float(near if low <= near < high else (low + high) / 2)


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

    model: TrainedModel
    rates: CellRates
    weights: Floats


def choose_mixture(pool: ColumnPool, generated: Generated, key: str) -> Chosen:
    """The best mixture of a pool, of classifiers that are trained on all rows.

    Parameters
    ----------
    pool : ColumnPool
    generated : Generated
    key : str
        Hash key of the draw.

    Returns
    -------
    Chosen
    """
    problem, weights = generated.problem, np.zeros(len(pool.rates))
    members = np.flatnonzero(generated.mixed.weights >= _NEGLIGIBLE).tolist()
    for t in members:
        pool.model(t)
    if _PLAIN in members and pool.satisfied_by_plain(problem):
        weights[_PLAIN] = 1.0
    else:  # their rates are known better now
        some = sorted({0, 1, *members})
        weights[some] = mix_columns(problem.program, pool.sums[some], generated.price).weights
    weights[weights < _NEGLIGIBLE] = 0.0
    weights /= weights.sum()
    members = np.flatnonzero(weights).tolist()
    mixture = ClassifierMixture(tuple(pool.model(t) for t in members), weights[members], key)
    selected = (weights @ pool.sums).reshape(-1, 2)
    return Chosen(mixture, CellRates(problem.groups, problem.masses, selected), weights)


def choose_single(pool: ColumnPool, generated: Generated) -> Chosen:
    """The single classifier of a pool with the least risk and violation together.

    What counts as violation is beyond standard errors, because less cannot be told from fair. Its price is
    above what the mixture pays: the worst violation of all constraints is what is bought, so that the price
    of it is the sum of their multipliers. Those that decide everybody alike are left out, unless the plain
    classifier does.

    Parameters
    ----------
    pool : ColumnPool
    generated : Generated

    Returns
    -------
    Chosen
    """
    problem = generated.problem
    shares = np.array([rates.selected.sum() / rates.mass.sum() for rates in pool.rates])
    candidates = np.flatnonzero((shares > _ALIKE) & (shares < 1 - _ALIKE)).tolist()
    if pool.satisfied_by_plain(problem):
        candidates = [_PLAIN]
    elif _PLAIN not in candidates:
        candidates.append(_PLAIN)  # then costs, not fairness, make it decide everybody alike
    paid = float(np.abs(generated.mixed.multipliers).sum())
    price = problem.unit * (_ABOVE_OPTIMUM * paid if paid > 0 else 1.0)

    def penalised(t: int) -> float:
        rates = pool.rates[t]
        return cost_sensitive.risk_of(problem, rates) + price * beyond_chance(
            pool.trainer.judge, problem, rates
        )

    best = min(candidates, key=penalised)
    while best not in pool.trained:  # trained on all rows, another one may turn out to be better
        pool.model(best)
        best = min(candidates, key=penalised)
    return Chosen(pool.model(best), pool.rates[best], np.eye(len(pool.rates))[best])


def beyond_chance(judge: RateEstimator, problem: FairnessProblem, rates: CellRates) -> float:
    """How far a requirement is missed beyond standard errors; 0 if these could explain it.

    Each constraint is judged by its own: that of a group with few rows excuses no violation in a large one.
    """
    allowed = cost_sensitive.standard_errors(problem.linear_constraints, rates.rates, judge.counts)
    over = cost_sensitive.broken(problem, rates) - allowed
    measures = excess(problem, rates) - float(allowed.max(initial=0.0))
    return max(measures, float(np.nanmax(over, initial=0.0)))


def excess(problem: FairnessProblem, rates: CellRates) -> float:
    """How far the measures of a requirement exceed their tolerances; 0 if they do not.

    Measures rather than linear constraints, because by ratio a classifier that selects almost nobody nearly
    satisfies the constraints but not the ratio.
    """
    return float(
        np.nanmax([0.0, *(one.excess for one in cost_sensitive.measured(problem.constraint, rates))])
    )
