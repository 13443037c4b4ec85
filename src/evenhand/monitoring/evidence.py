"""Evidence from counts: about one rate, against every inequality of a requirement, and against all of them.

For values x of rows in [0, 1], S their sum and n their number,

    exp(lambda S - n log(1 - p + p exp(lambda)))

is at most a nonnegative martingale that starts at 1, where p is the average, over the rows so far, of each
row's expected value (`docs/theory/monitoring.md`). A mixture over positive lambdas grows if the rate is
above p, one over negative lambdas if it is below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from evenhand.monitoring.comparisons import Comparison, block_sums

Floats = NDArray[np.float64]

_BETS: Floats = np.exp2(np.arange(-9, 3, dtype=np.float64))
"""The lambdas, from 0.002 to 4: an optimal bet is about the difference to be found, divided by the variance
of a row, so these cover differences from 0.0005 to 1."""
_WEIGHTS: Floats = np.where((_BETS > 0.03) & (_BETS < 1.5), 4.0, 1.0) / 30
"""Four times as much for each of the six bets that differences of 0.005 to 0.25 call for."""
_GOLDEN = (np.sqrt(5) - 1) / 2
_STEPS = 32
"""Golden sections: the interval is then 2e-7 of the first; of 1e9 rows the minimum is exact to 1e-4."""
_HALVINGS, _HALVINGS_OF_RATES = 22, 40
"""Bisections: limits are exact to 5e-7, and rounded outwards; those of rates to 12 digits."""
_FIRST = 0.8
"""Weight of the evidence from the first row on; later starts share the rest."""


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
    logs = _BETS * total - n * np.log1p(p * np.expm1(_BETS))
    top = logs.max(axis=-1, keepdims=True)
    return np.asarray(top[..., 0] + np.log(np.exp(logs - top) @ _WEIGHTS))


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

    def lower(sums: Floats) -> Floats:
        mean = np.divide(sums, n, out=np.zeros(n.shape), where=n > 0)

        def outside(p: Floats) -> NDArray[np.bool_]:
            return np.asarray(log_above(p, n, sums) >= np.log(2 / alpha))

        return _bisected(outside, np.zeros(n.shape), mean, _HALVINGS_OF_RATES)[0]

    return lower(total), 1 - lower(n - total)  # the upper limit is that of the complement


def _bisected(
    to_right: Callable[[Floats], NDArray[np.bool_]], left: Floats, right: Floats, halvings: int
) -> tuple[Floats, Floats]:
    """Where a condition that holds at the left ends to hold: numbers below and above."""
    for _ in range(halvings):
        middle = (left + right) / 2
        moves = to_right(middle)
        left, right = np.where(moves, middle, left), np.where(moves, right, middle)
    return left, right


@dataclass(frozen=True, eq=False)
class Blocks:
    """Rows and sums of values of the two blocks of each inequality; shape (..., J).

    Attributes
    ----------
    n, total : arrays
        Of the group.
    n_others, total_others : arrays
        Of the people that it is compared with besides.
    """

    n: Floats
    total: Floats
    n_others: Floats
    total_others: Floats

    @property
    def share(self) -> Floats:
        """The group's share of the people in both blocks."""
        everyone = self.n + self.n_others
        return np.asarray(self.n / np.where(everyone > 0, everyone, 1.0))


def find_blocks(comparisons: list[Comparison], sums: Floats) -> Blocks:
    """The blocks of all inequalities from sums over cells, shape (..., M, 3, 2)."""
    by_statistic = {one.statistic: block_sums(one.statistic, sums) for one in comparisons}
    parts = []
    for one in comparisons:
        n, total = by_statistic[one.statistic]
        parts.append(
            [part[..., cells].sum(axis=-1) for cells in (one.inside, one.outside) for part in (n, total)]
        )
    return Blocks(*(np.stack(part, axis=-1) for part in zip(*parts, strict=True)))


