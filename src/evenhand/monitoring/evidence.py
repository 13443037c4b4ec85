"""Evidence against a requirement from counts: of every inequality, and of all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.monitoring.comparisons import Comparison, block_sums
from evenhand.monitoring.mixture import log_above, log_below

__all__ = ["Blocks", "find_blocks", "limits", "log_evidence", "weights"]

Floats = NDArray[np.float64]

_GOLDEN = (np.sqrt(5) - 1) / 2
_STEPS = 40
"""Golden sections: the interval is then 4e-9 of the first, and the minimum, which is flat there, exact."""
_HALVINGS = 30
_FIRST = 0.8
"""Weight of the inequalities between the groups of the first batch; groups that come later share the rest."""


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
    return _least(up, down, bound)


def _least(up: list[Floats], down: list[Floats], bound: Floats) -> Floats:
    """Minimum of the product of two mixtures, over rates with ``c_up p_up - c_down p_down <= bound``.

    Along the line where equality holds the logarithm is convex, so golden sections find it.
    """
    (c_up, n_up, total_up), (c_down, n_down, total_down) = up, down
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


def weights(comparisons: Sequence[Comparison], epochs: NDArray[np.intp]) -> Floats:
    """Weight of each inequality in the evidence against all; the rest, up to 1, is for groups to come.

    Parameters
    ----------
    comparisons : sequence of Comparison
    epochs : array of int, shape (M,)
        When each cell was first seen: 0 in the first batch, then 1, 2, ...; -1 if it has not been seen.

    Returns
    -------
    array, shape (J,)
        0 for inequalities about people who were not seen.
    """

    def first(cells: NDArray[np.bool_]) -> int:
        seen = epochs[cells & (epochs >= 0)]
        return int(seen.min()) if len(seen) else -1

    since = np.array([_later(first(one.inside), first(one.outside), one) for one in comparisons], np.intp)
    counts = np.bincount(since[since >= 0], minlength=1)
    epoch = np.maximum(since, 1)
    parts = np.where(since == 0, _FIRST, (1 - _FIRST) / (epoch * (epoch + 1)))
    return np.where(since >= 0, parts / np.maximum(counts[np.maximum(since, 0)], 1), 0.0)


def _later(own: int, others: int, one: Comparison) -> int:
    if one.kind == "bound":
        return own
    return -1 if min(own, others) < 0 else max(own, others)


def limits(comparisons: Sequence[Comparison], blocks: Blocks, alpha: float) -> tuple[Floats, Floats]:
    """Limits of what each inequality bounds, valid at all times and for all inequalities together.

    Parameters
    ----------
    comparisons : sequence of Comparison
    blocks : Blocks
        Of one look, shape (J,).
    alpha : float

    Returns
    -------
    low, high : arrays, shape (J,)
        Of the difference, the ratio or the rate, in the units of the tolerance.
    """
    wanted = np.log(2 * max(len(comparisons), 1) / alpha)
    ends = [_range(one) for one in comparisons]
    # Evidence against "at most t" falls with t, and against "at least t" it rises: a ratio and a lower bound
    # are of the second kind.
    rising = np.array(
        [one.kind == "ratio" or (one.kind == "bound" and one.low) for one in comparisons], np.bool_
    )
    found = []
    for reverse in (False, True):
        left, right = (
            (np.array(end, np.float64) for end in zip(*ends, strict=True)) if ends else (np.zeros(0),) * 2
        )
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
