"""Counts of decisions: those of a batch, and those at the end of batches, all that a monitor remembers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.auditing.query import read_columns, tally_table
from evenhand.auditing.tally import tally
from evenhand.exceptions import InputError
from evenhand.groups.groups import Groups
from evenhand.groups.names import Key
from evenhand.groups.strata import stratify
from evenhand.requirements.rates import Decisions, read_rows

Floats = NDArray[np.float64]

_LONG = 1000
"""Rows of a batch that is recognised by its content."""
_GROWTH, _FIRST_ROWS = 1.5, 256
"""A new start is made when the rows are this many times those of the last one, and at least so many."""
_MOST_STARTS, _MOST_RECORDS = 12, 36
"""Starts that are kept, the first and the latest; and all records, spread over time."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Counts of one batch.

    Attributes
    ----------
    names : tuple of str
        Control features, then sensitive features.
    controls : int
        How many of them are control features.
    cells : tuple of tuples
        Their values.
    sums : array, shape (M, 3, 2)
        Rows and selected rows: of all, of those with label 0 and of those with label 1.
    rows, excluded : int
        Rows that are counted, and rows that lack a sensitive value.
    classes : array or None
        The negative and the positive label, if labels were read.
    digest : str
        Of the content; empty if the batch is not recognised by it.
    """

    names: tuple[str, ...]
    controls: int
    cells: tuple[Key, ...]
    sums: Floats
    rows: int
    excluded: int = 0
    classes: NDArray[Any] | None = None
    digest: str = ""


def read_batch(columns: dict[str, Any], *, data: Any, late: bool, **policy: Any) -> Batch:
    """The counts of a batch; if it is late, its rows were counted before, without their labels.

    Parameters
    ----------
    columns : dict
        The arguments of :meth:`Monitor.update` that are columns; with `data`, their names.
    data, late
        See :meth:`Monitor.update`.
    **policy
        Further arguments of :func:`evenhand.requirements.rates.read_rows`.

    Returns
    -------
    Batch
    """
    weights, digest = columns["sample_weight"], ""
    if data is None:
        decisions = read_rows(**columns, **policy)
        counted, weights, digest = tally(decisions), decisions.weights, _digest(decisions)
    else:
        names = {name: columns.get(name) for name in ("y_true", "y_pred", "before", "sample_weight")}
        controls = columns["control_features"]
        counted, _ = tally_table(
            data, names, columns["sensitive_features"], control_features=controls, threshold=None, **policy
        )
        if weights is not None:
            weights = read_columns(data, {"sample_weight": weights}, weights)["sample_weight"]
    largest = 1.0 if weights is None else float(np.asarray(weights).max())
    if largest > 1:
        raise InputError(
            f"sample_weight is up to {largest:g}. Evidence is valid for weights from 0 to 1: divide by the "
            "largest weight that any batch can have."
        )
    features, n_controls, cells = cells_of(counted.groups)
    by_label = np.moveaxis(counted.sums[1, :2] * largest, 0, -1)  # (M, labels, rows and selected)
    everybody = by_label.sum(axis=1, keepdims=True)
    sums = np.concatenate([everybody * (not late), by_label * counted.labelled], axis=1)
    there, rows = np.flatnonzero(counted.rows.sum(axis=1)), int(counted.rows.sum())
    seen = tuple(cells[k] for k in there)
    excluded = counted.groups.excluded_rows
    return Batch(features, n_controls, seen, sums[there], rows, excluded, counted.classes, digest)


def _digest(decisions: Decisions) -> str:
    """Of the content of a batch; empty if it is short, because short ones may be alike by chance."""
    if len(decisions.codes) < _LONG:
        return ""
    found = hashlib.sha256(repr(cells_of(decisions.groups)).encode())
    for part in (decisions.codes, decisions.selection, decisions.positive, decisions.weights):
        found.update(b"-" if part is None else np.ascontiguousarray(part).tobytes())
    return found.hexdigest()


def cells_of(groups: Groups) -> tuple[tuple[str, ...], int, tuple[Key, ...]]:
    """Names of control and sensitive features, how many of them are controls, and their values by code."""
    controls = () if groups.strata is None else groups.strata.features
    return (*controls, *groups.features), len(controls), tuple(name.values for name in groups.cell_names)


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
    names, controls, cells
        As of a :class:`Batch`; cells in the order in which they were seen.
    known : tuple of int
        The start from which each cell was known.
    records : tuple of Record
    """

    names: tuple[str, ...] = ()
    controls: int = 0
    cells: tuple[Key, ...] = ()
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

    @property
    def start_numbers(self) -> NDArray[np.intp]:
        """Their numbers."""
        return np.array([one.start for one in self.starts], np.intp)

    def in_order(self, batch: Batch) -> Batch:
        """A batch with its features in the order of earlier ones."""
        own, known = batch.names, self.names
        if not known:
            return batch
        if set(own) != set(known) or set(own[: batch.controls]) != set(known[: self.controls]):
            raise InputError(
                f"the batch has the features {', '.join(map(repr, own))}, and earlier ones had "
                f"{', '.join(map(repr, known))}."
            )
        order = [own.index(name) for name in known]
        return replace(batch, names=known, cells=tuple(tuple(cell[k] for k in order) for cell in batch.cells))

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
        known = (*self.known, *[max(one.start for one in records)] * len(new))
        sums = last.sums.copy()
        sums[[cells.index(cell) for cell in batch.cells]] += batch.sums
        records.append(Record(last.batch + 1, last.rows + batch.rows, sums, time))
        return History(batch.names, batch.controls, cells, known, tuple(_thinned(records)))

    @cached_property
    def groups(self) -> tuple[Groups, NDArray[np.int32]]:
        """The groups, within strata if there are control features, and the place of each cell."""
        columns = dict(zip(self.names, map(list, zip(*self.cells, strict=True)), strict=True))
        controls = {name: columns.pop(name) for name in self.names[: self.controls]}
        groups, places = Groups.fit(columns, missing="category")
        return stratify(groups, places, controls) if controls else (groups, places)

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


def _thinned(records: list[Record]) -> list[Record]:
    starts = [one.start for one in records if one.start > 0]
    for old in starts[: max(0, len(starts) + 1 - _MOST_STARTS)]:
        place = next(k for k, one in enumerate(records) if one.start == old)
        records[place] = replace(records[place], start=-1)
    while len(records) > _MOST_RECORDS:
        ordinary = [k for k in range(1, len(records) - 1) if records[k].start < 0]
        del records[min(ordinary, key=lambda k: records[k + 1].batch - records[k - 1].batch)]
    return records
