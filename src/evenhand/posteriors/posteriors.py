"""Posteriors of rows in three forms: dense, of rows whose group is known, and of rows whose stratum is known.

Whoever works with posteriors calls their methods, which all three have, and need not tell them apart.
Tables have one row for each group; with strata, for each group in each stratum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from evenhand.data.checks import check_count, check_rows
from evenhand.exceptions import InputError
from evenhand.solver.dense import DenseRows
from evenhand.solver.grouped import GroupedRows
from evenhand.solver.oracle import Vector
from evenhand.solver.stratified import StratifiedRows

Floats = NDArray[np.float64]
Index = NDArray[np.intp] | slice
ALL = slice(None)


@dataclass(frozen=True, eq=False)
class DensePosteriors:
    """P(S=m, Y=y | x) of each row.

    Parameters
    ----------
    values : array, shape (n, M, 2)
        Or a Dask array.

    Examples
    --------
    >>> import numpy as np
    >>> DensePosteriors(np.full((3, 2, 2), 0.25)).label()
    array([0.5, 0.5, 0.5])
    """

    values: NDArray[Any]
    codes: ClassVar[None] = None

    def __post_init__(self) -> None:
        shape = self.values.shape
        if len(shape) != 3 or shape[2] != 2 or not shape[1]:
            raise InputError(f"posteriors must have shape (n, M, 2), got {shape}.")
        if not self.lazy:
            object.__setattr__(self, "values", _floats("posteriors", self.values))

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"DensePosteriors({_count(self)}, {self.n_groups} groups)"

    @property
    def n_groups(self) -> int:
        """Number of groups, in all strata."""
        return math.prod(self.sizes)

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of strata, 1 if there are none, and of groups in each."""
        return 1, int(self.values.shape[1])

    @property
    def offsets(self) -> NDArray[np.intp]:
        """The first of each row's groups, shape (n,)."""
        return np.zeros(len(self), np.intp)

    @property
    def lazy(self) -> bool:
        """Whether these are dask arrays, whose values are not known yet."""
        return _is_lazy(self.values)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """What they consist of, by name."""
        return {"posteriors": self.values}

    def take(self, rows: Index) -> Self:
        """Those of some rows."""
        return replace(self, values=self.values[rows])

    def label(self) -> Floats:
        """P(Y=1 | x) of each row."""
        return np.asarray(self.values[:, :, 1].sum(axis=1), dtype=np.float64)

    def dense(self, rows: Index = ALL) -> Floats:
        """Those of some rows in the cells of all groups, shape (k, M, 2)."""
        return np.ascontiguousarray(self.values[rows], dtype=np.float64) + 0.0  # no negative zeros

    def weighted(self, table: Floats) -> Floats:
        """Sum of a table of shape (M, 2) times the posteriors of each row."""
        return self.oracle(None).scores(np.ravel(table))

    def by_label(self, table: Floats) -> Floats:
        """The same sum for each label, shape (n, 2)."""
        return np.asarray(np.einsum("nmy,my->ny", self.values, table))

    def summed(self, weights: Floats) -> Floats:
        """Weighted sum of the posteriors of all rows, shape (M, 2)."""
        return np.asarray(np.tensordot(weights, self.values, axes=1))

    def given_label(self, positive: NDArray[np.bool_]) -> Floats:
        """P(S=m | x, y) of each row, given its label, in the groups of its own stratum."""
        values = np.asarray(self.values, dtype=np.float64)
        own = values[np.arange(len(self)), :, positive.astype(np.intp)]
        total = own.sum(axis=1, keepdims=True)
        return np.asarray(np.divide(own, total, out=np.full_like(own, 1 / own.shape[1]), where=total > 0))

    def with_labels(self, positive: NDArray[np.bool_]) -> Self:
        """The same with the label of each row in place of P(Y | x)."""
        label = np.column_stack([~positive, positive]).astype(np.float64)
        return replace(self, values=label[:, None] * self.given_label(positive)[:, :, None])

    def within(self, strata: NDArray[Any] | None, n_strata: int) -> DensePosteriors:
        """The same for groups within strata, given the stratum of each row; None if there are none."""
        return self if strata is None else StratifiedPosteriors(self.values, strata, n_strata)

    def oracle(self, weights: Vector | None) -> DenseRows:
        """The rows of the solver, with weights that sum to 1; None is 1/n each."""
        return DenseRows(self.values, weights)


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
        check_count("n_groups", self.n_groups, 1)
        if _is_lazy(self.eta) != _is_lazy(self.codes):
            raise InputError("eta and codes must both be Dask arrays, or neither.")
        if not self.lazy:
            object.__setattr__(self, "eta", _floats("eta", self.eta))
            object.__setattr__(self, "codes", np.asarray(self.codes))
        if self.eta.ndim != 1 or self.codes.ndim != 1 or self.codes.dtype.kind not in "iu":
            raise InputError("eta must be one column of numbers, and codes one column of integers.")
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
                f"codes must be integers from 0 to {self.n_groups - 1}, got {self.codes.min()} to "
                f"{self.codes.max()}."
            )

    def __len__(self) -> int:
        return len(self.eta)

    def __repr__(self) -> str:
        return f"GroupedScores({_count(self)}, {self.n_groups} groups)"

    @property
    def sizes(self) -> tuple[int, int]:
        """1, because groups in other strata are other groups, and the number of groups."""
        return 1, self.n_groups

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """What they consist of, by name."""
        return {"eta": self.eta, "codes": self.codes}

    def take(self, rows: Index) -> Self:
        """Those of some rows."""
        return replace(self, eta=self.eta[rows], codes=self.codes[rows])

    def label(self) -> Floats:
        """P(Y=1 | x) of each row."""
        return np.asarray(self.eta, dtype=np.float64)

    def dense(self, rows: Index = ALL) -> Floats:
        """Those of some rows in the cells of all groups, shape (k, M, 2); 0 in other groups.

        Examples
        --------
        >>> GroupedScores(np.array([0.5, 0.75]), np.array([0, 1]), 2).dense(np.array([1])).tolist()
        [[[0.0, 0.0], [0.25, 0.75]]]
        """
        return self.oracle(None).take(rows).reshape(-1, self.n_groups, 2)

    def weighted(self, table: Floats) -> Floats:
        """Sum of a table of shape (M, 2) times the posteriors of each row."""
        return self.oracle(None).scores(np.ravel(table))

    def by_label(self, table: Floats) -> Floats:
        """The same sum for each label, shape (n, 2)."""
        return np.asarray(table[self.codes] * np.column_stack([1 - self.eta, self.eta]))

    def summed(self, weights: Floats) -> Floats:
        """Weighted sum of the posteriors of all rows, shape (M, 2)."""
        return self.oracle(None).summed(ALL, weights).reshape(-1, 2)

    def with_labels(self, positive: NDArray[np.bool_]) -> Self:
        """The same with the label of each row in place of P(Y | x)."""
        return replace(self, eta=positive.astype(np.float64))

    def within(self, strata: NDArray[Any] | None, n_strata: int) -> GroupedScores:
        """The same for groups within strata, given the stratum of each row; None if there are none."""
        if strata is None:
            return self
        codes = strata.astype(np.int64) * self.n_groups + self.codes
        return GroupedScores(self.eta, codes, self.n_groups * n_strata)

    def oracle(self, weights: Vector | None) -> DenseRows:
        """The rows of the solver, with weights that sum to 1; None is 1/n each."""
        return GroupedRows(self.eta, self.codes, self.n_groups, weights)


