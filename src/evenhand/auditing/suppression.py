"""Which counts of a table can be shared when small ones must not be known.

A count is hidden if it is small. That is not enough, because it can be had back from totals: everybody minus
the others. So further counts are hidden until no small count, and no small remainder, is a sum or difference
of what is shown.
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
    """Choose the groups whose counts can be shown.

    Parameters
    ----------
    members : array, shape (groups, cells)
        The cells of each group. The first group is everybody.
    families : sequence of arrays
        Groups that together are everybody, such as the values of one feature.
    counts : array, shape (cells, kinds)
        Counts of each cell, all of which are shown for a group or none.
    min_count : float
        Counts below this are small.
    allowed : array of bool
        Groups that may be shown at all.

    Returns
    -------
    array of bool
        Everybody is hidden only if it is small itself or not allowed. Otherwise the smallest group is hidden
        that helps.

    Examples
    --------
    Of three groups with 3, 20 and 50 rows the second is hidden with the first, because of the total.

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
    # What turns out to be harmless after all comes back, the largest first.
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
    """Find the shown groups from which something small can be had; none if nothing can."""
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
    # A secret is a combination of shown sums, once the cells that are shown are taken away from them.
    system = members[sums].astype(np.float64)
    goals = secret.astype(np.float64)
    weights = np.linalg.lstsq(system[:, hidden].T, goals[:, hidden].T, rcond=None)[0]
    missed = np.abs(system[:, hidden].T @ weights - goals[:, hidden].T).max(axis=0)
    exposed = np.flatnonzero(missed < _EXACT)
    if not exposed.size:
        return np.empty(0, np.intp)
    used = weights[:, exposed[0]]
    taken_away = np.abs(used @ system - goals[exposed[0]]) > _EXACT
    cells = np.flatnonzero(shown & single & (members & taken_away).any(axis=1))
    return np.concatenate([sums[np.abs(used) > _EXACT], cells])
