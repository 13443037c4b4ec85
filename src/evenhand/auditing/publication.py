"""Comparisons without what would reveal a small count."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from evenhand.auditing.comparison import Comparison, Distance, judged
from evenhand.fairness.groups import GroupName
from evenhand.fairness.statistic import SELECTION

__all__ = ["Shown", "published"]


@dataclass(frozen=True)
class Shown:
    """Groups of which something is shown.

    Attributes
    ----------
    selection : set of GroupName
        Groups whose selection rate is shown.
    labels : set of GroupName
        Groups of which everything is shown that depends on the label.
    changes : set of GroupName
        Groups whose changes are shown; `labels` if there are none.
    """

    selection: set[GroupName]
    labels: set[GroupName]
    changes: set[GroupName]

    def includes(self, found: Comparison, group: GroupName | None, statistic: str | None) -> bool:
        """Whether a statistic of a group is shown, or its change."""
        if group is None:
            return True
        if found.against == "reference":
            return group in self.changes
        return group in (self.selection if statistic == SELECTION.name else self.labels)


def published(found: Comparison, shown: Shown) -> Comparison:
    """A comparison without the groups that are not shown.

    Of a notion, figures that depend on them are rounded. The rate of a small group with its interval would
    reveal its counts, so those of a bound are about the groups that are shown, and only the verdict is about
    all of them.
    """
    kept = tuple(part for part in found.distances if shown.includes(found, part.group, part.statistic))
    complete = len(kept) == len(found.distances)
    if found.against in ("bound", "reference"):
        return replace(found if complete else _of_groups(found, kept), undefined=(), distances=kept)
    group_shown, reference_shown = (
        shown.includes(found, group, found.statistic) for group in (found.group, found.reference)
    )
    value, low, high = found.value, found.low, found.high
    if not (group_shown and reference_shown):
        value = round(value, 2)
    if not complete:
        low, high = math.floor(100 * low) / 100, math.ceil(100 * high) / 100
        if found.against == "groups":  # each distance involves the highest rate, which may be hidden
            kept = ()
    return replace(
        found,
        value=value,
        low=low,
        high=high,
        verdict=judged(found.measure, found.tolerance, low, high),
        group=found.group if group_shown else None,
        reference=found.reference if reference_shown else None,
        undefined=(),
        distances=kept,
    )


def _of_groups(found: Comparison, kept: tuple[Distance, ...]) -> Comparison:
    """The lowest or the highest rate of some groups, with the verdict about all."""
    known = [part for part in kept if not math.isnan(part.value)]
    if not known:
        return replace(found, value=math.nan, low=math.nan, high=math.nan, group=None)
    end = min if found.measure == "at least" else max
    worst = end(known, key=lambda part: part.value)
    low, high = end(part.low for part in known), end(part.high for part in known)
    return replace(found, value=worst.value, low=low, high=high, group=worst.group)
