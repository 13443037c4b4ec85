"""The sums over cells of a table of any size, counted where it is.

One or two small queries take the place of reading rows (:mod:`evenhand.data.counted_rows`). Their result is
read as rows are, by the same functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.auditing.tally import Tally, tally_of_sums
from evenhand.data.checks import near_names
from evenhand.data.columns import as_table, check_names
from evenhand.data.counted_rows import CountedRows, Roles, TableRows
from evenhand.exceptions import GroupError, InputError
from evenhand.requirements.rates import ArgumentNames, Decisions, Selection, read_rows


def tally_table(
    data: Any,
    columns: Mapping[str, Any],
    sensitive_features: Any,
    *,
    control_features: Any,
    pos_label: Any,
    threshold: float | Literal["median"] | None,
    **policy: Any,
) -> tuple[Tally, float | None]:
    """The sums over cells of a table, and the median of its scores if that is the threshold.

    Parameters
    ----------
    data : table
        Eager or lazy.
    columns : mapping
        Names of its columns of ``y_true``, ``y_pred``, ``before`` and ``sample_weight``, or None.
    sensitive_features, control_features
        Names of its columns.
    pos_label, threshold, **policy
        See :func:`evenhand.audit`.

    Returns
    -------
    counted : Tally
    median : float or None
    """
    roles = _read_roles(columns, sensitive_features, control_features)
    only_labels = columns["y_true"] is None and pos_label is not None
    limit, median = 0.0 if threshold == "median" else threshold, None
    rows = TableRows.find(data, roles, threshold=limit, only_labels=only_labels)
    numbers = rows.numbers()
    if threshold == "median":
        rows, median = rows.above_median(numbers)
    counted = rows.count(numbers)
    decisions = read_rows(
        counted.columns.get("label"),
        counted.columns["prediction"],
        {name: counted.columns[f"sensitive {k}"] for k, name in enumerate(roles.sensitive)},
        control_features={name: counted.columns[f"control {k}"] for k, name in enumerate(roles.controls)}
        or None,
        before=counted.columns.get("before"),
        pos_label=pos_label,
        threshold=limit,
        counts=counted.counts,
        names=ArgumentNames(*map(roles.describe, ("label", "prediction", "before"))),
        **policy,
    )
    return _tally(decisions, counted), median


def read_columns(data: Any, columns: Mapping[str, Any], sensitive_features: Any) -> dict[str, Any]:
    """Columns of an eager or lazy table, read into memory by their names.

    Parameters
    ----------
    data : table
    columns : mapping
        Names of columns by the argument that they are; None is left out.
    sensitive_features : str or sequence of str

    Returns
    -------
    dict
        Columns by argument; "sensitive_features" is a dict of them.

    Examples
    --------
    >>> import polars as pl
    >>> table = pl.LazyFrame({"score": [0.5, 0.7], "sex": ["F", "M"]})
    >>> found = read_columns(table, {"scores": "score", "y_true": None}, "sex")
    >>> {name: len(column) for name, column in found.items()}
    {'scores': 2, 'sensitive_features': 1}
    """
    features = _feature_names(sensitive_features, "sensitive_features")
    given = {what: name for what, name in columns.items() if name is not None}
    for what, name in given.items():
        _check_name(what, name)
    table = as_table(data, what="data")
    names = table.collect_schema().names()
    used = dict.fromkeys([*given.values(), *features])
    for name in used:
        if name not in names:
            raise InputError(f"data has no column {name!r}. {near_names(name, names, 'It has')}")
    chosen = table.select(*used).lazy().collect()
    found: dict[str, Any] = {what: chosen.get_column(name).to_native() for what, name in given.items()}
    return found | {"sensitive_features": {name: chosen.get_column(name).to_native() for name in features}}


def _read_roles(columns: Mapping[str, Any], sensitive_features: Any, control_features: Any) -> Roles:
    features = _feature_names(sensitive_features, "sensitive_features")
    for what, name in columns.items():
        if name is not None or what == "y_pred":
            _check_name(what, name)
    controls = () if control_features is None else _feature_names(control_features, "control_features")
    for what, name in (("predictions", columns["y_pred"]), ("earlier predictions", columns["before"])):
        if name in controls:
            raise InputError(
                f"control_features has {name!r}, which is the column of {what}: decisions are compared "
                "between groups, not among people who had the same one. Leave it out."
            )
    label, prediction, before, weight = columns.values()
    return Roles(label, prediction, features, before, weight, controls)


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
            f"{what} must be the name of a column of data, got {type(name).__name__}. "
            "Without data=, pass the columns themselves."
        )


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
