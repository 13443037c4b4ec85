"""Statistics: rates of a group that are linear in the selection rates of its cells."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.exceptions import InputError
from evenhand.fairness.rates import CellRates

__all__ = ["Statistic"]


@dataclass(frozen=True)
class Statistic:
    """A rate of a group, defined by its coefficients for label 0 and label 1.

    Parameters
    ----------
    name : str
        Name of the rate.
    mask : tuple of two numbers, default=(1, 1)
        Which labels count: (1, 1) all rows, (0, 1) only positives, (1, 0) only negatives.
    slope : tuple of two numbers, default=(1, 1)
    intercept : tuple of two numbers, default=(0, 0)
        The rate of a cell is ``intercept + slope * rho``.

    Examples
    --------
    >>> Statistic("false-negative rate", mask=(0, 1), slope=(0, -1), intercept=(0, 1)).needs_labels
    True
    """

    name: str
    mask: tuple[float, float] = (1, 1)
    slope: tuple[float, float] = (1, 1)
    intercept: tuple[float, float] = (0, 0)

    def __post_init__(self) -> None:
        for part in ("mask", "slope", "intercept"):
            pair = getattr(self, part)
            if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(x, Real) for x in pair):
                raise InputError(
                    f"{part} of the statistic {self.name!r} should be two numbers, for label 0 and 1, "
                    f"but is {pair!r}."
                )
        if min(self.mask) < 0:
            raise InputError(f"mask of the statistic {self.name!r} is negative: {self.mask!r}.")

    @property
    def needs_labels(self) -> bool:
        """Whether the statistic depends on the label."""
        return any(pair[0] != pair[1] for pair in (self.mask, self.slope, self.intercept))

    def shares(self, masses: NDArray[np.float64], members: NDArray[Any]) -> NDArray[np.float64]:
        """Weight of each cell in each group's statistic, shape (G, M, 2); NaN where it is undefined."""
        inside = members[:, :, None] * (np.array(self.mask) * masses)
        total = inside.sum(axis=(1, 2), keepdims=True)
        return np.where(total > 0, inside / np.where(total > 0, total, 1.0), np.nan)

    def linear(
        self, masses: NDArray[np.float64], members: NDArray[Any]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Coefficients A, shape (G, M, 2), and constants k with q = A rho + k; NaN where q is undefined."""
        shares = self.shares(masses, members)
        return shares * np.array(self.slope), (shares * np.array(self.intercept)).sum(axis=(1, 2))

    def values(self, rates: CellRates, members: NDArray[Any]) -> NDArray[np.float64]:
        """The statistic of each group, shape (G,); NaN where it is undefined."""
        weight = np.array(self.mask) * rates.mass
        cell = np.array(self.intercept) * rates.mass + np.array(self.slope) * rates.selected
        part = members @ (np.array(self.mask) * cell).sum(axis=1)
        total = members @ weight.sum(axis=1)
        return np.where(total > 0, part / np.where(total > 0, total, 1.0), np.nan)
