"""The features X: validated, and rows and columns of them taken, dropped and added.

A table stays in its library (pandas, polars, pyarrow), a sparse matrix stays sparse, and everything else
becomes a NumPy array.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack, issparse
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import validate_data

from evenhand.data.checks import near_columns
from evenhand.data.columns import named_columns
from evenhand.exceptions import EvenhandError, GroupError, InputError, reason

Columns = str | int | Sequence[str] | Sequence[int] | Callable[[Any], Any]
"""Where the sensitive features are in X: names, positions, or a function of X that returns them."""

_SHORT = (np.float16, np.float32)
LARGEST_EXACT = 2**53
"""Up to here a float64 holds every integer exactly."""


def read_features(estimator: Any, X: Any, *, reset: bool, accept_sparse: bool = True) -> Any:
    """Validate X for an estimator: its shape, and that its columns are those of fit.

    Parameters
    ----------
    estimator : object
        Its ``n_features_in_`` and ``feature_names_in_`` are set or compared.
    X : table, array, sparse matrix or list of rows
    reset : bool
        True in fit, where the number and the names of columns are recorded.
    accept_sparse : bool, default=True

    Returns
    -------
    table, array or sparse matrix
    """
    if nw.dependencies.is_into_dataframe(X) or hasattr(X, "collect"):
        named_columns(X, what="X", default_name="x")  # rejects lazy tables and duplicate names
        if len(X) == 0:
            raise InputError("X has no rows.")
        if not column_names(X):
            raise InputError("X has no columns.")
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return _widened_table(X)
    if isinstance(X, np.ma.MaskedArray) and np.ma.getmaskarray(X).any():
        hidden = int(np.ma.getmaskarray(X).sum())
        raise InputError(f"X has {hidden:,} masked values. Fill them in or drop them.")
    if isinstance(X, list):
        array = np.asarray(X)
        X = np.array(X, dtype=object) if array.dtype.kind in "US" else array
    sparse_kind = "csr" if accept_sparse else False
    found = validate_data(
        estimator, X, reset=reset, dtype=None, accept_sparse=sparse_kind, ensure_all_finite=False
    )
    return found.astype(np.float64) if found.dtype in _SHORT else found


def _widened_table(X: Any) -> Any:
    """The table with float32 columns as float64.

    In single precision, the scores of a row differ by 1e-7 with the number of rows in a batch, which can
    change its decision at a tie.
    """
    frame = _frame(X)
    short = [name for name, kind in frame.schema.items() if kind == nw.Float32]
    if not short:
        return X
    return frame.with_columns(*(frame.get_column(name).cast(nw.Float64) for name in short)).to_native()


def known_names(estimator: Any) -> Sequence[str]:
    """The names of the columns that an estimator was fitted to; an InputError if there are none."""
    known: Sequence[str] = getattr(estimator, "feature_names_in_", ())
    if not len(known):
        raise InputError("this model was fitted to columns without names: pass X as an array.")
    return known


def has_names(X: Any) -> bool:
    """Whether X is a table, whose columns have names."""
    return bool(nw.dependencies.is_into_dataframe(X))


def column_names(X: Any) -> list[Any]:
    """The names of a table's columns, or the positions of a matrix's."""
    return _frame(X).columns if has_names(X) else list(range(X.shape[1]))


def as_matrix(X: Any) -> Any:
    """A table as an array; a matrix, sparse or not, as it is."""
    return _frame(X).to_numpy() if has_names(X) else X


def take_rows(X: Any, rows: NDArray[Any]) -> Any:
    """Some rows of X, in its own library.

    Examples
    --------
    >>> import numpy as np
    >>> take_rows(np.array([[1], [2], [3]]), np.array([2, 0]))
    array([[3],
           [1]])
    """
    if not has_names(X):
        return X[rows]
    if hasattr(X, "iloc"):
        return X.iloc[rows]  # keeps pandas' own types and index
    return _frame(X)[rows, :].to_native()


def concat_rows(parts: Sequence[Any]) -> Any:
    """Tables, matrices or columns of one kind below one another; rows of pandas are numbered anew.

    Examples
    --------
    >>> import numpy as np
    >>> concat_rows([np.array([1]), np.array([2, 3])])
    array([1, 2, 3])
    """
    if all(has_names(part) for part in parts):
        joined: nw.DataFrame[Any] = nw.concat([_frame(part) for part in parts])
        return nw.maybe_reset_index(joined).to_native()
    if all(isinstance(part, nw.Series) for part in parts):
        frames = [part.alias("column").to_frame() for part in parts]
        return nw.maybe_reset_index(nw.concat(frames)).get_column("column").to_native()
    return np.concatenate(parts)


def finite_rows(table: Any) -> NDArray[np.bool_]:
    """Which rows of a table or matrix have no value that is missing, NaN or infinite.

    Examples
    --------
    >>> import polars as pl
    >>> finite_rows(pl.DataFrame({"a": [1.0, float("inf"), 2.0], "b": ["x", "y", None]}))
    array([ True, False, False])
    """
    fine = np.ones(table.shape[0], np.bool_)
    if not has_names(table):
        matrix = dense(table)
        return np.isfinite(matrix).all(axis=1) if matrix.dtype.kind == "f" else fine
    frame = _frame(table)
    for name, kind in frame.schema.items():
        column = frame.get_column(name)
        fine &= ~column.is_null().to_numpy()
        if kind.is_float():
            fine &= np.isfinite(column.to_numpy())
    return fine


@contextmanager
def naming_bad_rows(X: Any, numbers: NDArray[np.intp]) -> Iterator[None]:
    """Name the rows in a learner's error about missing or infinite values.

    Parameters
    ----------
    X : table or matrix
    numbers : array of int
        Of its rows in the whole table.
    """
    try:
        yield
    except ValueError as error:
        learner = error.__cause__ if isinstance(error, EvenhandError) else error
        if not isinstance(learner, ValueError):
            raise
        bad = ~finite_rows(X)
        if not bad.any():
            raise
        raise InputError(
            f"{reason(learner)} Values are missing or infinite in {np.count_nonzero(bad):,} rows of X, the "
            f"first of them row {numbers[bad][0]:,} (counted from 0)."
        ) from error


def columns_of(X: Any, where: Columns) -> dict[str, Any]:
    """The sensitive features in X.

    Parameters
    ----------
    X : table, array or sparse matrix
    where : names, positions or a function of X

    Returns
    -------
    dict
        Columns by name; those of a matrix are called ``x0``, ``x1``, ...
    """
    if callable(where):
        return named_columns(where(X), what="sensitive_features", default_name="sensitive_feature")
    names: Any = [where] if isinstance(where, str | int | np.integer) else where
    chosen = [_find(X, name) for name in names]
    twice = [name for name in chosen if chosen.count(name) > 1]
    if twice:
        raise GroupError(f"sensitive_features names column {twice[0]!r} of X twice.")
    if has_names(X):
        frame = _frame(X)
        return {str(name): frame.get_column(name) for name in chosen}
    matrix = dense(X[:, chosen])
    return {f"x{name}": matrix[:, k] for k, name in enumerate(chosen)}


def sensitive_columns(X: Any, where: Columns | None, passed: Any) -> dict[str, Any]:
    """The sensitive features: the columns of X that `where` names or, if that is None, those passed."""
    if where is not None:
        return columns_of(X, where)
    return named_columns(passed, what="sensitive_features", default_name="sensitive_feature")


def drop_columns(X: Any, where: Sequence[Any], *, allow_empty: bool = False) -> Any:
    """X without some columns.

    Parameters
    ----------
    X : table, array or sparse matrix
    where : sequence of names or positions
    allow_empty : bool, default=False
        Whether X may be left without columns, because others are added.

    Returns
    -------
    table, array or sparse matrix
        An array of objects becomes float64 if only numbers are left, as if the dropped columns had
        never been in it.

    Examples
    --------
    >>> import numpy as np
    >>> drop_columns(np.array([[1, 2, 3]]), [1])
    array([[1, 3]])
    >>> drop_columns(np.array([[1, "F"]], dtype=object), [1])
    array([[1.]])
    """
    if not len(where):
        return X
    dropped = {_find(X, name) for name in where}
    kept = [name for name in column_names(X) if name not in dropped]
    if not kept and not allow_empty:
        raise InputError("X has no columns besides the sensitive ones. Add at least one feature.")
    return ordered_columns(X, kept) if has_names(X) else _numbers(X[:, kept])


def _numbers(X: Any) -> Any:
    """A C-contiguous array, of float64 if it held objects that are all numbers or missing."""
    if issparse(X):
        return X
    if X.dtype.kind == "O" and all(value is None or _fits_float(value) for value in X.flat):
        X = X.astype(np.float64)
    return np.ascontiguousarray(X)


def _fits_float(value: Any) -> bool:
    whole = isinstance(value, int | np.integer)
    return (whole and -LARGEST_EXACT <= value <= LARGEST_EXACT) or isinstance(
        value, float | np.floating | np.bool_
    )


def ordered_columns(X: Any, names: Sequence[Any]) -> Any:
    """The columns of a table in the order of `names`."""
    return X.loc[:, list(names)] if hasattr(X, "iloc") else _frame(X).select(list(names)).to_native()


def last_columns(X: Any, count: int) -> NDArray[Any]:
    """The last columns of X, as an array.

    Examples
    --------
    >>> import numpy as np
    >>> last_columns(np.array([[1, 2, 3]]), 2)
    array([[2, 3]])
    """
    if has_names(X):
        return _frame(X).select(column_names(X)[-count:]).to_numpy()
    return dense(X[:, -count:])


def join_columns(X: Any, added: Sequence[NDArray[np.float64]], name: str) -> Any:
    """X with numeric columns added on the right.

    Parameters
    ----------
    X : table, array or sparse matrix
    added : sequence of arrays
    name : str
        Stem of their names in a table, letters and underscores only because some learners accept no others.
        Underscores are added where X has such a name already.

    Returns
    -------
    table, array or sparse matrix

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> join_columns(np.array([[1.0], [2.0]]), [np.array([0.0, 1.0])], "group")
    array([[1., 0.],
           [2., 1.]])
    >>> list(join_columns(pd.DataFrame({"age": [1.0, 2.0]}), [np.array([0.0, 1.0])], "group"))
    ['age', 'group_0']
    """
    if not len(added):
        return X
    if has_names(X):
        frame = _frame(X)
        names = _new_names(frame.columns, len(added), name)
        new = [
            nw.new_series(own, values, backend=frame.implementation)
            for own, values in zip(names, added, strict=True)
        ]
        if hasattr(X, "iloc"):
            new = [_indexed(series, X.index) for series in new]
        if not frame.columns:  # some libraries then have no rows either
            return new[0].to_frame().with_columns(*new[1:]).to_native()
        return frame.with_columns(*new).to_native()
    block = np.column_stack(list(added))
    if issparse(X):
        both: list[Any] = [X, csr_array(block)]
        return hstack(both, format="csr")
    return np.hstack([X, block])


def _indexed(series: nw.Series[Any], index: Any) -> nw.Series[Any]:
    """A pandas column with the index of a table; `nw.maybe_set_index` would take the index value by value."""
    return nw.from_native(series.to_native().set_axis(index), series_only=True)


def _new_names(taken: Sequence[Any], count: int, name: str) -> list[Any]:
    """Names unlike those of X, also where a learner replaces other characters by underscores."""
    if taken and not all(isinstance(one, str) for one in taken):  # scikit-learn rejects names of mixed types
        first = max([len(taken), *(int(one) + 1 for one in taken if isinstance(one, int | np.integer))])
        return [first + k for k in range(count)]
    written = {re.sub(r"\W", "_", one).lower() for one in taken}
    while any(f"{name}_{k}" in written for k in range(count)):
        name += "_"
    return [f"{name}_{k}" for k in range(count)]


def _frame(X: Any) -> nw.DataFrame[Any]:
    return nw.from_native(X, eager_only=True)


def dense(X: Any) -> NDArray[Any]:
    """A matrix as a NumPy array, sparse or not."""
    matrix: Any = X
    return np.asarray(matrix.toarray() if issparse(X) else matrix)


def _find(X: Any, name: Any) -> Any:
    """The name of a column of a table, or the position of one of a matrix."""
    names = column_names(X)
    if has_names(X):
        if name in names:
            return name
        hint = near_columns(name, names)
        raise GroupError(f"X has no column {name!r}, which should hold a sensitive feature. {hint}")
    if isinstance(name, bool) or not isinstance(name, int | np.integer):
        raise GroupError(
            f"X has no column names, so sensitive feature {name!r} cannot be found in it: pass a table, the "
            "position of the column, or sensitive_features= to fit."
        )
    if not -len(names) <= name < len(names):
        raise GroupError(f"X has {len(names)} columns, so none at position {name}.")
    return int(name) % len(names)


def random_split(n_rows: int, share: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Row numbers in two parts; the second is a simple random sample.

    The draw depends only on the seed and the number of rows. So if rows are independent, those of the second
    part are independent of those of the first, and tests and intervals on them are valid for what was learned
    from the first.

    Parameters
    ----------
    n_rows : int
    share : float
        Share of the second part, strictly between 0 and 1.
    seed : int

    Returns
    -------
    first, second : array of int
        Sorted.

    Examples
    --------
    >>> first, second = random_split(10, 0.3, seed=0)
    >>> len(first), len(second)
    (7, 3)
    """
    try:
        first, second = train_test_split(np.arange(n_rows), test_size=share, random_state=seed)
    except ValueError:
        raise InputError(f"a share of {share:g} of {n_rows:,} rows leaves one part empty.") from None
    return np.sort(first), np.sort(second)
