"""A data set: features, label, sensitive columns and their source."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from evenhand.data.checks import check_choice
from evenhand.exceptions import InputError, MissingExtraError

Backend = Literal["polars", "pandas", "pyarrow"]


def require_polars() -> Any:
    """Import polars, which reads the files, or raise an error that says how to install it."""
    try:
        return importlib.import_module("polars")
    except ImportError:
        raise MissingExtraError("polars", "datasets") from None


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set for binary classification.

    Attributes
    ----------
    name : str
    features : table
        The features, without the sensitive columns.
    label : series
    sensitive : table
        One column per sensitive feature.
    description : str
        Source, licence and how the rows were filtered.

    Examples
    --------
    >>> from evenhand.datasets import load_compas
    >>> compas = load_compas()
    >>> compas.sensitive.columns
    ['sex', 'race']
    """

    name: str
    features: Any
    label: Any
    sensitive: Any
    description: str

    @classmethod
    def from_polars(
        cls,
        table: Any,
        *,
        name: str,
        label: str,
        sensitive: list[str],
        features: list[str],
        description: str,
        backend: Backend,
    ) -> Dataset:
        """Make a data set from a polars table, in the table library `backend`."""
        check_choice("backend", backend, ("polars", "pandas", "pyarrow"))
        frame = nw.from_native(table, eager_only=True)
        if backend != "polars":
            columns = dict.fromkeys([*features, label, *sensitive])
            try:
                importlib.import_module(backend)
                frame = nw.from_dict({one: table[one].to_list() for one in columns}, backend=backend)
            except ModuleNotFoundError:
                raise InputError(f"backend={backend!r} needs the package {backend}: install it.") from None
        tables = frame.select(features).to_native(), frame.select(sensitive).to_native()
        return cls(name, tables[0], frame[label].to_native(), tables[1], description)

    def __len__(self) -> int:
        return len(self.label)

    def __repr__(self) -> str:
        features = nw.from_native(self.features, eager_only=True)
        groups = ", ".join(nw.from_native(self.sensitive, eager_only=True).columns)
        return f"<{self.name}: {len(self):,} rows, {len(features.columns)} features, sensitive: {groups}>"

    def one_hot(
        self, *, sensitive: bool = False, drop_first: bool = False
    ) -> tuple[NDArray[np.float64], list[str]]:
        """The features as numbers: numeric columns unchanged, one 0/1 column per category.

        Parameters
        ----------
        sensitive : bool, default=False
            Whether to include the sensitive columns.
        drop_first : bool, default=False
            Whether to leave out the first category of each column.

        Returns
        -------
        matrix : array, shape (n, d)
        names : list of str

        Examples
        --------
        >>> from evenhand.datasets import load_compas
        >>> matrix, names = load_compas().one_hot()
        >>> matrix.shape, names[-2:]
        ((5278, 7), ['c_charge_degree=F', 'c_charge_degree=M'])
        """
        tables = [self.features, self.sensitive] if sensitive else [self.features]
        columns, names = [], []
        for table in tables:
            frame = nw.from_native(table, eager_only=True)
            for name in frame.columns:
                series = frame[name]
                if series.dtype.is_numeric():
                    columns.append(series.to_numpy().astype(np.float64))
                    names.append(name)
                    continue
                for level in sorted(series.drop_nulls().unique().to_list())[int(drop_first) :]:
                    columns.append((series == level).fill_null(value=False).to_numpy().astype(np.float64))
                    names.append(f"{name}={level}")
        return np.column_stack(columns), names
