"""The groups that rows without a sensitive value could be in, and the rates that groups could have.

A missing value can be any that the feature has in the data. So a row agrees with several combinations of
values, among them some that no complete row has: such a combination is then a group that only excluded rows
are in.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.auditing.tally import Tally
from evenhand.groups.groups import POOLED, GroupName
from evenhand.groups.names import Key
from evenhand.requirements.statistic import SelectedShare, Statistic

__all__ = ["PossibleGroups", "RateLimits"]

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
        groups, excluded = counted.rates.groups, counted.excluded
        if excluded is None:
            raise ValueError("no rows are excluded")
        self._groups = groups
        self._kinds = excluded.keys
        self._within = _by_decision(counted.rates.mass, counted.rates.selected)
        self._others = _by_decision(excluded.mass, excluded.mass_selected)
        self._present = [*(key for key in groups.combinations if POOLED not in key), *groups.pooled]
        known = [*self._present, *self._kinds]
        self._levels = [
            [value for value in dict.fromkeys(column) if value is not None]
            for column in zip(*known, strict=True)
        ]
        family = groups.members("intersectional")
        self._codes = dict(zip(family.names, family.matrix, strict=True))
        self._masses: dict[GroupName, tuple[Floats, Floats]] = {}
        self._new: dict[tuple[str, ...], tuple[GroupName, ...]] = {}
        self._by_features: dict[tuple[str, ...], list[tuple[Key, int]]] = {}

    def among(self, names: Sequence[GroupName]) -> tuple[GroupName, ...]:
        """Groups that are compared, and then those of the same features that only excluded rows could be in.

        Of many new combinations, as many as it takes for the worst case.
        """
        features = dict.fromkeys(name.features for name in names)
        return (*names, *itertools.chain.from_iterable(map(self.new, features)))

    def new(self, features: tuple[str, ...]) -> tuple[GroupName, ...]:
        """Groups that only excluded rows could be in: a value of a feature, or a combination."""
        if features not in self._new:
            found = () if not features or self._is_pooled(features) else self._new_keys(features)
            self._new[features] = tuple(GroupName(features, key) for key in dict.fromkeys(found))
        return self._new[features]

    def limits(self, statistic: Statistic | SelectedShare, names: Sequence[GroupName]) -> RateLimits:
        """The lowest and the highest rate of each group."""
        mask, values = _row_values(statistic)
        low, high, certain = np.empty(len(names)), np.empty(len(names)), np.empty(len(names), np.bool_)
        for k, name in enumerate(names):
            base, more = self._mass(name)
            low[k], high[k] = (_extreme(mask * base, mask * more, values, sign) for sign in (-1, 1))
            certain[k] = (mask * base).sum() > 0
        return RateLimits(low, high, certain)

    def _mass(self, name: GroupName) -> tuple[Floats, Floats]:
        """By label and decision: the mass of rows that are surely in a group, and of those that could be."""
        if name not in self._masses:
            sure, perhaps = self._members(name)
            own = self._codes[name] if name in self._codes else self._own_codes(name)
            self._masses[name] = (
                self._within[own].sum(axis=0) + self._others[sure].sum(axis=0),
                self._others[perhaps].sum(axis=0),
            )
        return self._masses[name]

    def _members(self, name: GroupName) -> tuple[Flags, Flags]:
        """Which kinds of excluded rows are surely in a group, and which others could be."""
        if not name.features:
            every = np.ones(len(self._kinds), np.bool_)
            return every, ~every
        known = self._known(name.features)
        if POOLED in name.values:  # whatever is in no other group
            named = self._named(name.features)
            elsewhere = [sum(_agrees(kind, key) for key in named) for kind, _ in known]
            sure = np.array([n == 0 for n in elsewhere], np.bool_)
            could = np.array(
                [n < options for n, (_, options) in zip(elsewhere, known, strict=True)], np.bool_
            )
        else:
            could = np.array([_agrees(kind, name.values) for kind, _ in known], np.bool_)
            sure = could & np.array([options == 1 for _, options in known], np.bool_)
        return sure, could & ~sure

    def _known(self, features: tuple[str, ...]) -> list[tuple[Key, int]]:
        """What each kind of excluded row has of these features, and how many combinations agree with it."""
        if features not in self._by_features:
            places = self._places(features)
            sizes = [len(self._levels[place]) for place in places]
            kinds = [tuple(kind[place] for place in places) for kind in self._kinds]
            self._by_features[features] = [
                (
                    kind,
                    math.prod(n if value is None else 1 for n, value in zip(sizes, kind, strict=True)),
                )
                for kind in kinds
            ]
        return self._by_features[features]

    def _new_keys(self, features: tuple[str, ...]) -> Iterator[Key]:
        """Combinations that agree with a kind of excluded row, and that no complete row has."""
        places = self._places(features)
        there = {tuple(key[place] for place in places) for key in self._present}
        for kind, _ in self._known(features):
            options = [
                self._levels[place] if value is None else [value]
                for place, value in zip(places, kind, strict=True)
            ]
            new = (key for key in itertools.product(*options) if key not in there)
            yield from itertools.islice(new, _EACH)

    def _places(self, features: tuple[str, ...]) -> list[int]:
        return [self._groups.features.index(feature) for feature in features]

    def _is_pooled(self, features: tuple[str, ...]) -> bool:
        """Whether the groups of these features have a pooled one."""
        if features == self._groups.features and self._groups.pooled:
            return True
        [place] = self._places(features[:1])
        return any(key[place] is POOLED for key in self._groups.combinations)

    def _named(self, features: tuple[str, ...]) -> list[Key]:
        """The values of groups that are not pooled."""
        if features == self._groups.features and len(features) > 1:
            return [name.values for name in self._codes if POOLED not in name.values]
        return [(value,) for value in self._groups.levels(features[0]) if value is not POOLED]

    def _own_codes(self, name: GroupName) -> Flags:
        """Which codes have the values of a group of one feature; all of them for all rows."""
        places = self._places(name.features)
        return np.array(
            [
                all(key[p] == value for p, value in zip(places, name.values, strict=True))
                for key in self._groups.keys
            ],
            np.bool_,
        )


def _by_decision(mass: Floats, selected: Floats) -> Floats:
    """Masses by label and decision, shape (n, 2, 2)."""
    return np.stack([np.maximum(mass - selected, 0.0), selected], axis=2)


def _row_values(statistic: Statistic | SelectedShare) -> tuple[Floats, Floats]:
    """How much a row of each label and decision counts, and its value, shape (2, 2) each."""
    if isinstance(statistic, SelectedShare):
        hits = np.array(statistic.hits, np.float64)
        return np.array([[0.0, 1.0], [0.0, 1.0]]), np.stack([hits, hits], axis=1)
    intercept, slope = np.array(statistic.intercept, np.float64), np.array(statistic.slope, np.float64)
    mask = np.array(statistic.mask, np.float64)
    return np.stack([mask, mask], axis=1), np.stack([intercept, intercept + slope], axis=1)


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
