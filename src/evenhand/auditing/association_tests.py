"""Tests of two groups of people, selected or not: exact for one table, and over strata.

A table has `x1` of `n1` people selected in a group and `x2` of `n2` in its reference.
"""

from __future__ import annotations

import math
from bisect import bisect_left

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

Floats = NDArray[np.float64]

_SAME = 1e-7
"""Tables are equally likely if their probabilities differ by a smaller share; as in SciPy and R."""


def standard_deviations(x1: float, n1: float, x2: float, n2: float) -> float:
    """Z = (x1/n1 - x2/n2) / sqrt(p (1-p) (1/n1 + 1/n2)), p pooled; NaN if all or none are selected.

    Examples
    --------
    >>> round(standard_deviations(48, 80, 72, 96), 3)
    -2.127
    """
    pooled = (x1 + x2) / (n1 + n2) if n1 + n2 else math.nan
    variance = pooled * (1 - pooled) * (1 / n1 + 1 / n2) if n1 and n2 else math.nan
    return (x1 / n1 - x2 / n2) / math.sqrt(variance) if variance > 0 else math.nan


def fisher(x1: int, n1: int, x2: int, n2: int) -> tuple[float, float]:
    """Fisher's exact test, two-sided, and its mid-P value.

    The p-value sums the tables with the same margins that are at most as likely as the one observed. In the
    mid-P value (Lancaster), those that are as likely as the observed one count half, so its mean under the
    null hypothesis is exactly one half.

    Returns
    -------
    p_value, mid_p : float

    Examples
    --------
    >>> [round(p, 4) for p in fisher(2, 10, 8, 12)]
    [0.0427, 0.0255]
    """
    total, chosen = n1 + n2, x1 + x2
    if x1 * total > n1 * chosen:  # the other way round, so that x1 is in the lower tail
        return fisher(x2, n2, x1, n1)
    law = stats.hypergeom(total, chosen, n1)
    own = float(law.pmf(x1))
    # Probabilities fall from the mode on, so the upper tail begins where they are no larger than `own`.
    mode = (n1 + 1) * (chosen + 1) // (total + 2)
    upper = range(max(x1 + 1, mode), min(n1, chosen) + 1)
    first = bisect_left(upper, -own * (1 + _SAME), key=lambda k: -float(law.pmf(k)))
    p_value, equal = float(law.cdf(x1)), own
    if first < len(upper):
        p_value += float(law.sf(upper[first] - 1))
        other = float(law.pmf(upper[first]))
        equal += other if other > own * (1 - _SAME) else 0.0
    return min(1.0, p_value), max(0.0, min(1.0, p_value) - equal / 2)


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """P-values adjusted for their number, by Holm's step-down method; those that are NaN do not count.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).round(3)
    array([0.03, 0.06, 0.06])
    """
    raw = np.asarray(p_values, np.float64)
    order = np.argsort(raw)  # NaN last
    number = np.count_nonzero(~np.isnan(raw))
    steps = np.maximum.accumulate(raw[order] * np.maximum(number - np.arange(len(raw)), 1))
    adjusted = np.empty_like(raw)
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


def telling(
    x1: ArrayLike, n1: ArrayLike, x2: ArrayLike, n2: ArrayLike
) -> tuple[Floats, Floats, Floats, Floats]:
    """The tables of strata with both groups, in which some people are selected and some are not.

    Others have no part in the tests over strata.

    Examples
    --------
    >>> telling([1, 0], [2, 0], [2, 3], [3, 5])
    (array([1.]), array([2.]), array([2.]), array([3.]))
    """
    a, n, c, m = (np.atleast_1d(np.asarray(part, np.float64)) for part in (x1, n1, x2, n2))
    tells = (n > 0) & (m > 0) & (a + c > 0) & (a + c < n + m)
    return a[tells], n[tells], c[tells], m[tells]


def common_odds_ratio(x1: ArrayLike, n1: ArrayLike, x2: ArrayLike, n2: ArrayLike) -> float:
    """Odds ratio by Mantel and Haenszel over strata, or of one table; NaN if it is 0 / 0.

    Examples
    --------
    >>> common_odds_ratio([10, 20], [40, 40], [20, 30], [40, 40])
    0.3333333333333333
    """
    a, n, c, m = telling(x1, n1, x2, n2)
    up, down = (a * (m - c) / (n + m)).sum(), ((n - a) * c / (n + m)).sum()
    return float(up / down) if down > 0 else math.inf if up > 0 else math.nan


def cochran_mantel_haenszel(x1: ArrayLike, n1: ArrayLike, x2: ArrayLike, n2: ArrayLike) -> float:
    """P-value of no association in any stratum, without continuity correction; NaN if no stratum can tell.

    Examples
    --------
    >>> round(cochran_mantel_haenszel([10, 20], [40, 40], [20, 30], [40, 40]), 5)
    0.00117
    """
    a, n, c, m = telling(x1, n1, x2, n2)
    total, chosen = n + m, a + c
    variance = (n * m * chosen * (total - chosen) / (total**2 * (total - 1))).sum()
    surplus = (a - n * chosen / total).sum()
    return float(stats.chi2.sf(surplus**2 / variance, 1)) if variance > 0 else math.nan


def breslow_day(x1: ArrayLike, n1: ArrayLike, x2: ArrayLike, n2: ArrayLike) -> float:
    """P-value of the same odds ratio in all strata, by Breslow and Day with Tarone's correction.

    NaN with fewer than two strata that can tell, or if the common odds ratio is 0 or infinite.

    Examples
    --------
    >>> round(breslow_day([10, 20], [40, 40], [20, 30], [40, 40]), 3)
    1.0
    """
    ratio = common_odds_ratio(x1, n1, x2, n2)
    a, n, c, m = telling(x1, n1, x2, n2)
    chosen = a + c
    if len(a) < 2 or not 0 < ratio < math.inf:
        return math.nan
    # The expected a solves a (m - chosen + a) = ratio (n - a) (chosen - a), with all four cells positive.
    square, linear = ratio - 1, ratio * (n + chosen) + m - chosen
    root = np.sqrt(np.maximum(linear**2 - 4 * square * ratio * n * chosen, 0.0))
    expected = 2 * ratio * n * chosen / (linear + root)
    cells = np.stack([expected, n - expected, chosen - expected, m - chosen + expected])
    variance = 1 / (1 / cells).sum(axis=0)
    surplus = a - expected
    statistic = (surplus**2 / variance).sum() - surplus.sum() ** 2 / variance.sum()
    return float(stats.chi2.sf(statistic, len(a) - 1))
