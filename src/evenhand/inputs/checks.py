"""Checks of single parameters."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

from evenhand.exceptions import InputError

__all__ = ["check_choice", "check_fraction"]


def check_choice(name: str, value: Any, allowed: Sequence[str | None]) -> None:
    """Raise an InputError if a parameter is none of its allowed values.

    Examples
    --------
    >>> check_choice("missing", "error", ("error", "own_group"))
    """
    if not (value is None or isinstance(value, str)) or value not in allowed:
        raise InputError(f"{name} should be one of {', '.join(map(repr, allowed))}, but is {value!r}.")


def check_fraction(name: str, value: Any) -> None:
    """Raise an InputError if a parameter is not strictly between 0 and 1.

    Examples
    --------
    >>> check_fraction("confidence", 0.95)
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < 1:
        raise InputError(f"{name} should be strictly between 0 and 1, but is {value!r}.")
