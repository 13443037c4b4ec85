"""From rows and a problem to multipliers, a selection and a proof.

Where the group is known, by mixing thresholds (``thresholds.py``). Otherwise:

1. Newton on a sample of the rows, with a wide rounding that gets narrower.
2. Newton on the rows near the boundary, all others being decided. Rows are taken anew when the multipliers
   have moved so far that a decided row may have changed sides.
3. A linear program on the few rows nearest to the boundary, which is exact.
4. Proof by one pass over all rows. If it fails, again from 2 with more rows, and at last a linear program on
   all rows, by the simplex, by an interior-point method, and by iterative refinement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Self

import numpy as np
from numpy.typing import NDArray

from evenhand.solver.certificate import Certificate, certify
from evenhand.solver.dense import DenseRows
from evenhand.solver.finish import Finish, finish, finish_refined
from evenhand.solver.grouped import GroupedRows
from evenhand.solver.linear import METHODS, Method
from evenhand.solver.newton import descend
from evenhand.solver.oracle import Oracle, Totals, Vector
from evenhand.solver.problem import Problem
from evenhand.solver.thresholds import Steps, mix_thresholds

__all__ = ["Optimum", "optimize", "without_noise"]

_SAMPLE = 20_000
_SMALL = 2_000
_PRICES = (1e3, 1e6)
_ROUNDS = 5
_RECENTRE = 8
_TENTH = 0.1
_MARGIN = 0.25
# Rounding of max(0, h), as shares of the |h| below which a tenth of the rows lie.
_COARSE, _MIDDLE, _FINE = 0.12, 0.04, 0.012
_NARROWEST = 1e-6
# The rows of the linear program can make up for only as much as they weigh, so Newton must end well.
_PRECISION = 1e-7
_CLOSE = 1e-5
_NOISE = 1e-13
_WIDENED = 1e-14
_FEW = 500


@dataclass(frozen=True, eq=False)
class Optimum:
    """Multipliers, how the rows on the boundary were decided, and the proof.

    Attributes
    ----------
    multipliers : array, shape (J,)
    certificate : Certificate
    totals : Totals
    finish : Finish or None
        The rows that a linear program decided on.
    steps : Steps or None
        The selection by group and score, where the group is known.
    """

    multipliers: Vector
    certificate: Certificate
    totals: Totals
    finish: Finish | None = None
    steps: Steps | None = None


def optimize(
    oracle: Oracle, problem: Problem, *, tol: float, feasibility: float = 1e-9, start: Vector | None = None
) -> Optimum | None:
    """Solve a problem to a proven gap.

    Parameters
    ----------
    oracle : Oracle
    problem : Problem
    tol : float
        Largest gap that is accepted.
    feasibility : float
        Largest violation of a bound that is accepted.
    start : array, shape (J,), optional
        Multipliers to start from.

    Returns
    -------
    Optimum or None
        None if no algorithm reached the tolerances.
    """
    if len(problem.lo) == 0:
        nothing = np.empty(0, np.intp), np.empty(0)
        return Optimum(np.empty(0), *certify(oracle, problem, np.empty(0), *nothing))
    sound = without_noise(oracle, problem)
    for found in _attempts(oracle, sound, start):
        # A gap below zero would be no proof either.
        exact = abs(found.certificate.gap) <= tol and found.certificate.violation <= feasibility
        if exact and (found.steps is not None or not found.totals.ties):
            return replace(found, multipliers=np.where(sound.A.any(axis=1), found.multipliers, 0.0))
    return None


def _attempts(oracle: Oracle, problem: Problem, start: Vector | None) -> Iterator[Optimum]:
    """Solutions with their proofs, by one algorithm after the other."""
    if isinstance(oracle, GroupedRows) and (mixed := mix_thresholds(oracle, problem)) is not None:
        multipliers, steps = mixed
        selection = steps.selection(oracle.eta, oracle.codes)
        proof = certify(oracle, problem, multipliers, np.arange(oracle.n_rows), selection)
        yield Optimum(multipliers, *proof, steps=steps)
    if isinstance(oracle, DenseRows) and oracle.n_rows > _SMALL and _repeats(oracle):
        yield from _on_distinct(oracle, problem, start)
    search = _Search(oracle, problem, _row_scale(oracle, problem))
    point = np.zeros(len(problem.lo)) if start is None else start / search.scale
    if oracle.n_rows > _SMALL:
        yield from search.rounds(point, warm=start is not None)
    everything = oracle.near(search.scaled.direction(point), oracle.n_rows)
    for method in METHODS:
        for price in _PRICES:
            yield from search.attempt(everything, price, method)
    for tolerance, rescale in product((1e-9, 1e-7), (False, True)):
        refined = finish_refined(everything, search.scaled, rescale=rescale, tolerance=tolerance)
        yield from search.proven(refined)


@dataclass(frozen=True, eq=False)
class _Search:
    """Newton and the linear program, with the rows of the problem scaled."""

    oracle: Oracle
    problem: Problem
    scale: Vector

    @cached_property
    def scaled(self) -> Problem:
        return self.problem.scaled(self.scale)

    def attempt(self, rows: DenseRows, price: float, method: Method = "simplex") -> Iterator[Optimum]:
        yield from self.proven(finish(rows, self.scaled, price=price, method=method))

    def proven(self, done: Finish | None) -> Iterator[Optimum]:
        if done is not None:
            multipliers = done.multipliers * self.scale
            proof = certify(self.oracle, self.problem, multipliers, done.index, done.selection)
            yield Optimum(multipliers, *proof, finish=done)

    def rounds(self, point: Vector, *, warm: bool) -> Iterator[Optimum]:
        oracle, scaled = self.oracle, self.scaled
        if not warm:
            point = _from_samples(oracle, scaled, point)
        count, share = max(1000, 20 * len(point)), _TENTH
        for attempts in range(_ROUNDS):
            if count >= oracle.n_rows:
                break
            rows, point = _close_in(oracle, scaled, point, share=share)
            gap = np.inf
            for found in self.attempt(rows.near(scaled.direction(point), count), _PRICES[0]):
                gap, reached = found.certificate.gap, found.multipliers / self.scale
                if found.totals.ties:
                    # Rows that tie must all be in the linear program, or rounding errors decide on them.
                    tied = oracle.near(scaled.direction(reached), count + found.totals.ties)
                    yield from self.attempt(tied, _PRICES[0])
                yield found
            if gap <= _CLOSE:
                point = reached
            elif warm and attempts == 0:  # a start that led nowhere
                point = _from_samples(oracle, scaled, np.zeros_like(point))
            if attempts > 0 or gap > _CLOSE:
                count, share = 4 * count, min(1.0, 2 * share)


def _repeats(rows: DenseRows) -> bool:
    """Whether rows are mostly copies of others, as scores of discrete features are."""
    sample = rows.sample(_few(rows)).matrix
    sample = sample[:: max(1, len(sample) // _FEW)]
    return 2 * len(np.unique(sample, axis=0)) < len(sample)


def _on_distinct(rows: DenseRows, problem: Problem, start: Vector | None) -> Iterator[Optimum]:
    """Solve for each distinct row once, and prove it on all rows."""
    distinct, first, kind = np.unique(rows.rows, axis=0, return_index=True, return_inverse=True)
    weights = np.bincount(kind, rows.weights_of(slice(None)), len(distinct)).astype(np.float64)
    for found in _attempts(DenseRows(distinct, weights), problem, start):
        values = found.totals.selection[kind]
        proof = certify(rows, problem, found.multipliers, np.arange(rows.n_rows), values)
        done = found.finish and replace(found.finish, index=first[found.finish.index])
        yield Optimum(found.multipliers, *proof, finish=done)


def _from_samples(oracle: Oracle, problem: Problem, point: Vector) -> Vector:
    """Newton from nothing: on a small sample with ever narrower rounding, then on a larger one."""
    sample = oracle if oracle.fast else oracle.sample(max(_few(oracle), 400 * len(point)))
    width = 0.1
    while True:
        point = descend(sample, problem, point, width=width, precision=1e-2 * width).point
        goal = _COARSE * _band(oracle, problem.direction(point))
        if width <= goal:
            break
        width = max(width / 3, goal)
    larger = oracle.n_rows // 10
    if larger > 2 * sample.n_rows:
        point = descend(oracle.sample(larger), problem, point, width=width, precision=1e-3 * width).point
    return point


def _close_in(oracle: Oracle, problem: Problem, point: Vector, *, share: float) -> tuple[Oracle, Vector]:
    """Newton on the rows near the boundary; gives them and the multipliers."""
    if oracle.fast or oracle.n_rows <= 3 * _SAMPLE:
        band = _band(oracle, problem.direction(point))
        for width in (_MIDDLE * band, _FINE * band, _FINE * band / 3):
            point = descend(oracle, problem, point, width=width, precision=_PRECISION * width).point
        return oracle, point
    for recentred in range(_RECENTRE):
        if recentred > 2:  # far to go: larger steps
            share = min(1.0, 2 * share)
        near = _Surroundings.take(oracle, problem.direction(point), int(share * oracle.n_rows))
        point, stopped = near.descend(problem, point, (_MIDDLE, _FINE))
        if stopped:
            continue
        nearer = _Surroundings.take(near.rows, problem.direction(point), max(_SMALL, near.rows.n_rows // 10))
        point, stopped = nearer.descend(problem, point, (_MIDDLE,))
        if not stopped:
            return nearer.rows, point
    return near.rows, point


@dataclass(frozen=True, eq=False)
class _Surroundings:
    """The rows nearest to the boundary, which stand for all as long as the others keep their sides.

    Some of the others are witnesses: each is multiplied by its side, so that <witness, v> stays positive.
    """

    rows: DenseRows
    band: float
    witnesses: NDArray[np.float64]

    @classmethod
    def take(cls, oracle: Oracle, v: Vector, count: int) -> Self:
        rows = oracle.near(v, min(count, oracle.n_rows))
        band = max(_floor(v), float(np.abs(rows.scores(v)).max()))
        sample = oracle.sample(_few(oracle)).matrix
        h = sample @ v
        outside = np.abs(h) > band
        return cls(rows, band, sample[outside] * np.sign(h[outside])[:, None])

    def trusted(self, v: Vector) -> bool:
        return bool((self.witnesses @ v > _MARGIN * self.band).all())

    def descend(self, problem: Problem, point: Vector, widths: Sequence[float]) -> tuple[Vector, bool]:
        """Newton as far as the rows can be trusted; also whether that stopped it."""
        for share in widths:
            width = share * self.band
            descent = descend(
                self.rows, problem, point, width=width, precision=_PRECISION * width, trusted=self.trusted
            )
            point = descent.point
            if descent.stopped:
                return point, True
        return point, False


def _few(oracle: Oracle) -> int:
    """How many rows are a fair sample: a tenth, but neither very few nor more than needed."""
    return min(_SAMPLE, max(_SMALL, oracle.n_rows // 10))


def _band(oracle: Oracle, v: Vector) -> float:
    """The |h| below which about a tenth of the rows lie, or a small part of the largest if that is 0."""
    sizes = np.abs(oracle.sample(_few(oracle)).scores(v))
    return max(_floor(v), float(np.quantile(sizes, _TENTH)), 0.01 * float(np.quantile(sizes, 0.95)))


def _floor(v: Vector) -> float:
    """No rounding is narrower than this, compared with the entries of v."""
    return _NARROWEST * max(1e-3, float(np.abs(v).max()))


def without_noise(oracle: Oracle, problem: Problem) -> Problem:
    """Give rounding errors no say.

    Rows of A whose only effect is rounding errors become zero, because scaled up they would be enforced like
    others; and bounds are widened by less than sums over rows can be told apart.
    """
    sample = oracle.sample(_few(oracle)).matrix
    effect = np.abs(sample @ problem.A.T).max(axis=0, initial=0.0)
    # Compared with the terms of <A_j, p>, not with A_j: in a rare group that is as large as p is small.
    terms = (sample @ np.abs(problem.A).T).max(axis=0, initial=0.0)
    nothing = np.empty(0, np.intp), np.empty(0)
    for j in np.flatnonzero((effect <= _NOISE * terms) & problem.A.any(axis=1)):
        both = [oracle.totals(side * problem.A[j], *nothing).positive_part for side in (1.0, -1.0)]
        effect[j] = sum(both)  # the mean of |<A_j, p>| over all rows
        terms[j] = oracle.totals(np.abs(problem.A[j]), *nothing).positive_part
    A = np.where((effect > _NOISE * terms)[:, None], problem.A, 0.0)
    return replace(problem, A=A, lo=problem.lo - _WIDENED, hi=problem.hi + _WIDENED)


def _row_scale(oracle: Oracle, problem: Problem) -> Vector:
    """Factors that give <A_j, p> a root mean square of 1, so that multipliers are comparable."""
    sample = oracle.sample(_few(oracle))
    second = 2 * sample.smooth(np.zeros(oracle.n_columns), 1.0).hessian
    squares = np.einsum("jd,de,je->j", problem.A, second, problem.A)
    return 1 / np.sqrt(np.where(squares > 0, squares, 1.0))