def log_evidence(
    comparisons: list[Comparison], blocks: Blocks, tolerance: Floats | None = None, *, reverse: bool = False
) -> Floats:
    """Log of the evidence against each inequality: the least over all rates that satisfy it.

    Parameters
    ----------
    comparisons : list of Comparison
    blocks : Blocks
    tolerance : array, shape (..., J), default=None
        In place of the tolerances of the requirement.
    reverse : bool, default=False
        Evidence against the opposite inequality, ">=".

    Returns
    -------
    array, shape (..., J)
    """
    given = np.array([one.tolerance for one in comparisons]) if tolerance is None else tolerance
    given, share = np.broadcast_arrays(given, blocks.share)
    columns = [one.inequality(given[..., j], share[..., j]) for j, one in enumerate(comparisons)]
    own, others, bound = (np.stack(part, axis=-1) for part in zip(*columns, strict=True))
    low = np.array([one.low for one in comparisons])
    if reverse:
        low, bound = ~low, -bound
    pairs = ((own, others), (blocks.n, blocks.n_others), (blocks.total, blocks.total_others))
    up = [np.where(low, other, group) for group, other in pairs]
    down = [np.where(low, group, other) for group, other in pairs]
    return least_evidence(up, down, bound)


def least_evidence(up: Sequence[Any], down: Sequence[Any], bound: Any) -> Floats:
    """Minimum of the product of two mixtures, over rates with ``c_up p_up - c_down p_down <= bound``.

    Along the line where equality holds the logarithm is convex, so golden sections find it.

    Parameters
    ----------
    up, down : sequences of three arrays
        Coefficient, number of rows, and sum of their values of each block; of shapes that broadcast.
    bound : array

    Returns
    -------
    array
    """
    arrays = [np.asarray(part, np.float64) for part in np.broadcast_arrays(*up, *down, bound)]
    c_up, n_up, total_up, c_down, n_down, total_down, bound = arrays
    safe_up, safe_down = (np.where(c > 0, c, 1.0) for c in (c_up, c_down))
    right = np.clip(np.where(c_up > 0, (bound + c_down) / safe_up, 1.0), 0.0, 1.0)
    left = np.zeros_like(right)

    def value(p: Floats) -> Floats:
        other = np.where(c_down > 0, (c_up * p - bound) / safe_down, 0.0)
        return log_above(p, n_up, total_up) + log_below(np.clip(other, 0.0, 1.0), n_down, total_down)

    lower, upper = right - _GOLDEN * (right - left), left + _GOLDEN * (right - left)
    at_lower, at_upper = value(lower), value(upper)
    for _ in range(_STEPS):
        first = at_lower <= at_upper
        left, right = np.where(first, left, lower), np.where(first, upper, right)
        fresh = np.where(first, right - _GOLDEN * (right - left), left + _GOLDEN * (right - left))
        at_fresh = value(fresh)
        lower, upper = np.where(first, fresh, upper), np.where(first, lower, fresh)
        at_lower, at_upper = np.where(first, at_fresh, at_upper), np.where(first, at_lower, at_fresh)
    least = np.minimum(np.minimum(at_lower, at_upper), np.minimum(value(left), value(right)))
    return np.where(bound < -c_down, np.inf, least)  # no rates satisfy it


def weights(comparisons: list[Comparison], known: NDArray[np.intp], starts: NDArray[np.intp]) -> Floats:
    """Weight of each inequality in the evidence from each start.

    Parameters
    ----------
    comparisons : list of Comparison
    known : array of int, shape (M,)
        The start from which each cell was known; -1 if it has not been seen.
    starts : array of int, shape (W,)
        Numbers of the starts: 0, 1, 2, ...

    Returns
    -------
    array, shape (W, J)
        Inequalities about labels, and the others, each share the weight of the start; 0 for those about
        people who were not known at the start.
    """

    def first(cells: NDArray[np.bool_]) -> int:
        seen = known[cells & (known >= 0)]
        return int(seen.min()) if len(seen) else np.iinfo(np.intp).max

    since = [max(first(one.inside), first(one.outside) if one.kind != "bound" else 0) for one in comparisons]
    counted = np.array(since, np.intp) <= starts[:, None]
    parts = [counted & stream for stream in _streams(comparisons)]
    shares = sum((part / np.maximum(part.sum(axis=1, keepdims=True), 1) for part in parts), 0 * counted)
    return start_weights(starts)[:, None] * shares


