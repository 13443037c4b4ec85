"""Names of groups: sensitive features and their values."""

from __future__ import annotations

from dataclasses import dataclass

from evenhand.data.columns import Level
from evenhand.display.text import show

Key = tuple[Level, ...]
"""One value of each sensitive feature; None is a missing value, `POOLED` a pooled one."""


class _Pooled:
    """Replaces the values of rare groups that were pooled."""

    def __str__(self) -> str:
        return "(pooled)"

    def __repr__(self) -> str:
        return "POOLED"

    def __reduce__(self) -> str:
        return "POOLED"


POOLED = _Pooled()


@dataclass(frozen=True)
class GroupName:
    """The features that define a group, and their values in it.

    Examples
    --------
    >>> str(GroupName(("sex", "race"), ("Female", None)))
    'sex=Female, race=(missing)'
    """

    features: tuple[str, ...]
    values: Key

    def __str__(self) -> str:
        pairs = zip(self.features, self.values, strict=True)
        return ", ".join(f"{show(feature)}={show(value)}" for feature, value in pairs)
