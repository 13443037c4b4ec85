"""Fingerprint of the rows that a model was fitted to, by which they are recognised in any file format."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from evenhand.inputs.columns import is_missing
from evenhand.inputs.features import LARGEST_EXACT, column_names, has_names
from evenhand.inputs.row_keys import value_bytes

__all__ = ["ANOTHER_ORDER", "Fingerprint", "FingerprintOfBatches", "digest_of", "unordered_digest"]

ANOTHER_ORDER = "these are the rows of the fit in another order: sort them as they were"

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Fingerprint:
    """Digests of the data passed to fit, in the order of the rows.

    Numbers are hashed by value, booleans as 0 and 1, anything else by its text, so NumPy, pandas, polars, CSV
    and Parquet agree. Names of columns are ignored.

    Attributes
    ----------
    rows : int
    labels, groups, weights, features : str
        SHA-256; `weights` is empty if there are none.
    unordered : str
        Digest of all of these, whatever the order of the rows; empty for sparse features.
    """

    rows: int
    labels: str
    groups: str
    weights: str
    features: str
    unordered: str

    @classmethod
    def of(
        cls, X: Any, positive: NDArray[np.bool_], codes: NDArray[Any], weights: NDArray[np.float64] | None
    ) -> Fingerprint:
        """Fingerprint of validated rows.

        Examples
        --------
        >>> import numpy as np, polars as pl
        >>> y, s = np.array([True, False]), np.array([0, 1])
        >>> matrix = Fingerprint.of(np.array([[1.0], [2.0]]), y, s, None)
        >>> matrix == Fingerprint.of(pl.DataFrame({"x": [1, 2]}), y, s, None)
        True
        """
        parts: dict[str, Iterable[Words]] = {
            "labels": [_numbers(positive)],
            "groups": [_numbers(codes)],
            "weights": [] if weights is None else [_numbers(weights)],
            "features": _columns(X),
        }
        whole = None if issparse(X) else np.zeros(len(positive), np.uint64)
        digests = {name: _digest(columns, whole) for name, columns in parts.items()}
        unordered = "" if whole is None else hashlib.sha256(np.sort(whole).tobytes()).hexdigest()
        return cls(len(positive), unordered=unordered, **digests)

    def difference(self, other: Fingerprint) -> str | None:
        """How other rows differ from these; None if they are the same."""
        different = "these are not the rows of the fit"
        if self.rows != other.rows:
            return f"{different}: there are {other.rows:,} of them and not {self.rows:,}"
        parts = ("labels", "groups", "weights", "features")
        names = [name for name in parts if getattr(self, name) != getattr(other, name)]
        if names and self.unordered and self.unordered == other.unordered:
            return ANOTHER_ORDER
        return f"{different}: their {' and '.join(names)} differ" if names else None


class FingerprintOfBatches:
    """Fingerprint of rows that come in batches; the same as of all rows at once, but for their order.

    Examples
    --------
    >>> import numpy as np
    >>> X, y, s = np.arange(6.0).reshape(3, 2), np.array([True, False, True]), np.array([0, 1, 0])
    >>> batches = FingerprintOfBatches()
    >>> for rows in (slice(0, 2), slice(2, 3)):
    ...     batches.add(X[rows], y[rows], s[rows], None)
    >>> batches.whole().features == Fingerprint.of(X, y, s, None).features
    True
    """

    def __init__(self) -> None:
        self._rows = 0
        self._parts: dict[str, list[Any]] = {"labels": [], "groups": [], "weights": [], "features": []}

    def add(
        self, X: Any, positive: NDArray[np.bool_], codes: NDArray[Any], weights: NDArray[np.float64] | None
    ) -> None:
        """Add a batch of validated rows."""
        given: dict[str, Iterable[Words]] = {
            "labels": [_numbers(positive)],
            "groups": [_numbers(codes)],
            "weights": [] if weights is None else [_numbers(weights)],
            "features": _columns(X),
        }
        for name, columns in given.items():
            for k, words in enumerate(columns):
                if k == len(self._parts[name]):
                    self._parts[name].append(hashlib.sha256())
                self._parts[name][k].update(words.tobytes())
        self._rows += len(positive)

    def so_far(self) -> str:
        """Digest of all batches up to here."""
        return _joined(part.digest() for parts in self._parts.values() for part in parts)

    def whole(self) -> Fingerprint:
        """The fingerprint, which tells no other order of the same rows."""
        digests = {
            name: _joined(part.digest() for part in parts) if parts else ""
            for name, parts in self._parts.items()
        }
        return Fingerprint(self._rows, unordered="", **digests)


def _joined(digests: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(digests)).hexdigest()


def unordered_digest(table: Any) -> str:
    """Digest of the rows of a table, whatever the order of rows and columns.

    Examples
    --------
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    >>> unordered_digest(table) == unordered_digest(table.reverse().select("b", "a"))
    True
    """
    frame = nw.from_native(table, eager_only=True)
    whole = np.zeros(len(frame), np.uint64)
    _digest((_column(frame.get_column(name)) for name in sorted(frame.columns)), whole)
    return hashlib.sha256(np.sort(whole).tobytes()).hexdigest()


def digest_of(column: Any) -> str:
    """Digest of one column, by the same rules.

    Examples
    --------
    >>> import polars as pl
    >>> digest_of(pl.Series([1, 0])) == digest_of(pl.Series([True, False]))
    True
    """
    return _digest([_column(nw.from_native(column, series_only=True))])


def _digest(columns: Iterable[Words], whole: Words | None = None) -> str:
    """Digest of columns; they are also mixed into `whole`, which holds a hash of each row."""
    digests = []
    for words in columns:
        digests.append(hashlib.sha256(words.tobytes()).digest())
        if whole is not None:
            whole ^= words
            whole *= np.uint64(0x9E3779B97F4A7C15)  # odd, so distinct words stay distinct
            whole ^= whole >> np.uint64(32)  # mixes the upper bits into the lower ones
    return _joined(digests) if digests else ""


def _columns(X: Any) -> Iterable[Words]:
    """The words of each column; of a sparse matrix, those of its values and their positions."""
    if issparse(X):
        matrix = X.tocsc(copy=True)  # type: ignore[attr-defined]  # all of scipy's have it
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return map(_numbers, (matrix.data, matrix.indices, matrix.indptr))
    if not has_names(X):
        return (_column(X[:, k]) for k in range(X.shape[1]))
    frame = nw.from_native(X, eager_only=True)
    return (_column(frame.get_column(name)) for name in column_names(X))


def _column(column: Any) -> Words:
    """Eight bytes for each value: a number's own, or a hash of its `value_bytes`."""
    series = isinstance(column, nw.Series)
    if series and (column.dtype.is_float() or column.dtype == nw.Boolean or _small(column)):
        return _numbers(column.cast(nw.Float64).to_numpy())
    if not series and (column.dtype.kind in "bf" or _small(column)):
        return _numbers(column)
    values = column.to_list() if series else column.tolist()
    try:
        known = {value: _word(value) for value in set(values)}  # few are distinct
        words = list(map(known.__getitem__, values))
    except (KeyError, TypeError):  # NaN, or values that cannot be hashed
        words = list(map(_word, values))
    return np.frombuffer(b"".join(words), "<u8")


def _word(value: Any) -> bytes:
    written = value_bytes(value)
    return written if len(written) == 8 else hashlib.blake2b(written, digest_size=8).digest()


def _small(column: Any) -> bool:
    """Whether a column holds integers that a float64 holds exactly."""
    whole = column.dtype.is_integer() if isinstance(column, nw.Series) else column.dtype.kind in "iu"
    ends = [end for end in (column.min(), column.max()) if not is_missing(end)] if whole else []
    return bool(whole) and all(abs(int(end)) <= LARGEST_EXACT for end in ends)


def _numbers(values: Any) -> Words:
    array = np.array(values, dtype="<f8") + 0.0  # no negative zeros
    array[np.isnan(array)] = np.nan
    return array.view("<u8")
