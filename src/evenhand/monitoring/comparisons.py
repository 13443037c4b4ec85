"""The inequalities that a requirement consists of: each between the rates of at most two blocks of people.

A block is a set of cells. Every inequality is ``up * p_up - down * p_down <= bound``, where p is the rate of
a block and the coefficients depend on the tolerance and on the share of people in the group: compared with
the population by difference, for instance, q - q_g = (1 - share) (p_rest - p_g).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.groups.groups import GroupName, Groups, Members
from evenhand.requirements.bounds import Bound, bounded_groups
from evenhand.requirements.notions import Notion
from evenhand.requirements.requirement import Constraint
from evenhand.requirements.statistic import SelectedShare, Statistic

Floats = NDArray[np.float64]
Kind = Literal["difference", "ratio", "bound"]


@dataclass(frozen=True, eq=False)
class Comparison:
    """One inequality of a requirement.

    Attributes
    ----------
    requirement : int
        Its number among the requirements that are joined.
    notion, statistic : str, Statistic or SelectedShare
    group : GroupName
    reference : GroupName or None
        The group that it is compared with; None for a bound, and for the population: both blocks together.
    kind : {"difference", "ratio", "bound"}
    low : bool
        Whether the inequality is violated by a group whose rate is too low; otherwise, too high.
    tolerance : float
    inside, outside : arrays of bool, shape (M,)
        Cells of the group, and of the people that it is compared with besides.
    stratum : GroupName or None
    """

    requirement: int
    notion: str
    statistic: Statistic | SelectedShare
    group: GroupName
    reference: GroupName | None
    kind: Kind
    low: bool
    tolerance: float
    inside: NDArray[np.bool_]
    outside: NDArray[np.bool_]
    stratum: GroupName | None = None

    @property
    def who(self) -> str:
        """The group, with its stratum."""
        group = str(self.group) or "everyone"
        return group if self.stratum is None else f"{group} given {self.stratum}"

    @property
    def against(self) -> str:
        """What it is compared with; empty for a bound."""
        if self.kind == "bound":
            return ""
        return "everyone" if self.reference is None else str(self.reference)

    @property
    def allowed(self) -> tuple[float, float]:
        """The least and the most that the difference, the ratio or the rate may be."""
        if self.kind == "difference":
            return -self.tolerance, self.tolerance
        at_least = self.low or self.kind == "ratio"
        return (self.tolerance, np.inf) if at_least else (-np.inf, self.tolerance)

    def inequality(self, tolerance: Floats, share: Floats) -> tuple[Floats, Floats, Floats]:
        """Coefficients of the group and of the others, and the bound, at a tolerance.

        The inequality is ``sign * (group * p_group - others * p_others) <= bound`` with sign -1 if `low`;
        rates are scaled to [0, 1].

        Parameters
        ----------
        tolerance : array
        share : array
            The group's share of the people in both blocks.

        Returns
        -------
        group, others, bound : arrays
        """
        start, width = self.statistic.range
        sign = -1.0 if self.low else 1.0
        part = share if self.reference is None else np.zeros_like(share)
        one = np.ones_like(tolerance + share)
        if self.kind == "bound":
            own, other, bound = one, 0 * one, sign * tolerance * one
        elif self.kind == "difference":
            own = other = (1 - part) * one
            bound = tolerance * one
        else:
            own, other = 1 - tolerance * part, tolerance * (1 - part)
            bound = (0 if self.low else 1 - tolerance) * one
        return own, other, (bound - sign * (own - other) * start) / width


def find_comparisons(constraint: Constraint, groups: Groups) -> list[Comparison]:
    """All inequalities of a requirement, for the groups seen so far."""
    found: list[Comparison] = []
    for number, part in enumerate(constraint.requirements):
        if isinstance(part, Bound):
            found += _of_bound(number, part, groups)
        elif isinstance(part, Notion):
            part.check_reference(groups)
            for stratum, cells, family in part.comparisons(groups):
                found += _in_family(number, part, family, cells, stratum)
    return found


def _of_bound(number: int, part: Bound, groups: Groups) -> Iterator[Comparison]:
    family, rate = bounded_groups(groups, part.groups), part.rate_statistic
    nobody = np.zeros(len(groups), np.bool_)
    for low, limits in zip((True, False), part.limits(groups), strict=True):
        for name, inside, limit in zip(family.names, family.matrix, limits.tolist(), strict=True):
            if not np.isnan(limit):
                yield Comparison(number, part.label, rate, name, None, "bound", low, limit, inside, nobody)


def _in_family(
    number: int, part: Notion, family: Members, scope: NDArray[np.bool_], stratum: GroupName | None
) -> Iterator[Comparison]:
    matrix, names = family.matrix & scope, family.names
    places = part.places(family)
    if part.against == "groups":
        pairs = [
            (g, h) for g, h in permutations(range(len(names)), 2) if names[g].features == names[h].features
        ]
    elif places:
        pairs = [(g, h) for g, h in enumerate(places) if g != h]
    else:
        pairs = [(g, -1) for g in range(len(names)) if (scope & ~matrix[g]).any()]
    # Against groups, each pair is listed both ways; a ratio to a named group is one-sided.
    sides = (True,) if part.against == "groups" or part.one_sided else (True, False)
    kind, tolerance = part.compares_by, part.tolerance
    for statistic in part.statistics:
        for g, h in pairs:
            other, outside = (None, scope & ~matrix[g]) if h < 0 else (names[h], matrix[h])
            for low in sides:
                about = (number, part.label, statistic, names[g], other, kind, low, tolerance)
                yield Comparison(*about, matrix[g], outside, stratum)


def block_sums(statistic: Statistic | SelectedShare, sums: Floats) -> tuple[Floats, Floats]:
    """Number of rows that a statistic looks at, and the sum of their values scaled to [0, 1], by cell.

    Parameters
    ----------
    statistic : Statistic or SelectedShare
    sums : array, shape (..., M, 3, 2)
        Rows and selected rows: of all, of those with label 0 and of those with label 1.

    Returns
    -------
    n, total : arrays, shape (..., M)
    """
    start, width = statistic.range
    known = sums[..., 1:, :] if statistic.needs_labels else sums[..., :1, :]
    labels = slice(None) if statistic.needs_labels else slice(1)
    rows, selected = known[..., 0], known[..., 1]
    mask = np.array(statistic.mask, np.float64)[labels]
    refused, chosen = ((part[labels] - start) / width for part in statistic.outcomes)
    if isinstance(statistic, SelectedShare):
        return selected.sum(axis=-1), (chosen * selected).sum(axis=-1)
    values = refused * (rows - selected) + chosen * selected
    return (mask * rows).sum(axis=-1), (mask * values).sum(axis=-1)
