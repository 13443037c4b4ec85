"""Counts at the end of batches: all that a monitor remembers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenhand.groups.groups import Groups
from evenhand.groups.strata import stratify
from evenhand.monitoring.batch import Batch, Cell
from evenhand.requirements.requirement import Constraint

__all__ = ["History", "Record"]

Floats = NDArray[np.float64]

_GROWTH, _FIRST_ROWS = 1.5, 256
"""A new start is made when the rows are this many times those of the last one, and at least so many."""
_MOST_STARTS, _MOST_RECORDS = 12, 36
"""Starts that are kept, the first and the latest; and all records, spread over time."""


@dataclass(frozen=True, eq=False)
class Record:
    """Sums over all rows up to the end of a batch.

    Attributes
    ----------
    batch, rows : int
        Number of batches and of rows so far.
    sums : array, shape (M, 3, 2)
        See :class:`Batch`.
    time : str, default=""
    start : int, default=-1
        The number of this start, if evidence is also counted from here on.
    evidence : float, default=0.0
        Log of the evidence against the requirement after the batch.
    """

    batch: int
    rows: int
    sums: Floats
    time: str = ""
    start: int = -1
    evidence: float = 0.0

    def padded(self, size: int) -> Record:
        """The same with `size` cells."""
        return replace(self, sums=np.pad(self.sums, ((0, size - len(self.sums)), (0, 0), (0, 0))))


@dataclass(frozen=True, eq=False)
class History:
    """Records of some batches: the first, starts of evidence, some for the chart, and the last.

    Attributes
    ----------
    controls, features : tuple of str
    cells : tuple of Cell
        In the order in which they were seen.
    known : tuple of int
        The start from which each was known.
    records : tuple of Record
    """

    controls: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    cells: tuple[Cell, ...] = ()
    known: tuple[int, ...] = ()
    records: tuple[Record, ...] = (Record(0, 0, np.zeros((0, 3, 2)), start=0),)

    @property
    def last(self) -> Record:
        """All rows so far."""
        return self.records[-1]

    @property
    def starts(self) -> list[Record]:
        """The records from which evidence is counted."""
        return [one for one in self.records if one.start >= 0]

    def added(self, batch: Batch, time: str) -> History:
        """The history with one more batch.

        A start is made before the batch if it brings groups that were not seen before, or if there are half
        as many rows again as at the last one. Which starts and records are kept depends on numbers of rows
        and batches only.
        """
        new = [cell for cell in batch.cells if cell not in self.cells]
        cells = (*self.cells, *new)
        records = [one.padded(len(cells)) for one in self.records]
        last, latest = records[-1], self.starts[-1]
        grown = last.rows >= max(_FIRST_ROWS, _GROWTH * latest.rows)
        if last.start < 0 and (new or grown):
            records[-1] = replace(last, start=latest.start + 1)
        start = max(one.start for one in records)
        places = [cells.index(cell) for cell in batch.cells]
        sums = last.sums.copy()
        sums[places] += batch.sums
        records.append(Record(last.batch + 1, last.rows + batch.rows, sums, time))
        kept = _thinned(records)
        return History(
            batch.controls, batch.features, cells, (*self.known, *(start for _ in new)), tuple(kept)
        )

    @cached_property
    def groups(self) -> tuple[Groups, NDArray[np.int32]]:
        """The groups, within strata if there are control features, and the place of each cell."""
        columns = [[cell[part] for cell in self.cells] for part in (0, 1)]
        groups, places = Groups.fit(_table(self.features, columns[1]), missing="category")
        if self.controls:
            groups, places = stratify(groups, places, _table(self.controls, columns[0]))
        return groups, places

    def placed(self, values: NDArray[np.generic], fill: float = 0) -> NDArray[np.generic]:
        """Values of the cells, on the axis before the last two, as `groups` orders them."""
        groups, places = self.groups
        shape = (*values.shape[:-3], len(groups), *values.shape[-2:])
        placed = np.full(shape, fill, values.dtype)
        placed[..., places, :, :] = values
        return placed

    def since_starts(self) -> Floats:
        """Sums over the rows since each start, shape (W, M, 3, 2)."""
        sums = np.stack([self.last.sums - one.sums for one in self.starts])
        return self.placed(sums).astype(np.float64)

    def known_cells(self) -> NDArray[np.intp]:
        """The start from which each cell was known, as `groups` orders them; -1 for those without rows."""
        known = np.array(self.known, np.intp)[:, None, None]
        return self.placed(known, -1)[:, 0, 0].astype(np.intp)

    def check(self, constraint: Constraint) -> None:
        """Raise an error if the requirement cannot be measured in these groups."""
        constraint.check(self.groups[0])


def _table(names: tuple[str, ...], keys: list[tuple[object, ...]]) -> dict[str, list[object]]:
    return {name: [key[k] for key in keys] for k, name in enumerate(names)}


def _thinned(records: list[Record]) -> list[Record]:
    starts = [one.start for one in records if one.start > 0]
    for old in starts[: max(0, len(starts) + 1 - _MOST_STARTS)]:
        place = next(k for k, one in enumerate(records) if one.start == old)
        records[place] = replace(records[place], start=-1)
    while len(records) > _MOST_RECORDS:
        ordinary = [k for k in range(1, len(records) - 1) if records[k].start < 0]
        del records[min(ordinary, key=lambda k: records[k + 1].batch - records[k - 1].batch)]
    return records
