"""From rows and a problem to the best of several actions for each row, with a proof.

The road is that of ``optimize.py``: Newton on samples and on the rows near a boundary, a linear program on
the rows whose two best actions are nearest, and one pass over all rows for the proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, hstack

from evenhand.solver.action_rows import ActionRows, Floats
from evenhand.solver.conflict import Conflict
from evenhand.solver.dense import collapsed, row_hashes, tie_width
from evenhand.solver.finish import Finish
from evenhand.solver.linear import METHODS, Method, Program, snapped
from evenhand.solver.optimize import Accepted, Optimum, Search, bound_scale, first_proven, repeats, widened
from evenhand.solver.oracle import ROUNDING, Problem, Totals, Vector
from evenhand.solver.threads import one_thread
from evenhand.solver.ties import PRECISION, second_feasibility, second_problem

Score = Callable[[Floats], Floats]
"""The second score of each action, shape (n, K), from the columns of rows."""

_SMALL = 200  # rows that a linear program takes all at once
_PRICES, _NOISE = (1e3, 1e6), 1e-13  # as in optimize.py
_LARGEST = 250_000  # variables of a linear program of all distinct rows, which takes a minute or two
_LAST_DIGITS = 1e-13
_CONFLICT_ROWS = 2_000
_NOTHING = 1e-9  # share of the largest multiplier below which one is rounding error


def optimize_actions(rows: ActionRows, problem: Problem, accepted: Accepted) -> Optimum | None:
    """Solve a problem to a proven gap.

    Parameters
    ----------
    rows : ActionRows
    problem : Problem
        In the columns of their sums.
    accepted : Accepted
        With the second score of actions, if there is one.

    Returns
    -------
    Optimum or None
        Its ``totals.selection`` is a ``Chosen``. None if no algorithm reached the tolerances.
    """
    if len(problem.lo) == 0:
        return Optimum.of(problem, np.empty(0), rows.totals(problem.gain))
    with one_thread("blas"):
        sound = _without_noise(rows, problem)
        found = first_proven(_attempts(rows, sound), sound, accepted)
        return None if found is None else _break_ties(rows, sound, found, accepted)


def find_conflict(rows: ActionRows, problem: Problem, *, most: int = _CONFLICT_ROWS) -> Conflict:
    """Look for multipliers that prove the bounds impossible; see :mod:`evenhand.solver.conflict`.

    Parameters
    ----------
    rows : ActionRows
    problem : Problem
    most : int, default=2_000
        Rows on which multipliers are looked for. Whether they are a proof is a question about all rows.

    Returns
    -------
    Conflict
    """
    only_bounds = replace(_without_noise(rows, problem), gain=np.zeros(rows.n_columns), constant=0.0)
    sample = cast("ActionRows", rows.sample(most))
    return Conflict.of(rows, only_bounds, finish_actions(sample, only_bounds, price=1.0))


def _centred(rows: ActionRows, problem: Problem) -> Problem:
    """The same bounds without what no choice of actions changes, such as the sum of the rates of all actions.

    Of each column of the rows, that is a multiple of its mass. On a sample of rows it is another number, and
    no multipliers could make up for that.
    """
    J, size = len(problem.lo), rows.width * rows.n_actions
    tables = problem.A[:, :size].reshape(J, rows.width, rows.n_actions)
    same = tables.mean(axis=2)
    moved = tables - same[:, :, None]
    moved[np.abs(moved) <= _NOISE * np.abs(tables).max(axis=2, keepdims=True)] = 0.0
    A = problem.A.copy()
    A[:, :size] = moved.reshape(J, size)
    fixed = same @ rows.masses
    return replace(problem, A=A, lo=problem.lo - fixed, hi=problem.hi - fixed)


def _without_noise(rows: ActionRows, problem: Problem) -> Problem:
    """Drop bounds below rounding error, as :func:`evenhand.solver.optimize.without_noise` does."""
    problem = _centred(rows, problem)
    sample = cast("ActionRows", rows.sample(_CONFLICT_ROWS))
    effect, terms = sample.effects(problem.A, slice(None))
    slight = np.flatnonzero((effect <= _NOISE * terms) & problem.A.any(axis=1))
    for where in rows.blocks() if len(slight) else ():
        more, size = rows.effects(problem.A[slight], where)
        effect[slight], terms[slight] = np.maximum(effect[slight], more), np.maximum(terms[slight], size)
    in_scalars = problem.A[:, problem.A.shape[1] - problem.scalars :].any(axis=1)
    kept = (effect > _NOISE * terms) | in_scalars
    return widened(replace(problem, A=np.where(kept[:, None], problem.A, 0.0)))


def _attempts(rows: ActionRows, problem: Problem) -> Iterator[Optimum]:
    """Solutions with their proofs, by one algorithm after another."""
    if rows.n_rows > _SMALL and rows.own_scores is None and repeats(rows):
        distinct, mass, kind = collapsed(rows.take(slice(None)), rows.weights_of(slice(None)))
        fewer = ActionRows(distinct, mass, rows.n_actions, scalars=rows.scalars, base=rows.base)
        for found in _attempts(fewer, problem):
            yield _of_copies(rows, kind, problem, found)
        return
    search = Search(rows, problem, bound_scale(rows, problem), finish_actions)
    if rows.n_rows > _SMALL:
        yield from search.rounds()
    count = rows.n_rows
    if count * rows.n_actions > _LARGEST:
        count = len(np.unique(row_hashes(rows.take(slice(None)))))
    if count * rows.n_actions > _LARGEST:
        return
    everything = rows.near(problem.gain, rows.n_rows)
    for method in METHODS:
        for price in _PRICES:
            yield from search.attempt(everything, price, method)


def _of_copies(rows: ActionRows, kind: NDArray[np.intp], problem: Problem, found: Optimum) -> Optimum:
    """What was found for distinct rows, for all rows."""
    chosen = found.totals.selection
    copies = np.flatnonzero(np.isin(kind, chosen.index))
    given = ActionRows(np.empty((0, rows.width)), np.empty(0), rows.n_actions, index=copies)
    t = found.totals.sums[len(found.totals.sums) - rows.scalars :]
    mixtures = chosen.dense()[kind[copies]]
    totals = rows.totals(problem.direction(found.multipliers), given, (mixtures, t))
    return Optimum.of(problem, found.multipliers, totals)


def finish_actions(
    rows: ActionRows, problem: Problem, *, price: float, method: Method = "simplex"
) -> Finish | None:
    """Solve for the actions of undecided rows by a linear program.

    A row that has two candidates is one variable, the share of the second; one that has more of them has a
    variable for each but the first, whose sum is at most 1.

    Parameters
    ----------
    rows : ActionRows
        The undecided rows with their candidates; their `base` holds the sums of the decided ones.
    problem, price, method
        See :func:`evenhand.solver.finish.finish`.

    Returns
    -------
    Finish or None
        Its selection are the mixtures and the scalars. None if HiGHS did not end with an optimum.
    """
    D, K, J, S = rows.width, rows.n_actions, len(problem.lo), problem.scalars
    P, mass, kind, score, allowed = _distinct(rows)
    place = np.arange(len(P))
    # What each action of each row adds to the bounds and to the objective, for a mass of 1.
    tables = problem.A[:, : D * K].reshape(J, D, K)
    worth = np.stack([P @ tables[:, :, a].T for a in range(K)], axis=1)
    gains = P @ problem.gain[: D * K].reshape(D, K) + score
    first = np.where(allowed, gains, -np.inf).argmax(axis=1)
    allowed[place, first] = False
    row, action = np.nonzero(allowed)
    number = np.where(allowed.sum(axis=1) > 1, np.cumsum(allowed.sum(axis=1) > 1) - 1, -1)
    own, several = np.flatnonzero(number[row] >= 0), int(number.max(initial=-1)) + 1
    # In units of the mean mass, each bound divided by its largest entry: entries are then of size 1.
    unit = float(mass.mean()) or 1.0
    relative = mass / unit
    of_scalars = problem.A[:, problem.A.shape[1] - S :].T
    bounds = np.vstack([relative[row, None] * (worth[row, action] - worth[row, first[row]]), of_scalars])
    largest = np.abs(bounds).max(axis=0, initial=0.0)
    factors = 1.0 / np.where(largest > 0, largest, 1.0)
    fixed = problem.A @ rows.base + mass @ worth[place, first]
    sums = coo_array((np.ones(len(own)), (own, number[row[own]])), shape=(len(bounds), several))
    worse = -relative[row] * (gains[row, action] - gains[row, first[row]])
    answer = Program(
        cost=np.append(worse, -problem.gain[len(problem.gain) - S :]),
        matrix=csr_array(hstack([csr_array(bounds * factors), sums])),
        lower=np.append((problem.lo - fixed) * factors / unit, np.full(several, -np.inf)),
        upper=np.append((problem.hi - fixed) * factors / unit, np.ones(several)),
        elastic=J,
        price=price,
        most=np.append(np.ones(len(row)), np.full(S, 1 / unit)),
    ).solve(method)
    if answer is None:
        return None
    mixtures = np.zeros((len(P), K))
    mixtures[row, action] = answer.values[: len(row)]
    mixtures[place, first] = snapped(1.0 - mixtures.sum(axis=1))
    mixtures /= mixtures.sum(axis=1, keepdims=True)
    multipliers = problem.allowed(answer.duals[:J] * factors)
    weightless = np.flatnonzero(mass == 0)  # no variable says anything of them
    h = P[weightless] @ problem.direction(multipliers)[: D * K].reshape(D, K)
    mixtures[weightless] = np.eye(K)[h.argmax(axis=1)]
    slack = float((answer.slack / factors).sum() * unit)
    decided = mixtures[kind], answer.values[len(row) :]
    return Finish(rows, decided, multipliers, slack)  # type: ignore[arg-type]


def _distinct(rows: ActionRows) -> tuple[Any, ...]:
    """Each distinct row with the mass of its copies, which of them each row is, its scores and candidates."""
    P, shape = rows.take(slice(None)), (rows.n_rows, rows.n_actions)
    score = np.zeros(shape) if rows.own_scores is None else rows.own_scores
    allowed = np.isfinite(score) & (True if rows.candidates is None else rows.candidates)
    score = np.where(np.isfinite(score), score, 0.0)
    _, mass, kind = collapsed(np.hstack([P, score]), rows.weights_of(slice(None)))
    one = np.empty(len(mass), np.intp)
    one[kind] = np.arange(len(P))
    return P[one], mass, kind, score[one], allowed[one]


def tied_actions(rows: ActionRows, index: NDArray[np.intp], v: Vector) -> NDArray[np.bool_]:
    """Which actions of some rows are the best one, up to rounding, shape (k, K)."""
    block, h = rows.values_of(index, v)
    table = np.abs(v[: rows.width * rows.n_actions].reshape(rows.width, -1))
    terms = np.maximum(1.0, (block @ table).max(axis=1))
    return np.asarray((h >= h.max(axis=0) - ROUNDING * terms).T)


def _break_ties(rows: ActionRows, problem: Problem, found: Optimum, accepted: Accepted) -> Optimum:
    """Decide rows with several best actions by the optimum that has the largest sum of a second score.

    As :func:`evenhand.solver.ties.break_ties` does: bounds that have a multiplier hold as they do now.
    """
    if accepted.score is None:
        return found
    v, chosen = problem.direction(found.multipliers), found.totals.selection
    tied = np.union1d(np.flatnonzero(chosen.margins <= tie_width(v)), chosen.index)
    best = tied_actions(rows, tied, v)
    open_rows = best.sum(axis=1) > 1
    tied, best = tied[open_rows], best[open_rows]
    matrix, mass, kind = collapsed(rows.take(tied), rows.weights_of(tied))
    if np.count_nonzero(mass) < 2:
        return found
    allowed = np.zeros((len(matrix), rows.n_actions), np.bool_)
    allowed[kind] = best
    S = problem.scalars
    sums, t = found.totals.sums, found.totals.sums[len(found.totals.sums) - S :]
    now = ActionRows(rows.take(tied), rows.weights_of(tied), rows.n_actions).mixed(chosen.dense()[tied])
    held = np.abs(found.multipliers) > _NOTHING * np.abs(found.multipliers).max(initial=0.0)
    second = second_problem(problem, found, held)
    scored = ActionRows(
        matrix,
        mass,
        rows.n_actions,
        scores=np.where(allowed, np.asarray(accepted.score(matrix)), -np.inf),
        base=np.append(sums[: len(sums) - S] - now, 0.0),
    )
    exact = max(_LAST_DIGITS, second_feasibility(found, accepted))
    decided = optimize_actions(scored, second, Accepted(PRECISION, exact))
    if decided is None:
        return found
    given = ActionRows(np.empty((0, rows.width)), np.empty(0), rows.n_actions, index=tied)
    totals: Totals = rows.totals(v, given, (decided.totals.selection.dense()[kind], t))
    better = Optimum.of(problem, found.multipliers, totals, tie_multipliers=decided.multipliers)
    return better if accepted.proven(better.certificate) else found
