"""Columns of any table or array, and the distinct values in them.

All user data is read here: NumPy arrays, lists, and the columns of pandas, polars and pyarrow tables through
narwhals. Nothing is converted to pandas on the way, columns are copied only where they must be, and long
columns are read in blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray

from evenhand.exceptions import InputError

Level = Any
"""A value of a label or of a sensitive feature: any hashable object; None is missing."""

BLOCK_ROWS = 1 << 17
"""Rows read at a time, few enough for a block's temporary arrays to stay in the processor's cache."""


class TooManyLevels(InputError):  # noqa: N818  (the message is what users see)
    """A column has more distinct values than allowed."""


def named_columns(values: Any, *, what: str, default_name: str) -> dict[str, Any]:
    """Split a table, a mapping, a 2-D array or a single column into named columns.

    Parameters
    ----------
    values : table, mapping of names to columns, array or sequence
        A 1-D input is a single column.
    what : str
        The argument's name, for messages.
    default_name : str
        The name of a single column that has none; several are called ``name_0``, ``name_1``, ...

    Returns
    -------
    dict
        Columns by name, in order. Columns of a table are narwhals series, others 1-D arrays.

    Examples
    --------
    >>> import numpy as np
    >>> named_columns(np.array([["a", "x"], ["b", "y"]]), what="groups", default_name="feature").keys()
    dict_keys(['feature_0', 'feature_1'])
    """
    if isinstance(values, Mapping):
        check_names(list(values), what)
        return {str(name): as_column(column, what=f"{what}[{name!r}]") for name, column in values.items()}
    native = _from_native(values, what)
    if isinstance(native, nw.DataFrame):
        check_names(native.columns, what)
        return {str(name): native.get_column(name) for name in native.columns}
    if isinstance(native, nw.Series):
        return {default_name if native.name in (None, "") else str(native.name): native}
    array = _as_array(values, what)
    if array.ndim == 2:
        return {f"{default_name}_{k}": array[:, k] for k in range(array.shape[1])}
    return {default_name: array}


def as_column(values: Any, *, what: str) -> nw.Series[Any] | NDArray[Any]:
    """Read one column, as a narwhals series if it comes from a table library, else as a 1-D array."""
    native = _from_native(values, what)
    if isinstance(native, nw.DataFrame):
        if len(native.columns) != 1:
            raise InputError(f"{what} must be one column, got {len(native.columns)}.")
        return native.get_column(native.columns[0])
    if isinstance(native, nw.Series):
        return native
    array = _as_array(values, what)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError(f"{what} must be one column, got shape {array.shape}.")
    return array


def as_table(values: Any, *, what: str) -> nw.DataFrame[Any] | nw.LazyFrame[Any]:
    """Read a table of any library that narwhals knows, eager or lazy.

    Examples
    --------
    >>> import polars as pl
    >>> as_table(pl.LazyFrame({"a": [1]}), what="frame").collect_schema().names()
    ['a']
    """
    native = _from_native(values, what, lazy=True)
    if not isinstance(native, nw.DataFrame | nw.LazyFrame):
        raise InputError(f"{what} must be a table, got {type(values).__name__}.")
    return native


def _from_native(values: Any, what: str, *, lazy: bool = False) -> Any:
    """Wrap what narwhals knows; return everything else unchanged."""
    try:
        native = nw.from_native(values, pass_through=True, allow_series=True)
    except DuplicateError:
        check_names(list(getattr(values, "column_names", None) or values.columns), what)
        raise
    if isinstance(native, nw.LazyFrame) and not lazy:
        raise InputError(f"{what} is a lazy table; call .collect() on it first.")
    return native


def check_names(names: Sequence[Any], what: str) -> None:
    """Raise an InputError if names of columns are nested or occur twice."""
    nested = [name for name in names if isinstance(name, tuple)]
    if nested:
        raise InputError(
            f"{what} has columns with several levels of names, such as {nested[0]!r}. Flatten them."
        )
    written = [str(name) for name in names]
    twice = sorted({name for name in written if written.count(name) > 1})
    if twice:
        raise InputError(f"{what} has columns of the same name: {', '.join(twice)}. Rename them.")


def _as_array(values: Any, what: str) -> NDArray[Any]:
    if isinstance(values, np.ma.MaskedArray):
        hidden = int(np.sum(np.ma.getmaskarray(values)))
        if hidden:
            raise InputError(f"{what} has {hidden:,} masked values. Fill them in or drop them.")
        array: NDArray[Any] = values.data
    elif isinstance(values, np.ndarray):
        array = values
    elif isinstance(values, Sequence) and not isinstance(values, str | bytes):
        # Without dtype=object, NumPy would make 1 and "1" the same string.
        array = np.array(values, dtype=object)
    elif hasattr(values, "__array__"):
        array = np.asarray(values)
    else:
        raise InputError(f"{what} must be a column, an array or a table, got {type(values).__name__}.")
    if array.ndim not in (1, 2):
        raise InputError(f"{what} must have one or two dimensions, got shape {array.shape}.")
    return array


def blocks(n: int) -> Iterator[slice]:
    """Cut `n` rows into slices of at most `BLOCK_ROWS`."""
    return (slice(start, start + BLOCK_ROWS) for start in range(0, n, BLOCK_ROWS))


def count_rows(marked: NDArray[np.bool_], counts: NDArray[np.int64] | None) -> tuple[int, int]:
    """The number of marked rows and of all rows, where each entry stands for one row or for `counts`.

    Examples
    --------
    >>> import numpy as np
    >>> count_rows(np.array([True, False]), np.array([3, 4]))
    (3, 7)
    """
    if counts is None:
        return int(np.count_nonzero(marked)), len(marked)
    return int(counts[marked].sum()), int(counts.sum())


def factorize(column: Any, *, what: str, limit: int = 1000) -> tuple[tuple[Level, ...], NDArray[np.int32]]:
    """The distinct values of a column, and each row's position among them.

    Parameters
    ----------
    column : array, sequence or series
        Any hashable values.
    what : str
        The column's name, for messages.
    limit : int, default=1000
        More distinct values than this raise an error.

    Returns
    -------
    levels : tuple
        The distinct values as plain Python objects, sorted, without missing ones.
    codes : array of int32
        Position of each row's value in `levels`; -1 where it is missing (None, NaN, NaT, pandas' NA).

    Examples
    --------
    >>> factorize(["b", "a", None, "b"], what="x")
    (('a', 'b'), array([ 1,  0, -1,  1], dtype=int32))
    """
    column = as_column(column, what=what)
    if isinstance(column, nw.Series) and column.dtype.is_numeric() and not column.null_count():
        column = column.to_numpy()
    if not isinstance(column, nw.Series):
        return _sorted_levels(*_factorize_array(column, what, limit))
    try:
        if column.implementation.is_pandas_like():
            return _sorted_levels(*_factorize_pandas(column, what, limit))
        return _sorted_levels(*_factorize_series(column, what, limit))
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"{what} has values of type {column.dtype}, which cannot be grouped: {error}"
        ) from error


def _factorize_pandas(column: nw.Series[Any], what: str, limit: int) -> tuple[list[Level], NDArray[np.int32]]:
    codes, found = column.to_native().factorize()  # pandas' own hash table
    _refuse_many_levels(len(found), what, limit)
    return found.tolist(), codes.astype(np.int32)


def _factorize_series(column: nw.Series[Any], what: str, limit: int) -> tuple[list[Level], NDArray[np.int32]]:
    found = [value for value in column.unique().to_list() if not is_missing(value)]
    _refuse_many_levels(len(found), what, limit)
    if not found:
        return [], np.full(len(column), -1, np.int32)
    hash(found[0])
    try:
        codes = column.replace_strict(found, list(range(len(found))), default=-1, return_dtype=nw.Int32)
    except Exception:  # such as of views of strings, as pyarrow takes them over from polars
        return _factorize_array(object_column(column.to_list()), what, limit)
    return found, codes.to_numpy()


def _factorize_array(column: NDArray[Any], what: str, limit: int) -> tuple[list[Level], NDArray[np.int32]]:
    known: dict[Level, int] = {}
    codes = np.empty(len(column), np.int32)

    def code(value: Level) -> int:
        plain = value.item() if isinstance(value, np.generic) else value
        return -1 if is_missing(plain) else known.setdefault(plain, len(known))

    for rows in blocks(len(column)):
        block = column[rows]
        if block.dtype.kind in "mM":
            block = block.astype(f"{block.dtype.kind}8[us]")  # the finest resolution of Python's datetime
        if block.dtype.kind in "biufmM":
            values, inverse = np.unique(block, return_inverse=True)
            codes[rows] = np.array([code(value) for value in values.tolist()], np.int32)[inverse]
        else:
            values = block.tolist()
            try:
                local = {value: code(value) for value in set(values)}
            except TypeError:
                raise InputError(f"{what} holds values that cannot be grouped, such as lists.") from None
            codes[rows] = [local[value] for value in values]
        _refuse_many_levels(len(known), what, limit)
    return list(known), codes


def _refuse_many_levels(found: int, what: str, limit: int) -> None:
    """Raise `TooManyLevels` if a column has more distinct values than allowed."""
    if found > limit:
        raise TooManyLevels(f"{what} has more than {limit:,} distinct values.")


def is_missing(value: Level) -> bool:
    """Whether a value is None, NaN, NaT or pandas' NA."""
    if value is None:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124  (only NaN and NaT differ from themselves)
    except (TypeError, ValueError):
        return type(value).__name__ == "NAType"


def level_order(values: Sequence[Level]) -> list[int]:
    """The positions of values in sorted order; values of several types are sorted by type, then by repr.

    Examples
    --------
    >>> level_order(["b", 2, "a"])
    [1, 2, 0]
    """
    try:
        return sorted(range(len(values)), key=values.__getitem__)
    except TypeError:
        return sorted(range(len(values)), key=lambda k: (type(values[k]).__name__, repr(values[k])))


def _sorted_levels(
    found: list[Level], codes: NDArray[np.int32]
) -> tuple[tuple[Level, ...], NDArray[np.int32]]:
    order = level_order(found)
    if order == list(range(len(found))):
        return tuple(found), codes
    rank = np.empty(len(found) + 1, np.int32)
    rank[order] = np.arange(len(found))
    rank[-1] = -1  # the code -1 of a missing value picks the last entry
    return tuple(found[k] for k in order), rank[codes]


def object_column(values: Sequence[Any]) -> NDArray[Any]:
    """Values as a column of objects, which keeps 1 and "1" apart.

    Examples
    --------
    >>> object_column([1, "1"])
    array([1, '1'], dtype=object)
    """
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column
