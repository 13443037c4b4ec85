"""Rows that are left out because a sensitive value is missing: how many, and what they lack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evenhand.auditing.tally import Tally
from evenhand.display.text import show
from evenhand.fairness.groups import Groups

__all__ = ["Excluded", "find_excluded"]


@dataclass(frozen=True, eq=False)
class Excluded:
    """Rows that lack a sensitive value, under ``missing="exclude"``.

    Attributes
    ----------
    rows : int or None
        How many there are; None if the number is suppressed.
    of_rows : int or None
        Number of all rows, these included.
    by_feature : dict or None
        How many of them lack each feature; a row that lacks several counts in each. None if suppressed.
    """

    rows: int | None
    of_rows: int | None
    by_feature: Mapping[str, int] | None

    @classmethod
    def of_groups(cls, groups: Groups) -> Excluded | None:
        """The rows that groups were made without, such as those of a fitted classifier; None if none.

        Examples
        --------
        >>> groups, _ = Groups.fit({"sex": ["F", None, "M"]}, missing="exclude")
        >>> print(Excluded.of_groups(groups))
        1 of 3 rows lacks a sensitive value and is left out: 1 lacks sex.
        """
        if not groups.excluded:
            return None
        of_rows = groups.excluded_rows + int(groups.counts.sum())
        return cls(groups.excluded_rows, of_rows, groups.excluded_by_feature)

    def __str__(self) -> str:
        """One sentence: how many rows are left out, and what they lack."""
        if self.rows is None or self.of_rows is None:
            return "Some rows lack a sensitive value and are left out; their number is small and not shown."
        lack, are = ("lacks", "is") if self.rows == 1 else ("lack", "are")
        text = f"{self.rows:,} of {self.of_rows:,} rows {lack} a sensitive value and {are} left out"
        lacking = [] if self.by_feature is None else [(n, name) for name, n in self.by_feature.items() if n]
        if not lacking:
            return f"{text}."
        listed = ", ".join(f"{n:,} {'lacks' if n == 1 else 'lack'} {show(name)}" for n, name in lacking)
        return f"{text}: {listed}."

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python objects."""
        return {
            "rows": self.rows,
            "of_rows": self.of_rows,
            "by_feature": None if self.by_feature is None else dict(self.by_feature),
        }


def find_excluded(counted: Tally, *, min_count: int = 0) -> Excluded | None:
    """The excluded rows of an audit; None if there are none.

    Parameters
    ----------
    counted : Tally
    min_count : int, default=0
        Smaller counts are suppressed, and so are those from which they could be computed.

    Returns
    -------
    Excluded or None
    """
    groups = counted.rates.groups
    if counted.excluded is None:
        return None
    rows = groups.excluded_rows
    of_rows = rows + round(float(counted.rows.sum()))
    return Excluded(
        None if rows < min_count else rows,
        None if min(rows, of_rows - rows) < min_count else of_rows,
        _by_feature(groups, min_count),
    )


def _by_feature(groups: Groups, min_count: int) -> Mapping[str, int] | None:
    """Numbers by feature, unless a small number of rows that lack the same features would follow."""
    by_lack: dict[tuple[bool, ...], int] = {}
    for key, rows in groups.excluded.items():
        lacking = tuple(value is None for value in key)
        by_lack[lacking] = by_lack.get(lacking, 0) + rows
    return groups.excluded_by_feature if min(by_lack.values()) >= min_count else None
