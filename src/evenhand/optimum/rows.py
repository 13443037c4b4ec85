"""Posteriors as rows of the solver."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.exceptions import ConstantScoreWarning, InputError, warn_user
from evenhand.fairness.scores import GroupedScores
from evenhand.inputs.columns import blocks
from evenhand.inputs.labels import read_weights
from evenhand.solver.dense import DenseRows
from evenhand.solver.grouped import GroupedRows
from evenhand.solver.oracle import Oracle, Vector

__all__ = ["dense_posteriors", "read_rows"]

_SUM_TOLERANCE = 1e-3
"""Rounded posteriors, such as those of float16, miss a sum of 1 by about this much."""


def read_rows(
    posteriors: NDArray[Any] | GroupedScores, sample_weight: Any
) -> tuple[Oracle, NDArray[np.float64]]:
    """Validate posteriors; their oracle and the masses of the cells.

    Parameters
    ----------
    posteriors : array, shape (n, M, 2), or GroupedScores
    sample_weight : array or None

    Returns
    -------
    tuple of (Oracle, array of shape (M, 2))
    """
    if isinstance(posteriors, GroupedScores):
        weights = _normalised(sample_weight, len(posteriors))
        grouped = GroupedRows(posteriors.eta, posteriors.codes, posteriors.n_groups, weights)
        _warn_if_constant(posteriors.eta)
        return grouped, grouped.masses().reshape(-1, 2)
    array = posteriors
    if array.ndim != 3 or array.shape[2] != 2 or 0 in array.shape:
        raise InputError(f"posteriors should have shape (n, M, 2), but have {array.shape}.")
    if array.dtype not in (np.float32, np.float64):
        if array.dtype.kind not in "biuf":
            raise InputError(f"posteriors should be numbers, but are of type {array.dtype}.")
        array = array.astype(np.float64)
    weights = _normalised(sample_weight, len(array))
    masses = np.zeros(array.shape[1] * 2)
    bad = 0
    for where in blocks(len(array)):
        block = array[where].reshape(-1, masses.size).astype(np.float64, copy=False)
        fine = np.abs(block @ np.ones(masses.size) - 1.0) <= _SUM_TOLERANCE
        if not (block.min() >= 0 and fine.all()):
            bad += len(block) - int(np.count_nonzero(fine & (block >= 0).all(axis=1)))
        masses += block.sum(axis=0) / len(array) if weights is None else weights[where] @ block
    if bad:
        raise InputError(
            f"posteriors are NaN, negative or do not sum to 1 in {bad:,} of {len(array):,} rows."
        )
    _warn_if_constant(array)
    return DenseRows(array, weights), masses.reshape(-1, 2)


def dense_posteriors(
    posteriors: NDArray[Any] | GroupedScores, rows: NDArray[np.intp], n_groups: int
) -> NDArray[np.float64]:
    """Posteriors of some rows as float64 of shape (k, M, 2); where the group is known, zero off it.

    Parameters
    ----------
    posteriors : array, shape (n, M, 2), or GroupedScores
    rows : array of int
    n_groups : int

    Returns
    -------
    array, shape (k, M, 2)

    Examples
    --------
    >>> import numpy as np
    >>> scores = GroupedScores(np.array([0.5, 0.75]), np.array([0, 1]), 2)
    >>> dense_posteriors(scores, np.array([1]), 2).tolist()
    [[[0.0, 0.0], [0.25, 0.75]]]
    """
    if not isinstance(posteriors, GroupedScores):
        return np.ascontiguousarray(posteriors[rows], dtype=np.float64) + 0.0  # no negative zeros
    out = np.zeros((len(rows), n_groups, 2))
    eta = posteriors.eta[rows].astype(np.float64)
    codes = posteriors.codes[rows]
    out[np.arange(len(rows)), codes, 0] = 1.0 - eta
    out[np.arange(len(rows)), codes, 1] = eta
    return out


def _normalised(sample_weight: Any, n: int) -> Vector | None:
    weights = read_weights(sample_weight, n)
    return None if weights is None else weights / weights.sum()


def _warn_if_constant(scores: NDArray[Any]) -> None:
    if len(scores) > 1 and (scores[1:1000] == scores[0]).all() and (scores == scores[0]).all():
        warn_user("all rows have the same scores, so decisions can only be randomised.", ConstantScoreWarning)
