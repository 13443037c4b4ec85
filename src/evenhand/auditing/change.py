"""Changes between two sets of decisions about the same rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.auditing.tally import DecisionChanges, Tally, effective_size
from evenhand.guarantee.intervals import Estimate, paired_difference, wilson

__all__ = ["cross_tabulate", "rate_changes"]


def cross_tabulate(changes: DecisionChanges, mass: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cross-table of two sets of decisions: selected by both, before only, after only, neither.

    Parameters
    ----------
    changes : DecisionChanges
    mass : array, shape (M, 2)
        Of each cell.

    Returns
    -------
    array, shape (4, M, 2)
    """
    both = np.maximum(changes.before - changes.down, 0.0)
    neither = np.maximum(mass - both - changes.up - changes.down, 0.0)
    return np.stack([both, changes.down, changes.up, neither])


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
    if counted.changes is None:
        return {}
    changes, labelled, squared = counted.changes, counted.rates.labelled, counted.change_squares
    table = _by_rate(cross_tabulate(changes, counted.rates.mass), labelled=labelled)
    squares = None
    if squared is not None:
        squares = _by_rate(cross_tabulate(squared, counted.squares), labelled=labelled)
    found = {}
    for name, (cells, labels) in table.items():
        mass = members @ counted.rates.mass[:, labels].sum(axis=1)
        total = members @ counted.squares[:, labels].sum(axis=1)
        both, down, up, neither = (members @ part for part in cells)
        known = np.where(mass > 0, mass, 1.0)
        change = (up - down) / known
        spread = None
        if squares is not None:
            # A row contributes -1, 0 or 1 to the change.
            stayed, lost, won, out = (members @ part for part in squares[name][0])
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
