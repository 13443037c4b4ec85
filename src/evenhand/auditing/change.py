"""What changed between two sets of decisions about the same rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.auditing.tally import Tally, Turned, effective_size
from evenhand.inference.intervals import Estimate, paired_difference

__all__ = ["crossed", "rate_changes"]


def crossed(turned: Turned, mass: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cross-tabulate two sets of decisions: selected by both, before only, after only, neither.

    Parameters
    ----------
    turned : Turned
    mass : array, shape (M, 2)
        Of each cell.

    Returns
    -------
    array, shape (4, M, 2)
    """
    both = np.maximum(turned.before - turned.down, 0.0)
    neither = np.maximum(mass - both - turned.up - turned.down, 0.0)
    return np.stack([both, turned.down, turned.up, neither])


def rate_changes(turned: Turned, counted: Tally, members: NDArray[Any], z: float) -> dict[str, Estimate]:
    """Give the change of each rate in each group: the later one minus the earlier one.

    The intervals are Newcombe's for paired data; see :func:`evenhand.inference.intervals.paired_difference`.
    Probabilities are chances in one lot per row, the same lot both times.

    Parameters
    ----------
    turned : Turned
        What changed, with the weights of `counted`.
    counted : Tally
    members : array, shape (G, M)
    z : float
        From :func:`evenhand.inference.intervals.critical_value`.

    Returns
    -------
    dict
        Estimates of shape (G,) by the name of the rate.
    """
    labelled, squared = counted.rates.labelled, counted.turned_squares
    table = _by_rate(crossed(turned, counted.rates.mass), labelled=labelled)
    squares = None if squared is None else _by_rate(crossed(squared, counted.squares), labelled=labelled)
    found = {}
    for name, (cells, labels) in table.items():
        mass = members @ counted.rates.mass[:, labels].sum(axis=1)
        total = members @ counted.squares[:, labels].sum(axis=1)
        both, down, up, neither = (members @ part for part in cells)
        known = np.where(mass > 0, mass, 1.0)
        change = (up - down) / known
        spread = None
        if squares is not None:
            # A row adds -1, 0 or 1 to the change.
            stayed, lost, won, out = (members @ part for part in squares[name][0])
            spread = won * (1 - change) ** 2 + lost * (1 + change) ** 2 + (stayed + out) * change**2
        size = effective_size(mass, total, (up + down) / known - change**2, spread)
        found[name] = paired_difference(both, down, up, neither, size=size, z=z)
    return found


def _by_rate(
    table: NDArray[np.float64], *, labelled: bool
) -> dict[str, tuple[NDArray[np.float64], tuple[int, ...]]]:
    """Cross-tabulate the rows that each rate looks at, shape (4, M), and say which labels these have."""
    negatives, positives = table[..., 0], table[..., 1]
    if not labelled:
        return {"selection rate": (negatives, (0,))}
    # An error is a selected negative or a positive who is not: the table of positives, turned around.
    return {
        "selection rate": (negatives + positives, (0, 1)),
        "true-positive rate": (positives, (1,)),
        "false-positive rate": (negatives, (0,)),
        "error rate": (negatives + positives[::-1], (0, 1)),
    }
