"""An exact test of whether a group's share is within tolerance of the population's.

With q_g the share of hits in the group, q_r that among all others and pi the group's part of the population,
the difference is q - q_g = (1 - pi)(q_r - q_g). The p-value is the largest probability, over all pairs of
shares that violate the tolerance, of counts at least as good as those observed.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, betaincinv, gammaln, xlog1py, xlogy

from evenhand.fairness.measurement import Measure
from evenhand.inference.intervals import exact_limits

__all__ = ["ROUNDING", "Count", "p_value"]

Floats = NDArray[np.float64]
Count = tuple[int, int]
"""Hits and rows."""

ROUNDING = 1e-9
_SPENT = 0.02
"""Part of the level spent on each of two bounds: on the group's part, and on the nuisance share."""
_POINTS = 11
_TAIL = 1e-12


def p_value(own: Count, others: Count, *, tolerance: float, measure: Measure, level: float) -> float:
    """Largest probability of counts at least as good as these if a group is not within tolerance.

    Parameters
    ----------
    own, others : pair of int
        Hits and rows of the group and of all others.
    tolerance : float
    measure : {"difference", "ratio"}
        Of the group to the whole population.
    level : float
        Level of the test; a fiftieth of it is spent on each of two bounds.

    Returns
    -------
    float

    Examples
    --------
    >>> round(p_value((100, 1000), (400, 4000), tolerance=0.05, measure="difference", level=0.05), 3)
    0.002
    >>> p_value((8, 10), (300, 400), tolerance=0.05, measure="difference", level=0.05) > 0.3
    True
    """
    (k, n), (others_k, others_n) = own, others
    if not others_n:
        return 0.0  # the group is the whole population
    if not n:
        return 1.0
    spent = _SPENT * level
    part = float(betaincinv(n, others_n + 1, spent))  # lower confidence bound of the group's part
    if measure == "difference":
        wide = tolerance / (1 - part)
        sides = [
            _one_sided(own, others, weight=1.0, gap=wide, spent=spent),
            _one_sided(others, own, weight=1.0, gap=wide, spent=spent),
        ]
    else:
        weight = tolerance * (1 - part) / (1 - tolerance * part)
        misses = (n - k, n), (others_n - others_k, others_n)
        sides = [
            _one_sided(own, others, weight=weight, gap=0.0, spent=spent),
            _one_sided(*misses, weight=weight, gap=0.0, spent=spent),
        ]
    return min(1.0, max(sides) + spent)


def _one_sided(low: Count, high: Count, *, weight: float, gap: float, spent: float) -> float:
    """Largest probability of T <= t where weight * q_high - q_low >= gap, with T = weight * x_high - x_low.

    It is attained at equality. The share of the larger sample varies over its confidence interval only.
    """
    (k_low, n_low), (k_high, n_high) = low, high
    t = weight * k_high / n_high - k_low / n_low
    if gap > weight or weight <= 0:
        return 0.0  # no two shares differ that much
    if t >= gap:
        return 1.0
    bound = math.exp(-2 * (gap - t) ** 2 / (weight**2 / n_high + 1 / n_low))  # Hoeffding's
    if bound < spent:
        return bound
    if n_high >= n_low:
        least, most = map(float, exact_limits(k_high, n_high - k_high, spent / 2))
        least = max(least, gap / weight)  # where the other share is 0
        q_high = np.linspace(least, most, _POINTS)
        q_low = np.clip(weight * q_high - gap, 0.0, 1.0)
    else:
        least, most = map(float, exact_limits(k_low, n_low - k_low, spent / 2))
        most = min(most, weight - gap)  # where the other share is 1
        q_low = np.linspace(least, most, _POINTS)
        q_high = np.clip((q_low + gap) / weight, 0.0, 1.0)
    if least > most:
        return spent
    if n_high >= n_low:
        x = _counts(n_low, q_low)
        top = np.floor(n_high * (t + x / n_low) / weight + ROUNDING)
        chances = _probability(x, n_low, q_low) * _at_most(top, n_high, q_high)
    else:
        x = _counts(n_high, q_high)
        bottom = np.ceil(n_low * (weight * x / n_high - t) - ROUNDING)
        chances = _probability(x, n_high, q_high) * (1 - _at_most(bottom - 1, n_low, q_low))
    return float(chances.sum(axis=1).max()) + spent + _TAIL


def _counts(n: int, q: Floats) -> Floats:
    """Counts that have a noticeable probability under some of the shares."""
    width = 8 * np.sqrt(n * q * (1 - q)) + 20
    low, high = max(0.0, float((n * q - width).min())), min(float(n), float((n * q + width).max()))
    return np.arange(math.floor(low), math.ceil(high) + 1, dtype=np.float64)


def _probability(x: Floats, n: int, q: Floats) -> Floats:
    """Binomial probabilities, shape (len(q), len(x))."""
    ways = gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1)
    return np.asarray(np.exp(ways + xlogy(x, q[:, None]) + xlog1py(n - x, -q[:, None])))


def _at_most(count: Floats, n: int, q: Floats) -> Floats:
    """Probability of at most `count` hits, shape (len(q), len(count))."""
    inside = bdtr(np.clip(count, 0, n), n, q[:, None])
    return np.where(count < 0, 0.0, np.where(count >= n, 1.0, inside))
