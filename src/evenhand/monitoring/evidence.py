"""Evidence against a requirement from counts: of every inequality, and of all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from evenhand.monitoring.comparisons import Comparison, block_sums
from evenhand.monitoring.mixture import log_above, log_below

__all__ = [
    "Blocks",
    "find_blocks",
    "least_evidence",
    "limits",
    "log_evidence",
    "log_total",
    "start_weights",
    "weight_to_come",
    "weights",
]

Floats = NDArray[np.float64]

_GOLDEN = (np.sqrt(5) - 1) / 2
_STEPS = 32
"""Golden sections: the interval is then 2e-7 of the first; of 1e9 rows the minimum is exact to 1e-4."""
_HALVINGS = 22
"""Bisections: limits are exact to 5e-7, and rounded outwards."""
_FIRST = 0.8
"""Weight of the evidence from the first row on; later starts share the rest."""


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


def find_blocks(comparisons: Sequence[Comparison], sums: Floats) -> Blocks:
    """The blocks of all inequalities from sums over cells, shape (..., M, 3, 2)."""
    by_statistic = {one.statistic: block_sums(one.statistic, sums) for one in comparisons}
    parts = []
    for one in comparisons:
        n, total = by_statistic[one.statistic]
        parts.append(
            [part[..., cells].sum(axis=-1) for cells in (one.inside, one.outside) for part in (n, total)]
        )
    if not parts:
        nothing = np.zeros((*sums.shape[:-3], 0))
        return Blocks(nothing, nothing, nothing, nothing)
    return Blocks(*(np.stack(part, axis=-1) for part in zip(*parts, strict=True)))


def log_evidence(
    comparisons: Sequence[Comparison],
    blocks: Blocks,
    tolerance: Floats | None = None,
    *,
    reverse: bool = False,
) -> Floats:
    """Log of the evidence against each inequality: the least over all rates that satisfy it.

    Parameters
    ----------
    comparisons : sequence of Comparison
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
    if not columns:
        return np.zeros(share.shape)
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
    (c_up, n_up, total_up), (c_down, n_down, total_down), bound = _alike(up, down, bound)
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


def _alike(up: Sequence[Any], down: Sequence[Any], bound: Any) -> tuple[list[Floats], list[Floats], Floats]:
    arrays = [np.asarray(part, np.float64) for part in np.broadcast_arrays(*up, *down, bound)]
    return arrays[:3], arrays[3:6], arrays[6]


def weights(comparisons: Sequence[Comparison], known: NDArray[np.intp], starts: NDArray[np.intp]) -> Floats:
    """Weight of each inequality in the evidence from each start.

    Parameters
    ----------
    comparisons : sequence of Comparison
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


def _streams(comparisons: Sequence[Comparison]) -> list[NDArray[np.bool_]]:
    """Inequalities about decisions, and those about labels, which may arrive later."""
    late = np.array([one.statistic.needs_labels for one in comparisons], np.bool_)
    return [stream for stream in (~late, late) if stream.any()]


def log_total(
    comparisons: Sequence[Comparison], evidence: Floats, shares: Floats, starts: NDArray[np.intp]
) -> Floats:
    """Log of the evidence against all inequalities together.

    Parameters
    ----------
    comparisons : sequence of Comparison
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
    each = np.logaddexp(np.max(found, axis=0, initial=-np.inf), np.log(weight_to_come(starts)))
    return np.asarray(each - np.log(max(len(streams), 1)))


def limits(comparisons: Sequence[Comparison], blocks: Blocks, alpha: Floats | float) -> tuple[Floats, Floats]:
    """Limits of what each inequality bounds, valid at all times.

    Parameters
    ----------
    comparisons : sequence of Comparison
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
    rising = np.array(
        [one.kind == "ratio" or (one.kind == "bound" and one.low) for one in comparisons], np.bool_
    )
    found = []
    for reverse in (False, True):
        left, right = (np.broadcast_to(end, blocks.share.shape) for end in ends.T)
        for _ in range(_HALVINGS):
            middle = (left + right) / 2
            outside = log_evidence(comparisons, blocks, middle, reverse=reverse) >= wanted
            to_right = outside ^ rising ^ reverse
            left, right = np.where(to_right, middle, left), np.where(to_right, right, middle)
        found.append(np.where(rising ^ reverse, right, left))
    return np.where(rising, found[1], found[0]), np.where(rising, found[0], found[1])


def _range(one: Comparison) -> tuple[float, float]:
    start, width = one.statistic.range
    if one.kind == "bound":
        return start, start + width
    return (-width, width) if one.kind == "difference" else (0.0, 1.0)
