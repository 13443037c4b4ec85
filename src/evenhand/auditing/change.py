"""Changes between two sets of decisions about the same rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.auditing.tally import Tally, effective_size
from evenhand.guarantee.intervals import Estimate, paired_difference, wilson


def cross_tabulate(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cross-table of two sets of decisions: selected by both, before only, after only, neither.

    Parameters
    ----------
    sums : array, shape (4, M, 2)
        All rows, rows selected after, rows selected before, and newly selected rows; see
        :class:`~evenhand.auditing.tally.Tally`.

    Returns
    -------
    array, shape (4, M, 2)
    """
    every, after, before, up = sums
    down = np.maximum(before + up - after, 0.0)
    both = np.maximum(before - down, 0.0)
    neither = np.maximum(every - both - up - down, 0.0)
    return np.stack([both, down, up, neither])


def rate_changes(
    counted: Tally,
    members: NDArray[Any],
    z: float,
    interval: Callable[..., Estimate] = wilson,
) -> dict[str, Estimate]:
    """Change of each rate in each group: the later one minus the earlier one.

    The intervals are Newcombe's for paired data; see :func:`evenhand.guarantee.intervals.paired_difference`.
    Both randomised decisions about a row are assumed to use the same random number.

    Parameters
    ----------
    counted : Tally
        With earlier decisions.
    members : array, shape (G, M)
    z : float
        From :func:`evenhand.guarantee.intervals.critical_value`.
    interval : callable, default=wilson
        The interval of both shares.

    Returns
    -------
    dict
        Estimates of shape (G,) by the name of the rate.
    """
    tables = (_by_rate(cross_tabulate(unit), labelled=counted.labelled) for unit in counted.sums[1:])
    by_weight, by_square = tables
    found = {}
    for name, (cells, labels) in by_weight.items():
        mass, total = (members @ every[:, labels].sum(axis=1) for every in counted.sums[1:, 0])
        both, down, up, neither = (members @ part for part in cells)
        known = np.where(mass > 0, mass, 1.0)
        change = (up - down) / known
        spread = None
        if counted.weighted:
            # A row contributes -1, 0 or 1 to the change.
            stayed, lost, won, out = (members @ part for part in by_square[name][0])
            spread = won * (1 - change) ** 2 + lost * (1 + change) ** 2 + (stayed + out) * change**2
        size = effective_size(mass, total, (up + down) / known - change**2, spread)
        found[name] = paired_difference(both, down, up, neither, size=size, z=z, interval=interval)
    return found


def _by_rate(
    table: NDArray[np.float64], *, labelled: bool
) -> dict[str, tuple[NDArray[np.float64], tuple[int, ...]]]:
    """Cross-table of the rows that each rate looks at, shape (4, M), with the labels of these rows."""
    negatives, positives = table[..., 0], table[..., 1]
    if not labelled:
        return {"selection rate": (negatives, (0,))}
    # An error is a selected negative or an unselected positive, so the table of positives is reversed.
    return {
        "selection rate": (negatives + positives, (0, 1)),
        "true-positive rate": (positives, (1,)),
        "false-positive rate": (negatives, (0,)),
        "error rate": (negatives + positives[::-1], (0, 1)),
    }
