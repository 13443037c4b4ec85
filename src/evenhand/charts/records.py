"""Records, checked and converted to rows for charts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from evenhand.display.text import show
from evenhand.exceptions import InputError

Row = dict[str, Any]

NO_VALUE = "no value"
"""Shown where a number is missing, so that it is not taken for 0."""

_JOINERS = "\u200c\u200d"


def read_records(
    records: Iterable[Mapping[str, Any]],
    texts: tuple[str, ...],
    numbers: tuple[str, ...],
    optional: tuple[str, ...] = (),
    **defaults: str,
) -> list[Row]:
    """Rows of records, with plain values.

    Parameters
    ----------
    records : iterable of mappings
    texts, numbers : tuple of str
        Required keys.
    optional : tuple of str, default=()
        Optional keys of numbers.
    **defaults : str
        Optional keys of texts, with what they are where a record has none.

    Returns
    -------
    list of dict
        Texts are printable. Numbers are floats, or None if missing, NaN or infinite.

    Examples
    --------
    >>> read_records([{"group": "F", "value": float("nan")}], ("group",), ("value",))
    [{'group': 'F', 'value': None}]
    """
    rows = [
        {key: plain_text(record[key]) for key in texts}
        | {key: _number(record[key]) for key in numbers}
        | {key: _number(record.get(key)) for key in optional}
        | {key: record.get(key) or default for key, default in defaults.items()}
        for record in records
    ]
    if not rows:
        raise InputError("there are no records to draw.")
    return rows


def _number(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def plain_text(value: Any) -> str:
    r"""A value as text; unprintable characters and those that reverse text are escaped.

    Joiners stay, because emoji and some scripts need them.

    Examples
    --------
    >>> plain_text("a\u202eb"), plain_text(None), plain_text(" ")
    ('a\\u202eb', '(missing)', '(empty)')
    """
    if value is not None and not str(value).strip():
        return "(empty)"
    return show(value, keep=_JOINERS)


def known(row: Row, *keys: str) -> bool:
    """Whether a row has finite numbers under all keys.

    Examples
    --------
    >>> known({"low": 0.1, "high": None}, "low"), known({"low": 0.1, "high": None}, "low", "high")
    (True, False)
    """
    return all(row.get(key) is not None and math.isfinite(row[key]) for key in keys)


@dataclass(frozen=True)
class Shown:
    """What is drawn of the groups.

    Attributes
    ----------
    rows : list of dict
        Those of the groups that are drawn, in order.
    names : list of str
        Their names, in order.
    left_out : int
        The number of other groups.
    """

    rows: list[Row]
    names: list[str]
    left_out: int

    def without(self, others: str) -> str:
        """A sentence on the groups that are not drawn, if there are any."""
        return f"{self.left_out} {others} are not drawn." if self.left_out else ""

    def bars(self, confidence: float | None) -> str:
        """What the bars are, if there are any."""
        level = "" if confidence is None else f"{100 * confidence:g} % "
        there = any(known(row, "low", "high") for row in self.rows)
        return f"Bars: {level}intervals." if there else ""


def shown_groups(
    rows: list[Row],
    *,
    order: Callable[[list[Row]], float | None],
    weight: Callable[[list[Row]], float | None] | None = None,
    most: int = 60,
) -> Shown:
    """The groups to draw, sorted.

    Parameters
    ----------
    rows : list of dict
        Each with a ``group``.
    order : callable
        Sort key of the rows of a group, largest first; None comes last.
    weight : callable, default=None
        If there are too many groups, those with the largest weights are drawn; `order` by default.
    most : int, default=60
        The largest number of groups to draw.

    Returns
    -------
    Shown
    """
    if most < 1:
        raise InputError(f"max_groups is {most}; at least one group must be drawn")
    by_group: dict[str, list[Row]] = {}
    for row in rows:
        by_group.setdefault(row["group"], []).append(row)

    def falling(measure: Callable[[list[Row]], float | None]) -> list[str]:
        ranks = {name: measure(own) for name, own in by_group.items()}
        return sorted(ranks, key=lambda name: math.inf if (rank := ranks[name]) is None else -rank)

    kept = set(falling(weight or order)[:most])
    names = [name for name in falling(order) if name in kept]
    return Shown([row for name in names for row in by_group[name]], names, len(by_group) - len(names))
