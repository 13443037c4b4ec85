"""Which counts of a table can be published without revealing small ones.

Small counts are hidden. That is not enough, because they can be recovered from totals by subtraction. So
further counts are hidden until no small count, and no small remainder, is a sum or difference of what is
shown. Both are called "left out": if it were known which are small and which are not, two of them that sum to
10 would be 0 and 10.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["shareable"]

_EXACT = 1e-8


def shareable(
    members: NDArray[np.bool_],
    families: Sequence[NDArray[np.intp]],
    counts: NDArray[np.float64],
    min_count: float,
    *,
    allowed: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Groups whose counts can be shown.

    Parameters
    ----------
    members : array, shape (groups, cells)
        The cells of each group. The first group is all rows.
    families : sequence of arrays
        Sets of groups that partition all rows, such as the values of one feature.
    counts : array, shape (cells, kinds)
        Counts of each cell. For a group either all kinds are shown or none.
    min_count : float
        Counts below this are small.
    allowed : array of bool
        Groups that may be shown at all.

    Returns
    -------
    array of bool
        The group of all rows is hidden only if it is small itself or not allowed. Among the other groups,
        the smallest that prevents a disclosure is hidden first.

    Examples
    --------
    Of three groups with 3, 20 and 50 rows the second is hidden too, because the total is shown.

    >>> members = np.array([[1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]], bool)
    >>> shareable(members, [np.arange(1, 4)], np.array([[3.0], [20], [50]]), 10, allowed=np.ones(4, bool))
    array([ True, False, False,  True])
    """
    totals = members @ counts
    small = np.asarray((totals < min_count).any(axis=1))
    shown = allowed & ~small
    while (helping := _exposing(members, families, counts, min_count, small=small, shown=shown)).size:
        others = helping[helping != 0]
        candidates = others if others.size else helping
        shown[candidates[np.argmin(totals[candidates].sum(axis=1))]] = False
    # Groups that turn out to be harmless are shown after all, the largest first.
    back = np.flatnonzero(allowed & ~small & ~shown)
    for k in back[np.argsort(-totals[back].sum(axis=1), kind="stable")]:
        shown[k] = True
        shown[k] = not _exposing(members, families, counts, min_count, small=small, shown=shown).size
    return shown


def _exposing(
    members: NDArray[np.bool_],
    families: Sequence[NDArray[np.intp]],
    counts: NDArray[np.float64],
    min_count: float,
    *,
    small: NDArray[np.bool_],
    shown: NDArray[np.bool_],
) -> NDArray[np.intp]:
    """The shown groups that together reveal something small; empty if nothing is revealed."""
    single = members.sum(axis=1) == 1
    open_cells = members[shown & single].any(axis=0)
    hidden = ~open_cells
    sums = np.flatnonzero(shown & ~single & (members & hidden).any(axis=1))
    if not sums.size:
        return sums
    unions = [members[family[~shown[family]]].any(axis=0) for family in families]
    remainders = np.array([*members, *unions]) & hidden
    secret = remainders[((remainders @ counts) < min_count).any(axis=1) & remainders.any(axis=1)]
    secret = np.unique(np.concatenate([secret, members[small]]), axis=0)
    # A secret is revealed if it is a linear combination of shown sums, minus the cells that are shown.
    system = members[sums].astype(np.float64)
    goals = secret.astype(np.float64)
    weights = np.linalg.lstsq(system[:, hidden].T, goals[:, hidden].T, rcond=None)[0]
    missed = np.abs(system[:, hidden].T @ weights - goals[:, hidden].T).max(axis=0)
    exposed = np.flatnonzero(missed < _EXACT)
    if not exposed.size:
        return np.empty(0, np.intp)
    used = weights[:, exposed[0]]
    subtracted = np.abs(used @ system - goals[exposed[0]]) > _EXACT
    cells = np.flatnonzero(shown & single & (members & subtracted).any(axis=1))
    return np.concatenate([sums[np.abs(used) > _EXACT], cells])
