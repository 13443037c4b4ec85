"""Posteriors as rows of the solver."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.data.labels import read_weights
from evenhand.exceptions import ConstantScoreWarning, InputError, warn_user
from evenhand.posteriors.posteriors import Posteriors
from evenhand.solver.action_rows import ActionRows
from evenhand.solver.dense import DenseRows, as_float64, exact_sum
from evenhand.solver.grouped import GroupedRows
from evenhand.solver.oracle import Oracle, Vector
from evenhand.solver.partitioned import PartitionedRows, Sizes
from evenhand.solver.partitions import Part, Partitions
from evenhand.solver.stratified import StratifiedRows

_SUM_TOLERANCE = 1e-3
"""Rounded posteriors, such as those of float16, miss a sum of 1 by about this much."""
_SHOWN = 5
"""Rows that a message lists."""
_SUMMED = 256
"""Rows that are added up at a time: an error is then at most a few units in the last place."""


def read_rows(posteriors: Posteriors | Partitions, sample_weight: Any) -> tuple[Oracle, NDArray[np.float64]]:
    """Validate posteriors; their oracle and the masses of the cells.

    Parameters
    ----------
    posteriors : Posteriors or Partitions
        Partitions hold their weights themselves.
    sample_weight : array or None

    Returns
    -------
    tuple of (Oracle, array of shape (M, 2))
        The masses of the cells of all strata, if there are any.
    """
    if isinstance(posteriors, Partitions):
        if sample_weight is not None:
            raise InputError("partitions hold their own weights: sample_weight must be None.")
        found = posteriors.map(_inspect)
        masses = _checked_masses(found)
        sizes = Sizes(tuple(part.rows for part in found), math.fsum(part.weight for part in found))
        if not sizes.weight > 0:
            raise InputError("sample_weight is 0 in all rows.")
        return PartitionedRows(posteriors, sizes), (masses / sizes.weight).reshape(-1, 2)
    rows = posteriors.oracle(_normalised(sample_weight, len(posteriors)))
    return rows, _masses(rows).reshape(-1, 2)


def read_action_rows(
    values: NDArray[Any], sample_weight: Any, n_actions: int
) -> tuple[ActionRows, NDArray[np.float64]]:
    """Validate posteriors of several labels; their rows for several actions, and the masses of the cells.

    Parameters
    ----------
    values : array, shape (n, M, L)
    sample_weight : array or None
    n_actions : int

    Returns
    -------
    tuple of (ActionRows, array of shape (M, L))
    """
    weights = _normalised(sample_weight, len(values))
    masses = _masses(DenseRows(values, weights))
    return ActionRows(values, weights, n_actions, masses=masses), masses.reshape(values.shape[1:])


def _masses(rows: DenseRows) -> Vector:
    """Sum of weight times posterior, of rows in memory."""
    return _checked_masses([_inspect(rows)]) / (rows.n_rows if rows.weights is None else 1.0)


_Bad = tuple[int, list[int]]


@dataclass(frozen=True, eq=False)
class _Inspected:
    """What a partition holds.

    Attributes
    ----------
    rows : int
    impossible : str
        What is wrong with rows that cannot be.
    bad, bad_weights : pair of int and list
        How many rows have posteriors, or weights, that cannot be; and the first of them.
    masses : array, shape (2 M,)
        Sums of weight times posterior; without weights, of posteriors.
    weight : float
        The sum of weights.
    first : array or None
        The posteriors of its rows, if they are all the same.
    """

    rows: int
    impossible: str
    bad: _Bad
    bad_weights: _Bad
    masses: Vector
    weight: float
    first: NDArray[np.float64] | None


def _checked_masses(found: Sequence[_Inspected]) -> Vector:
    """Sum of weight times posterior over all partitions, if rows can be."""
    n = sum(part.rows for part in found)
    if not n:
        raise InputError("no rows: posteriors are empty.")
    _refuse_bad(found[0].impossible, [part.bad for part in found], found)
    _refuse_bad("sample_weight is NaN, infinite or negative", [part.bad_weights for part in found], found)
    firsts = {None if part.first is None else part.first.tobytes() for part in found if part.rows}
    if n > 1 and len(firsts) == 1 and None not in firsts:
        warn_user("all rows have the same scores, so decisions can only be randomised.", ConstantScoreWarning)
    return exact_sum([part.masses for part in found])


def _refuse_bad(what: str, bad: Sequence[_Bad], found: Sequence[_Inspected]) -> None:
    count, starts = sum(number for number, _ in bad), accumulate((part.rows for part in found), initial=0)
    if count:
        first = [start + row for start, (_, rows) in zip(starts, bad, strict=False) for row in rows]
        shown = ", ".join(f"{row:,}" for row in first[:_SHOWN]) + (", ..." if count > _SHOWN else "")
        n, which = sum(part.rows for part in found), "row" if count == 1 else "rows"
        raise InputError(f"{what} in {count:,} of {n:,} rows ({which} {shown}, counted from 0).")


def _inspect(part: Part) -> _Inspected:
    impossible = "posteriors are NaN, negative or do not sum to 1"
    if isinstance(part, GroupedRows):
        impossible = f"eta is NaN or outside [0, 1], or codes are not from 0 to {part.n_groups - 1},"
    weights = np.empty(0) if part.weights is None else np.asarray(part.weights, dtype=np.float64)
    fine, masses = _fine_and_masses(part)
    if isinstance(part, StratifiedRows) and part.order is not None:  # in the order that rows were given in
        fine[part.order] = fine.copy()
    both = (np.flatnonzero(~rows) for rows in (fine, np.isfinite(weights) & (weights >= 0)))
    bad, light = ((len(index), index[:_SHOWN].tolist()) for index in both)  # all might be too many to travel
    first = as_float64(part.rows[:1]) if _constant(part.rows) else None
    weight = float(part.n_rows if part.weights is None else weights.sum())
    return _Inspected(part.n_rows, impossible, bad, light, masses, weight, first)


@np.errstate(invalid="ignore", over="ignore")  # of rows that are refused
def _fine_and_masses(part: Part) -> tuple[NDArray[np.bool_], Vector]:
    """Which rows can be; and if all can, the sum of weight times posterior, or of posteriors."""
    if isinstance(part, GroupedRows):
        fine = (part.eta >= 0) & (part.eta <= 1) & (part.codes >= 0) & (part.codes < part.n_groups)
        # Without weights of their own, rows of a partition count 1 / n.
        unit = part.n_rows if part.weights is None else 1.0
        return fine, part.masses() * unit if fine.all() else np.zeros(part.n_columns)
    fine, sums = np.ones(part.n_rows, np.bool_), [np.zeros(part.n_columns)]
    for where in part.blocks():
        rows, columns = part.local(where)
        fine[where] = np.abs(rows @ np.ones(rows.shape[1]) - 1.0) <= _SUM_TOLERANCE
        if not rows.min() >= 0:
            fine[where] &= (rows >= 0).all(axis=1)
        sums.append(np.zeros(part.n_columns))
        sums[-1][columns] = _sum(rows, None if part.weights is None else part.weights[where])
    return fine, exact_sum(sums) if fine.all() else sums[0]


def _sum(rows: NDArray[np.float64], weights: Vector | None) -> Vector:
    """Sum of weighted rows, right to the last digits.

    In a plain sum of many equal rows rounding errors add up. Where all groups are alike, a constraint is what
    is left of such sums, and must be too small to be taken for one.
    """
    n, D = rows.shape
    weights = np.ones(n) if weights is None else weights
    whole = n - n % _SUMMED
    parts = weights[:whole].reshape(-1, 1, _SUMMED) @ rows[:whole].reshape(-1, _SUMMED, D)
    return exact_sum([*parts[:, 0], weights[whole:] @ rows[whole:]])


def _normalised(sample_weight: Any, n: int) -> Vector | None:
    weights = read_weights(sample_weight, n)
    return None if weights is None else weights / weights.sum()


def _constant(scores: NDArray[Any]) -> bool:
    """Whether there are rows, and they are all the same."""
    return bool(len(scores) and (scores[1:1000] == scores[0]).all() and (scores == scores[0]).all())
