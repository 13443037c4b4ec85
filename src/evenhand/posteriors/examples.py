"""Rows to learn posteriors from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from evenhand.inputs.features import take_rows
from evenhand.inputs.splits import random_split

__all__ = ["Examples"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Examples:
    """Rows to learn from, as the models see them.

    Attributes
    ----------
    X : table or matrix
        Without the columns that may not be used, with indicators of the known group.
    codes, positive : array
        Group and label of each row.
    n_groups : int
    allowed : array of bool, shape (n, M), or None
        Groups that are possible given the known attributes of each row.
    weights : array or None
    strata : array of int or None
        Stratum of each row, where groups are compared within strata.
    """

    X: Any
    codes: NDArray[np.intp]
    positive: NDArray[np.bool_]
    n_groups: int
    allowed: NDArray[np.bool_] | None = None
    weights: Floats | None = None
    strata: NDArray[np.intp] | None = None

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def cells(self) -> NDArray[np.intp]:
        """2 m + y of each row."""
        return 2 * self.codes + self.positive

    @property
    def compared_cells(self) -> NDArray[np.intp]:
        """The same with groups numbered within strata: those that a requirement compares."""
        return self.cells if self.strata is None else 2 * self.n_groups * self.strata + self.cells

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Cells with rows that count, shape (M, 2)."""
        mass = np.bincount(self.cells, weights=self.weights, minlength=2 * self.n_groups)
        return mass.reshape(-1, 2) > 0

    def split(self, share: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Split the rows in two, stratified by cell; the second part has the given share.

        Both parts have the same share of each label in every group, so neither shows the sampling error of
        the other: tests and intervals on the second part are not valid for what was learned from the first.
        """
        cells = self.cells
        counts = np.bincount(cells, minlength=2 * self.n_groups)
        strata = np.where(counts[cells] > 1, cells, counts.argmax())  # single rows join the largest cell
        try:
            first, second = train_test_split(
                np.arange(len(self)), test_size=share, random_state=seed, stratify=strata
            )
        except ValueError:  # too few rows to stratify
            return self.sample(share, seed)
        return np.sort(first), np.sort(second)

    def sample(self, share: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Split the rows in two, the second a simple random sample; see :func:`random_split`."""
        return random_split(len(self), share, seed)

    def take(self, rows: NDArray[np.intp]) -> Examples:
        """Some of the rows."""
        return Examples(
            None if self.X is None else take_rows(self.X, rows),
            self.codes[rows],
            self.positive[rows],
            self.n_groups,
            None if self.allowed is None else self.allowed[rows],
            None if self.weights is None else self.weights[rows],
            None if self.strata is None else self.strata[rows],
        )
