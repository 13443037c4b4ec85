"""Posteriors of rows that are not in memory: which arrays hold them, and what the solver makes of these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evenhand.posteriors.posteriors import DensePosteriors, GroupedScores, Posteriors
from evenhand.solver.dense import DenseRows
from evenhand.solver.grouped import GroupedRows
from evenhand.solver.partitions import Part, Partitions

Columns = Mapping[str, NDArray[Any]]
"""Arrays of some rows, by the names of a layout."""


@dataclass(frozen=True)
class Layout:
    """Arrays that hold posteriors.

    Scores of known groups keep all digits, because a threshold is compared with them.

    Attributes
    ----------
    n_groups : int
        Where groups are known, in all strata.
    known : bool, default=False
        Whether groups are known: then there are scores and codes.
    weighted : bool, default=False
    n_strata : int or None, default=None
        Of posteriors of rows in strata.
    kind : type, default=numpy.float64
        Of posteriors.
    """

    n_groups: int
    known: bool = False
    weighted: bool = False
    n_strata: int | None = None
    kind: Any = np.float64

    @property
    def compared(self) -> int:
        """Number of groups in all strata."""
        return self.n_groups * (self.n_strata or 1)

    @property
    def kinds(self) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
        """Type and shape of a row, for each array."""
        found: dict[str, tuple[Any, tuple[int, ...]]] = {"posteriors": (self.kind, (self.n_groups, 2))}
        if self.known:
            found = {"eta": (np.float64, ()), "codes": (np.int32, ())}
        if self.n_strata is not None:
            found["strata"] = (np.int32, ())
        if self.weighted:
            found["weights"] = (np.float64, ())
        return {name: (np.dtype(kind), shape) for name, (kind, shape) in found.items()}

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return sum(kind.itemsize * int(np.prod(shape)) for kind, shape in self.kinds.values())

    def columns(self, posteriors: Posteriors, weights: NDArray[np.float64] | None) -> Columns:
        """Posteriors of some rows as arrays."""
        found = posteriors.arrays
        if self.weighted and weights is not None:
            found["weights"] = weights
        return {name: np.ascontiguousarray(found[name], dtype=kind) for name, (kind, _) in self.kinds.items()}

    def posteriors(self, columns: Columns) -> Posteriors:
        """The posteriors that arrays hold."""
        if self.known:
            return GroupedScores(columns["eta"], columns["codes"], self.n_groups)
        return DensePosteriors(columns["posteriors"]).within(columns.get("strata"), self.n_strata or 1)

    def part(self, columns: Columns) -> Part:
        """The same as rows of the solver."""
        weights = columns.get("weights")
        if self.known:
            return GroupedRows(columns["eta"], columns["codes"], self.n_groups, weights)
        if self.n_strata is None:
            return DenseRows(columns["posteriors"], weights)
        # Zeros in the other strata, as the solver's rows are alike.
        return DenseRows(self.posteriors(columns).dense(), weights)


class Kept(Protocol):
    """Posteriors of all rows of a source."""

    layout: Layout

    def partitions(self) -> Partitions:
        """The rows as partitions of the solver."""
        ...

    def blocks(self) -> Iterator[Columns]:
        """The arrays, a part of the rows at a time."""
        ...
