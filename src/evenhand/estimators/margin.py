"""What to expect on new rows, and the margin that brings it to the tolerance.

A claimed rate is a mean over posteriors, sum of p f / sum of p, and has two errors. Other people are like
those seen, but not the same: this has the variance sum of p^2 (f - rate)^2 / (sum of p)^2. And posteriors may
be wrong, which shows where rows are counted. If they were right, counts would differ by chance, with the
variance v = sum of p (1 - p) (f - rate)^2 / (sum of p)^2; what is more is the error of the posteriors. It is
taken for normal in log-odds, with one variance t for all cells, which is found by moments. So claims are
moved by t / (t + v) of the difference, and an error of variance t v / (t + v) is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.data.columns import blocks
from evenhand.estimators.learned_posteriors import LearnedPosteriors
from evenhand.estimators.settings import Margin
from evenhand.estimators.training_data import TrainingData
from evenhand.exceptions import CertificateError, InfeasibleError
from evenhand.guarantee.forecast import ActionForecast, Forecast
from evenhand.guarantee.margins import with_margin
from evenhand.optimum.problem import FairnessProblem
from evenhand.optimum.rule import Rule
from evenhand.optimum.solution import Solution
from evenhand.requirements.rates import CellRates
from evenhand.requirements.requirement import Constraint

Floats = NDArray[np.float64]

_MOST = 4.0
"""Standard errors beyond which a margin is not looked for: it is exact parity then, or hardly wider."""
_STEPS = 7
_NEGLIGIBLE = 1e-3
"""Of a forecast beyond the tolerance: the error of its simulation."""
_BLIND, _KNOWN, _CELLS = 0.25, 0.15, 4.0
"""Square root of t before rows are counted, where the rule does not see the group and where it does; and how
many cells this counts for. Chosen on other tables and splits than figures are reported for
(docs/decisions.md, 41)."""
_DRAWS, _BLOCK, _TINY = 500, 4096, 1e-300
_INSIDE = 0.03
"""Least q (1 - q) by which an error of a rate q is put on the scale of log-odds."""


def forecast(
    constraint: Constraint,
    data: TrainingData,
    learned: LearnedPosteriors,
    rates: CellRates,
    by: Rule | Floats,
) -> Forecast:
    """What to expect on new rows of decisions with some rates.

    Parameters
    ----------
    constraint : Constraint
        The requirement, with the rates of its references if it has any.
    data : TrainingData
        Rows that were learned from.
    learned : LearnedPosteriors
        Of these rows.
    rates : CellRates
        As claimed.
    by : Rule, or array of shape (n,)
        What decides; or the probability of deciding 1 for each row that has posteriors, by classifiers that
        have not seen it.

    Returns
    -------
    Forecast
    """
    if data.actions is not None:
        return _forecast_actions(constraint, data, learned, rates, by)
    p, cells = learned.out_of_fold, data.examples.compared_cells[learned.rows]
    claimed = np.nan_to_num(rates.rates)
    weights = np.ones(len(p)) if learned.weights is None else learned.weights
    counted = np.where(cells >= 0, weights, 0.0)  # rows whose group is known
    selection = by.selection(p) if isinstance(by, Rule) else by
    errors, chance = np.zeros((*claimed.shape, 2)), np.zeros(claimed.shape)
    for rows in blocks(len(p)):
        dense, off = p.dense(rows), selection[rows, None, None] - claimed
        errors += np.einsum("nmy,nmz,n->myz", dense * off, dense * off, weights[rows] ** 2)
        chance += np.tensordot(counted[rows] ** 2, dense * (1 - dense) * off**2, axes=1)
    inside = np.maximum(claimed * (1 - claimed), _INSIDE)
    whole, own = (np.where(q > 0, q * inside, np.inf) for q in (p.summed(weights), p.summed(counted)))
    off = counted * (selection - claimed.ravel()[cells])
    differ = np.bincount(np.maximum(cells, 0), off, claimed.size).reshape(claimed.shape) / own
    chance = np.where(chance > 0, chance / own**2, np.inf)

    known = data.access.knows(data.groups)
    prior, kept = _wrong_posteriors(differ, chance, known=known)
    # An error about the label moves the two rates of a known group apart, one about the group moves both.
    wrong = np.sqrt(prior * (1 - kept)) * ([1.0, -1.0] if known else [1.0, 1.0])
    errors = errors / (whole[:, :, None] * whole[:, None]) + wrong[:, :, None] * wrong[:, None]
    moved = rates.mass * kept * differ * inside
    if known:
        moved = (moved - moved[:, ::-1]) / 2  # the rate of both labels together is counted
    expected = replace(rates, selected=np.clip(rates.mass * claimed + moved, 0.0, rates.mass))
    return Forecast(constraint, expected, _rows_seen(data), errors)


def _forecast_actions(
    constraint: Constraint, data: TrainingData, learned: LearnedPosteriors, rates: Any, by: Any
) -> ActionForecast:
    """The same for several actions; of two, everything is as for two decisions.

    Errors because other people come are drawn by signs of the rows, so that those of all cells and actions go
    together.
    """
    p, f = learned.out_of_fold, by.selection(learned.out_of_fold)
    claimed, cells = np.nan_to_num(rates.rates), data.examples.compared_cells[learned.rows]
    weights = np.ones(len(p)) if learned.weights is None else learned.weights
    counted = np.where(cells >= 0, weights, 0.0)
    random, moves = np.random.default_rng(0), np.zeros((_DRAWS, *claimed.shape))
    chance, off = np.zeros(claimed.shape), np.zeros((claimed[..., 0].size, claimed.shape[-1]))
    for start in range(0, len(p), _BLOCK):
        rows = slice(start, start + _BLOCK)
        apart, own = f[rows, None, None] - claimed, np.maximum(cells[rows], 0)
        signs = random.choice([-1.0, 1.0], (_DRAWS, len(own))) * weights[rows]
        moves += np.tensordot(signs, p[rows][..., None] * apart, axes=1)
        inside = (p[rows] * (1 - p[rows]))[..., None] * apart**2
        chance += np.tensordot(counted[rows] ** 2, inside, axes=1)
        mine = apart.reshape(len(own), -1, apart.shape[-1])[np.arange(len(own)), own]
        np.add.at(off, own, counted[rows, None] * mine)
    inside = np.maximum(claimed * (1 - claimed), _INSIDE)
    whole, seen = (np.tensordot(by, p, axes=1)[..., None] for by in (weights, counted))
    whole, seen = (np.where(mass > 0, mass, np.inf) for mass in (whole, seen))
    differ = off.reshape(claimed.shape) / (seen * inside)
    chance = np.where(chance > 0, chance / (seen * inside) ** 2, np.inf)
    known = data.access.knows(data.groups)
    once = 1 - 1 / claimed.shape[-1]  # rates of actions sum to 1
    prior, kept = _wrong_posteriors(differ, chance, known=known, weight=once)
    moved = rates.mass[..., None] * kept * differ * inside
    if known:
        moved = moved - moved.mean(axis=1, keepdims=True)
    expected = np.clip(rates.selected + moved, 0.0, None)
    expected *= rates.mass[..., None] / np.maximum(expected.sum(axis=-1, keepdims=True), _TINY)
    errors = np.sqrt(prior * (1 - kept) / 2)  # the log-odds of one of two actions differ by two of these
    of_rates = replace(rates, selected=expected)
    return ActionForecast(constraint, of_rates, _rows_seen(data), errors, moves=moves / whole, known=known)


def _wrong_posteriors(
    differ: Floats, chance: Floats, *, known: bool, weight: float = 1.0
) -> tuple[float, Floats]:
    """Variance of the error of posteriors, found by moments, and by how much claims move towards counts."""
    prior = (_KNOWN if known else _BLIND) ** 2
    share = (prior / (prior + chance)) ** 2
    beyond = share * np.where(np.isinf(chance), 0.0, differ**2 - chance) / prior
    prior *= max((_CELLS + weight * float(beyond.sum())) / (_CELLS + weight * float(share.sum())), 0.0)
    return prior, prior / (prior + chance)


def _rows_seen(data: TrainingData) -> NDArray[np.float64]:
    """Rows of each cell, shape (M, L); with weights, as many as have the same variance (Kish)."""
    examples, shape = data.examples, (len(data.compared), data.examples.n_labels)
    counted = examples.codes >= 0
    cells = examples.compared_cells[counted]
    weights = np.ones(len(cells)) if examples.weights is None else examples.weights[counted]
    sums, squares = (np.bincount(cells, by, math.prod(shape)).reshape(shape) for by in (weights, weights**2))
    return np.divide(sums**2, squares, out=np.zeros(shape), where=squares > 0)


def solve_with_margin(
    problem: FairnessProblem, asked: Constraint, margin: Margin, expect: Callable[[CellRates, Rule], Forecast]
) -> tuple[Solution, Forecast]:
    """The optimum under a requirement with a margin for each group, and its forecast.

    Parameters
    ----------
    problem : FairnessProblem
    asked : Constraint
        Its requirement, as the user wrote it.
    margin : float or "forecast"
    expect : function
        The forecast of a rule with some rates.

    Returns
    -------
    Solution, Forecast
    """
    plain = problem.solve()
    before = expect(plain.rates, plain.rule)
    if margin == 0 or (margin == "forecast" and _kept(before)):
        return plain, before

    def at(errors: float) -> tuple[Solution, Forecast]:
        rates = CellRates(problem.groups, before.worth, before.worth * np.nan_to_num(plain.rates.rates))
        internal = with_margin(asked, rates, float(before.worth.sum()), errors, resolved=problem.constraint)
        found = problem.under(internal).solve(advise=margin != "forecast")
        cost = found.certificate.objective - plain.certificate.objective
        return found, replace(expect(found.rates, found.rule), margin=errors, cost=cost, internal=internal)

    if margin != "forecast":
        return at(margin)
    # The smallest margin whose forecast keeps the tolerance, by bisection, as margins cost accuracy; if none
    # does, the largest that can be satisfied.
    low, high, best, kept = 0.0, _MOST, (plain, before), False
    for _ in range(_STEPS):
        middle = (low + high) / 2
        try:
            found = at(middle)
        except (InfeasibleError, CertificateError):  # bounds that are tightened can contradict each other
            high = middle
            continue
        if _kept(found[1]):
            high, best, kept = middle, found, True
        else:
            low, best = middle, best if kept else found
    return best


def _kept(found: Forecast) -> bool:
    return not any(one.excess > _NEGLIGIBLE for one in found.expected)
