"""From rows and a problem to multipliers, a selection and a proof.

If the structure of the rows yields the solution (known groups: ``thresholds.py``), that one. Otherwise:

1. Newton on a sample of the rows, with a wide smoothing that gets narrower.
2. Newton on the rows near the boundary, all others being decided. Rows are taken anew when the multipliers
   have moved so far that a decided row may have changed sides.
3. A linear program on the few rows nearest to the boundary, which is exact.
4. Proof by one pass over all rows. If it fails, again from 2 with more rows, and finally a linear program on
   all rows, by the simplex, by an interior-point method, and by iterative refinement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from evenhand.solver.certificate import Certificate, certify
from evenhand.solver.dense import DenseRows
from evenhand.solver.finish import Finish, finish
from evenhand.solver.linear import METHODS, Method
from evenhand.solver.newton import Descent, descend
from evenhand.solver.oracle import Oracle, Problem, Totals, Vector
from evenhand.solver.scalars import totals_of
from evenhand.solver.threads import one_thread
from evenhand.solver.thresholds import Steps
from evenhand.solver.ties import Score, break_ties

FEASIBILITY = 1e-9
"""Largest violation of a bound that is accepted by default."""

_SMALL = 2_000  # distinct rows that a linear program takes all at once in a fraction of a second
_SAMPLE = 20_000  # give the share of rows below a |h| to 0.4 %; widths and starting points need no more
_ERRORS = 5  # standard errors of the start within which the boundary must lie among the rows that are taken
_LARGEST = 2_000_000  # more distinct rows make a linear program of all of them take hours, or all memory
_COPIES = 500  # rows looked at for copies: they show the share of copies to 2 %
# Price of breaking a bound. The program is exact if no multiplier is larger, so a higher one is tried too;
# the lower one first, because a high price costs HiGHS digits.
_PRICES = (1e3, 1e6)
_ROUNDS = 5  # with four times as many rows each, so up to 256 times those of the first
# Rows of the first linear program. A vertex leaves at most one row per bound undecided; fewer than a thousand
# would save nothing beside the pass over all rows for the proof.
_ROWS_PER_BOUND, _FEWEST_ROWS = 20, 1000
_RECENTRE = 8  # enough for the share of rows, doubled from the fourth time on, to become all of them
_TENTH = 0.1  # share of the rows near the boundary: a step then costs a tenth of a pass
# How near a witness may come to the boundary, in bands: rows that are not witnesses may be nearer.
_MARGIN = 0.25
# Width of smoothing in bands (docs/decisions.md). Each a third of the last: Newton's quadratic model still
# holds at the start of the next.
_COARSE, _MIDDLE, _FINE = 0.12, 0.04, 0.012
_NARROWEST = 1e-6  # width of smoothing: well above the rounding of h, 1e-10
# In widths. The rows of the linear program can make up only for what they weigh, so Newton must end well.
_PRECISION = 1e-7
_CLOSE = 1e-5  # gap at which the multipliers of the linear program are a better start than those before it
_SLIGHT = 1e-4  # a violation that too few rows explain, where a conflict would break bounds by more
_NOISE = 1e-13  # some hundred units in the last place: what is left of terms that cancel
_WIDENED = 1e-14  # by how much sums over rows depend on the order of summation


@dataclass(frozen=True, eq=False)
class Optimum:
    """Multipliers, the decisions on the boundary, and the proof.

    Attributes
    ----------
    multipliers : array, shape (J,)
    certificate : Certificate
    totals : Totals
    finish : Finish or None
        The rows that a linear program decided.
    steps : Steps or None
        The selection by group and score, where the group is known.
    tie_multipliers : array, shape (J,), or None
        Those of the second score, by which rows with h = 0 are decided (:func:`break_ties`).
    retotal : function or None
        Sums over all rows with another selection of the rows of `finish`.
    """

    multipliers: Vector
    certificate: Certificate
    totals: Totals
    finish: Finish | None = None
    steps: Steps | None = None
    tie_multipliers: Vector | None = None
    retotal: Callable[[Vector], Totals] | None = None

    @classmethod
    def of(cls, problem: Problem, multipliers: Vector, totals: Totals, **found: Any) -> Self:
        """Multipliers with their proof, from sums over all rows."""
        return cls(multipliers, certify(problem, multipliers, totals), totals, **found)


@dataclass(frozen=True, eq=False)
class Accepted:
    """The optima that are accepted.

    Attributes
    ----------
    tol : float
        Largest gap.
    feasibility : float, default=1e-9
        Largest violation of a bound.
    on_failure : function, default=None
        Called once if the first attempts are not proven, before further ones that take longer. It may raise.
    score : function, default=None
        A score of rows, by which those with h = 0 are decided (:func:`break_ties`); by default any optimum.
    """

    tol: float
    feasibility: float = FEASIBILITY
    on_failure: Callable[[], None] | None = None
    score: Score | None = None

    def proven(self, certificate: Certificate) -> bool:
        """Whether a certificate is a proof. A gap below zero would be none either."""
        return abs(certificate.gap) <= self.tol and certificate.violation <= self.feasibility


def optimize(oracle: Oracle, problem: Problem, accepted: Accepted) -> Optimum | None:
    """Solve a problem to a proven gap.

    Parameters
    ----------
    oracle : Oracle
    problem : Problem
    accepted : Accepted

    Returns
    -------
    Optimum or None
        None if no algorithm reached the tolerances.
    """
    if len(problem.lo) == 0:
        return Optimum.of(problem, np.empty(0), oracle.totals(problem.gain))
    with one_thread("blas"):  # blocks are small, and threads wait for one another on a busy machine
        sound = without_noise(oracle, problem)
        found = first_proven(_attempts(oracle, sound), sound, accepted, decisive=True)
        return None if found is None else break_ties(sound, found, accepted, solve=optimize)


def first_proven(
    attempts: Iterator[Optimum], problem: Problem, accepted: Accepted, *, decisive: bool = False
) -> Optimum | None:
    """The first solution with a proof; with `decisive`, the first that also leaves no tie to rounding errors.

    Parameters
    ----------
    attempts : iterator of Optimum
    problem : Problem
        Without bounds below rounding error.
    accepted : Accepted
    decisive : bool, default=False

    Returns
    -------
    Optimum or None
    """
    on_failure = accepted.on_failure
    for number, found in enumerate(attempts):
        left_open = decisive and found.steps is None and found.totals.ties
        if accepted.proven(found.certificate) and not left_open:
            return replace(found, multipliers=np.where(problem.A.any(axis=1), found.multipliers, 0.0))
        if on_failure is not None and (number == 1 or found.certificate.violation > _SLIGHT):
            on_failure()
            on_failure = None
    return None


def _attempts(oracle: Oracle, problem: Problem) -> Iterator[Optimum]:
    """Solutions with their proofs, by one algorithm after another."""
    direct = oracle.direct(problem)
    if direct is not None:
        yield Optimum.of(problem, direct.multipliers, direct.totals, steps=direct.steps)
    different: float = oracle.n_rows
    if different > _SMALL and repeats(oracle):
        yield from _on_distinct(oracle, problem)
        different = _distinct_rows(oracle)
    search = Search(oracle, problem, bound_scale(oracle, problem))
    if different > _SMALL:
        yield from search.rounds()
    if different > _LARGEST and _distinct_rows(oracle) > _LARGEST:
        return
    everything = oracle.near(problem.gain, oracle.n_rows)
    for method in METHODS:
        for price in _PRICES:
            yield from search.attempt(everything, price, method)
    for tolerance in (1e-9, 1e-7):
        yield from search.proven(finish(everything, search.scaled, tolerance=tolerance))


@dataclass(frozen=True, eq=False)
class Search:
    """Newton and the linear program, with the bounds of the problem scaled."""

    oracle: Oracle
    problem: Problem
    scale: Vector
    finish: Callable[..., Finish | None] = finish

    @cached_property
    def scaled(self) -> Problem:
        """The problem with bounds multiplied by `scale`."""
        return self.problem.scaled(self.scale)

    def attempt(self, rows: DenseRows, price: float, method: Method = "simplex") -> Iterator[Optimum]:
        """Solve the linear program on some rows."""
        yield from self.proven(self.finish(rows, self.scaled, price=price, method=method))

    def proven(self, done: Finish | None) -> Iterator[Optimum]:
        """What a linear program found, with the proof on all rows."""
        if done is not None:
            multipliers = done.multipliers * self.scale
            v = self.problem.direction(multipliers)

            def retotal(selection: Vector) -> Totals:
                return self.oracle.totals(v, done.rows, selection)

            totals = retotal(done.selection)
            yield Optimum.of(self.problem, multipliers, totals, finish=done, retotal=retotal)

    def rounds(self) -> Iterator[Optimum]:
        """Newton, then the linear program, with ever more rows."""
        oracle, scaled = self.oracle, _Smoothed(self.scaled)
        point = _from_samples(oracle, scaled, np.zeros(len(self.problem.lo)))
        count, share = max(_FEWEST_ROWS, _ROWS_PER_BOUND * len(point)), _TENTH
        for attempts in range(_ROUNDS):
            if count >= oracle.n_rows:
                break
            rows, point = _close_in(oracle, scaled, point, share=share)
            gap = np.inf
            for found in self.attempt(rows.near(self.scaled.direction(point), count), _PRICES[0]):
                gap, reached = found.certificate.gap, found.multipliers / self.scale
                if found.totals.ties:
                    # Rows that tie must all be in the linear program, or rounding errors decide them.
                    tied = oracle.near(self.scaled.direction(reached), count + found.totals.ties)
                    yield from self.attempt(tied, _PRICES[0])
                yield found
            if gap <= _CLOSE:
                point = reached
            if attempts > 0 or gap > _CLOSE:
                count, share = 4 * count, min(1.0, 2 * share)


def repeats(oracle: Oracle) -> bool:
    """Whether rows are mostly copies of others, as scores of discrete features are."""
    sample = oracle.sample(_few(oracle)).matrix
    sample = sample[:: max(1, len(sample) // _COPIES)]
    return 2 * len(np.unique(sample, axis=0)) < len(sample)


def _distinct_rows(oracle: Oracle) -> float:
    """About how many distinct rows there are: those of a sample, and further ones in its share of singles."""
    sample = oracle.sample(_few(oracle)).matrix
    copies = np.unique(sample, axis=0, return_counts=True)[1]
    return len(copies) + oracle.n_rows * float(np.count_nonzero(copies == 1)) / len(sample)


def _on_distinct(oracle: Oracle, problem: Problem) -> Iterator[Optimum]:
    """Solve with each distinct row once, and prove it on all rows."""
    distinct = oracle.distinct()
    if distinct is None:
        return
    rows, kind = distinct

    def of_copies(found: Optimum) -> Optimum:
        v, again = problem.direction(found.multipliers), found.retotal

        def every(few: Totals) -> Totals:
            scalars = few.sums[len(few.sums) - problem.scalars :]
            return totals_of(oracle, v, few.selection[kind], scalars)

        retotal = None if again is None else lambda chosen: every(again(chosen))
        totals = every(found.totals)
        return Optimum.of(problem, found.multipliers, totals, finish=found.finish, retotal=retotal)

    yield from map(of_copies, _attempts(rows, problem))


class _Smoothed:
    """A problem for Newton's method, whose smoothing does not move the scalars.

    A scalar that is c at the optimum has h = 0 there, but smoothed within a width it is c at
    h = (2 c - 1) width, and the multipliers follow. With as much more gain from it, that is at h = 0 too. c
    is what the last descent found that was not stopped.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.scalars = np.full(problem.scalars, 0.5)

    def descend(self, oracle: Oracle, point: Vector, *, width: float, **more: Any) -> Descent:
        """Minimise the smoothed dual from a starting point."""
        problem = self.problem
        if not problem.scalars:
            return descend(oracle, problem, point, width=width, **more)
        found = descend(oracle, problem.tilted((2 * self.scalars - 1) * width), point, width=width, **more)
        if not found.stopped:
            self.scalars = found.sums[len(found.sums) - problem.scalars :]
        return found


