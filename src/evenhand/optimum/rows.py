"""Posteriors as rows of the solver."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.exceptions import ConstantScoreWarning, InputError, warn_user
from evenhand.fairness.scores import GroupedScores
from evenhand.inputs.columns import blocks
from evenhand.inputs.labels import read_weights
from evenhand.solver.dense import DenseRows, exact_sum
from evenhand.solver.grouped import GroupedRows
from evenhand.solver.oracle import Oracle, Vector
from evenhand.solver.partitioned import PartitionedRows, Sizes
from evenhand.solver.partitioned_scores import PartitionedScores
from evenhand.solver.partitions import Part, Partitions

__all__ = ["dense_posteriors", "read_rows"]

_SUM_TOLERANCE = 1e-3
"""Rounded posteriors, such as those of float16, miss a sum of 1 by about this much."""
_SHOWN = 5
"""Rows that a message lists."""


def read_rows(
    posteriors: NDArray[Any] | GroupedScores | Partitions, sample_weight: Any
) -> tuple[Oracle, NDArray[np.float64]]:
    """Validate posteriors; their oracle and the masses of the cells.

    Parameters
    ----------
    posteriors : array, shape (n, M, 2), GroupedScores or Partitions
        Partitions hold their weights themselves.
    sample_weight : array or None

    Returns
    -------
    tuple of (Oracle, array of shape (M, 2))
    """
    if isinstance(posteriors, Partitions):
        if sample_weight is not None:
            raise InputError("partitions hold their weights themselves: sample_weight should be None.")
        return _read_partitions(posteriors)
    if isinstance(posteriors, GroupedScores):
        if posteriors.lazy:
            raise InputError("these scores are dask arrays: call evenhand.dask.solve.")
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


@dataclass(frozen=True, eq=False)
class _Inspected:
    """What a partition holds.

    Attributes
    ----------
    rows : int
    bad, bad_weights : array of int
        Rows with posteriors, or weights, that cannot be.
    masses : array, shape (2 M,)
        Sums of weight times posterior; without weights, of posteriors.
    weight : float
        The sum of weights.
    first : array or None
        The posteriors of its rows, if they are all the same.
    """

    rows: int
    bad: NDArray[np.intp]
    bad_weights: NDArray[np.intp]
    masses: Vector
    weight: float
    first: NDArray[np.float64] | None


def _read_partitions(partitions: Partitions) -> tuple[Oracle, NDArray[np.float64]]:
    found = partitions.map(_inspect)
    sizes = Sizes(tuple(part.rows for part in found), math.fsum(part.weight for part in found))
    n = sum(sizes.rows)
    if not n:
        raise InputError("no rows: all partitions are empty.")
    starts = np.cumsum((0, *sizes.rows))
    impossible = "posteriors are NaN, negative or do not sum to 1"
    if partitions.known:
        impossible = f"eta is NaN or outside [0, 1], or codes are not from 0 to {partitions.n_groups - 1},"
    for what, each in (
        (impossible, [part.bad for part in found]),
        ("sample_weight is NaN, infinite or negative", [part.bad_weights for part in found]),
    ):
        bad = np.concatenate([rows + start for rows, start in zip(each, starts, strict=False)])
        if len(bad):
            shown = ", ".join(f"{row:,}" for row in bad[:_SHOWN].tolist())
            more = ", ..." if len(bad) > _SHOWN else ""
            raise InputError(f"{what} in {len(bad):,} of {n:,} rows (row {shown}{more}, counted from 0).")
    if not sizes.weight > 0:
        raise InputError("sample_weight is 0 in all rows.")
    firsts = {None if part.first is None else part.first.tobytes() for part in found if part.rows}
    if n > 1 and len(firsts) == 1 and None not in firsts:
        _warn_constant()
    masses = exact_sum([part.masses / sizes.weight for part in found])
    kind = PartitionedScores if partitions.known else PartitionedRows
    return kind(partitions, sizes), masses.reshape(-1, 2)


def _inspect(part: Part) -> _Inspected:
    n = part.n_rows
    given = part.weights
    weights = np.ones(n) if given is None else np.asarray(given, dtype=np.float64)
    if isinstance(part, GroupedRows):
        fine = (part.eta >= 0) & (part.eta <= 1) & (part.codes >= 0) & (part.codes < part.n_groups)
        constant = n > 0 and bool((part.eta == part.eta[0]).all())
        first = part.eta[:1].astype(np.float64)
    else:
        fine = np.concatenate(
            [_possible(part.take(np.arange(where.start, min(where.stop, n)))) for where in blocks(n)]
            or [np.empty(0, np.bool_)]
        )
        constant = n > 0 and bool(
            (part.rows[1:1000] == part.rows[0]).all() and (part.rows == part.rows[0]).all()
        )
        first = part.take(np.arange(min(n, 1))).ravel()
    bad, bad_weights = np.flatnonzero(~fine), np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    masses = np.zeros(part.n_columns)
    if n and not len(bad):
        # Without weights of their own, rows of a partition count 1 / n.
        masses = part.selected(np.ones(n)) * (n if given is None else 1.0)
    return _Inspected(n, bad, bad_weights, masses, float(weights.sum()), first if constant else None)


def _possible(rows: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which rows are probabilities that sum to 1."""
    with np.errstate(invalid="ignore"):  # of inf - inf
        return np.asarray((rows >= 0).all(axis=1) & (np.abs(rows.sum(axis=1) - 1.0) <= _SUM_TOLERANCE))


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
        _warn_constant()


def _warn_constant() -> None:
    warn_user("all rows have the same scores, so decisions can only be randomised.", ConstantScoreWarning)
