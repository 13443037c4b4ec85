"""The columns of a Dask table, which every partition must have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask.dataframe.utils import UNKNOWN_CATEGORIES

from evenhand.data.columns import level_order
from evenhand.exceptions import InputError


@dataclass(frozen=True)
class Schema:
    """Columns of X, as Dask was told that they are.

    Numbers of any type are of one kind, because a partition with missing values has floats where others
    have integers. Categories may be unknown to Dask, and differ between partitions.

    Attributes
    ----------
    columns : dict
        Kind of each column by name, in order; by position in an array.
    named : bool
        Whether X is a table.
    dtypes : dict
        Types of categorical columns.
    settled : bool
        Whether these have the categories of all partitions.
    """

    columns: Mapping[Any, str]
    named: bool
    dtypes: Mapping[Any, pd.CategoricalDtype] = field(default_factory=dict)
    settled: bool = False

    @classmethod
    def of(cls, X: Any) -> Schema:
        """The schema of a Dask DataFrame or array."""
        if not isinstance(X, dd.DataFrame):
            return cls(dict.fromkeys(range(X.shape[1]), _kind(X.dtype)), False)
        kinds = {name: _kind(kind) for name, kind in X.dtypes.items()}
        known = {name: kind for name, kind in X.dtypes.items() if isinstance(kind, pd.CategoricalDtype)}
        return cls(kinds, True, known)

    def read(self, number: int, X: Any) -> Any:
        """A partition, checked; its categories are those of all partitions.

        Parameters
        ----------
        number : int
        X : DataFrame or array

        Returns
        -------
        DataFrame or array
        """
        if not self.named:
            self._check_array(number, np.asarray(X))
            return np.asarray(X)
        if not isinstance(X, pd.DataFrame):
            raise InputError(f"partition {number} of X is a {type(X).__name__}, not a table.")
        names, expected = list(X.columns), list(self.columns)
        missing = [name for name in expected if name not in names]
        further = [name for name in names if name not in self.columns]
        if missing or further:
            what = f"no column {missing[0]!r}" if missing else f"a column {further[0]!r}"
            raise InputError(f"partition {number} of X has {what}, unlike X as Dask knows it.")
        for name in names:
            own = _kind(X.dtypes[name])
            if own != self.columns[name]:
                raise InputError(
                    f"column {name!r} of X holds {own} in partition {number} (type {X.dtypes[name]}), where "
                    f"{self.columns[name]} were expected."
                )
        X = X if names == expected else X[expected]
        X = X.reset_index(drop=True)
        other = {name: kind for name, kind in self.dtypes.items() if kind != X.dtypes[name]}
        return X.astype(other) if other and self.settled else X

    def _check_array(self, number: int, X: Any) -> None:
        if X.ndim != 2 or X.shape[1] != len(self.columns):
            raise InputError(
                f"partition {number} of X must have {len(self.columns)} columns, got shape {X.shape}."
            )
        if _kind(X.dtype) != self.columns[0]:
            raise InputError(
                f"X holds {_kind(X.dtype)} in partition {number} (type {X.dtype}), where "
                f"{self.columns[0]} were expected."
            )

    def categories(self, X: Any) -> dict[Any, list[Any]]:
        """Categories of a partition's categorical columns."""
        return {name: X.dtypes[name].categories.tolist() for name in self.dtypes}

    def with_categories(self, found: Sequence[Mapping[Any, list[Any]]]) -> Schema:
        """The schema with the categories of all partitions: those that Dask knows first, others sorted."""
        dtypes = {}
        for name, kind in self.dtypes.items():
            known = kind.categories.tolist()
            known = [] if UNKNOWN_CATEGORIES in known else known
            lists = [part[name] for part in found if part.get(name)]
            if not known and kind.ordered and lists:
                known = max(lists, key=len)
            more = list(dict.fromkeys(one for part in lists for one in part if one not in set(known)))
            dtypes[name] = pd.CategoricalDtype([*known, *(more[k] for k in level_order(more))], kind.ordered)
        return replace(self, dtypes=dtypes, settled=True)


def _kind(dtype: Any) -> str:
    if isinstance(dtype, pd.CategoricalDtype):
        return "categories"
    if pd.api.types.is_numeric_dtype(dtype):
        return "numbers"
    if pd.api.types.is_object_dtype(dtype) or pd.api.types.is_string_dtype(dtype):
        return "text"
    return "times" if pd.api.types.is_datetime64_any_dtype(dtype) else str(dtype)
