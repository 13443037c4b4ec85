"""Checks of parameters and of columns that belong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from numbers import Integral, Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from evenhand.exceptions import InputError

_NEAR = 0.6
"""Similarity above which a name may have been meant; difflib's own limit."""


def check_count(name: str, value: Any, least: int = 0) -> None:
    """Raise an InputError unless a parameter is an integer, of at least 0 or 1.

    Examples
    --------
    >>> check_count("min_size", 0)
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        kind = "a positive integer" if least else "a non-negative integer"
        raise InputError(f"{name} must be {kind}, got {value!r}.")


def check_number(name: str, value: Any, low: float = 0, high: float = 1) -> None:
    """Raise an InputError unless a parameter is a number from `low` to `high`.

    Examples
    --------
    >>> check_number("ratio", 0.8)
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= float(value) <= high:
        raise InputError(f"{name} must be a number from {low} to {high}, got {value!r}.")


def check_choice(name: str, value: Any, allowed: Sequence[str | None]) -> None:
    """Raise an InputError unless a parameter has one of its allowed values.

    Examples
    --------
    >>> check_choice("missing", "error", ("error", "category"))
    """
    if not (value is None or isinstance(value, str)) or value not in allowed:
        raise InputError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}.")


def check_fraction(name: str, value: Any) -> None:
    """Raise an InputError unless a parameter is strictly between 0 and 1.

    Examples
    --------
    >>> check_fraction("confidence", 0.95)
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < 1:
        raise InputError(f"{name} must be strictly between 0 and 1, got {value!r}.")


def near_columns(name: Any, columns: Sequence[Any]) -> str:
    """A sentence with the names of columns that may have been meant, the nearest first.

    Examples
    --------
    >>> near_columns("Sexx", ["age", "sex"])
    "Did you mean 'sex'?"
    >>> near_columns("income", ["sex", "age", "pincp"])
    "It has 'pincp', 'sex', 'age'."
    """
    return near_names(name, columns, "It has")


def near_names(name: Any, known: Sequence[Any], otherwise: str) -> str:
    """A sentence with the names that may have been meant, or `otherwise` and what there is.

    Examples
    --------
    >>> near_names("recal", ["recall", "precision"], "The rates are")
    "Did you mean 'recall'?"
    """
    wanted = str(name).lower()
    likeness = {one: SequenceMatcher(None, str(one).lower(), wanted).ratio() for one in known}
    nearest = sorted(likeness, key=likeness.__getitem__, reverse=True)[:8]
    meant = [one for one in nearest[:3] if likeness[one] >= _NEAR]
    if meant:
        return f"Did you mean {' or '.join(map(repr, meant))}?"
    more = len(likeness) - len(nearest)
    return f"{otherwise} {', '.join(map(repr, nearest))}{f' and {more:,} more' if more else ''}."


def check_rows(columns: Mapping[str, Any], *, expected: int | None = None) -> int:
    """Check that all columns have the same number of rows, at least one, and the same pandas index.

    Parameters
    ----------
    columns : mapping
        Arrays, series, tables or mappings of columns by argument name; None is skipped.
    expected : int, default=None
        The number of rows, where it is known already.

    Returns
    -------
    int
        The number of rows.

    Examples
    --------
    >>> check_rows({"X": [[1], [2]], "y": [0, 1]})
    2
    """
    given: dict[str, Any] = {}
    for name, column in columns.items():
        if isinstance(column, Mapping):
            given |= {f"{name}[{key!r}]": values for key, values in column.items()}
        elif column is not None:
            given[name] = column
    lengths = {name: _length(column, name) for name, column in given.items()}
    counts = set(lengths.values()) | ({expected} if expected is not None else set())
    if len(counts) != 1:
        listed = ", ".join(f"{name} has {count:,}" for name, count in lengths.items())
        suffix = f" where {expected:,} were expected" if expected is not None else ""
        raise InputError(f"the inputs differ in their number of rows: {listed}{suffix}.")
    (n,) = counts
    if n == 0:
        raise InputError(f"no rows: {', '.join(lengths)} {'is' if len(lengths) == 1 else 'are'} empty.")
    indexed = {name: index for name, column in given.items() if (index := _pandas_index(column)) is not None}
    first = next(iter(indexed), "")
    for name, index in indexed.items():
        if not index.equals(indexed[first]):
            raise InputError(
                f"{first} and {name} have different pandas indexes. Rows are matched by position, never by "
                "index: call .reset_index(drop=True) on both once they are in the same order."
            )
    return n


def _length(column: Any, what: str) -> int:
    shape = getattr(column, "shape", None)
    if shape:
        return int(shape[0])
    if shape is None and hasattr(column, "__array__"):
        return _length(np.asarray(column), what)
    if isinstance(column, str | bytes) or not hasattr(column, "__len__") or shape == ():
        raise InputError(f"{what} must be a column, an array or a table, got {type(column).__name__}.")
    return len(column)


def _pandas_index(column: Any) -> Any:
    native = nw.from_native(column, pass_through=True, allow_series=True)
    return nw.maybe_get_index(native) if isinstance(native, nw.DataFrame | nw.Series) else None
