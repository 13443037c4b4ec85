"""Rows that are left out because a sensitive value is missing: how many, why, and how they were decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evenhand.auditing.tally import Tally
from evenhand.display.text import show
from evenhand.groups.groups import Groups


@dataclass(frozen=True)
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
    selection_rate : float or None
        Among these rows; None if it is suppressed, or if there are no decisions, as in a fit.
    """

    rows: int | None
    of_rows: int | None
    by_feature: Mapping[str, int] | None
    selection_rate: float | None = None

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
        """How many rows are left out, what they lack, and how many of them were selected."""
        if self.rows is None or self.of_rows is None:
            return "Some rows lack a sensitive value and are left out; their number is small and not shown."
        lack, are = ("lacks", "is") if self.rows == 1 else ("lack", "are")
        text = f"{self.rows:,} of {self.of_rows:,} rows {lack} a sensitive value and {are} left out"
        lacking = [(n, name) for name, n in (self.by_feature or {}).items() if n]
        listed = ", ".join(f"{n:,} {'lacks' if n == 1 else 'lack'} {show(name)}" for n, name in lacking)
        rate = "" if self.selection_rate is None else f" Their selection rate is {self.selection_rate:.3f}."
        return f"{text}{': ' if listed else ''}{listed}.{rate}"


def find_excluded(counted: Tally, *, min_count: int = 0) -> Excluded | None:
    """The excluded rows of an audit; None if there are none.

    Parameters
    ----------
    counted : Tally
    min_count : int, default=0
        Numbers of excluded and of other rows are suppressed if one of them is smaller, and what rows lack and
        their selection rate in any case.

    Returns
    -------
    Excluded or None
    """
    groups = counted.groups
    if not groups.excluded:
        return None
    rows, mass = groups.excluded_rows, counted.excluded[1, :2].sum(axis=(1, 2))
    others = round(float(counted.rows.sum()))
    if min_count:
        shown = min(rows, others) >= min_count
        return Excluded(rows, rows + others, None) if shown else Excluded(None, None, None)
    return Excluded(rows, rows + others, groups.excluded_by_feature, float(mass[1] / mass[0]))
