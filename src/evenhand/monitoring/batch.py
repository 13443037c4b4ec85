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
from evenhand.data.labels import read_selection
from evenhand.exceptions import InputError
from evenhand.groups.names import Key
from evenhand.requirements.rates import Decisions, read_rows, sum_cells

__all__ = ["BINS", "Batch", "Cell", "is_empty", "read_batch"]

Floats = NDArray[np.float64]
Cell = tuple[Key, Key]
"""The values of the control features, and of the sensitive features."""

BINS: Floats = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99])
"""Where bins of probabilities end; the same whatever the data, or evidence from them would not be valid."""
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
    likely : array, shape (M, 2)
        Sums of the probabilities of a positive label: of all rows and of the selected.
    bins : array
        Rows by their probability; zeros without scores.
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
    likely: Floats
    bins: Floats
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
    scores: Any,
    data: Any,
    late: bool,
    **policy: Any,
) -> Batch:
    """The counts of a batch; see :meth:`Monitor.update`.

    Parameters
    ----------
    y_pred, sensitive_features, y_true, control_features, sample_weight, scores, data, late
        See :meth:`Monitor.update`.
    **policy
        Further arguments of :func:`evenhand.requirements.rates.read_rows`.

    Returns
    -------
    Batch
    """
    table = None if data is None else nw.from_native(data, pass_through=True)
    whole = scores is None and sample_weight is None
    if table is not None and whole and not isinstance(table, nw.DataFrame):
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
        y_pred, y_true, sample_weight, scores, sensitive_features, control_features = (
            _column(table, names)
            for names in (y_pred, y_true, sample_weight, scores, sensitive_features, control_features)
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
    if scores is not None:
        found = _with_scores(found, decisions, scores)
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
        np.zeros((len(there), 2)),
        np.zeros(len(BINS) + 1),
        int(counted.rows.sum()),
        groups.excluded_rows,
        counted.classes,
    )


def _with_scores(batch: Batch, decisions: Decisions, scores: Any) -> Batch:
    p = read_selection(scores, None, what="scores").astype(np.float64)
    if len(p) != len(decisions.codes):
        raise InputError(f"scores has {len(p):,} rows, but y_pred has {len(decisions.codes):,}.")
    weights = decisions.weights
    weighted = p if weights is None else p * weights
    found = sum_cells(
        decisions.codes,
        decisions.n_codes,
        None,
        lambda rows: (weighted[rows], weighted[rows] * decisions.selection[rows], None),
    )[:, : len(decisions.groups), 0]
    there = found[2] > 0
    inside = decisions.codes < len(decisions.groups)
    bins = np.bincount(
        np.searchsorted(BINS, p[inside], side="right"),
        None if weights is None else weights[inside],
        len(BINS) + 1,
    )
    return replace(batch, likely=found[:2, there].T, bins=bins.astype(np.float64))


def _late(batch: Batch, late: bool) -> Batch:
    """A batch whose rows were counted before, without their labels."""
    if not late:
        return batch
    sums = batch.sums.copy()
    sums[:, 0] = 0
    return replace(batch, sums=sums, likely=0 * batch.likely, bins=0 * batch.bins)


def _digest(decisions: Decisions, batch: Batch) -> str:
    if batch.rows < _LONG:
        return ""
    parts = (decisions.codes, decisions.selection, decisions.positive, decisions.weights, batch.bins)
    found = hashlib.sha256(repr(batch.cells).encode())
    for part in parts:
        found.update(b"-" if part is None else np.ascontiguousarray(part).tobytes())
    return found.hexdigest()