@dataclass(frozen=True, eq=False)
class StratifiedPosteriors(DensePosteriors):
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

    strata: NDArray[Any]
    n_strata: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.lazy:
            check_rows({"posteriors": self.values, "strata": self.strata})

    def __repr__(self) -> str:
        return f"StratifiedPosteriors({_count(self)}, {self.sizes[1]} groups in {self.n_strata} strata)"

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of strata, and of groups in each."""
        return self.n_strata, int(self.values.shape[1])

    @property
    def offsets(self) -> NDArray[np.intp]:
        """The first of each row's groups, shape (n,)."""
        return np.asarray(self.strata, dtype=np.intp) * self.sizes[1]

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """What they consist of, by name."""
        return {"posteriors": self.values, "strata": self.strata}

    def take(self, rows: Index) -> Self:
        """Those of some rows."""
        return replace(self, values=self.values[rows], strata=self.strata[rows])

    def dense(self, rows: Index = ALL) -> Floats:
        """Those of some rows in the cells of all strata, shape (k, L * M, 2)."""
        return in_strata(self.values[rows], self.strata[rows], self.n_strata)

    def weighted(self, table: Floats) -> Floats:
        """Sum of a table of shape (L * M, 2) times the posteriors of each row."""
        rows = StratifiedRows.sorted(self.values, self.strata, self.n_strata, None)
        found = np.empty(len(self))
        found[rows.order] = rows.scores(np.ravel(table))
        return found

    def by_label(self, table: Floats) -> Floats:
        """The same sum for each label, shape (n, 2)."""
        tables = table.reshape(self.n_strata, -1, 2)[self.strata]
        return np.asarray((self.values * tables).sum(axis=1))

    def summed(self, weights: Floats) -> Floats:
        """Weighted sum of the posteriors of all rows, shape (L * M, 2)."""
        flat = self.values.reshape(len(self), -1)
        columns = [np.bincount(self.strata, weights * column, self.n_strata) for column in flat.T]
        return np.asarray(np.column_stack(columns).reshape(-1, 2), dtype=np.float64)

    def oracle(self, weights: Vector | None) -> DenseRows:
        """The rows of the solver, with weights that sum to 1; None is 1/n each."""
        return StratifiedRows.sorted(self.values, self.strata, self.n_strata, weights)


