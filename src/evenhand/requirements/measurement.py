"""A statistic in each group, and how far the groups are apart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.groups.groups import GroupName

Measure = Literal["difference", "ratio"]
Against = Literal["population", "groups"] | Mapping[str, Any]
"""What each group is compared with: the population, the other groups, or a group named by its values."""

NOBODY = 1e-9
"""A rate below this counts as 0; `solve` lets a bound be violated by as much."""


_CHOSEN = ("selected", "refused")
_SIDES = {
    **dict.fromkeys(("selection rate", "true-positive rate", "false-positive rate"), _CHOSEN),
    "error rate": ("wrong", "right"),
}


def ratios(rates: NDArray[np.float64], overall: float | NDArray[np.float64]) -> NDArray[np.float64]:
    """The smaller of q_g / q and (1 - q_g) / (1 - q), for rates q_g; a quotient by almost 0 is 1."""
    return np.minimum(_quotients(rates, overall), _quotients(1 - rates, 1 - overall))


def _quotients(rates: NDArray[np.float64], by: float | NDArray[np.float64]) -> NDArray[np.float64]:
    enough = np.asarray(by) > NOBODY
    return np.where(enough, rates / np.where(enough, by, 1.0), 1.0 + 0 * rates + 0 * np.asarray(by))


@dataclass(frozen=True, eq=False)
class Measurement:
    """One statistic of a notion in each group, and how far the groups are apart.

    Attributes
    ----------
    notion, statistic : str
    names : tuple of GroupName
    overall : float
        The statistic in the whole population; shape (k, 1) for k draws of rates.
    values : array
        The statistic in each group; NaN where it is undefined. Shape (k, groups) for k draws.
    measure : {"difference", "ratio"}
        How the notion compares the groups.
    tolerance : float
        The bound of the notion.
    against : {"population", "groups"} or mapping
        Whether a group is compared with the population, with the other groups, or with a named group.
    references : tuple of int, default=()
        The place of the group that each is compared with, if groups are named.
    stratum : GroupName or None
        The stratum that groups are compared in: it is then the population.
    """

    notion: str
    statistic: str
    names: tuple[GroupName, ...]
    overall: float | NDArray[np.float64]
    values: NDArray[np.float64]
    measure: Measure
    tolerance: float
    against: Against = "population"
    stratum: GroupName | None = None
    references: tuple[int, ...] = ()

    @property
    def differences(self) -> NDArray[np.float64]:
        """Absolute difference between each group and the population, the highest group or the named one."""
        if self.against == "groups":
            return self._highest - self.values
        return np.abs(self._named - self.values)

    @property
    def _named(self) -> NDArray[np.float64]:
        """Rate of the named group that each is compared with, or of the population."""
        return self.values[..., list(self.references)] if self.references else np.asarray(self.overall)

    @property
    def _highest(self) -> NDArray[np.float64]:
        """Highest rate among the groups that each is compared with: those of the same features."""
        features = [name.features for name in self.names]
        highest = {
            own: np.fmax.reduce(self.values[..., [other == own for other in features]], axis=-1)
            for own in dict.fromkeys(features)
        }
        return np.stack([highest[own] for own in features], axis=-1)

    @property
    def ratios(self) -> NDArray[np.float64]:
        """The smaller of q_g / q and (1 - q_g) / (1 - q) for each group; q_g over the highest or named rate.

        A quotient with denominator 0 is 1, because no tolerance is then violated. A denominator below 1e-9
        counts as 0, since the quotient would be rounding error.
        """
        if self.against == "groups":
            return _quotients(self.values, self._highest)
        if self.references:
            return _quotients(self.values, self._named)
        return ratios(self.values, self.overall)

    @property
    def difference(self) -> float:
        """The largest difference over the groups for which it is defined: the mean difference MD."""
        return float(np.nanmax(self.differences)) if self._defined.any() else math.nan

    @property
    def ratio(self) -> float:
        """The smallest ratio over the groups for which it is defined: the mean ratio MR."""
        return float(np.nanmin(self.ratios)) if self._defined.any() else math.nan

    @property
    def value(self) -> float:
        """MD or MR, whichever the notion bounds."""
        return self.difference if self.measure == "difference" else self.ratio

    @property
    def excess(self) -> float:
        """By how much `value` misses the tolerance; 0 if it does not, NaN if undefined."""
        gap = self.value - self.tolerance if self.measure == "difference" else self.tolerance - self.value
        return gap if math.isnan(gap) else max(0.0, gap)

    @property
    def worst(self) -> GroupName | None:
        """The group that attains `value`; None if the statistic is undefined in all of them."""
        if not self._defined.any():
            return None
        by = -self.differences if self.measure == "difference" else self.ratios
        return self.names[int(np.nanargmin(by))]

    @property
    def side(self) -> str | None:
        """Whose ratio `value` is: of those "selected", or of those "refused".

        Of error rates it is "wrong" or "right", of a notion of your own the rate or "1 - rate". None of a
        difference, and against groups or a named one, where it is always the rate.
        """
        worst = self.worst
        if worst is None or self.measure == "difference" or self.against != "population":
            return None
        above = float(self.values[self.names.index(worst)]) > float(np.asarray(self.overall).item())
        return _SIDES.get(self.statistic, (self.statistic, f"1 - {self.statistic}"))[above]

    @property
    def reference(self) -> GroupName | None:
        """The group that the worst is compared with: named, or the highest of its features; else None."""
        worst = self.worst
        if worst is None or self.against == "population":
            return None
        if self.references:
            return self.names[self.references[self.names.index(worst)]]
        own = [name.features == worst.features for name in self.names]
        return self.names[int(np.nanargmax(np.where(own, self.values, np.nan)))]

    @property
    def undefined(self) -> tuple[GroupName, ...]:
        """Groups in which the statistic is undefined."""
        return tuple(name for name, known in zip(self.names, self._defined, strict=True) if not known)

    @property
    def _defined(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.values + 0 * self._named)


@dataclass(frozen=True, eq=False)
class BoundMeasurement:
    """A rate that is bounded, in each group.

    Attributes
    ----------
    notion, statistic : str
        The name of the rate.
    names : tuple of GroupName
    values : array
        The rate in each group; NaN where it is undefined.
    at_least, at_most : arrays
        The bounds of each group; NaN where there is none.
    """

    notion: str
    statistic: str
    names: tuple[GroupName, ...]
    values: NDArray[np.float64]
    at_least: NDArray[np.float64]
    at_most: NDArray[np.float64]
    measure: Literal["bound"] = "bound"

    @property
    def excesses(self) -> NDArray[np.float64]:
        """By how much each group misses its bounds; 0 or less if it does not, NaN where undefined."""
        return np.fmax(self.at_least - self.values, self.values - self.at_most)

    @property
    def excess(self) -> float:
        """The largest miss; 0 if there is none, NaN if the rate is undefined in all groups."""
        return math.nan if self._place is None else max(0.0, float(self.excesses[self._place]))

    @property
    def worst(self) -> GroupName | None:
        """The group that comes nearest to missing its bounds, or misses them most."""
        return None if self._place is None else self.names[self._place]

    @property
    def value(self) -> float:
        """The rate of that group."""
        return math.nan if self._place is None else float(self.values[self._place])

    @property
    def undefined(self) -> tuple[GroupName, ...]:
        """Groups in which the rate is undefined."""
        return tuple(name for name, missing in zip(self.names, np.isnan(self.values), strict=True) if missing)

    @property
    def _place(self) -> int | None:
        """Position of the worst group; None if no group has both a rate and a bound."""
        return None if np.isnan(self.excesses).all() else int(np.nanargmax(self.excesses))


AnyMeasurement = Measurement | BoundMeasurement
