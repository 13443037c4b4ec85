"""Rows of a table, counted where the data are.

The table may be lazy: a query of polars, a relation of DuckDB, a table of Dask or Spark. It is read in one or
two passes, and only their small results are collected. The first finds the ranges of scores and
probabilities, if there are any (`TableRows.numbers`); the second counts and sums the rows of each combination
of sensitive values, label and decision (`TableRows.count`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from evenhand.data.checks import near_columns
from evenhand.data.columns import as_table
from evenhand.data.labels import (
    NOT_NUMBERS,
    check_weights,
    refuse_median,
    refuse_probabilities,
    refuse_scores,
)
from evenhand.exceptions import GroupError, InputError

Table = nw.DataFrame[Any] | nw.LazyFrame[Any]
Way = Literal["value", "score", "probability", "weight"]
_MAX_COMBINATIONS = 1 << 20
"""No more are collected: a key with a value of its own in each row would bring the whole table."""
_NO_ROWS = "no rows: data is empty."
_LARGEST = sys.float_info.max
_VALID: Mapping[Way, tuple[float, float]] = {"score": (-_LARGEST, _LARGEST), "probability": (0.0, 1.0)}
_SQUARED = (1e-100, 1e100)
"""If the largest weight is between these, its square is far from overflow and from underflow."""


@dataclass(frozen=True)
class Roles:
    """Names of the columns of a table by what they hold; None if there is no such column.

    Examples
    --------
    >>> roles = Roles(label="income", prediction="score", sensitive=("sex", "race"))
    >>> roles.columns
    {'label': 'income', 'prediction': 'score', 'sensitive 0': 'sex', 'sensitive 1': 'race'}
    >>> roles.describe("sensitive 1")
    "sensitive feature 'race'"
    """

    label: str | None
    prediction: str
    sensitive: tuple[str, ...]
    before: str | None = None
    weight: str | None = None
    controls: tuple[str, ...] = ()

    @property
    def columns(self) -> dict[str, str]:
        """The name of the column in each role."""
        given = {"label": self.label, "prediction": self.prediction, "before": self.before}
        given["weight"] = self.weight
        known = {role: name for role, name in given.items() if name is not None}
        known |= {f"sensitive {k}": name for k, name in enumerate(self.sensitive)}
        return known | {f"control {k}": name for k, name in enumerate(self.controls)}

    def describe(self, role: str) -> str:
        """A column's role and name, for messages."""
        words = {"before": "earlier prediction", "weight": "sample weight"}
        words |= {"sensitive": "sensitive feature", "control": "control feature"}
        kind = role.split(maxsplit=1)[0]
        return f"{words.get(kind, kind)} {self.columns.get(role)!r}"


