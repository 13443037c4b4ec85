"""Optima in two stages: a scalar t is minimised, and then the risk at this t.

Many rules may attain the smallest t, and the second stage takes the best of them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from evenhand.exceptions import CertificateError
from evenhand.solver.grouped import GroupedRows
from evenhand.solver.optimize import Accepted, Optimum, optimize
from evenhand.solver.oracle import Problem, Vector
from evenhand.solver.scalars import RowsWithScalars

T = TypeVar("T")

NOTHING = 1e-12
"""Of multipliers, weights and proofs: rounding errors."""
_RANGE = 3.0
"""Width of the range of t around a number from 0 to 1. t is never at an end of its range."""
_SAMPLE, _ROUGH = 2_000, 1e-2
"""Rows by which t is estimated, and how well: standard errors are of this size."""
_MANY = 50_000
"""Number of rows from which a program of all of them takes too long."""
_SLACKS, _OF_MANY = (1e-3, 1e-2, 1e-1, 0.5), 2
"""By how much t may be exceeded in the second stage, in units of the tolerance; of many rows, from which of
them on. Multipliers grow like one over its square root, up to the number of rows (docs/decisions.md)."""


def first_stage(rows: Any, program: Problem, first: int, accepted: Accepted) -> tuple[Optimum, Vector] | None:
    """Minimise t, by which the bounds from a given one on may be broken.

    Parameters
    ----------
    rows : Oracle
        Without scalars.
    program : Problem
    first : int
        Number of bounds that may not be broken, the first ones.
    accepted : Accepted

    Returns
    -------
    tuple of (Optimum, array of shape (J,)), or None
        The multipliers are those of the bounds: multiples of how much t is worth.
    """
    upper, lower = (first + np.flatnonzero(np.isfinite(end[first:])) for end in (program.hi, program.lo))
    order = np.concatenate([np.arange(first), upper, lower])
    side = np.repeat([0.0, -1.0, 1.0], [first, len(upper), len(lower)])

    def softened(middle: float) -> Problem:
        """With t as a scalar in a range around a number."""
        low = middle - _RANGE / 2
        return Problem(
            gain=np.append(0.0 * program.gain, -_RANGE),
            A=np.column_stack([program.A[order], _RANGE * side]),
            lo=np.where(side < 0, -np.inf, program.lo[order] - low * side),
            hi=np.where(side > 0, np.inf, program.hi[order] - low * side),
            constant=low,
            scalars=program.scalars + 1,
        )

    # If t is in the middle of its range, the width of smoothing does not move its multiplier, and Newton's
    # method goes from one width to the next in a few steps (docs/decisions.md).
    middle = 0.5
    if not isinstance(rows, GroupedRows) and rows.n_rows > _SAMPLE:
        few = RowsWithScalars(rows.sample(_SAMPLE), program.scalars + 1)
        rough = optimize(few, softened(middle), Accepted(_ROUGH, _ROUGH))
        middle = middle if rough is None else min(1.0, max(0.0, rough.certificate.objective))
    every = RowsWithScalars(rows, program.scalars + 1)
    found = optimize(every, softened(middle), replace(accepted, score=None))
    if found is None:
        return None
    multipliers = np.zeros(len(program.lo))
    np.add.at(multipliers, order, found.multipliers)
    return found, multipliers


def second_stage(n_rows: int, accepted: Accepted, solve: Callable[[float, Accepted], T | None]) -> T | None:
    """Minimise the risk with a little more t than needed, and with ever more if that is not proven.

    Parameters
    ----------
    n_rows : int
        Of many rows, more t is tried before programs of all rows, which take hours.
    accepted : Accepted
    solve : function
        The optimum with so much more t.
    """

    def stop() -> None:
        raise CertificateError("the second stage is not proven.")

    quick = replace(accepted, on_failure=stop if n_rows > _MANY else None)
    for share in _SLACKS[_OF_MANY if n_rows > _SAMPLE else 0 :]:
        with suppress(CertificateError):
            found = solve(share * accepted.tol, quick)
            if found is not None:
                return found
    return None
