"""Names of groups, sensitive features and their values; and messages about groups that fit has not seen."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from evenhand.data.columns import Level
from evenhand.display.text import first_of, show

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


def with_rows(name: GroupName, rows: int | None) -> str:
    """A name with its number of rows, if that is known."""
    return str(name) if rows is None else f"{name} ({rows:,} row{'s' if rows != 1 else ''})"


@dataclass(frozen=True)
class UnseenRows:
    """Rows of groups, or of strata, that were not in the training rows.

    Attributes
    ----------
    what : str
        "groups" or "strata".
    features : sequence of str
    known : collection of tuples
        The values of groups that were seen.
    new : dict
        The values of those that were not, with their number of rows.
    n_rows : int
        Number of all rows.

    Examples
    --------
    >>> unseen = UnseenRows("groups", ["race"], [(1,), (2,)], {("1",): 3}, 10)
    >>> str(unseen), unseen.listed
    ('3 of 10 rows belong to groups not seen in fit', 'race=1 (3 rows)')
    >>> unseen.type_hint
    "'race' was 1 of type int and is now '1' of type str: convert the column."
    """

    what: str
    features: Sequence[str]
    known: Collection[Key]
    new: Mapping[Key, int]
    n_rows: int

    def __str__(self) -> str:
        return f"{sum(self.new.values()):,} of {self.n_rows:,} rows belong to {self.what} not seen in fit"

    @property
    def listed(self) -> str:
        """The groups with their numbers of rows; of many, the first."""
        named = ((GroupName(tuple(self.features), key), rows) for key, rows in self.new.items())
        return first_of(with_rows(name, rows) for name, rows in named)

    @cached_property
    def type_hint(self) -> str:
        """Advice if new values differ from known ones by their type only; empty if they do not."""
        for place, feature in enumerate(self.features):
            values = {key[place] for key in self.known}
            written = {_written(value): value for value in values}
            for new in dict.fromkeys(key[place] for key in self.new):
                if new not in values and _written(new) in written:
                    old = written[_written(new)]
                    return (
                        f"{feature!r} was {old!r} of type {type(old).__name__} "
                        f"and is now {new!r} of type {type(new).__name__}: convert the column."
                    )
        return ""

    def error(self, remedy: str) -> str:
        """The message of an error, with what to do if types are not the reason."""
        return f"{self}: {self.listed}. {self.type_hint or remedy}"


def _written(value: Level) -> str:
    """The text of a value, the same for all its types."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