@dataclass(frozen=True)
class Numbers:
    """Results of the first pass over a column of numbers.

    Attributes
    ----------
    rows : int
        Number of rows.
    finite, valid, binary : int
        Rows with a finite number; with one in the range that such a column may have; with 0 or 1.
    low, high : float
        The smallest and the largest number.
    """

    rows: int
    finite: int
    valid: int
    binary: int
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class CountedRows:
    """Combinations of values that occur, with sums over their rows.

    Attributes
    ----------
    columns : dict
        Labels, predictions, earlier predictions and sensitive values by role, one entry per combination. A
        combination with several probabilities has their mean.
    counts : array of int
        Rows of each combination.
    totals : array, shape (1 or 3, combinations)
        Numbers of rows and, with weights, sums of weights and of their squares. The largest weight is 1.
    sums : dict
        The same sums of probabilities by role and, under "rise", of increases from the earlier probability.
    """

    columns: Mapping[str, Any]
    counts: NDArray[np.int64]
    totals: NDArray[np.float64]
    sums: Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class TableRows:
    """The columns of a table that are needed, renamed to their roles.

    Attributes
    ----------
    table : narwhals table
    roles : Roles
    ways : dict
        How the column of each role is read: as values, as scores that are compared with a threshold, as
        probabilities, or as weights.
    limits : dict
        The threshold for each column of scores.

    Examples
    --------
    >>> import polars as pl
    >>> table = pl.LazyFrame({"y": [0, 1, 1], "p": [0.25, 0.5, 1.0], "sex": ["F", "M", "F"]})
    >>> rows = TableRows.find(table, Roles(label="y", prediction="p", sensitive=("sex",)))
    >>> rows.ways
    {'label': 'value', 'prediction': 'probability', 'sensitive 0': 'value'}
    >>> numbers = rows.numbers()
    >>> numbers["prediction"].low, numbers["prediction"].high
    (0.25, 1.0)
    >>> counted = rows.count(numbers)
    >>> int(counted.counts.sum()), float(counted.sums["prediction"].sum())
    (3, 1.75)
    """

    table: Table
    roles: Roles
    ways: Mapping[str, Way]
    limits: Mapping[str, float]

    @classmethod
    def find(
        cls, frame: Any, roles: Roles, *, threshold: float | None = None, only_labels: bool = False
    ) -> TableRows:
        """Find the columns of a table.

        Parameters
        ----------
        frame : table
            Any table, eager or lazy, that narwhals reads.
        roles : Roles
        threshold : float, default=None
            The lowest score that is selected, if predictions are scores.
        only_labels : bool, default=False
            Whether predictions are labels even if they are floats.

        Returns
        -------
        TableRows
        """
        table = as_table(frame, what="data")
        if isinstance(table, nw.DataFrame) and table.implementation.is_polars():
            table = table.lazy()
        schema = table.collect_schema()
        for name in roles.columns.values():
            if name not in schema.names():
                raise InputError(f"data has no column {name!r}. {near_columns(name, schema.names())}")
        ways: dict[str, Way] = {}
        limits: dict[str, float] = {}
        picked = []
        for role, name in roles.columns.items():
            dtype, column = schema[name], nw.col(name)
            way = ways[role] = _way(role, dtype, threshold, only_labels=only_labels)
            if way == "weight" and not dtype.is_numeric() and dtype != nw.Boolean:
                raise InputError(NOT_NUMBERS)
            if way == "value" and dtype.is_nested():
                what = roles.describe(role)
                raise InputError(f"{what} has values of type {dtype}, which cannot be grouped.")
            if threshold is not None and way == "score":
                # NumPy compares numbers of 32 bits with a threshold of 32 bits, and so do we.
                limits[role] = float(np.float32(threshold) if dtype == nw.Float32 else threshold)
            picked.append((column if way == "value" else column.cast(nw.Float64)).alias(role))
        return cls(table.select(*picked), roles, ways, limits)

    def numbers(self) -> dict[str, Numbers]:
        """First pass: the ranges of scores and probabilities, checked."""
        ways = {role: way for role, way in self.ways.items() if way in _VALID}
        if not ways:
            return {}
        asked = {"rows": nw.len()}
        for role, way in ways.items():
            asked |= _questions(role, *_VALID[way])
        found = self._answers(asked)
        if not found["rows"]:
            raise InputError(_NO_ROWS)
        numbers = {role: _numbers(found, role) for role in ways}
        for role, way in ways.items():
            self._check(role, way, numbers[role])
        return numbers

    def above_median(self, numbers: Mapping[str, Numbers]) -> tuple[TableRows, float]:
        """The same rows; those with a prediction above the median of all are selected.

        Parameters
        ----------
        numbers : dict
            Found by the first pass; predictions are scores.

        Returns
        -------
        rows : TableRows
        median : float
        """
        role = "prediction"
        if self.ways[role] != "score" or numbers[role].binary == numbers[role].rows:
            refuse_median(self.roles.describe(role))
        # In memory: some engines have only an approximate median.
        median = float(np.median(_collected(self.table.select(role)).get_column(role).to_numpy()))
        return replace(self, limits={**self.limits, role: float(np.nextafter(median, np.inf))}), median

    def _answers(self, asked: Mapping[str, nw.Expr]) -> dict[str, float]:
        answers = _collected(self.table.select(**asked))
        # Some engines have neither a sum nor a smallest number of no rows.
        return {name: float(answers.get_column(name).to_list()[0] or 0.0) for name in asked}

    def _check(self, role: str, way: Way, numbers: Numbers) -> None:
        n, what = numbers.rows, self.roles.describe(role)
        if numbers.finite < n and way == "score":
            refuse_scores(n - numbers.finite, n, what)
        elif numbers.finite < n:
            refuse_probabilities(n - numbers.valid, n, what)

    def count(self, numbers: Mapping[str, Numbers]) -> CountedRows:
        """Second pass: rows of each combination of sensitive values, label and decision.

        A column of probabilities is a pair of keys: whether it has its smallest and its largest value. So
        probabilities that are in truth two labels are recognised, whatever they are.

        Parameters
        ----------
        numbers : dict
            Found by the first pass.

        Returns
        -------
        CountedRows
        """
        found, weighted = self._grouped(numbers), "weight" in self.ways
        largest, units = _largest_weight(found) if weighted else 1.0, ("weight", "square") if weighted else ()

        def sums(*names: str) -> NDArray[np.float64]:
            columns = [found.get_column(name).to_numpy() for name in names]
            return np.array([column / largest**power for power, column in enumerate(columns)])

        return CountedRows(
            {role: self._column(role, found, numbers.get(role)) for role in self.ways if role != "weight"},
            found.get_column("rows").to_numpy().astype(np.int64),
            sums("rows", *units),
            {name: sums(name, *(f"{name} {unit}" for unit in units)) for name in self._summed()},
        )

    def _summed(self) -> list[str]:
        """Columns of probabilities, and of increases from the earlier probability."""
        summed = [role for role, way in self.ways.items() if way == "probability"]
        return [*summed, "rise"] if {"prediction", "before"} <= set(summed) else summed

    def _grouped(self, numbers: Mapping[str, Numbers]) -> nw.DataFrame[Any]:
        """Rows and sums of each combination."""
        keys, computed = self._keys(numbers)
        summed = self._summed()
        if "rise" in summed:
            change = nw.col("prediction") - nw.col("before")
            computed["rise"] = (change + change.abs()) / 2  # the positive part, exactly
        table, sums = self.table, [nw.len().alias("rows"), *(nw.col(name).sum() for name in summed)]
        products: dict[str, nw.Expr] = {}
        if "weight" in self.ways:
            weight = nw.col("weight")
            valid = (weight >= 0.0) & (weight <= _LARGEST)
            computed |= {"square": weight * weight, "weight valid": valid.cast(nw.Int64)}
            both = ("weight", "square")
            products = {f"{name} {by}": nw.col(name) * nw.col(by) for name in summed for by in both}
            sums += [nw.col(name).sum() for name in (*both, *products, "weight valid")]
            sums += [weight.max().alias("weight high")]
        for new in (computed, products):
            table = table.with_columns(**new) if new else table
        try:
            found = _collected(table.group_by(*keys).agg(*sums).head(_MAX_COMBINATIONS + 1))
        except TypeError as error:  # from pandas, about a column of objects
            raise InputError(f"data holds values that cannot be grouped, such as lists: {error}") from error
        if not len(found):
            raise InputError(_NO_ROWS)
        if len(found) > _MAX_COMBINATIONS:
            values = {role: nw.col(role).n_unique() for role, way in self.ways.items() if way == "value"}
            most, role = max((int(number), role) for role, number in self._answers(values).items())
            raise GroupError(
                f"there are more than {_MAX_COMBINATIONS:,} combinations of sensitive values, label and "
                "decision. Pass fewer sensitive features, or put their values into a few bins first. Most "
                f"distinct values: {self.roles.describe(role)}, {most:,}."
            )
        return found

    def _keys(self, numbers: Mapping[str, Numbers]) -> tuple[list[str], dict[str, nw.Expr]]:
        """The columns by which rows are grouped, and those of them that must be computed."""
        keys: list[str] = []
        computed: dict[str, nw.Expr] = {}
        for role, way in self.ways.items():
            column = nw.col(role)
            if way == "value":
                keys.append(role)
            elif way == "score":
                decided = numbers[role].binary == numbers[role].rows
                computed[f"{role} selected"] = column == 1.0 if decided else column >= self.limits[role]
            elif way == "probability":
                computed[f"{role} lowest"] = column == numbers[role].low
                computed[f"{role} highest"] = column == numbers[role].high
        return [*keys, *computed], computed

    def _column(self, role: str, found: nw.DataFrame[Any], numbers: Numbers | None) -> Any:
        """A column as it would be read from rows, with one entry per combination."""
        if numbers is None:
            return found.get_column(role)
        if self.ways[role] == "score":
            return _booleans(found, f"{role} selected")
        lowest, highest = _booleans(found, f"{role} lowest"), _booleans(found, f"{role} highest")
        between = ~(lowest | highest)
        if between.any() and numbers.valid < numbers.rows:
            refuse_probabilities(numbers.rows - numbers.valid, numbers.rows, self.roles.describe(role))
        mean = found.get_column(role).to_numpy() / found.get_column("rows").to_numpy()
        ends = np.where(highest, numbers.high, numbers.low)
        return np.where(between, np.clip(mean, numbers.low, numbers.high), ends)


