"""A statistic in each group, and how far the groups are apart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.fairness.groups import GroupName

__all__ = ["NOBODY", "Measure", "Measurement"]

Measure = Literal["difference", "ratio"]

NOBODY = 1e-9
"""A rate below this counts as 0; `solve` lets a bound be violated by as much."""


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
    """

    notion: str
    statistic: str
    names: tuple[GroupName, ...]
    overall: float
    values: NDArray[np.float64]
    measure: Measure
    tolerance: float

    @property
    def differences(self) -> NDArray[np.float64]:
        """Absolute difference between the population and each group."""
        return np.abs(self.overall - self.values)

    @property
    def ratios(self) -> NDArray[np.float64]:
        """The smaller of q_g / q and (1 - q_g) / (1 - q) for each group.

        A quotient with denominator 0 is 1, because no tolerance is then violated. A denominator below 1e-9
        counts as 0, since the quotient would be rounding error.
        """
        q, q_g = self.overall, self.values
        up = q_g / q if q > NOBODY else np.ones_like(q_g)
        down = (1 - q_g) / (1 - q) if 1 - q > NOBODY else np.ones_like(q_g)
        return np.where(np.isnan(q_g), np.nan, np.minimum(up, down))

    @property
    def difference(self) -> float:
        """Mean difference MD: the largest difference over the groups for which it is defined."""
        return float(np.nanmax(self.differences)) if self._defined.any() else math.nan

    @property
    def ratio(self) -> float:
        """Mean ratio MR: the smallest ratio over the groups for which it is defined."""
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
    def undefined(self) -> tuple[GroupName, ...]:
        """Groups in which the statistic is undefined."""
        return tuple(name for name, known in zip(self.names, self._defined, strict=True) if not known)

    @property
    def _defined(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.values)