def _from_samples(oracle: Oracle, smoothed: _Smoothed, point: Vector) -> Vector:
    """Newton on a small sample with ever narrower smoothing, then on a larger one."""
    sample: Oracle = oracle.sample(max(_few(oracle), 400 * len(point)))
    width = 0.1
    while True:
        point = smoothed.descend(sample, point, width=width, precision=1e-2 * width).point
        goal = _COARSE * _band(oracle, smoothed.problem.direction(point))
        if width <= goal:
            break
        width = max(width / 3, goal)
    larger = _larger(oracle)
    if larger > 2 * sample.n_rows:
        point = smoothed.descend(oracle.sample(larger), point, width=width, precision=1e-3 * width).point
    return point


def _close_in(oracle: Oracle, smoothed: _Smoothed, point: Vector, *, share: float) -> tuple[Oracle, Vector]:
    """Newton on the rows near the boundary; returns them and the multipliers."""
    problem = smoothed.problem
    count = min(int(share * oracle.n_rows), oracle.most)
    few = count < _ERRORS * oracle.n_rows / math.sqrt(_larger(oracle))
    if oracle.n_rows <= 3 * _SAMPLE or (few and count < int(share * oracle.n_rows)):
        band = _band(oracle, problem.direction(point))
        for width in (_MIDDLE * band, _FINE * band, _FINE * band / 3):
            point = smoothed.descend(oracle, point, width=width, precision=_PRECISION * width).point
        return oracle, point
    for recentred in range(_RECENTRE):
        if recentred > 2:  # far to go: larger steps
            share = min(1.0, 2 * share)
        count = min(int(share * oracle.n_rows), oracle.most)
        near = _Surroundings.take(oracle, problem, point, count)
        point, stopped = near.descend(smoothed, point, (_MIDDLE, _FINE))
        if stopped:
            continue
        nearer = _Surroundings.take(near.rows, problem, point, max(_SMALL, near.rows.n_rows // 10))
        point, stopped = nearer.descend(smoothed, point, (_MIDDLE,))
        if not stopped:
            return nearer.rows, point
    return near.rows, point


@dataclass(frozen=True, eq=False)
class _Surroundings:
    """The rows nearest to the boundary, which represent all as long as the others keep their sides.

    A sample is asked for witnesses: those of its rows that are `far`, with the side of each.
    """

    rows: DenseRows
    band: float
    sample: DenseRows
    sides: NDArray[Any]
    far: NDArray[np.bool_]

    @classmethod
    def take(cls, oracle: Oracle, problem: Problem, point: Vector, count: int) -> Self:
        v = problem.direction(point)
        rows = oracle.near(v, min(count, oracle.n_rows))
        # Rows that stand for scalars are the last ones, and always taken, however far from the boundary.
        band = max(_floor(v), float(np.abs(rows.scores(v)[: rows.n_rows - problem.scalars]).max()))
        sample = oracle.sample(_few(oracle))
        far = np.abs(sample.scores(v)) > band
        far[len(far) - problem.scalars :] = False
        return cls(rows, band, sample, sample.sides(v), far)

    def trusted(self, v: Vector) -> bool:
        apart = self.sample.apart(v, self.sides)
        return bool((apart[self.far] > _MARGIN * self.band).all())

    def descend(self, smoothed: _Smoothed, point: Vector, widths: Sequence[float]) -> tuple[Vector, bool]:
        """Newton as far as the rows represent all; also whether that stopped it."""
        for share in widths:
            width = share * self.band
            descent = smoothed.descend(
                self.rows, point, width=width, precision=_PRECISION * width, trusted=self.trusted
            )
            point = descent.point
            if descent.stopped:
                return point, True
        return point, False


def _larger(oracle: Oracle) -> int:
    """Size of the sample that gives the start for all rows."""
    return min(oracle.n_rows // 10, oracle.most)


def _few(oracle: Oracle) -> int:
    """Size of a sample: a tenth of the rows, but neither very few nor more than needed."""
    return min(_SAMPLE, max(_SMALL, oracle.n_rows // 10))


def _band(oracle: Oracle, v: Vector) -> float:
    """The |h| below which about a tenth of the rows lie, but at least a hundredth of the largest ones."""
    sizes = np.abs(oracle.sample(_few(oracle)).scores(v))
    return max(_floor(v), float(np.quantile(sizes, _TENTH)), 0.01 * float(np.quantile(sizes, 0.95)))


def _floor(v: Vector) -> float:
    """Narrowest smoothing, in proportion to the entries of v."""
    return _NARROWEST * max(1e-3, float(np.abs(v).max()))


def without_noise(oracle: Oracle, problem: Problem) -> Problem:
    """Drop bounds below rounding error.

    Their rows of A become zero, because scaled up they would be enforced like the others. All bounds are
    widened.
    """
    sample = oracle.sample(_few(oracle)).matrix
    effect = np.abs(sample @ problem.A.T).max(axis=0, initial=0.0)
    # Compared with the terms of <A_j, p>, not with A_j: in a rare group A_j is as large as p is small.
    terms = (sample @ np.abs(problem.A).T).max(axis=0, initial=0.0)
    for j in np.flatnonzero((effect <= _NOISE * terms) & problem.A.any(axis=1)):
        both = [oracle.totals(side * problem.A[j]).positive_part for side in (1.0, -1.0)]
        effect[j] = sum(both)  # the mean of |<A_j, p>| over all rows
        terms[j] = oracle.totals(np.abs(problem.A[j])).positive_part
    return widened(replace(problem, A=np.where((effect > _NOISE * terms)[:, None], problem.A, 0.0)))


def widened(problem: Problem) -> Problem:
    """All bounds widened by less than the rounding errors of sums over rows."""
    return replace(problem, lo=problem.lo - _WIDENED, hi=problem.hi + _WIDENED)


def bound_scale(oracle: Oracle, problem: Problem) -> Vector:
    """Factors that make the root mean square of <A_j, p> 1, and multipliers comparable."""
    sample = oracle.sample(_few(oracle))
    second = 2 * sample.smooth(np.zeros(oracle.n_columns), 1.0).hessian
    squares = np.einsum("jd,de,je->j", problem.A, second, problem.A)
    return 1 / np.sqrt(np.where(squares > 0, squares, 1.0))
