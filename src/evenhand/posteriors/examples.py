"""Rows to learn posteriors from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack
from sklearn.model_selection import train_test_split

from evenhand.data.features import concat_rows, random_split, take_rows
from evenhand.posteriors.table_encoder import EncodedTable

Floats = NDArray[np.float64]
_BY_ROW = ("codes", "labels", "allowed", "weights", "strata")


@dataclass(frozen=True, eq=False)
class KnownFeatures:
    """What is known of each sensitive feature, where not every row has all of them.

    Attributes
    ----------
    levels : array of int, shape (M, features)
        Which value of each feature a group has, in the order in which features are learned.
    values : tuple of arrays of shape (n, values)
        For each feature the probabilities of its values: 1 for a known one, all 0 where nothing is known.
    tells : int, default=0
        Number of columns at the right end of X that tell which features are known. They may say something of
        the label, but not of the features, and models of the features do not see them.
    """

    levels: NDArray[np.intp]
    values: tuple[Floats, ...]
    tells: int = 0

    def take(self, rows: NDArray[np.intp]) -> KnownFeatures:
        """Some of the rows."""
        return replace(self, values=tuple(values[rows] for values in self.values))


@dataclass(frozen=True, eq=False)
class Examples:
    """Rows to learn from, as the models see them.

    Attributes
    ----------
    X : table or matrix
        Without the columns that may not be used, with indicators of the known group.
    codes, labels : array
        Group and label of each row; a group of -1 is not known. Of two labels, 1 is the positive one.
    n_groups : int
    allowed : array of bool, shape (n, M), or None
        Groups that are possible given the known attributes of each row.
    weights : array or None
    known : KnownFeatures or None
        What is known of the sensitive features where groups are imputed; None if all groups are known.
    strata : array of int or None
        Stratum of each row, where groups are compared within strata.
    without_group : Examples, default=None
        Further rows, without a known group, that models of the label alone learn from. They are in every
        fold, because no posteriors are needed of them.
    n_labels : int, default=2
    """

    X: Any
    codes: NDArray[np.intp]
    labels: NDArray[Any]
    n_groups: int
    allowed: NDArray[np.bool_] | None = None
    weights: Floats | None = None
    known: KnownFeatures | None = None
    strata: NDArray[np.intp] | None = None
    without_group: Examples | None = None
    n_labels: int = 2

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def positive(self) -> NDArray[np.bool_]:
        """Whether the label of each row is the second one."""
        return np.asarray(self.labels == 1)

    @property
    def cells(self) -> NDArray[np.intp]:
        """L m + y of each row; negative where the group is not known."""
        return np.asarray(self.n_labels * self.codes + self.labels)

    @property
    def n_cells(self) -> int:
        """Number of groups times number of labels."""
        return self.n_labels * self.n_groups

    @property
    def compared_cells(self) -> NDArray[np.intp]:
        """The same with groups numbered within strata: those that a requirement compares."""
        return self.cells if self.strata is None else self.n_cells * self.strata + self.cells

    @property
    def split_by(self) -> NDArray[np.intp]:
        """What splits are stratified by: the cell, or the label alone where the group is not known."""
        return np.where(self.codes < 0, self.n_cells + self.labels, self.cells)

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Cells with rows that count, shape (M, L)."""
        mass = np.bincount(self.cells, weights=self.weights, minlength=self.n_cells)
        return mass.reshape(-1, self.n_labels) > 0

    def split(self, share: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Split the rows in two, stratified by cell; the second part has the given share.

        Both parts have the same share of each label in every group, so neither shows the sampling error of
        the other: tests and intervals on the second part are not valid for what was learned from the first.
        """
        cells = self.split_by
        counts = np.bincount(cells, minlength=self.n_cells)
        strata = np.where(counts[cells] > 1, cells, counts.argmax())  # single rows join the largest cell
        try:
            first, second = train_test_split(
                np.arange(len(self)), test_size=share, random_state=seed, stratify=strata
            )
        except ValueError:  # too few rows to stratify
            return random_split(len(self), share, seed)
        return np.sort(first), np.sort(second)

    def take(self, rows: NDArray[np.intp]) -> Examples:
        """Some of the rows."""
        given: dict[str, Any] = {name: getattr(self, name) for name in _BY_ROW}
        taken: dict[str, Any] = {name: None if one is None else one[rows] for name, one in given.items()}
        X = None if self.X is None else take_rows(self.X, rows)
        known = None if self.known is None else self.known.take(rows)
        return replace(self, X=X, known=known, **taken)

    def encoded(self, encoder: Callable[[Any], Any]) -> Examples:
        """The same rows, encoded for the learners."""
        others = None if self.without_group is None else self.without_group.encoded(encoder)
        return replace(self, X=encoder(self.X), without_group=others)

    @property
    def for_label(self) -> Examples:
        """All rows that a model of the label alone can learn from."""
        others = self.without_group
        if others is None:
            return self
        weights = None
        if self.weights is not None and others.weights is not None:
            weights = np.concatenate([self.weights, others.weights])
        codes, labels = (
            np.concatenate(part) for part in ((self.codes, others.codes), (self.labels, others.labels))
        )
        X = _below(self.X, others.X)
        return Examples(X, codes, labels, self.n_groups, weights=weights, n_labels=self.n_labels)


def _below(X: Any, other: Any) -> Any:
    if isinstance(X, EncodedTable):
        return EncodedTable(np.concatenate([X.matrix, other.matrix]), X.categorical)
    both: list[Any] = [X, other]
    if issparse(X):
        return vstack(both, format="csr")
    return concat_rows(both)
