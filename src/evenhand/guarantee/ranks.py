"""A guarantee by ranks: thresholds of known groups at given ranks of the held-out rows.

Let T be the score of a random row of a group, and take a threshold between the scores of rank k - 1 and k,
from the highest, of n held-out rows. The share P(T > threshold) of the group then lies between the (k - 1)-th
and the k-th smallest of n independent uniform numbers, whatever the distribution of T is. If ranks are chosen
without a look at these scores, the probability of a violation is known before they are seen. Nothing has to
be tested then, and any number of ranks can be considered without a correction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.exceptions import InputError
from evenhand.groups.groups import GroupName, Groups, Members
from evenhand.guarantee.intervals import exact_limits
from evenhand.requirements.bounds import Bound, bounded_groups
from evenhand.requirements.constraints import ConstraintName
from evenhand.requirements.notions import Notion
from evenhand.requirements.requirement import Constraint
from evenhand.requirements.statistic import SelectedShare, Statistic

Floats = NDArray[np.float64]
Counts = NDArray[np.intp]
Flags = NDArray[np.bool_]

_DRAWS = 40_000
"""Of the uniform numbers; three standard errors of a probability of 0.05 are then 0.003, and are added."""
_NUMBERS = 250_000
"""Of a block of draws, so that they take little memory with many groups."""
_MOST_TIED = 0.5
"""In standard errors; where scores are tied more than that, classifiers that are tested are more accurate."""
_FOR_PARTS = 50
"""A fiftieth of the level is spent on limits of the groups' parts of the population."""


