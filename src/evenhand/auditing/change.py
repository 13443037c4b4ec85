"""What changed between two sets of decisions about the same rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.auditing.tally import Tally, Turned
from evenhand.intervals import Estimate, paired_difference

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

    The intervals are Newcombe's for paired data; see :func:`evenhand.intervals.paired_difference`.
    Probabilities are chances in one lot per row, the same lot both times.

    Parameters
    ----------
    turned : Turned
        What changed, with the weights of `counted`.
    counted : Tally
    members : array, shape (G, M)
    z : float
        From :func:`evenhand.intervals.critical_value`.

    Returns
    -------
    dict
        Estimates of shape (G,) by the name of the rate.
    """
    table = crossed(turned, counted.rates.mass)
    negatives, positives = table[..., 0], table[..., 1]
    if not counted.rates.labelled:
        wanted: dict[str, tuple[NDArray[np.float64], tuple[int, ...]]] = {"selection rate": (negatives, (0,))}
    else:
        # An error is a selected negative or a positive who is not: the table of positives, turned around.
        wanted = {
            "selection rate": (negatives + positives, (0, 1)),
            "true-positive rate": (positives, (1,)),
            "false-positive rate": (negatives, (0,)),
            "error rate": (negatives + positives[::-1], (0, 1)),
        }
    found = {}
    for name, (cells, labels) in wanted.items():
        mass = members @ counted.rates.mass[:, labels].sum(axis=1)
        squares = members @ counted.squares[:, labels].sum(axis=1)
        size = np.where(mass > 0, mass**2 / np.where(mass > 0, squares, 1.0), np.nan)
        found[name] = paired_difference(*(members @ part for part in cells), size=size, z=z)
    return found
