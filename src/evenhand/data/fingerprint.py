"""Fingerprint of the rows that a model was fitted to, by which they are recognised in any file format."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from evenhand.data.columns import is_missing
from evenhand.data.features import LARGEST_EXACT, column_names, has_names
from evenhand.data.row_keys import canonical_floats, value_bytes

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

ANOTHER_ORDER = "these are the rows of the fit in another order: sort them as they were"
_PARTS = ("labels", "groups", "weights", "features")
_LANES = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
"""Odd multipliers, which keep distinct words distinct; one for each half of a digest."""

_NONE = "0" * 32

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Fingerprint:
    """Digests of the rows passed to fit, in their order.

    Numbers are hashed by value, booleans as 0 and 1, anything else by its text, so NumPy, pandas, polars, CSV
    and Parquet agree. Names of columns are ignored. A digest is a sum over the rows, each hashed with its
    number, so that of a table is the sum of those of its batches, whatever these are. It recognises rows and
    is no defence against forgery: `verify` computes everything from the rows themselves.

    Attributes
    ----------
    rows : int
    labels, groups, weights, features : str
        Hexadecimal; `weights` is empty if there are none.
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
        cls, X: Any, positive: NDArray[Any], codes: NDArray[Any], weights: Floats | None, *, first: int = 0
    ) -> Fingerprint:
        """Fingerprint of validated rows; the first has number `first` in the whole table.

        Examples
        --------
        >>> import numpy as np, polars as pl
        >>> y, s = np.array([True, False]), np.array([0, 1])
        >>> matrix = Fingerprint.of(np.array([[1.0], [2.0]]), y, s, None)
        >>> matrix == Fingerprint.of(pl.DataFrame({"x": [1, 2]}), y, s, None)
        True
        >>> halves = [Fingerprint.of(np.array([[k + 1.0]]), y[[k]], s[[k]], None, first=k) for k in (0, 1)]
        >>> matrix == sum_of(halves)
        True
        """
        if not len(positive):  # of a partition without rows
            return cls(0, _NONE, _NONE, "" if weights is None else _NONE, _NONE, "" if issparse(X) else _NONE)
        given = {
            "labels": _hashed([_numbers(positive)]),
            "groups": _hashed(map(_numbers, np.atleast_2d(codes.T))),
            "weights": None if weights is None else _hashed([_numbers(weights)]),
            "features": _sparse_rows(X) if issparse(X) else _hashed(_columns(X), len(positive)),
        }
        numbers = np.arange(first, first + len(positive), dtype=np.uint64)
        digests = {name: "" if words is None else _sum(words, numbers) for name, words in given.items()}
        whole = _hashed([words for words in given.values() if words is not None])
        unordered = "" if issparse(X) else _sum(whole, np.uint64(0))
        return cls(len(positive), unordered=unordered, **digests)

    def __add__(self, other: Fingerprint) -> Fingerprint:
        """Fingerprint of these rows and of others of the same table."""
        parts = (*_PARTS, "unordered")
        return Fingerprint(
            self.rows + other.rows,
            **{name: _added(getattr(self, name), getattr(other, name)) for name in parts},
        )

    def difference(self, other: Fingerprint) -> str | None:
        """How other rows differ from these; None if they are the same."""
        different = "these are not the rows of the fit"
        if self.rows != other.rows:
            return f"{different}: there are {other.rows:,} of them and not {self.rows:,}"
        names = [name for name in _PARTS if getattr(self, name) != getattr(other, name)]
        if names and self.unordered and self.unordered == other.unordered:
            return ANOTHER_ORDER
        return f"{different}: their {' and '.join(names)} differ" if names else None


def sum_of(parts: Iterable[Fingerprint]) -> Fingerprint:
    """Fingerprint of all rows of a table, from those of its batches."""
    return functools.reduce(Fingerprint.__add__, parts)


def _hashed(columns: Iterable[Words], rows: int = 0) -> Words:
    """A hash of each row, from the words of its columns in order."""
    whole = np.zeros(rows, np.uint64)
    for k, words in enumerate(columns):
        whole = words * _LANES[1] if not k else _mixed(whole ^ words)
    return _mixed(whole)


def _mixed(words: Words) -> Words:
    words = words * _LANES[0]
    return words ^ (words >> np.uint64(32))  # mixes the upper bits into the lower ones


def _sum(words: Words, numbers: Any) -> str:
    """Sum over the rows of a hash of word and number, in two halves."""
    keyed = words ^ (numbers * _LANES[1] + np.uint64(1))
    lanes = (_mixed(_mixed(keyed * lane) ^ lane).sum(dtype=np.uint64) for lane in _LANES)
    return "".join(f"{int(lane):016x}" for lane in lanes)


def _added(one: str, other: str) -> str:
    if not (one and other):
        return one if other == _NONE else other if one == _NONE else ""
    halves = ((one[:16], other[:16]), (one[16:], other[16:]))
    return "".join(f"{(int(a, 16) + int(b, 16)) % 2**64:016x}" for a, b in halves)


def _sparse_rows(X: Any) -> Words:
    """A hash of each row of a sparse matrix: of its values that are not 0, each with its column."""
    matrix = X.tocsr(copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    entries = _hashed([matrix.indices.astype(np.uint64), _numbers(matrix.data)])
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    whole = np.zeros(matrix.shape[0], np.uint64)
    np.add.at(whole, rows, entries)
    return whole


def _columns(X: Any) -> Iterable[Words]:
    """The words of each column."""
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
    return canonical_floats(values).view("<u8")
