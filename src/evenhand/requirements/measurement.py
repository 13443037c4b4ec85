"""A statistic in each group, and how far the groups are apart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.groups.groups import GroupName

__all__ = ["NOBODY", "Against", "AnyMeasurement", "BoundMeasurement", "Measure", "Measurement", "ratios"]

Measure = Literal["difference", "ratio"]
Against = Literal["population", "groups"]

NOBODY = 1e-9
"""A rate below this counts as 0; `solve` lets a bound be violated by as much."""


def ratios(rates: NDArray[np.float64], overall: float) -> NDArray[np.float64]:
    """The smaller of q_g / q and (1 - q_g) / (1 - q), for rates q_g; a quotient by almost 0 is 1."""
    same = 1.0 + 0 * rates
    up = rates / overall if overall > NOBODY else same
    down = (1 - rates) / (1 - overall) if 1 - overall > NOBODY else same
    return np.minimum(up, down)


@dataclass(frozen=True, eq=False)
class Measurement:
    """One statistic of a notion in each group, and how far the groups are apart.

    Attributes
    ----------
    notion, statistic : str
    names : tuple of GroupName
    overall : float
        The statistic in the whole population.
    values : array
        The statistic in each group; NaN where it is undefined.
    measure : {"difference", "ratio"}
        How the notion compares the groups.
    tolerance : float
        The bound of the notion.
    against : {"population", "groups"}
        Whether a group is compared with the population or with the other groups.
    stratum : GroupName or None
        The stratum that groups are compared in: it is then the population.
    """

    notion: str
    statistic: str
    names: tuple[GroupName, ...]
    overall: float
    values: NDArray[np.float64]
    measure: Measure
    tolerance: float
    against: Against = "population"
    stratum: GroupName | None = None

    @property
    def differences(self) -> NDArray[np.float64]:
        """Absolute difference between the population and each group; against groups, from the highest."""
        if self.against == "groups":
            return self._highest - self.values
        return np.abs(self.overall - self.values)

    @property
    def _highest(self) -> NDArray[np.float64]:
        """Highest rate among the groups that each is compared with: those of the same features."""
        features = [name.features for name in self.names]
        highest = {
            own: np.fmax.reduce(self.values[[other == own for other in features]])
            for own in dict.fromkeys(features)
        }
        return np.array([highest[own] for own in features])

    @property
    def ratios(self) -> NDArray[np.float64]:
        """The smaller of q_g / q and (1 - q_g) / (1 - q) for each group; q_g over the highest against groups.

        A quotient with denominator 0 is 1, because no tolerance is then violated. A denominator below 1e-9
        counts as 0, since the quotient would be rounding error.
        """
        if self.against == "groups":
            most = self._highest
            return np.where(
                most > NOBODY, self.values / np.where(most > NOBODY, most, 1.0), 1.0 + 0 * self.values
            )
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
    def reference(self) -> GroupName | None:
        """The group that the worst is compared with: the highest of its features; None is the population."""
        worst = self.worst
        if worst is None or self.against == "population":
            return None
        own = [name.features == worst.features for name in self.names]
        return self.names[int(np.nanargmax(np.where(own, self.values, np.nan)))]

    @property
    def undefined(self) -> tuple[GroupName, ...]:
        """Groups in which the statistic is undefined."""
        return tuple(name for name, known in zip(self.names, self._defined, strict=True) if not known)

    @property
    def _defined(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.values)


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
        """Of the worst group; None if no group has both a rate and a bound."""
        return None if np.isnan(self.excesses).all() else int(np.nanargmax(self.excesses))


AnyMeasurement = Measurement | BoundMeasurement
