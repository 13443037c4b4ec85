"""Tests of whether a group's share is within tolerance of the population's, of another's, or of a number.

With q_g the share of hits in the group, q_r that among all others and pi the group's part of the population,
the difference is q - q_g = (1 - pi)(q_r - q_g). The p-value is the largest probability, over pairs of
shares on the border of what violates the tolerance, of counts at least as good as those observed. Against the
population it is computed at eleven points of the border, between which it may be a little larger; between two
groups the border is cut into pieces, and each is bounded from above.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, betaincinv, gammaln, xlog1py, xlogy

from evenhand.guarantee.intervals import exact_limits
from evenhand.requirements.measurement import Measure

Floats = NDArray[np.float64]
Count = tuple[int, int]
"""Hits and rows."""

ROUNDING = 1e-9
_SPENT = 0.02
"""Part of the level spent on each of two bounds: on the group's part, and on the nuisance share."""
_POINTS = 11
"""Points of the border, against the population. 401 raise no p-value by more than half a percent of it."""
_CELLS = 64
"""Between two groups, pieces of the border that are bounded one by one."""
_TAIL = 1e-12


def p_value(
    own: Count,
    others: Count,
    *,
    tolerance: float,
    measure: Measure,
    level: float,
    sizes: tuple[int, int] | None = None,
) -> float:
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
    sizes : pair of int, default=None
        Rows of the group and of all others by which the group's part of the population is bounded. They may
        include rows without counts of hits; by default those of `own` and `others`.

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
    if not n:
        return 1.0  # nothing is known
    if not others_n:
        return 0.0  # the group is the whole population
    spent = _SPENT * level
    inside, outside = (n, others_n) if sizes is None else sizes
    part = float(betaincinv(inside, outside + 1, spent))  # lower confidence bound of the group's part
    if measure == "difference":
        weight, gap, pairs = 1.0, tolerance / (1 - part), [(own, others), (others, own)]
    else:
        weight, gap = tolerance * (1 - part) / (1 - tolerance * part), 0.0
        pairs = [(own, others), ((n - k, n), (others_n - others_k, others_n))]  # of hits, and of misses
    sides = [_one_sided(*pair, weight=weight, gap=gap, spent=spent) for pair in pairs]
    return min(1.0, max(sides) + spent)


def pair_p_value(
    own: Count, others: Count, *, tolerance: float, measure: Measure, level: float, one_sided: bool = False
) -> float:
    """Bound on the probability of counts at least as good as these if two groups are too far apart.

    With q and r the shares of the two, the tolerance is violated where abs(q - r) > tolerance; or, by ratio,
    where q < tolerance * r or r < tolerance * q. Two one-sided tests, both of which have to pass.

    Parameters
    ----------
    own, others : pair of int
        Hits and rows of the two groups.
    tolerance : float
    measure : {"difference", "ratio"}
    level : float
        Level of the test; a fiftieth of it is spent on the interval of the nuisance share.
    one_sided : bool, default=False
        Whether only a share q that is too low violates the tolerance.

    Returns
    -------
    float

    Examples
    --------
    >>> round(pair_p_value((100, 1000), (100, 1000), tolerance=0.05, measure="difference", level=0.05), 4)
    0.0012
    >>> pair_p_value((8, 10), (300, 400), tolerance=0.8, measure="ratio", level=0.05) > 0.05
    True
    """
    if not own[1] or not others[1]:
        return 1.0
    weight, gap = (1.0, tolerance) if measure == "difference" else (tolerance, 0.0)
    spent = _SPENT * level
    sides = [
        _one_sided(low, high, weight=weight, gap=gap, spent=spent, cells=_CELLS)
        for low, high in ((own, others), (others, own))[: 1 if one_sided else 2]
    ]
    return min(1.0, max(sides))


def bound_p_value(own: Count, *, at_least: float | None = None, at_most: float | None = None) -> float:
    """Largest probability of a count at least as good as this if a share is not within its bounds.

    It is attained where the share equals the bound. A bound that no share violates, at least 0 or at most 1,
    passes without evidence; otherwise there is none without rows.

    Parameters
    ----------
    own : pair of int
        Hits and rows.
    at_least, at_most : float, default=None

    Returns
    -------
    float

    Examples
    --------
    >>> round(bound_p_value((10, 100), at_most=0.2), 4)
    0.0057
    >>> bound_p_value((0, 0), at_least=0.5)
    1.0
    """
    k, n = own
    # At least a share of hits is at most a share of misses.
    sides = [(k, at_most), (n - k, None if at_least is None else 1 - at_least)]
    limits = [(hits, limit) for hits, limit in sides if limit is not None and limit < 1]
    if not n:
        return 1.0 if limits else 0.0
    chances = [_at_most(np.array([float(hits)]), n, np.array([limit])) for hits, limit in limits]
    return max((float(chance[0, 0]) for chance in chances), default=0.0)


def _one_sided(
    low: Count, high: Count, *, weight: float, gap: float, spent: float, cells: int | None = None
) -> float:
    """Largest probability of T <= t where weight * q_high - q_low >= gap, with T = weight * x_high - x_low.

    It is attained at equality. The share of the larger sample varies over its confidence interval only, at
    eleven points. With `cells`, it is cut into as many pieces, and each is bounded by the probability
    at its highest q_low and its lowest q_high: P(T <= t) rises with q_low and falls with q_high.
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
    points = _POINTS if cells is None else cells + 1
    if n_high >= n_low:
        least, most = map(float, exact_limits(k_high, n_high - k_high, spent / 2))
        least = max(least, gap / weight)  # where the other share is 0
        q_high = np.linspace(least, most, points)
        q_low = np.clip(weight * q_high - gap, 0.0, 1.0)
    else:
        least, most = map(float, exact_limits(k_low, n_low - k_low, spent / 2))
        most = min(most, weight - gap)  # where the other share is 1
        q_low = np.linspace(least, most, points)
        q_high = np.clip((q_low + gap) / weight, 0.0, 1.0)
    if least > most:
        return spent
    if cells is not None:
        q_low, q_high = q_low[1:], q_high[:-1]
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
