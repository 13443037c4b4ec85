"""Messages about groups that were not in the training rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from evenhand.data.columns import Level
from evenhand.groups.names import GroupName, Key

__all__ = ["list_groups", "type_hint"]

_MAX_LISTED = 5


def list_groups(features: Sequence[str], keys: Sequence[Key], counts: NDArray[np.int64]) -> str:
    """The groups not seen in fit, as a list that ends after a few.

    Examples
    --------
    >>> import numpy as np
    >>> list_groups(["sex"], [("X",)], np.array([2]))
    'sex=X (2 rows)'
    """
    listed = [
        f"{GroupName(tuple(features), key)} ({count:,} row{'s' if count != 1 else ''})"
        for key, count in zip(keys[:_MAX_LISTED], counts.tolist(), strict=False)
    ]
    more = len(keys) - len(listed)
    return "; ".join(listed) + (f" and {more:,} more" if more else "")


def type_hint(features: Sequence[str], known: Collection[Key], keys: Collection[Key]) -> str:
    """What to do if new values differ from known ones by their type only; empty if they do not.

    Examples
    --------
    >>> type_hint(["race"], [(1,), (2,)], [("1",)])
    "'race' was 1 of type int and is now '1' of type str: convert the column."
    """
    for place, feature in enumerate(features):
        values = {key[place] for key in known}
        written = {_written(value): value for value in values}
        for new in dict.fromkeys(key[place] for key in keys):
            if new not in values and _written(new) in written:
                old = written[_written(new)]
                return (
                    f"{feature!r} was {old!r} of type {type(old).__name__} "
                    f"and is now {new!r} of type {type(new).__name__}: convert the column."
                )
    return ""


def _written(value: Level) -> str:
    """The text of a value, the same for all its types."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
