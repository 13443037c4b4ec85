"""Evidence about one rate that is valid at all times: mixtures of bets on counts.

For values x of rows in [0, 1], S their sum and n their number,

    exp(lambda S - n log(1 - p + p exp(lambda)))

is at most a nonnegative martingale that starts at 1, where p is the average, over the rows so far, of each
row's expected value (`docs/theory/monitoring.md`). A mixture over positive lambdas grows if the rate is
above p, one over negative lambdas if it is below.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["BETS", "log_above", "log_below", "rate_limits"]

Floats = NDArray[np.float64]

BETS: Floats = np.exp2(np.arange(-9, 3, dtype=np.float64))
"""The lambdas, from 0.002 to 4: an optimal bet is about the difference to be found, divided by the variance
of a row, so these cover differences from 0.0005 to 1."""
WEIGHTS: Floats = np.where((BETS > 0.03) & (BETS < 1.5), 4.0, 1.0) / 30
"""Four times as much for each of the six bets that differences of 0.005 to 0.25 call for."""
_HALVINGS = 40
"""Bisections of [0, 1] for a limit: 12 digits."""


def log_above(p: Floats, n: Floats, total: Floats) -> Floats:
    """Log of the evidence that the rate is above p; not increasing and convex in p.

    Parameters
    ----------
    p, n, total : arrays
        The rate, the number of rows, and the sum of their values; of shapes that broadcast.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> bool(log_above(np.array(0.3), np.array(200.0), np.array(100.0)) > np.log(1000))
    True
    """
    p, n, total = (np.asarray(part, np.float64)[..., None] for part in (p, n, total))
    logs = BETS * total - n * np.log1p(p * np.expm1(BETS))
    top = logs.max(axis=-1, keepdims=True)
    return np.asarray(top[..., 0] + np.log(np.exp(logs - top) @ WEIGHTS))


def log_below(p: Floats, n: Floats, total: Floats) -> Floats:
    """Log of the evidence that the rate is below p; not decreasing and convex in p."""
    return log_above(1 - np.asarray(p), n, np.asarray(n) - total)


def rate_limits(n: Floats, total: Floats, alpha: float) -> tuple[Floats, Floats]:
    """Confidence sequence of a rate: limits that hold at all times together.

    Parameters
    ----------
    n, total : arrays
        Number of rows, and the sum of their values.
    alpha : float
        The probability that the rate is ever outside.

    Returns
    -------
    low, high : arrays
        0 and 1 where there are no rows.

    Examples
    --------
    >>> import numpy as np
    >>> low, high = rate_limits(np.array([1000.0]), np.array([300.0]), 0.05)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.254], [0.349])
    """
    wanted = np.log(2 / alpha)
    limits = []
    for sums in (total, n - total):  # the upper limit is one minus the lower limit of the complement
        left, right = np.zeros(n.shape), np.where(n > 0, sums / np.where(n > 0, n, 1.0), 0.0)
        for _ in range(_HALVINGS):
            middle = (left + right) / 2
            outside = log_above(middle, n, sums) >= wanted
            left, right = np.where(outside, middle, left), np.where(outside, right, middle)
        limits.append(left)
    return limits[0], 1 - limits[1]
