"""The groups that rows without a sensitive value could be in, and the rates that groups could have.

A missing value can be any that the feature has in the data. So a row agrees with several combinations of
values, among them some that no complete row has: such a combination is then a group that only excluded rows
are in.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from evenhand.auditing.tally import Tally
from evenhand.data.columns import Level
from evenhand.groups.groups import POOLED, GroupName
from evenhand.groups.names import Key
from evenhand.requirements.statistic import SelectedShare, Statistic

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_EACH = 2
"""New combinations that are tried for each kind of row. A row is the worst on its own, whichever combination
that is, and two are enough to have one for each of the two groups of a comparison."""


@dataclass(frozen=True, eq=False)
class RateLimits:
    """The rates that several groups could have, over all groups that excluded rows could be in.

    Attributes
    ----------
    low, high : array
        Where the rate is defined; NaN where it never is.
    certain : array of bool
        Whether the group has a rate in any case, because some row that the rate looks at is surely in it.
    """

    low: Floats
    high: Floats
    certain: Flags


class PossibleGroups:
    """The groups of an audit, and those that its excluded rows could form.

    A combination that no complete row has is in the pooled group, where there is one.

    Parameters
    ----------
    counted : Tally
        With excluded rows.
    """

    def __init__(self, counted: Tally) -> None:
        groups = counted.groups
        self._groups = groups
        self._kinds = tuple(groups.excluded)
        self._within, self._others = _by_decision(counted.sums), _by_decision(counted.excluded)
        self._present = [*(key for key in groups.combinations if POOLED not in key), *groups.pooled]
        columns = zip(*self._present, *self._kinds, strict=True)
        self._levels = {
            feature: [value for value in dict.fromkeys(column) if value is not None]
            for feature, column in zip(groups.features, columns, strict=True)
        }
        family = groups.members("intersectional")
        self._codes = dict(zip(family.names, family.matrix, strict=True))
        self.new = cache(self._find_new)
        self._mass = cache(self._sum_mass)

    def among(self, names: Sequence[GroupName]) -> tuple[GroupName, ...]:
        """Groups that are compared, and then those of the same features that only excluded rows could be in.

        Of many new combinations, as many as it takes for the worst case.
        """
        features = dict.fromkeys(name.features for name in names)
        return (*names, *itertools.chain.from_iterable(map(self.new, features)))

    def limits(self, statistic: Statistic | SelectedShare, names: Sequence[GroupName]) -> RateLimits:
        """The lowest and the highest rate of each group."""
        mask = np.tile(np.array(statistic.mask, np.float64)[:, None], 2)
        if isinstance(statistic, SelectedShare):
            mask[:, 0] = 0.0  # rows that are not selected do not count
        values = statistic.outcomes.T
        low, high, certain = np.empty(len(names)), np.empty(len(names)), np.empty(len(names), np.bool_)
        for k, name in enumerate(names):
            base, more = self._mass(name)
            low[k], high[k] = (_extreme(mask * base, mask * more, values, sign) for sign in (-1, 1))
            certain[k] = (mask * base).sum() > 0
        return RateLimits(low, high, certain)

    def _find_new(self, features: tuple[str, ...]) -> tuple[GroupName, ...]:
        """Groups that only excluded rows could be in: a value of a feature, or a combination."""
        if not features or self._is_pooled(features):
            return ()
        there = {self._values(key, features) for key in self._present}
        found: dict[Key, None] = {}
        for kind in self._kinds:
            new = (key for key in itertools.product(*self._options(kind, features)) if key not in there)
            found |= dict.fromkeys(itertools.islice(new, _EACH))
        return tuple(GroupName(features, key) for key in found)

    def _sum_mass(self, name: GroupName) -> tuple[Floats, Floats]:
        """By label and decision: the mass of rows that are surely in a group, and of those that could be."""
        sure, perhaps = self._members(name)
        own = self._codes.get(name)
        if own is None:  # a group of one feature, or all rows
            keys = [self._values(key, name.features) for key in self._groups.keys]
            own = np.array([key == name.values for key in keys], np.bool_)
        return (
            self._within[own].sum(axis=0) + self._others[sure].sum(axis=0),
            self._others[perhaps].sum(axis=0),
        )

    def _members(self, name: GroupName) -> tuple[Flags, Flags]:
        """Which kinds of excluded rows are surely in a group, and which others could be."""
        kinds = [self._values(kind, name.features) for kind in self._kinds]
        options = np.array([math.prod(map(len, self._options(kind, name.features))) for kind in self._kinds])
        if POOLED in name.values:  # whatever is in no other group
            named = self._named(name.features)
            elsewhere = np.array([sum(_agrees(kind, key) for key in named) for kind in kinds])
            sure, could = elsewhere == 0, elsewhere < options
        else:
            could = np.array([_agrees(kind, name.values) for kind in kinds])
            sure = could & (options == 1)
        return sure, could & ~sure

    def _values(self, key: Key, features: tuple[str, ...]) -> Key:
        """The values of some features in a combination of all."""
        return tuple(key[self._groups.features.index(feature)] for feature in features)

    def _options(self, kind: Key, features: tuple[str, ...]) -> list[list[Level]]:
        """The values that a kind of excluded row could have of each feature."""
        known = zip(features, self._values(kind, features), strict=True)
        return [self._levels[feature] if value is None else [value] for feature, value in known]

    def _is_pooled(self, features: tuple[str, ...]) -> bool:
        """Whether the groups of these features have a pooled one."""
        if features == self._groups.features and self._groups.pooled:
            return True
        return any(self._values(key, features[:1]) == (POOLED,) for key in self._groups.combinations)

    def _named(self, features: tuple[str, ...]) -> list[Key]:
        """The values of groups that are not pooled."""
        if features == self._groups.features and len(features) > 1:
            return [name.values for name in self._codes if POOLED not in name.values]
        return [(value,) for value in self._groups.levels(features[0]) if value is not POOLED]


def _by_decision(sums: Floats) -> Floats:
    """Masses by label and decision, shape (n, 2, 2), from the sums of a tally."""
    mass, selected = sums[1, :2]
    return np.stack([np.maximum(mass - selected, 0.0), selected], axis=2)


def _extreme(base: Floats, more: Floats, values: Floats, sign: int) -> float:
    """The largest mean (sign 1) or the smallest (-1) of `base` and any part of `more`."""
    total, part = float(base.sum()), float((base * values).sum())
    for k in np.argsort(-sign * values, axis=None, kind="stable"):
        weight, value = float(more.flat[k]), float(values.flat[k])
        if weight > 0 and (total == 0 or sign * (value - part / total) > 0):
            total, part = total + weight, part + weight * value
    return part / total if total > 0 else math.nan


def _agrees(partial: Key, key: Key) -> bool:
    return all(value is None or value == own for value, own in zip(partial, key, strict=True))
