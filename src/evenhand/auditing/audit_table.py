"""Audit of a table of any size, counted where it is.

One or two small queries take the place of reading rows (:mod:`evenhand.inputs.counted_rows`). Their result is
read as rows are, by the same functions, and everything after the sums over cells is that of
:func:`evenhand.audit`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.auditing.audit import NO_SMALL_STRATA, audit_of, check_settings
from evenhand.auditing.result import Audit
from evenhand.auditing.tally import Tally, tally_of_sums
from evenhand.exceptions import GroupError, InputError
from evenhand.fairness.groups import MAX_LEVELS, Missing
from evenhand.fairness.rates import ArgumentNames, Decisions, Selection, read_rows
from evenhand.fairness.requirement import Constraint
from evenhand.fairness.sensitive import refuse_many
from evenhand.inputs.columns import TooManyLevels, check_names, refuse_many_levels
from evenhand.inputs.counted_rows import CountedRows, Roles, TableRows, TooManyCombinations
from evenhand.inputs.labels import MAX_CLASSES, refuse_continuous
from evenhand.inputs.tables import library_of

__all__ = ["audit_table"]

_KINDS_OF_MISSING = 2
"""A column can have two missing values that a query tells apart: null and NaN."""


def audit_table(
    frame: Any,
    *,
    label: str | None,
    prediction: str,
    sensitive_features: str | Sequence[str],
    control_features: str | Sequence[str] | None = None,
    constraint: Constraint | None = None,
    before: str | None = None,
    sample_weight: str | None = None,
    confidence: float = 0.95,
    pos_label: Any = None,
    missing: Missing = "error",
    min_size: int = 0,
    min_count: int = 0,
    threshold: float | Literal["median"] | None = None,
) -> Audit:
    """Audit the decisions in a table that need not fit into memory.

    The result is that of :func:`evenhand.audit` on the same rows. The table is read in one pass, by the
    library that holds it, and only its result is collected: a row of sums for each combination of sensitive
    values, label and decision. Scores and probabilities need a pass before, for their ranges.

    Parameters
    ----------
    frame : table
        Any table, eager or lazy, that narwhals reads: of polars, such as ``pl.scan_parquet("*.parquet")``,
        pandas, pyarrow, DuckDB, Dask or PySpark.
    label : str or None
        Name of the column of labels. None if they are not known; only selection rates are then compared.
    prediction : str
        Name of the column of predicted labels, of probabilities of randomised decisions or, with a
        `threshold`, of scores.
    sensitive_features : str or list of str
        Names of the sensitive columns.
    control_features : str or list of str, default=None
        Names of the columns of control features: groups are then also compared within each stratum. The
        columns of predictions are refused.
    constraint : Constraint, default=None
        The requirement, such as ``DemographicParity(difference=0.05)``. None reports every notion by both
        measures, without a verdict.
    before : str, default=None
        Name of a column of earlier predictions, to report the changes.
    sample_weight : str, default=None
        Name of a column of weights.
    confidence : float, default=0.95
        Of the intervals; strictly between 0 and 1.
    pos_label : object, default=None
        The positive label; None stands for the one that sorts last.
    missing : {"error", "own_group", "exclude"}, default="error"
        How missing sensitive values are treated: refused, as a group, or left out and counted.
    min_size : int, default=0
        Combinations with fewer rows are pooled.
    min_count : int, default=0
        For publication: smaller counts are left out, with everything that would reveal them.
    threshold : float or "median", default=None
        Turns scores of any range into decisions: rows with at least this score are selected, or those above
        the median of all rows, which takes a further pass. Tables of Dask have no exact median.

    Returns
    -------
    Audit

    See Also
    --------
    evenhand.audit : The same for arrays and columns in memory, with more on each parameter.

    Examples
    --------
    >>> import polars as pl
    >>> table = pl.LazyFrame(
    ...     {
    ...         "hired": [0, 1, 1, 1, 0, 1] * 100,
    ...         "decision": [0, 1, 1, 1, 0, 0] * 100,
    ...         "sex": ["F", "F", "F", "M", "M", "M"] * 100,
    ...     }
    ... )
    >>> audit_table(table, label="hired", prediction="decision", sensitive_features="sex")
    <Audit of 600 rows by sex: demographic parity, difference 0.167 [0.124, 0.207]>
    """
    check_settings(constraint, confidence, min_size, min_count, threshold, before=before)
    roles = _read_roles(label, prediction, sensitive_features, before, sample_weight)
    if control_features is not None:
        if min_count:
            raise InputError(NO_SMALL_STRATA)
        roles = replace(roles, controls=_control_names(control_features, prediction, before))
    only_labels = label is None and pos_label is not None
    limit, median = 0.0 if threshold == "median" else threshold, None
    rows = TableRows.find(frame, roles, threshold=limit, only_labels=only_labels)
    numbers = rows.numbers()
    if threshold == "median":
        rows, median = rows.above_median(numbers)
    try:
        counted = rows.count(numbers)
    except TooManyCombinations:
        _check_levels(roles, rows.distinct())
        raise
    decisions = read_rows(
        counted.columns.get("label"),
        counted.columns["prediction"],
        {name: counted.columns[f"sensitive {k}"] for k, name in enumerate(roles.sensitive)},
        control_features={name: counted.columns[f"control {k}"] for k, name in enumerate(roles.controls)}
        or None,
        before=counted.columns.get("before"),
        pos_label=pos_label,
        missing=missing,
        min_size=min_size,
        threshold=limit,
        counts=counted.counts,
        names=ArgumentNames(*map(roles.describe, ("label", "prediction", "before"))),
    )
    return audit_of(
        _tally(decisions, counted),
        constraint=constraint,
        confidence=float(confidence),
        min_count=int(min_count),
        threshold=limit if median is None else median,
        above_median=median is not None,
        library=library_of(frame),
    )


def _read_roles(
    label: Any, prediction: Any, sensitive_features: Any, before: Any, sample_weight: Any
) -> Roles:
    features = _feature_names(sensitive_features, "sensitive_features")
    _check_name("prediction", prediction)
    for what, name in (("label", label), ("before", before), ("sample_weight", sample_weight)):
        if name is not None:
            _check_name(what, name)
    return Roles(label, prediction, features, before, sample_weight)


def _control_names(names: Any, prediction: str, before: str | None) -> tuple[str, ...]:
    """Names of the control features; decisions are none, as those with the same one cannot differ in it."""
    controls = _feature_names(names, "control_features")
    for what, name in (("predictions", prediction), ("earlier predictions", before)):
        if name in controls:
            raise InputError(
                f"control_features has {name!r}, which is the column of {what}: decisions are compared "
                "between groups, not among people who had the same one. Leave it out."
            )
    return controls


def _feature_names(names: Any, what: str) -> tuple[str, ...]:
    features = tuple(names) if isinstance(names, list | tuple) else (names,)
    if not features:
        raise GroupError(f"{what} has no columns.")
    for name in features:
        _check_name(what, name)
    check_names(features, what)
    return features


def _check_name(what: str, name: Any) -> None:
    if not isinstance(name, str | int):
        raise InputError(
            f"{what} should be the name of a column of frame, but is of type {type(name).__name__}. "
            "evenhand.audit takes the columns themselves."
        )


def _check_levels(roles: Roles, distinct: Mapping[str, int]) -> None:
    """Refuse a column with too many distinct values."""
    for role, found in distinct.items():
        if role.startswith("control"):
            continue
        sensitive = role.startswith("sensitive")
        limit = MAX_LEVELS if sensitive else MAX_CLASSES
        try:
            refuse_many_levels(found - _KINDS_OF_MISSING, roles.describe(role), limit)
        except TooManyLevels as error:
            if sensitive:
                refuse_many(error)
            if role == "label":
                refuse_continuous(error)
            raise


def _tally(decisions: Decisions, counted: CountedRows) -> Tally:
    """The sums over cells, from sums over combinations."""
    totals = counted.totals
    now = _selected(decisions.selection, counted, "prediction")
    parts = [totals, now]
    if decisions.before is not None:
        earlier = _selected(decisions.before, counted, "before")
        parts += [earlier, _rise(decisions.selection, decisions.before, counted, now, earlier)]
    columns = np.stack(parts, axis=1).reshape(-1, len(counted.counts))
    return tally_of_sums(decisions, lambda rows: list(columns[:, rows]), weighted=len(totals) > 1)


def _selected(selection: Selection, counted: CountedRows, role: str) -> NDArray[np.float64]:
    """Selected rows, as many sums as `totals` has; rows of a combination share a decision that is a label."""
    return counted.totals * selection if selection.dtype == np.bool_ else counted.sums[role]


def _rise(
    selection: Selection,
    before: Selection,
    counted: CountedRows,
    now: NDArray[np.float64],
    earlier: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Newly selected rows: the sums of max(0, selection - before)."""
    if before.dtype == np.bool_:
        return np.where(before, 0.0, now)
    if selection.dtype == np.bool_:
        return (counted.totals - earlier) * selection
    return counted.sums["rise"]
