"""Confidence intervals of shares, and of their differences and quotients.

A share has a Wilson score interval, or an exact one where many intervals must hold simultaneously. Functions
of independent shares have limits by the method of variance estimates recovery (MOVER; Zou and Donner 2008):
the distance of each limit from the estimate combines, in quadrature, the distances of the shares from their
own limits. For a difference of two shares with Wilson intervals this is Newcombe's hybrid score interval.
All functions work on arrays, with NaN where nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Estimate:
    """Values with the limits of their intervals: three arrays of the same shape."""

    value: Floats
    low: Floats
    high: Floats

    @property
    def below(self) -> Floats:
        """Distance from the lower limit to the value."""
        return self.value - self.low

    @property
    def above(self) -> Floats:
        """Distance from the value to the upper limit."""
        return self.high - self.value

    @property
    def complement(self) -> Estimate:
        """One minus the value."""
        return Estimate(1 - self.value, 1 - self.high, 1 - self.low)

    def moved(self, start: float | Floats, width: float) -> Estimate:
        """``start + width * value``, for a width that is not negative."""
        return Estimate(*(start + width * part for part in (self.value, self.low, self.high)))


def critical_value(confidence: float, comparisons: int = 1) -> float:
    """Normal quantile of a two-sided interval, with Bonferroni's correction for several comparisons.

    Examples
    --------
    >>> round(critical_value(0.95), 3), round(critical_value(0.95, comparisons=4), 3)
    (1.96, 2.498)
    """
    return -NormalDist().inv_cdf((1 - confidence) / (2 * max(comparisons, 1)))


def wilson(value: ArrayLike, size: ArrayLike, z: float) -> Estimate:
    """Wilson score interval of a share.

    Parameters
    ----------
    value : array
        The share, from 0 to 1. A mean of values from 0 to 1 is treated as a share, the case of largest
        variance.
    size : array
        The number of rows in the denominator, or their effective number.
    z : float
        From :func:`critical_value`.

    Returns
    -------
    Estimate
        NaN where `size` is 0.

    Examples
    --------
    >>> found = wilson(0.3, 10, z=1.96)
    >>> found.low.round(3), found.high.round(3)
    (np.float64(0.108), np.float64(0.603))
    """
    p, n = np.clip(np.asarray(value, np.float64), 0, 1), np.asarray(size, np.float64)
    p, n = (np.where(n > 0, part, np.nan) for part in np.broadcast_arrays(p, n))
    centre = (n * p + z * z / 2) / (n + z * z)
    half = z / (n + z * z) * np.sqrt(n * p * (1 - p) + z * z / 4)
    # Rounding must not put a share of exactly 0 or 1 outside its interval.
    return Estimate(p, np.clip(centre - half, 0, p), np.clip(centre + half, p, 1))


def clopper_pearson(value: ArrayLike, size: ArrayLike, z: float) -> Estimate:
    """Exact (Clopper-Pearson) interval of a share.

    Its coverage holds at any confidence. Wilson's holds on average over shares, but in the far tails, where
    Bonferroni's correction leads, its lower limit is missed too often for shares near 0.

    Parameters
    ----------
    value, size, z
        As for :func:`wilson`.

    Returns
    -------
    Estimate
        NaN where `size` is 0.

    Examples
    --------
    >>> found = clopper_pearson(0.3, 10, z=1.96)
    >>> found.low.round(3), found.high.round(3)
    (np.float64(0.067), np.float64(0.652))
    """
    p, n = np.clip(np.asarray(value, np.float64), 0, 1), np.asarray(size, np.float64)
    p, n = (np.where(n > 0, part, np.nan) for part in np.broadcast_arrays(p, n))
    tail, hits, others = special.ndtr(-z), p * n, (1 - p) * n
    low, high = exact_limits(hits, others, tail)
    return Estimate(p, np.clip(low, 0, p), np.clip(high, p, 1))


def exact_limits(hits: ArrayLike, others: ArrayLike, tail: float) -> tuple[Floats, Floats]:
    """Clopper-Pearson limits of a share, each missed with probability at most `tail`."""
    k, rest = np.asarray(hits, np.float64), np.asarray(others, np.float64)
    low = np.where(k > 0, special.betaincinv(np.where(k > 0, k, 1.0), rest + 1, tail), 0.0)
    high = np.where(rest > 0, special.betainccinv(k + 1, np.where(rest > 0, rest, 1.0), tail), 1.0)
    return low, high


def difference(first: Estimate, second: Estimate) -> Estimate:
    """Interval of ``first - second`` for independent estimates (Newcombe's for shares).

    Examples
    --------
    >>> found = difference(wilson(56 / 70, 70, z=1.96), wilson(48 / 80, 80, z=1.96))
    >>> found.low.round(4), found.high.round(4)
    (np.float64(0.0524), np.float64(0.3339))
    """
    value = first.value - second.value
    return Estimate(
        value, value - np.hypot(first.below, second.above), value + np.hypot(first.above, second.below)
    )


def gap(group: Estimate, rest: Estimate, part: Estimate) -> Estimate:
    """Interval of the population's statistic minus that of a group.

    The population is the group and the rest, so the gap is ``(1 - part) * (rest - group)``, a function of
    three independent estimates.

    Parameters
    ----------
    group, rest : Estimate
        The statistic in the group and among all others.
    part : Estimate
        The group's share of the population.

    Returns
    -------
    Estimate
    """
    apart, others = rest.value - group.value, 1 - part.value
    value = others * apart
    # A larger part moves the gap towards 0: down if it is positive, up if it is negative.
    down = apart * np.where(apart > 0, part.above, part.below)
    up = apart * np.where(apart > 0, part.below, part.above)
    return Estimate(
        value,
        value - np.sqrt((others * rest.below) ** 2 + (others * group.above) ** 2 + down**2),
        value + np.sqrt((others * rest.above) ** 2 + (others * group.below) ** 2 + up**2),
    )


def quotient(group: Estimate, rest: Estimate, part: Estimate | None = None) -> Estimate:
    """Interval of a group's statistic divided by that of the population.

    It contains the numbers delta for which the interval of ``group - delta * everyone`` contains 0, where
    ``everyone = part * group + (1 - part) * rest``. Without `part` it is the interval of ``group / rest`` for
    independent estimates (Donner and Zou 2012).

    Parameters
    ----------
    group, rest : Estimate
        The statistic in the group and among all others; not negative.
    part : Estimate, default=None
        The group's share of the population.

    Returns
    -------
    Estimate
        Infinite above where the denominator may be 0. Where it is estimated as 0 the value is 1.

    Examples
    --------
    >>> found = quotient(wilson(0.3, 200, z=1.96), wilson(0.4, 300, z=1.96))
    >>> found.value, found.low.round(3), found.high.round(3)
    (array(0.75), np.float64(0.581), np.float64(0.961))
    """
    if part is None:
        nothing = np.zeros_like(rest.value)
        part = Estimate(nothing, nothing, nothing)
    share, apart = part.value, group.value - rest.value
    everyone = share * group.value + (1 - share) * rest.value
    known = np.where(everyone > 0, everyone, 1.0)
    value = np.where(everyone > 0, group.value / known, np.where(np.isnan(everyone), np.nan, 1.0))

    def coefficients(own: Floats, other: Floats, shift: Floats) -> tuple[Floats, Floats, Floats]:
        """a, b, c of a delta^2 - 2 b delta + c = 0, the equation for a limit of the interval to be 0."""
        moved = ((1 - share) * other) ** 2 + (apart * shift) ** 2
        a = everyone**2 - (share * own) ** 2 - moved
        return a, group.value * everyone - share * own**2, group.value**2 - own**2

    a, b, c = coefficients(group.below, rest.above, np.where(apart > 0, part.above, part.below))
    root = b + np.sqrt(np.maximum(b * b - a * c, 0))
    low = np.where(root > 0, c / np.where(root > 0, root, 1.0), np.where(np.isnan(root), np.nan, 0.0))
    a, b, c = coefficients(group.above, rest.below, np.where(apart > 0, part.below, part.above))
    root = b + np.sqrt(np.maximum(b * b - a * c, 0))
    high = np.where(a > 0, root / np.where(a > 0, a, 1.0), np.where(np.isnan(a), np.nan, np.inf))
    return Estimate(value, np.clip(low, 0, value), np.maximum(high, value))


def paired_difference(
    both: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    neither: ArrayLike,
    *,
    size: ArrayLike,
    z: float,
    interval: Callable[..., Estimate] = wilson,
) -> Estimate:
    """Interval of the change of a share when the same rows are decided twice.

    Newcombe's method 10 for paired data (1998): the Wilson limits of both shares in quadrature, with the
    estimated correlation between them, reduced by a continuity correction.

    Parameters
    ----------
    both, first, second, neither : array
        Rows that are hits both times, only the first time, only the second time, and never; or their weights.
    size : array
        The number of rows, or their effective number.
    z : float
        From :func:`critical_value`.
    interval : callable, default=wilson
        The interval of both shares: :func:`clopper_pearson` where many intervals hold simultaneously.

    Returns
    -------
    Estimate
        Of the second share minus the first.

    Examples
    --------
    >>> found = paired_difference(36, 2, 12, 0, size=50, z=1.96)
    >>> found.value.round(4), found.low.round(4), found.high.round(4)
    (np.float64(0.2), np.float64(0.0569), np.float64(0.3404))
    """
    table = np.stack(
        np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (both, first, second, neither)))
    )
    total, n = table.sum(axis=0), np.asarray(size, np.float64)
    n = np.where(n > 0, n, np.nan)
    e, f, g, h = table / np.where(total > 0, total, np.nan)
    before, after = interval(e + f, n, z), interval(e + g, n, z)
    scale = np.sqrt((e + f) * (g + h) * (e + g) * (f + h))
    agreement = e * h - f * g
    agreement = np.where(agreement > 0, np.maximum(agreement - 1 / (2 * n), 0), agreement)
    correlation = np.where(scale > 0, agreement / np.where(scale > 0, scale, 1.0), 0.0)

    def quadrature(x: Floats, y: Floats) -> Floats:
        return np.sqrt(np.maximum(x * x - 2 * correlation * x * y + y * y, 0))

    value = g - f
    return Estimate(
        value,
        value - quadrature(after.below, before.above),
        value + quadrature(after.above, before.below),
    )
