"""Values as text that a terminal, a browser or a spreadsheet shows as it is."""

from __future__ import annotations

__all__ = ["show"]


def show(value: object, *, keep: str = "") -> str:
    r"""Text of a value, with unprintable characters made visible.

    Parameters
    ----------
    value : object
        None is missing.
    keep : str, default=""
        Characters that stay although they cannot be printed.

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
