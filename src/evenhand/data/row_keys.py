"""Rows as bytes: the hash keys of randomised decisions, and the basis of fingerprints."""

from __future__ import annotations

import struct
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from evenhand.data.checks import check_rows
from evenhand.data.columns import as_column, is_missing, object_column
from evenhand.data.features import LARGEST_EXACT, column_names, dense, has_names, take_rows
from evenhand.exceptions import InputError

_MISSING = struct.pack("<d", float("nan"))


def id_column(ids: Any, n_rows: int) -> NDArray[Any]:
    """Identifiers of the rows, as a matrix of one column."""
    column = as_column(ids, what="ids")
    check_rows({"ids": column}, expected=n_rows)
    values = column.to_list() if isinstance(column, nw.Series) else column.tolist()
    missing = sum(map(is_missing, values))
    if missing:
        raise InputError(f"ids are missing in {missing:,} of {n_rows:,} rows. Every row needs one.")
    return object_column(values)[:, None]


def row_keys(X: Any, rows: NDArray[np.intp]) -> list[bytes]:
    """Some rows of X as bytes, by which they are recognised later.

    Equal values give equal bytes in every table library, whether they are integers, booleans or floats.

    Examples
    --------
    >>> import numpy as np
    >>> row_keys(np.array([[1, 2]]), np.array([0])) == row_keys([[True, 2.0]], np.array([0]))
    True
    """
    part: Any = take_rows(np.asarray(X, dtype=object) if isinstance(X, list) else X, rows)
    if has_names(part):
        values = [
            nw.from_native(part, eager_only=True).get_column(name).to_list() for name in column_names(part)
        ]
        return [b"".join(map(value_bytes, row)) for row in zip(*values, strict=True)]
    part = dense(part)
    if part.dtype.kind == "M":
        part = part.astype("M8[us]")  # the finest resolution of Python's datetime
    exact = part.dtype.kind in "bf" or (part.dtype.kind in "iu" and np.all(abs(part) <= LARGEST_EXACT))
    if exact:
        return [row.tobytes() for row in canonical_floats(part)]
    return [b"".join(map(value_bytes, row)) for row in part.tolist()]


def canonical_floats(values: Any) -> NDArray[np.float64]:
    """Numbers as contiguous float64, without negative zeros and with NaN of one bit pattern."""
    array = np.ascontiguousarray(values, dtype="<f8") + 0.0
    array[np.isnan(array)] = np.nan
    return array


def value_bytes(value: Any) -> bytes:
    """One value as bytes: a number by its value, anything else by its text."""
    if isinstance(value, int | np.integer) and not -LARGEST_EXACT <= value <= LARGEST_EXACT:
        text = str(int(value)).encode()
        return b"i" + struct.pack("<q", len(text)) + text
    if isinstance(value, bool | int | float | np.number | np.bool_):
        number = float(value) + 0.0
        return _MISSING if number != number else struct.pack("<d", number)  # noqa: PLR0124
    if is_missing(value):
        return _MISSING
    text = str(value).encode(errors="surrogatepass")
    return b"s" + struct.pack("<q", len(text)) + text