Posteriors = DensePosteriors | GroupedScores
"""Posteriors of rows, in one of the three forms."""
AnyPosteriors = NDArray[Any] | Posteriors
"""What public functions take: an array stands for dense posteriors."""


def read_posteriors(posteriors: Any) -> Posteriors:
    """Posteriors as they are, or an array of shape (n, M, 2) as dense ones.

    Examples
    --------
    >>> read_posteriors([[[0.3, 0.7]], [[0.6, 0.4]]])
    DensePosteriors(2 rows, 1 groups)
    """
    if isinstance(posteriors, Posteriors):
        return posteriors
    if _is_lazy(posteriors):
        if not isinstance(getattr(posteriors, "chunks", None), tuple):
            raise InputError(f"posteriors must be a Dask array, got {type(posteriors).__name__}.")
        return DensePosteriors(posteriors)
    try:
        array = np.asarray(posteriors)
    except ValueError:
        raise InputError("posteriors must have shape (n, M, 2), got rows of different lengths.") from None
    return DensePosteriors(array)


def _count(rows: Posteriors) -> str:
    return "dask arrays" if rows.lazy else f"{len(rows):,} rows"


def _is_lazy(values: Any) -> bool:
    return hasattr(values, "__dask_graph__")  # Dask's protocol; importing it would take a second


def _floats(name: str, values: Any) -> NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} must be numbers, got type {array.dtype}.")
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def in_strata(values: Floats, strata: NDArray[Any], n_strata: int) -> Floats:
    """Posteriors in the cells of all strata: those of the rows' own strata, and 0 in the others.

    Parameters
    ----------
    values : array, shape (n, M, L)
    strata : array of int, shape (n,)
    n_strata : int

    Returns
    -------
    array, shape (n, n_strata * M, L)
    """
    out = np.zeros((len(values), n_strata, *values.shape[1:]))
    out[np.arange(len(values)), strata] = values + 0.0  # no negative zeros
    return out.reshape(len(values), n_strata * values.shape[1], values.shape[2])
