"""Rows of a table that is not in memory: counted, drawn and scored where they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from evenhand.data.features import take_rows
from evenhand.exceptions import InputError
from evenhand.sources.layout import Columns, Kept, Layout

Floats = NDArray[np.float64]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Rows:
    """Some consecutive rows of a table, as they were passed to fit.

    Attributes
    ----------
    numbers : array of int
        Of the rows in the whole table.
    X : table or matrix
        The features, with the sensitive columns.
    y : series or array
    sensitive : dict
        Sensitive features by name; empty where they are known by proxies.
    weights : array or None
    """

    numbers: NDArray[np.intp]
    X: Any
    y: Any
    sensitive: Mapping[str, Any]
    weights: Floats | None

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, rows: NDArray[np.intp]) -> Rows:
        """Some of them."""
        weights = None if self.weights is None else self.weights[rows]
        sensitive = {name: column[rows] for name, column in self.sensitive.items()}
        return Rows(self.numbers[rows], take_rows(self.X, rows), self.y[rows], sensitive, weights)


@dataclass(frozen=True, eq=False)
class Counts:
    """The combinations of values that occur in a table, and the number of rows of each.

    Attributes
    ----------
    sensitive, controls : dict
        Sensitive and control features by name, with one entry per combination.
    labels : array
    rows : array of int
    """

    sensitive: Mapping[str, Any]
    controls: Mapping[str, Any]
    labels: Any
    rows: NDArray[np.int64]


@dataclass(frozen=True)
class Place:
    """Number of a batch or partition, number of its first row, and how many it has."""

    number: int
    first: int
    size: int


Scorer = Callable[[Rows, Any], Columns]
"""Posteriors and weights of rows, as columns of a :class:`Layout`, given what `Own` returns."""

Own = Callable[[Place], Any]
"""What scoring needs of the rows of one batch only."""


Fill = Callable[[Scorer, Own], Kept]
"""Scores all rows."""


class RowSource(ABC):
    """A table that is not in memory: some rows are read, and functions of rows go to the others.

    Attributes
    ----------
    label : str
        What the label is called in messages.
    sensitive : tuple of str
        Names of the sensitive features.
    """

    label: str
    sensitive: tuple[str, ...]

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows."""

    @abstractmethod
    def counts(self) -> Counts:
        """All combinations of sensitive features, control features and labels."""

    @abstractmethod
    def map(self, function: Callable[..., T], *shared: Any, what: str) -> list[T]:
        """``function(rows, *shared)`` for all rows, a batch at a time, in order; some may be empty."""

    @abstractmethod
    def store(self, layout: Layout) -> AbstractContextManager[Fill]:
        """Space for the posteriors of all rows for the time of a block, taken before anything is learned."""

    def fold_runner(self, examples: Callable[[Sequence[Rows]], Any]) -> Any:  # noqa: ARG002
        """Where folds are fitted; None is here.

        Parameters
        ----------
        examples : function
            Makes the examples to learn from out of the rows that :meth:`map` returned last.
        """
        return None


def check_roles(target: Any, weight: Any, sensitive: Iterable[Any]) -> None:
    """Raise an InputError if a column has two roles; None stands for no column."""
    sensitive = list(sensitive)
    for name in (target, weight):
        if name is not None and (name in sensitive or target == weight):
            raise InputError(f"column {name!r} has two roles: it is the label, a weight or sensitive.")


def weight_column(column: nw.Series[Any], first: int) -> Floats:
    """Weights of the rows from number `first` on, which messages name."""
    if not column.dtype.is_numeric() and column.dtype != nw.Boolean:
        raise InputError("sample_weight must be numbers without missing values.")
    weights = column.cast(nw.Float64).to_numpy().astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
    if len(bad):
        raise InputError(
            f"sample_weight is negative, NaN or infinite in {len(bad):,} rows, the first of them row "
            f"{first + int(bad[0]):,} (counted from 0)."
        )
    return weights
