"""Records as they come, read into rows that can be drawn."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from evenhand.display.text import show
from evenhand.exceptions import InputError

__all__ = ["Row", "known", "plain_text", "read_records", "shortened", "shown_groups"]

Row = dict[str, Any]

_JOINERS = "\u200c\u200d"


def read_records(
    records: Iterable[Mapping[str, Any]],
    *,
    chart: str,
    texts: tuple[str, ...] = (),
    numbers: tuple[str, ...] = (),
    optional: tuple[str, ...] = (),
    choices: Mapping[str, tuple[str, ...]] | None = None,
    infinite: bool = False,
) -> list[Row]:
    """Check records and make their values plain.

    Parameters
    ----------
    records : iterable of mappings
    chart : str
        Who asks, for messages.
    texts, numbers : tuples of str
        Keys that every record must have.
    optional : tuple of str
        Keys of numbers that a record may lack.
    choices : mapping, optional
        Keys that a record may lack, each with what it can be; the first stands for what is missing.
    infinite : bool
        Whether infinite numbers mean something; otherwise they are missing.

    Returns
    -------
    list of dict
        Texts as printable text. Numbers as floats, None where they are missing or NaN.

    Examples
    --------
    >>> read_records([{"group": "F", "value": float("nan")}], chart="x", texts=("group",), numbers=("value",))
    [{'group': 'F', 'value': None}]
    """
    given = list(records)
    if not given:
        raise InputError(f"{chart} got no records; it needs at least one")
    rows: list[Row] = []
    for place, record in enumerate(given):
        if not isinstance(record, Mapping):
            raise InputError(f"{chart}: record {place} is a {type(record).__name__}; records are dicts")
        absent = [key for key in (*texts, *numbers) if key not in record]
        if absent:
            raise InputError(f"{chart}: record {place} lacks {absent}; it has {[*record]}")
        row: Row = {key: plain_text(record[key]) for key in texts}
        for key in (*numbers, *optional):
            number = _number(record.get(key), where=f"{chart}: record {place}, {key!r}")
            row[key] = None if number is not None and math.isinf(number) and not infinite else number
        for key, allowed in (choices or {}).items():
            row[key] = allowed[0] if record.get(key) is None else record[key]
            if row[key] not in allowed:
                raise InputError(
                    f"{chart}: record {place}, {key!r} is {row[key]!r}; it must be one of {[*allowed]}"
                )
        rows.append(row)
    return rows


def _number(value: Any, *, where: str) -> float | None:
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{where} is {value!r}; it must be a number, or None where there is none") from None
    return None if math.isnan(number) else number


def plain_text(value: Any) -> str:
    r"""Write a value as text; characters that cannot be printed, or that turn text around, become visible.

    Joiners stay: emoji and some scripts are written with them.

    Examples
    --------
    >>> plain_text("a\u202eb"), plain_text(None), plain_text(" ")
    ('a\\u202eb', '(missing)', '(empty)')
    """
    if value is not None and not str(value).strip():
        return "(empty)"
    return show(value, keep=_JOINERS)


def known(row: Row, *keys: str) -> bool:
    """Tell whether a row has finite numbers under all keys.

    Examples
    --------
    >>> known({"low": 0.1, "high": None}, "low"), known({"low": 0.1, "high": None}, "low", "high")
    (True, False)
    """
    return all(row.get(key) is not None and math.isfinite(row[key]) for key in keys)


def shown_groups(
    rows: list[Row],
    *,
    order: Callable[[str], float | None],
    weight: Callable[[str], float | None],
    most: int,
) -> tuple[dict[str, str], int]:
    """Choose and sort the groups that are drawn, and shorten their names.

    Parameters
    ----------
    rows : list of dict
        With a ``group`` each.
    order : callable
        What groups are sorted by, largest first; None comes last.
    weight : callable
        If there are too many groups, those with the largest weights stay; None goes first.
    most : int
        How many are drawn.

    Returns
    -------
    labels : dict
        Name on the chart of each group that is drawn, in order. No two are the same.
    left_out : int
    """
    if most < 1:
        raise InputError(f"max_groups is {most}; at least one group must be drawn")
    names = list(dict.fromkeys(row["group"] for row in rows))
    kept = sorted(names, key=lambda name: _first(weight(name)))[:most]
    kept.sort(key=names.index)
    kept.sort(key=lambda name: _first(order(name)))
    return _labels(kept), len(names) - len(kept)


def _labels(names: list[str]) -> dict[str, str]:
    """Short names, no two alike: where two would be, a digest of the whole name tells them apart."""
    labels = {name: shortened(name) for name in names}
    for name, label in labels.items():
        rivals = [other for other in names if other != name and shortened(other) == shortened(name)]
        if rivals:
            digest, *others = (hashlib.sha256(one.encode()).hexdigest() for one in (name, *rivals))
            length = next(k for k in range(4, 65) if all(other[:k] != digest[:k] for other in others))
            labels[name] = f"{label} #{digest[:length]}"
    return labels


def _first(value: float | None) -> float:
    """A key that sorts the largest first and what is missing last."""
    return math.inf if value is None else -value


def shortened(name: str, most: int = 42) -> str:
    """Take letters out of the middle of a long name.

    Examples
    --------
    >>> shortened("a long name of a group", 12)
    'a long …roup'
    """
    if len(name) <= most:
        return name
    tail = most // 3
    return f"{name[: most - tail - 1]}…{name[-tail:]}"
