"""Statistics: rates of a group that are linear in the selection rates of its cells."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.exceptions import InputError
from evenhand.requirements.measurement import NOBODY
from evenhand.requirements.rates import CellRates, quotient

Floats = NDArray[np.float64]


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
                    f"{part} of the statistic {self.name!r} must be two numbers, for label 0 and 1, "
                    f"got {pair!r}."
                )
        if min(self.mask) < 0:
            raise InputError(f"mask of the statistic {self.name!r} is negative: {self.mask!r}.")

    @property
    def needs_labels(self) -> bool:
        """Whether the statistic depends on the label."""
        return any(pair[0] != pair[1] for pair in (self.mask, self.slope, self.intercept))

    @property
    def outcomes(self) -> Floats:
        """The value of a row that is not selected and of one that is, for label 0 and 1: shape (2, 2)."""
        return np.array([self.intercept, np.add(self.intercept, self.slope)], np.float64)

    @property
    def range(self) -> tuple[float, float]:
        """The smallest possible value of the rate, and the width up to the largest."""
        values = self.outcomes[:, np.array(self.mask) > 0]
        return (float(values.min()), float(np.ptp(values)) or 1.0) if values.size else (0.0, 1.0)

    def shares(self, masses: Floats, members: NDArray[Any]) -> Floats:
        """Weight of each cell in each group's statistic, shape (G, M, 2); NaN where it is undefined."""
        inside = members[:, :, None] * (np.array(self.mask) * masses)
        return quotient(inside, inside.sum(axis=(1, 2), keepdims=True))

    def linear(self, masses: Floats, members: NDArray[Any]) -> tuple[Floats, Floats]:
        """Coefficients A, shape (G, M, 2), and constants k with q = A rho + k; NaN where q is undefined."""
        shares = self.shares(masses, members)
        return shares * np.array(self.slope), (shares * np.array(self.intercept)).sum(axis=(1, 2))

    def values(self, rates: CellRates, members: NDArray[Any]) -> Floats:
        """The statistic of each group, shape (..., G); NaN where it is undefined."""
        return quotient(*self.counts(rates, members))

    def counts(self, rates: CellRates, members: NDArray[Any]) -> tuple[Floats, Floats]:
        """Hits and rows of each group, or their weights: the statistic is their quotient."""
        mask, intercept, slope = map(np.array, (self.mask, self.intercept, self.slope))
        sums = mask * (intercept * rates.mass + slope * rates.selected), mask * rates.mass
        return sums[0].sum(axis=-1) @ members.T, sums[1].sum(axis=-1) @ members.T


@dataclass(frozen=True)
class SelectedShare:
    """A rate among the selected rows of a group: the share of those with some labels, such as precision.

    It is a quotient of two sums, so ``q >= t`` is the linear constraint ``hits - t * selected >= 0``, which
    also holds where nobody is selected.

    Parameters
    ----------
    name : str
        Name of the rate.
    hits : tuple of two numbers, default=(0, 1)
        Which labels count as hits.
    """

    name: str
    hits: tuple[float, float] = (0, 1)
    mask = (1, 1)
    needs_labels = True
    range = (0.0, 1.0)

    @property
    def outcomes(self) -> Floats:
        """The value of a selected row, for label 0 and 1; twice, in the shape of ``Statistic.outcomes``."""
        return np.array([self.hits, self.hits], np.float64)

    def linear(self, masses: Floats, members: NDArray[Any], bound: float) -> tuple[Floats, NDArray[np.bool_]]:
        """Coefficients of ``(hits - bound * selected) / mass``, shape (G, M, 2); which groups have rows."""
        inside = members[:, :, None] * masses
        total = inside.sum(axis=(1, 2), keepdims=True)
        shares = inside / np.where(total > 0, total, 1.0)
        return shares * (np.array(self.hits) - bound), total[:, 0, 0] > 0

    def values(self, rates: CellRates, members: NDArray[Any]) -> Floats:
        """The rate of each group, shape (..., G); NaN where nobody is selected."""
        return quotient(*self.counts(rates, members))

    def counts(self, rates: CellRates, members: NDArray[Any]) -> tuple[Floats, Floats]:
        """Hits and selected rows of each group, or their weights: the statistic is their quotient."""
        hits = (np.array(self.hits) * rates.selected).sum(axis=-1) @ members.T
        total = rates.selected.sum(axis=-1) @ members.T
        return hits, np.where(total > NOBODY * (rates.mass.sum(axis=-1) @ members.T), total, 0.0)


SELECTION = Statistic("selection rate")
TRUE_POSITIVE = Statistic("true-positive rate", mask=(0, 1), slope=(0, 1))
FALSE_POSITIVE = Statistic("false-positive rate", mask=(1, 0), slope=(1, 0))
ERROR = Statistic("error rate", slope=(1, -1), intercept=(0, 1))
ACCURACY = Statistic("accuracy", slope=(-1, 1), intercept=(1, 0))
PRECISION = SelectedShare("precision")
