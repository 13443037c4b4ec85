"""Values as text that is safe to show in a terminal, a browser or a spreadsheet."""

from __future__ import annotations


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
