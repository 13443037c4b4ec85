"""Thresholds of known groups at ranks of held-out rows: which ranks a guarantee can rest on, and the rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile
from typing import cast

import numpy as np
from numpy.typing import NDArray

from evenhand.exceptions import InputError
from evenhand.groups.groups import Groups
from evenhand.guarantee.attainable import attainable
from evenhand.guarantee.ranks import Ranks, rank_of, violation_chances
from evenhand.optimum.rule import SAME_ATOM, Rule
from evenhand.optimum.solution import Solution
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.posteriors import Posteriors
from evenhand.requirements.bounds import RateBound
from evenhand.requirements.constraints import ConstraintName
from evenhand.requirements.rates import CellRates
from evenhand.requirements.requirement import Constraint
from evenhand.solver.thresholds import Steps

Floats = NDArray[np.float64]
Counts = NDArray[np.intp]
_EVERYBODY, _NOBODY = -1.0, 1.0
"""Thresholds below and above all scores."""
_AROUND = 3.0
"""Ties are looked for within so many standard errors of the rank, of both parts of the rows."""
_MORE_TIES = 2.0
"""A tie may have so many standard errors more held-out rows than expected."""
_RATES = {(1, 1): "selection rate", (0, 1): "true-positive rate", (1, 0): "false-positive rate"}
"""The share selected of the rows with given labels."""
_NEARER = tuple(np.linspace(0.5, 0.0, 20, endpoint=False).tolist())
"""Parts of the way to a rate of 0 or 1, where a classifier is constant: beyond half of the way, a classifier
with a weaker guarantee is more use."""


def count_ranked(labels: tuple[bool, bool], rows: Examples, groups: Groups) -> Counts:
    """Number of rows of each group with one of the labels that count.

    Parameters
    ----------
    labels : pair of bool
        Whether labels 0 and 1 count.
    rows : Examples
    groups : Groups

    Returns
    -------
    array of int, shape (M,)
    """
    cells = np.bincount(rows.compared_cells, minlength=2 * len(groups)).reshape(-1, 2)
    return np.asarray((cells * labels).sum(axis=1))


def count_all(labels: tuple[bool, bool], learned: Examples, held_out: Examples, groups: Groups) -> Counts:
    """Rows of each group that count, by which the groups' parts of the population are limited.

    Those of all rows; of held-out rows alone if rare groups were pooled by the others, because these were
    pooled for having few of them.

    Parameters
    ----------
    labels : pair of bool
    learned, held_out : Examples
    groups : Groups

    Returns
    -------
    array of int, shape (M,)
    """
    others = np.zeros(len(groups), np.intp) if groups.pooled else count_ranked(labels, learned, groups)
    return count_ranked(labels, held_out, groups) + others


def ranked_scores(scores: Posteriors, labels: tuple[bool, bool], positive: NDArray[np.bool_]) -> list[Floats]:
    """Scores of the rows that count, of each group, from the highest on.

    Parameters
    ----------
    scores : GroupedScores
    labels : pair of bool
        Whether labels 0 and 1 count.
    positive : array of bool, shape (n,)
        Whether a row has label 1.

    Returns
    -------
    list of arrays
    """
    if scores.codes is None:
        raise InputError("ranks need the group of each row: pass GroupedScores.")
    rows = np.flatnonzero(np.where(positive, labels[1], labels[0]))
    codes, eta = scores.codes[rows], scores.label()[rows]
    return [np.sort(eta[codes == m])[::-1] for m in range(scores.n_groups)]


def plan_ranks(
    rates: CellRates, labels: tuple[bool, bool], learned: Sequence[Floats], sizes: Counts
) -> Ranks:
    """Ranks at which groups have given rates, on average.

    Parameters
    ----------
    rates : CellRates
        Of the classifier whose rates are wanted.
    labels : pair of bool
        Which of the labels 0 and 1 count.
    learned : sequence of arrays
        Scores of rows that are not held out, by group, from the highest on. They tell how many rows have the
        same score.
    sizes : array of int, shape (M,)
        Number of held-out rows that count in each group.

    Returns
    -------
    Ranks
    """
    mask = np.array(labels)
    mass, selected = ((part * mask).sum(axis=1) for part in (rates.mass, rates.selected))
    overall = selected.sum() / max(mass.sum(), np.finfo(np.float64).tiny)
    share = np.clip(np.divide(selected, mass, out=np.full(len(mass), overall), where=mass > 0), 0.0, 1.0)
    slack = [_ties(*each) for each in zip(learned, share.tolist(), sizes.tolist(), strict=True)]
    return Ranks(labels, tuple(rank_of(share, sizes).tolist()), tuple(slack), tuple(sizes.tolist()))


def set_thresholds(rule: Rule, scores: Posteriors, positive: NDArray[np.bool_], ranks: Ranks) -> Rule | None:
    """The rule with a threshold for each group, where held-out rows have given ranks.

    Parameters
    ----------
    rule : Rule
        Of known groups.
    scores : GroupedScores
        Of the held-out rows.
    positive : array of bool, shape (n,)
        Whether a held-out row has label 1.
    ranks : Ranks

    Returns
    -------
    Rule or None
        None if more rows have the same score than the slack allows, or a group has too few rows for its rank.
    """
    ranked = ranked_scores(scores, ranks.labels, positive)
    edges = [_edge(*each) for each in zip(ranked, ranks.ranks, ranks.slack, strict=True)]
    at = [edge for edge in edges if edge is not None]
    if len(at) < len(edges):
        return None
    slope = rule.table[:, 1] - rule.table[:, 0]
    threshold = np.array(at)
    table = slope[:, None] * np.column_stack([-threshold, 1.0 - threshold])
    steps = Steps(*zip(*map(_step, at), strict=True))
    return replace(rule, table=table, steps=steps, ties=None, atoms=None, chances=None, reach=0.0)


def _edge(scores: Floats, k: int, slack: int) -> float | None:
    """A threshold at the rank k, or at the nearest that does not part rows with the same score."""
    n = len(scores)
    if k in (0, n + 2):
        return _EVERYBODY if k else _NOBODY
    if not n or k > n + 2:
        return None
    place = k  # as many rows, less one, are selected
    if k <= n:
        same = np.abs(scores - scores[k - 1]) <= SAME_ATOM
        first, last = int(same.argmax()) + 1, n - int(same[::-1].argmax())
        if min(k - first, last + 1 - k) > slack:
            return None
        place = first if k - first <= last + 1 - k else last + 1
    if place > n and scores[-1] <= SAME_ATOM:
        return _EVERYBODY  # there is no lower score
    higher = scores[place - 2] if place > 1 else 1.0
    lower = scores[place - 1] if place <= n else 0.0
    return float((higher + lower) / 2)


def _step(edge: float) -> tuple[Floats, Floats]:
    """A threshold as a step function; there is no step where everybody or nobody is selected."""
    if edge in (_EVERYBODY, _NOBODY):
        return np.empty(0), np.array([float(edge == _EVERYBODY)])
    return np.array([edge]), np.array([0.0, 1.0])


def _ties(scores: Floats, share: float, n: int) -> int:
    """Slack for rows with the same score near the given share of selected ones."""
    count = len(scores)
    if not count or not n:
        return 0
    around = 1 + _AROUND * np.sqrt(share * (1 - share) * (count + count**2 / n))
    first, last = (int(np.clip(count * share + step, 0, count)) for step in (-around, around))
    near = scores[first:last]
    if len(near) < 2:
        return 0
    parted = np.flatnonzero(np.abs(np.diff(near)) > SAME_ATOM)
    most = int(np.diff(np.concatenate([[-1], parted, [len(near) - 1]])).max())
    if most < 2:
        return 0
    expected = most * n / count
    return int(np.ceil((expected + _MORE_TIES * np.sqrt(expected) - 1) / 2))


@dataclass(frozen=True, eq=False)
class Ranked:
    """A requirement, its optimum, and ranks for its rates, with the probability of each violation."""

    internal: Constraint
    solution: Solution
    ranks: Ranks
    chances: Sequence[tuple[ConstraintName, float]]


@dataclass(frozen=True, eq=False)
class RankSearch:
    """Looks for ranks with the numbers of held-out rows, and without their scores.

    Attributes
    ----------
    constraint : Constraint
        The requirement to guarantee.
    groups : Groups
    labels : pair of bool
        Which of the labels 0 and 1 count in its rate.
    learned : tuple of arrays
        Scores of rows that are not held out, by group, from the highest on.
    sizes, everyone : arrays of int, shape (M,)
        Rows that count in each group: held out ones, and those that limit the groups' parts.
    solve : function
        The optimum under a requirement; None if there is none.
    """

    constraint: Constraint
    groups: Groups
    labels: tuple[bool, bool]
    learned: tuple[NDArray[np.float64], ...]
    sizes: NDArray[np.intp]
    everyone: NDArray[np.intp]
    solve: Callable[[Constraint], Solution | None]

    def loosest(self, requirements: Sequence[Constraint], level: float) -> Ranked | None:
        """Ranks of the loosest requirement that break the guarantee with at most a given probability.

        If those of exact parity do so more often, its rate is moved towards 0 or 1, where it varies less.

        Parameters
        ----------
        requirements : sequence of Constraint
            From the strictest on, which is exact parity. Those that nothing satisfies are left out.
        level : float

        Returns
        -------
        Ranked or None
        """
        possible = list(dropwhile(lambda one: self.solve(one) is None, requirements))
        if not possible or not self.sizes.all():
            return None
        return self._last(possible, level) or self._varying_less(possible[0], level)

    def weaker(self, ranks: Ranks, constraint: Constraint, level: float) -> Constraint | None:
        """The strictest requirement that given ranks guarantee."""

        def holds(weaker: Constraint) -> bool:
            return violation_chances(weaker, self.groups, ranks, self.everyone, level)[0] <= level

        return attainable(constraint, holds, resolved=self.constraint)

    def _last(self, requirements: Sequence[Constraint], level: float) -> Ranked | None:
        """The last requirement that allows a guarantee, if the first one does."""
        best, strict, beyond = self.under(requirements[0], level, kept=True), 0, len(requirements)
        while best is not None and beyond - strict > 1:
            middle = (strict + beyond) // 2
            found = self.under(requirements[middle], level, kept=True)
            best, strict, beyond = (best, strict, middle) if found is None else (found, middle, beyond)
        return best

    def _varying_less(self, parity: Constraint, level: float) -> Ranked | None:
        rates = cast("Solution", self.solve(parity)).rates
        selected, mass = ((part * self.labels).sum() for part in (rates.selected, rates.mass))
        rate, name = float(selected / mass), _RATES[self.labels]
        up = [parity & RateBound(name, at_least=round(rate + part * (1 - rate), 4)) for part in _NEARER]
        down = [parity & RateBound(name, at_most=round(rate * (1 - part), 4)) for part in _NEARER]
        found = [self._last(ends, level) for ends in (up, down)]
        return min(filter(None, found), key=lambda one: one.solution.certificate.objective, default=None)

    def under(self, internal: Constraint, level: float, *, kept: bool = False) -> Ranked | None:
        """Ranks for a requirement; None if thresholds cannot do what is optimal.

        Parameters
        ----------
        internal : Constraint
        level : float
        kept : bool, default=False
            Whether ranks that break the guarantee more often than that are left out.

        Returns
        -------
        Ranked or None
        """
        solution = self.solve(internal)
        if solution is None or not (np.diff(solution.rule.table, axis=1) > 0).all():
            return None  # low scores are selected
        ranks = plan_ranks(solution.rates, self.labels, self.learned, self.sizes)
        joint, chances = violation_chances(self.constraint, self.groups, ranks, self.everyone, level)
        return None if kept and joint > level else Ranked(internal, solution, ranks, chances)
