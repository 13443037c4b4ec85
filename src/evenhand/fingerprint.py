"""Which rows a model was fitted to, so that they are known again: from a file of another kind, say."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from evenhand.columns import is_missing
from evenhand.features import LARGEST, column_names, has_names, value_bytes

__all__ = ["Fingerprint", "digest_of"]


@dataclass(frozen=True)
class Fingerprint:
    """Digests of what fit was given, in the order of the rows.

    Numbers count by their value, booleans as 0 and 1, and all else by its text, so that NumPy, pandas,
    polars, CSV and Parquet give the same. Names of columns do not count.

    Attributes
    ----------
    rows : int
    labels, groups, weights, features : str
        SHA-256; `weights` is empty where there are none.
    """

    rows: int
    labels: str
    groups: str
    weights: str
    features: str

    @classmethod
    def of(
        cls, X: Any, positive: NDArray[np.bool_], codes: NDArray[Any], weights: NDArray[np.float64] | None
    ) -> Fingerprint:
        """Take the fingerprint of rows that are read and checked.

        Examples
        --------
        >>> import numpy as np, polars as pl
        >>> y, s = np.array([True, False]), np.array([0, 1])
        >>> matrix = Fingerprint.of(np.array([[1.0], [2.0]]), y, s, None)
        >>> matrix == Fingerprint.of(pl.DataFrame({"x": [1, 2]}), y, s, None)
        True
        """
        return cls(
            len(positive),
            _digest([_numbers(positive)]),
            _digest([_numbers(codes)]),
            "" if weights is None else _digest([_numbers(weights)]),
            _digest(_columns(X)),
        )

    def difference(self, other: Fingerprint) -> str | None:
        """Say in what other rows differ from these, or None."""
        if self.rows != other.rows:
            return f"there are {other.rows:,} of them and not {self.rows:,}"
        parts = ("labels", "groups", "weights", "features")
        names = [name for name in parts if getattr(self, name) != getattr(other, name)]
        return f"their {' and '.join(names)} are others" if names else None


def digest_of(column: Any) -> str:
    """Give the digest of one column, by the same rules.

    Examples
    --------
    >>> import polars as pl
    >>> digest_of(pl.Series([1, 0])) == digest_of(pl.Series([True, False]))
    True
    """
    return _digest([_column(nw.from_native(column, series_only=True))])


def _digest(parts: Iterable[bytes]) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(hashlib.sha256(part).digest())
    return whole.hexdigest()


def _columns(X: Any) -> Iterable[bytes]:
    """Give the bytes of each column; those of a sparse matrix are where it is not 0, and what is there."""
    if issparse(X):
        matrix = X.tocsc(copy=True)  # type: ignore[attr-defined]  # all of scipy's have it
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return map(_numbers, (matrix.data, matrix.indices, matrix.indptr))
    if not has_names(X):
        return (_column(X[:, k]) for k in range(X.shape[1]))
    frame = nw.from_native(X, eager_only=True)
    return (_column(frame.get_column(name)) for name in column_names(X))


def _column(column: Any) -> bytes:
    """Write a column as `value_bytes` writes its values, but quickly."""
    series = isinstance(column, nw.Series)
    if series and (column.dtype.is_float() or column.dtype == nw.Boolean or _small(column)):
        return _numbers(column.cast(nw.Float64).to_numpy())
    if not series and (column.dtype.kind in "bf" or _small(column)):
        return _numbers(column)
    values = column.to_list() if series else column.tolist()
    try:
        known = {value: value_bytes(value) for value in set(values)}  # few are distinct
        return b"".join(map(known.__getitem__, values))
    except (KeyError, TypeError):  # what equals nothing, or cannot be hashed
        return b"".join(map(value_bytes, values))


def _small(column: Any) -> bool:
    """Say whether a column holds whole numbers that floats hold exactly."""
    whole = column.dtype.is_integer() if isinstance(column, nw.Series) else column.dtype.kind in "iu"
    ends = [end for end in (column.min(), column.max()) if not is_missing(end)] if whole else []
    return bool(whole) and all(abs(int(end)) <= LARGEST for end in ends)


def _numbers(values: Any) -> bytes:
    array = np.array(values, dtype="<f8") + 0.0  # no negative zeros
    array[np.isnan(array)] = np.nan
    return array.tobytes()
