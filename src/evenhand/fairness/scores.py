"""Scores of rows with a known group, and posteriors of rows with a known stratum."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.exceptions import InputError
from evenhand.inputs.checks import check_rows

__all__ = ["AnyPosteriors", "GroupedScores", "StratifiedPosteriors", "in_strata"]


@dataclass(frozen=True, eq=False)
class GroupedScores:
    """Attribute-aware scores: P(Y=1 | x, s) of rows whose group s is known.

    Parameters
    ----------
    eta : array, shape (n,)
        Scores in [0, 1].
    codes : array of int, shape (n,)
        Group of each row, from 0 to ``n_groups - 1``.
    n_groups : int
        Number of groups, M.

    Notes
    -----
    Dask arrays are taken too, for :func:`evenhand.solve`, which checks their values where they are.

    Examples
    --------
    >>> import numpy as np
    >>> GroupedScores(np.array([0.2, 0.9]), np.array([0, 1]), 2)
    GroupedScores(2 rows, 2 groups)
    """

    eta: NDArray[Any]
    codes: NDArray[Any]
    n_groups: int

    def __post_init__(self) -> None:
        if not isinstance(self.n_groups, Integral) or self.n_groups < 1:
            raise InputError(f"n_groups should be a positive integer, but is {self.n_groups!r}.")
        if _is_lazy(self.eta) != _is_lazy(self.codes):
            raise InputError("eta and codes should both be dask arrays, or none of them.")
        if not self.lazy:
            object.__setattr__(self, "eta", _floats(self.eta))
            object.__setattr__(self, "codes", np.asarray(self.codes))
        if self.eta.ndim != 1 or self.codes.ndim != 1 or self.codes.dtype.kind not in "iu":
            raise InputError("eta should be one column of numbers and codes one column of integers.")
        if not self.lazy:
            self._check_values()

    @property
    def lazy(self) -> bool:
        """Whether these are dask arrays, whose values are not known yet."""
        return _is_lazy(self.eta)

    def _check_values(self) -> None:
        n = check_rows({"eta": self.eta, "codes": self.codes})
        bad = n - int(np.count_nonzero((self.eta >= 0) & (self.eta <= 1)))
        if bad:
            raise InputError(f"eta is NaN or outside [0, 1] in {bad:,} of {n:,} rows.")
        if self.codes.min() < 0 or self.codes.max() >= self.n_groups:
            raise InputError(
                f"codes should go from 0 to {self.n_groups - 1}, but go from {self.codes.min()} "
                f"to {self.codes.max()}."
            )

    def __len__(self) -> int:
        return len(self.eta)

    def __repr__(self) -> str:
        rows = "dask arrays" if self.lazy else f"{len(self):,} rows"
        return f"GroupedScores({rows}, {self.n_groups} groups)"


@dataclass(frozen=True, eq=False)
class StratifiedPosteriors:
    """Posteriors of rows whose stratum is known: those of the cells of a stratum, and 0 in the others.

    Parameters
    ----------
    values : array, shape (n, M, 2)
        P(S=m, Y=y | x) of each row.
    strata : array of int, shape (n,)
        Stratum of each row, from 0 to ``n_strata - 1``.
    n_strata : int
        Number of strata, L.

    Examples
    --------
    >>> import numpy as np
    >>> StratifiedPosteriors(np.full((2, 1, 2), 0.5), np.array([0, 1]), 2)
    StratifiedPosteriors(2 rows, 1 groups in 2 strata)
    """

    values: NDArray[Any]
    strata: NDArray[Any]
    n_strata: int

    def __post_init__(self) -> None:
        if self.values.ndim != 3 or self.values.shape[2] != 2 or 0 in self.values.shape:
            raise InputError(f"posteriors should have shape (n, M, 2), but have {self.values.shape}.")
        check_rows({"posteriors": self.values, "strata": self.strata})

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"StratifiedPosteriors({len(self):,} rows, {self.n_groups} groups in {self.n_strata} strata)"

    @property
    def n_groups(self) -> int:
        """M, the number of groups."""
        return int(self.values.shape[1])

    def dense(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Posteriors of some rows in the cells of all strata, shape (k, L * M, 2)."""
        out = np.zeros((len(rows), self.n_strata, self.n_groups, 2))
        out[np.arange(len(rows)), self.strata[rows]] = self.values[rows]
        return out.reshape(len(rows), self.n_strata * self.n_groups, 2)

    def summed(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum of the posteriors of all rows, weighted, in the cells of all strata, shape (L * M, 2)."""
        flat = self.values.reshape(len(self), -1)
        columns = [np.bincount(self.strata, weights * column, self.n_strata) for column in flat.T]
        return np.asarray(np.column_stack(columns).reshape(-1, 2), dtype=np.float64)

    def weighted(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum of a table of shape (L * M, 2) times the posteriors of each row."""
        tables = table.reshape(self.n_strata, -1)
        narrow = np.uint16 if self.n_strata < 1 << 16 else np.int64  # sorted by radix, which is faster
        order = np.argsort(self.strata.astype(narrow), kind="stable")
        ends = np.searchsorted(self.strata[order], np.arange(self.n_strata + 1)).tolist()
        found = np.empty(len(self))
        for own, start, end in zip(tables, ends[:-1], ends[1:], strict=True):
            rows = order[start:end]
            found[rows] = self.values[rows].reshape(len(rows), len(own)).astype(np.float64) @ own
        return found


AnyPosteriors = NDArray[Any] | GroupedScores | StratifiedPosteriors
"""Posteriors of rows in memory."""


def in_strata(
    posteriors: NDArray[Any] | GroupedScores, strata: NDArray[Any] | None, n_strata: int
) -> AnyPosteriors:
    """The same posteriors for groups within strata, given the stratum of each row; None if there are none."""
    if strata is None:
        return posteriors
    if isinstance(posteriors, GroupedScores):
        codes = np.asarray(strata).astype(np.int64) * posteriors.n_groups + posteriors.codes
        return GroupedScores(posteriors.eta, codes, posteriors.n_groups * n_strata)
    return StratifiedPosteriors(posteriors, np.asarray(strata), n_strata)


def _is_lazy(values: Any) -> bool:
    return hasattr(values, "__dask_graph__")  # Dask's protocol; importing it would take a second


def _floats(values: Any) -> NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise InputError(f"eta should be numbers, but is of type {array.dtype}.")
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