def _largest_weight(found: nw.DataFrame[Any]) -> float:
    """The largest weight, after all are checked."""
    n_rows, valid = (int(found.get_column(name).sum()) for name in ("rows", "weight valid"))
    largest = float(found.get_column("weight high").max() or 0.0)
    check_weights(n_rows - valid, n_rows, largest)
    if not _SQUARED[0] <= largest <= _SQUARED[1]:
        raise InputError(f"the largest sample_weight is {largest:g}: divide all weights by it.")
    return largest


def _booleans(found: nw.DataFrame[Any], name: str) -> NDArray[np.bool_]:
    return found.get_column(name).to_numpy().astype(np.bool_)


def _way(role: str, dtype: Any, threshold: float | None, *, only_labels: bool) -> Way:
    """How a column is read, by the rules of `read_scores`, `read_decisions` and `read_selection`."""
    if role == "weight":
        return "weight"
    if role not in ("prediction", "before") or not dtype.is_numeric():
        return "value"
    if threshold is not None:
        return "score"
    return "value" if dtype.is_integer() or only_labels else "probability"


def _questions(role: str, low: float, high: float) -> dict[str, nw.Expr]:
    column = nw.col(role)

    def rows(condition: nw.Expr) -> nw.Expr:
        return condition.cast(nw.Int64).sum()  # Spark does not sum booleans

    return {
        f"{role} finite": rows(column.abs() <= _LARGEST),
        f"{role} valid": rows((column >= low) & (column <= high)),
        f"{role} binary": rows((column == 0.0) | (column == 1.0)),
        f"{role} low": column.min(),
        f"{role} high": column.max(),
    }


def _numbers(found: Mapping[str, float], role: str) -> Numbers:
    finite, valid, binary = (int(found[f"{role} {what}"]) for what in ("finite", "valid", "binary"))
    return Numbers(int(found["rows"]), finite, valid, binary, found[f"{role} low"], found[f"{role} high"])


def _collected(table: Table) -> nw.DataFrame[Any]:
    """A small result in memory; polars computes it without keeping all rows."""
    if isinstance(table, nw.DataFrame):
        return table
    if not table.implementation.is_polars():
        return table.collect()
    try:
        return table.collect(engine="streaming")
    except (TypeError, ValueError):  # before polars 1.23
        return table.collect()
