"""Results as a table of pandas, polars or pyarrow."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, Self, TypeVar, cast, overload

import narwhals.stable.v2 as nw
import numpy as np

from evenhand.data.checks import check_choice, near_columns
from evenhand.exceptions import InputError, MissingExtraError

T = TypeVar("T")

Library = Literal["pandas", "polars", "pyarrow"]
_LIBRARIES: tuple[Library, ...] = ("pandas", "polars", "pyarrow")


class Results(Sequence[T]):
    """Results about several rows or features, and the table library that they are shown in."""

    def __init__(self, rows: Iterable[T], library: Library | None = None) -> None:
        self._rows = tuple(rows)
        self._library = library

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> T | Self:
        if isinstance(index, slice):
            return type(self)(self._rows[index], self._library)
        return self._rows[index]


def library_of(*tables: Any) -> Library | None:
    """The library of the first table or series among several inputs; None if there is none."""
    for given in tables:
        for part in given.values() if isinstance(given, Mapping) else (given,):
            native = nw.from_native(part, pass_through=True, allow_series=True)
            name: Any = getattr(getattr(native, "implementation", None), "value", None)
            if name in _LIBRARIES:
                return cast(Library, name)
    return None


def make_table(
    rows: Iterable[Mapping[str, Any]],
    names: Iterable[str] = (),
    *,
    numbers: Collection[str],
    counts: Collection[str] = (),
    flags: Collection[str] = (),
    library: Library | None,
) -> Any:
    """A table of records.

    Parameters
    ----------
    rows : iterable of mappings
        All with the same keys.
    names : iterable of str, default=()
        The columns, needed if there are no rows.
    numbers : collection of str
        Columns of numbers; the others are text.
    counts : collection of str, default=()
        Columns of whole numbers, or None.
    flags : collection of str, default=()
        Columns of True, False or None.
    library : {"pandas", "polars", "pyarrow"} or None
        None takes pandas if it is installed, else polars.

    Returns
    -------
    table

    Examples
    --------
    >>> make_table([{"a": 1.0, "b": "x"}], numbers=["a"], library="pandas").to_dict("list")
    {'a': [1.0], 'b': ['x']}
    """
    check_choice("backend", library, (None, *_LIBRARIES))
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    schema: dict[str, Any] = {name: nw.Float64() if name in numbers else nw.String() for name in columns}
    whole = dict.fromkeys(name for name in columns if name in counts)
    judged = dict.fromkeys(name for name in columns if name in flags)
    backend = library or _any_library()
    if backend != "pandas":
        schema |= dict.fromkeys(whole, nw.Int64()) | dict.fromkeys(judged, nw.Boolean())
        return nw.from_dict(columns, schema, backend=backend).to_native()
    # The integers of pandas hold no missing value, but those that it calls Int64 do; so with booleans.
    schema |= dict.fromkeys((*whole, *judged), nw.Float64())
    table = nw.from_dict(columns, schema, backend=backend).to_native()
    for name in (name for name, kind in schema.items() if kind == nw.String()):  # pandas 2 has "None" there
        table[name] = table[name].mask(np.array([value is None for value in columns[name]], np.bool_))
    kinds = {name: "Int64" if None in columns[name] else "int64" for name in whole}
    kinds |= {name: "boolean" if None in columns[name] else "bool" for name in judged}
    return table.astype(kinds)


def table_of_dicts(rows: Sequence[Mapping[str, Any]], names: Sequence[str], optional: Collection[str]) -> Any:
    """A table from dictionaries, as JSON has rows; entries that are not among the names are left out.

    Parameters
    ----------
    rows : sequence of mappings
    names : sequence of str
        The columns.
    optional : collection of str
        Columns that are left out where the rows do not have them.

    Returns
    -------
    table
        Of pandas if it is installed, else of polars.

    Examples
    --------
    >>> table_of_dicts([{"age": 39, "town": "Rome"}], ["town", "age"], []).columns.tolist()
    ['town', 'age']
    """
    columns = {}
    for name in names:
        lacking = [k for k, row in enumerate(rows) if name not in row]
        if lacking and not (name in optional and len(lacking) == len(rows)):
            hint = near_columns(name, list(rows[lacking[0]]))
            raise InputError(f"row {lacking[0]} has no {name!r}, which is a feature of the model. {hint}")
        if not lacking:
            columns[name] = [row[name] for row in rows]
    for name, values in columns.items():
        kinds = {type(value) for value in values} - {type(None)}
        if kinds <= {int, float} and kinds | {type(value) for value in values} != {int}:
            columns[name] = [math.nan if value is None else float(value) for value in values]
    return nw.from_dict(columns, backend=_any_library()).to_native()


def _any_library() -> Library:
    for name in _LIBRARIES[:2]:
        if importlib.util.find_spec(name) is not None:
            return name
    raise MissingExtraError("polars", "datasets")
