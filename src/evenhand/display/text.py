"""Values as text that is safe to show in a terminal, a browser or a spreadsheet."""

from __future__ import annotations

from collections.abc import Iterable


def show(value: object, *, keep: str = "") -> str:
    r"""The text of a value, with unprintable characters escaped.

    Parameters
    ----------
    value : object
        None is shown as missing.
    keep : str, default=""
        Unprintable characters that are not escaped.

    Returns
    -------
    str

    Examples
    --------
    >>> show("Female"), show(None), show("\x1b[31mred")
    ('Female', '(missing)', '\\x1b[31mred')
    """
    if value is None:
        return "(missing)"
    text = str(value)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)


def first_of(names: Iterable[object], most: int = 5) -> str:
    """The first of several names, and how many there are besides.

    Examples
    --------
    >>> first_of("abcdefg"), first_of("ab")
    ('a; b; c; d; e and 2 more', 'a; b')
    """
    every = list(map(str, names))
    return "; ".join(every[:most]) + (f" and {len(every) - most:,} more" if len(every) > most else "")