def start_weights(starts: NDArray[np.intp]) -> Floats:
    """Weights of the starts, fixed beforehand; all of them sum to 1."""
    return np.where(starts == 0, _FIRST, (1 - _FIRST) / np.maximum(starts * (starts + 1), 1))


def weight_to_come(starts: NDArray[np.intp]) -> float:
    """Weight of all starts after the last one."""
    return float((1 - _FIRST) / (starts.max() + 1))


def _streams(comparisons: list[Comparison]) -> list[NDArray[np.bool_]]:
    """Inequalities about decisions, and those about labels, which may arrive later."""
    late = np.array([one.statistic.needs_labels for one in comparisons], np.bool_)
    return [stream for stream in (~late, late) if stream.any()]


def log_total(
    comparisons: list[Comparison], evidence: Floats, shares: Floats, starts: NDArray[np.intp]
) -> Floats:
    """Log of the evidence against all inequalities together.

    Parameters
    ----------
    comparisons : list of Comparison
    evidence : array, shape (..., W, J)
        Logs, from each start.
    shares : array, shape (W, J)
        From :func:`weights`.
    starts : array of int, shape (W,)
        Starts before the last that are not among them count as 0.

    Returns
    -------
    array, shape (...)
        An alarm is raised where it reaches log(1 / alpha).
    """
    streams = _streams(comparisons)
    with np.errstate(divide="ignore"):
        logs = evidence + np.log(shares)
    found = [logsumexp(np.where(one, logs, -np.inf), axis=(-2, -1)) for one in streams]
    each = np.logaddexp(np.max(found, axis=0), np.log(weight_to_come(starts)))
    return np.asarray(each - np.log(len(streams)))


def limits(comparisons: list[Comparison], blocks: Blocks, alpha: Floats | float) -> tuple[Floats, Floats]:
    """Limits of what each inequality bounds, valid at all times.

    Parameters
    ----------
    comparisons : list of Comparison
    blocks : Blocks
        Shape (..., J).
    alpha : float or array, shape (J,)
        The probability that the limits of an inequality are ever wrong.

    Returns
    -------
    low, high : arrays, shape (..., J)
        Of the difference, the ratio or the rate, in the units of the tolerance.
    """
    wanted = np.log(2 / np.asarray(alpha))
    ends = np.array([_range(one) for one in comparisons], np.float64).reshape(-1, 2)
    # Evidence against "at most t" falls with t, and against "at least t" it rises: a ratio and a lower bound
    # are of the second kind.
    rising = np.array([np.isinf(one.allowed[1]) for one in comparisons], np.bool_)

    def end(*, reverse: bool) -> Floats:
        def to_right(middle: Floats) -> NDArray[np.bool_]:
            return (log_evidence(comparisons, blocks, middle, reverse=reverse) >= wanted) ^ rising ^ reverse

        left, right = (np.broadcast_to(one, blocks.share.shape) for one in ends.T)
        return np.where(rising ^ reverse, *_bisected(to_right, left, right, _HALVINGS)[::-1])

    found = end(reverse=False), end(reverse=True)
    return np.where(rising, found[1], found[0]), np.where(rising, found[0], found[1])


def _range(one: Comparison) -> tuple[float, float]:
    start, width = one.statistic.range
    if one.kind == "bound":
        return start, start + width
    return (-width, width) if one.kind == "difference" else (0.0, 1.0)