@dataclass(frozen=True)
class Ranks:
    """Ranks of held-out rows at which thresholds are set, one for each group.

    Attributes
    ----------
    labels : pair of bool
        Which of the labels 0 and 1 count: rows with these are ranked.
    ranks : tuple of int
        From the highest score: the threshold is just above the row of this rank, or below all n rows if it is
        n + 1. At 0 nobody is selected, at n + 2 everybody.
    slack : tuple of int
        By how many ranks a threshold may be off, because rows with the same score are on the same side.
    sizes : tuple of int
        Number of held-out rows that are ranked.
    """

    labels: tuple[bool, bool]
    ranks: tuple[int, ...]
    slack: tuple[int, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        columns = (self.ranks, self.slack, self.sizes)
        whole = all(type(number) is int and number >= 0 for column in columns for number in column)
        if len({len(column) for column in columns}) > 1 or not whole:
            raise InputError("ranks, slack and sizes must be integers, one for each group.")

    @property
    def tied(self) -> bool:
        """Whether ties move a threshold by more than half a standard error of its rank in some group."""
        k, w, n = (np.array(column, dtype=np.float64) for column in (self.ranks, self.slack, self.sizes))
        return bool((w > _MOST_TIED * np.sqrt(np.maximum(k * (n + 1 - k) / (n + 1), 1.0))).any())

    def draws(self, rng: np.random.Generator, count: int) -> tuple[Floats, Floats]:
        """Shares that are selected, at least and at most, in random populations, shape (count, M)."""
        lower, upper = np.zeros((2, count, len(self.ranks)))
        for m, (k, w, n) in enumerate(zip(self.ranks, self.slack, self.sizes, strict=True)):
            if k >= n + 2:
                lower[:, m] = upper[:, m] = 1.0
            elif k > 0:
                low, high = max(k - 1 - w, 0), min(k + w, n + 1)
                upper[:, m] = rng.beta(high, n + 1 - high, count) if high <= n else 1.0
                lower[:, m] = upper[:, m] * rng.beta(low, high - low, count) if low else 0.0
        return lower, upper


def rank_of(share: Floats, n: Counts) -> Counts:
    """Rank at which a threshold selects a given share of a group on average.

    Only a share of 0 is nobody, and of 1 everybody, whatever the number of rows.
    """
    ranks = np.clip(np.rint(share * (n + 1) + 0.5), 1, n + 1)
    return np.where(share <= 0, 0, np.where(share >= 1, n + 2, ranks)).astype(np.intp)


def counted_labels(constraint: Constraint, groups: Groups) -> tuple[bool, bool] | None:
    """Labels of the rows that the only rate of a requirement is a share of.

    Parameters
    ----------
    constraint : Constraint
    groups : Groups

    Returns
    -------
    pair of bool, or None
        For label 0 and 1. None if the requirement is about several rates, about one that a threshold does not
        fix, or about groups that consist of several with a threshold of their own; or if a group is named.
    """
    masks = set()
    for part in constraint.requirements:
        if isinstance(part, Bound):
            statistics, members = [part.rate_statistic], bounded_groups(groups, part.groups).matrix
            members = members[~members.all(axis=1)]
        elif isinstance(part, Notion) and not part.controls and isinstance(part.against, str):
            statistics, members = list(part.statistics), groups.members(part.groups).matrix
        else:
            return None
        if (members.sum(axis=1) != 1).any():
            return None
        for statistic in statistics:
            if not _is_selected_share(statistic):
                return None
            masks.add((bool(statistic.mask[0]), bool(statistic.mask[1])))
    return masks.pop() if len(masks) == 1 else None


def violation_chances(
    constraint: Constraint, groups: Groups, ranks: Ranks, everyone: Counts, level: float
) -> tuple[float, list[tuple[ConstraintName, float]]]:
    """Probability that thresholds at given ranks violate a requirement, in any population.

    Parameters
    ----------
    constraint : Constraint
        With one rate (:func:`counted_labels`).
    groups : Groups
    ranks : Ranks
    everyone : array of int, shape (M,)
        Rows of each group that count, held out or not. Limits of the groups' parts come from them.
    level : float
        Of which a fiftieth is spent on these limits. It is part of the probability.

    Returns
    -------
    joint : float
        That any group violates the requirement, three standard errors of the computation included. Where it
        is above the level for certain, it is computed roughly.
    by_group : list of (ConstraintName, float)
        That this one does, in the order of :func:`evenhand.guarantee.group_tests.run_tests`.
    """
    rng, parts = np.random.default_rng(0), _limits(everyone, level / _FOR_PARTS)
    names: list[ConstraintName] = []
    drawn, violations, by_group = 0, 0, np.zeros(0)
    while drawn < _DRAWS:
        count = min(_DRAWS - drawn, max(1, _NUMBERS // len(ranks.ranks)))
        rates = ranks.draws(rng, count)
        found = [
            one
            for part in constraint.requirements
            for one in _violated(part, groups, rates, _mixed(*rates, parts))
        ]
        names, flags = [name for name, _ in found], np.array([own for _, own in found]).reshape(-1, count)
        by_group = flags.sum(axis=1) + (by_group if drawn else 0)
        violations, drawn = violations + int(flags.any(axis=0).sum()), drawn + count
        if violations > level * _DRAWS:
            break  # whatever the others are
    chance = violations / drawn
    joint = level / _FOR_PARTS + chance + 3 * float(np.sqrt((chance + 1 / _DRAWS) / _DRAWS))
    return joint, list(zip(names, (by_group / drawn).tolist(), strict=True))


def _is_selected_share(statistic: Statistic | SelectedShare) -> bool:
    """Whether a rate is the share selected of the rows that count."""
    if isinstance(statistic, SelectedShare) or not set(statistic.mask) <= {0, 1}:
        return False
    # What a row counts for if it is not selected, and if it is.
    return bool((statistic.outcomes[:, np.array(statistic.mask) > 0].T == (0, 1)).all())


def _limits(counts: Counts, level: float) -> tuple[Floats, Floats]:
    """Limits of the groups' parts by Clopper and Pearson, which hold together."""
    if len(counts) == 1:
        return np.ones(1), np.ones(1)
    return exact_limits(counts, counts.sum() - counts, level / (2 * len(counts)))


def _mixed(lower: Floats, upper: Floats, parts: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Smallest and largest rate of the population, whatever the parts are within their limits."""
    least, most = -_largest(-lower, parts), _largest(upper, parts)
    # A mean is between the smallest and the largest rate, which rounding errors may forget.
    return np.maximum(least, lower.min(axis=1)), np.minimum(most, upper.max(axis=1))


def _largest(rates: Floats, parts: tuple[Floats, Floats]) -> Floats:
    """Groups with the highest rates have their largest part, as far as the sum of all allows."""
    low, high = parts
    order = np.argsort(-rates, axis=1)
    room = (high - low)[order]
    before = np.cumsum(room, axis=1) - room
    added = np.clip(1.0 - low.sum() - before, 0.0, room)
    return np.asarray(rates @ low + (added * np.take_along_axis(rates, order, axis=1)).sum(axis=1))


Pair = tuple[Floats, Floats]


def _violated(
    part: object, groups: Groups, rates: Pair, population: Pair
) -> Iterator[tuple[ConstraintName, Flags]]:
    if isinstance(part, Bound):
        family = bounded_groups(groups, part.groups)
        for name, who, least, most in zip(family.names, family.matrix, *part.limits(groups), strict=True):
            if np.isnan(least) and np.isnan(most):
                continue  # the reference has no such rate
            low, high = population if who.all() else (end[:, who.argmax()] for end in rates)
            yield ConstraintName(part.label, part.label, name), (low < least) | (high > most)
    elif isinstance(part, Notion):
        for statistic in part.statistics:
            for name, flags in _of_notion(part, groups.members(part.groups), rates, population):
                yield ConstraintName(part.label, statistic.name, name), flags


def _of_notion(
    notion: Notion, family: Members, own: Pair, everybody: Pair
) -> Iterator[tuple[GroupName, Flags]]:
    d, groups = notion.tolerance, notion.against == "groups"
    columns = family.matrix.argmax(axis=1)
    lows, highs = (end[:, columns] for end in own)
    others = _of_others(lows, highs) if groups else None
    for k, name in enumerate(family.names):
        low, high = lows[:, k], highs[:, k]
        least, most = everybody if others is None else others(k)
        if notion.compares_by == "difference":
            yield name, (most - low > d) | (high - least > d)
        elif groups:
            yield name, (low < d * most) | (least < d * high)
        else:
            yield name, (low < d * most) | (1 - high < d * (1 - least))


def _of_others(lows: Floats, highs: Floats) -> Callable[[int], Pair]:
    """The smallest and the largest rate of all groups but one; the only group is its own other."""
    if lows.shape[1] == 1:
        return lambda _: (highs[:, 0], lows[:, 0])
    least, most = np.partition(lows, 1, axis=1)[:, :2], -np.partition(-highs, 1, axis=1)[:, :2]
    first, last = lows.argmin(axis=1), highs.argmax(axis=1)
    return lambda k: (
        least[np.arange(len(lows)), (first == k) * 1],
        most[np.arange(len(lows)), (last == k) * 1],
    )
