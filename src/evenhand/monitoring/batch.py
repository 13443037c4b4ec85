"""One batch of decisions as counts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from evenhand.auditing.query import tally_table
from evenhand.auditing.tally import Tally, tally
from evenhand.data.checks import near_columns
from evenhand.exceptions import InputError
from evenhand.groups.names import Key
from evenhand.requirements.rates import Decisions, read_rows

__all__ = ["Batch", "Cell", "is_empty", "read_batch"]

Floats = NDArray[np.float64]
Cell = tuple[Key, Key]
"""The values of the control features, and of the sensitive features."""

_LONG = 1000
"""Rows of a batch that is recognised by its content; short ones may be alike by chance."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Counts of one batch.

    Attributes
    ----------
    controls, features : tuple of str
    cells : tuple of Cell
    sums : array, shape (M, 3, 2)
        Rows and selected rows: of all, of those with label 0 and of those with label 1.
    rows, excluded : int
        Rows that are counted, and rows that lack a sensitive value.
    classes : array or None
        The negative and the positive label, if labels were read.
    digest : str
        Of the content; empty if the batch is not recognised by it.
    """

    controls: tuple[str, ...]
    features: tuple[str, ...]
    cells: tuple[Cell, ...]
    sums: Floats
    rows: int
    excluded: int = 0
    classes: NDArray[Any] | None = None
    digest: str = ""


def is_empty(*given: Any) -> bool:
    """Whether the first table or column that has a length has no rows."""
    sizes = [len(one) for one in given if hasattr(one, "__len__") and not isinstance(one, str)]
    return bool(sizes) and not sizes[0]


def read_batch(
    y_pred: Any,
    sensitive_features: Any,
    *,
    y_true: Any,
    control_features: Any,
    sample_weight: Any,
    data: Any,
    late: bool,
    **policy: Any,
) -> Batch:
    """The counts of a batch; see :meth:`Monitor.update`.

    Parameters
    ----------
    y_pred, sensitive_features, y_true, control_features, sample_weight, data, late
        See :meth:`Monitor.update`.
    **policy
        Further arguments of :func:`evenhand.requirements.rates.read_rows`.

    Returns
    -------
    Batch
    """
    table = None if data is None else nw.from_native(data, pass_through=True)
    if table is not None and sample_weight is None and not isinstance(table, nw.DataFrame):
        counted, _ = tally_table(
            data,
            y_true,
            y_pred,
            sensitive_features,
            control_features=control_features,
            before=None,
            sample_weight=None,
            threshold=None,
            **policy,
        )
        return _late(_batch(counted), late)
    if table is not None:
        table = table.collect() if isinstance(table, nw.LazyFrame) else table
        y_pred, y_true, sample_weight, sensitive_features, control_features = (
            _column(table, names)
            for names in (y_pred, y_true, sample_weight, sensitive_features, control_features)
        )
    decisions = read_rows(
        y_true,
        y_pred,
        sensitive_features,
        control_features=control_features,
        sample_weight=sample_weight,
        **policy,
    )
    largest = 1.0 if decisions.weights is None else float(decisions.weights.max())
    if largest > 1:
        raise InputError(
            f"sample_weight is up to {largest:g}. Evidence is valid for weights from 0 to 1: divide by the "
            "largest weight that any batch can have."
        )
    found = _batch(tally(decisions), largest)
    return replace(_late(found, late), digest=_digest(decisions, found))


def _column(table: nw.DataFrame[Any], names: Any) -> Any:
    """A column of a table, or several by name."""
    if names is None:
        return None
    several = isinstance(names, list | tuple)
    for name in names if several else [names]:
        if name not in table.columns:
            raise InputError(f"data has no column {name!r}. {near_columns(name, table.columns)}")
    return {name: table.get_column(name) for name in names} if several else table.get_column(names)


def _batch(counted: Tally, largest: float = 1.0) -> Batch:
    groups, strata = counted.groups, counted.groups.strata
    keys = [()] if strata is None else strata.keys
    cells = [(stratum, key) for stratum in keys for key in groups.combinations]
    by_label = np.moveaxis(counted.sums[1, :2] * largest, 0, -1)  # (M, labels, rows and selected)
    labelled = by_label if counted.labelled else 0 * by_label
    sums = np.concatenate([by_label.sum(axis=1, keepdims=True), labelled], axis=1)
    there = np.flatnonzero(counted.rows.sum(axis=1))
    return Batch(
        () if strata is None else strata.features,
        groups.features,
        tuple(cells[k] for k in there),
        sums[there],
        int(counted.rows.sum()),
        groups.excluded_rows,
        counted.classes,
    )


def _late(batch: Batch, late: bool) -> Batch:
    """A batch whose rows were counted before, without their labels."""
    if not late:
        return batch
    sums = batch.sums.copy()
    sums[:, 0] = 0
    return replace(batch, sums=sums)


def _digest(decisions: Decisions, batch: Batch) -> str:
    if batch.rows < _LONG:
        return ""
    parts = (decisions.codes, decisions.selection, decisions.positive, decisions.weights)
    found = hashlib.sha256(repr(batch.cells).encode())
    for part in parts:
        found.update(b"-" if part is None else np.ascontiguousarray(part).tobytes())
    return found.hexdigest()
