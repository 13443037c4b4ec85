"""Results as HTML tables in a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from evenhand.display.text import show

__all__ = ["MOST_ROWS", "html_table"]

MOST_ROWS = 12
"""The most rows that a notebook table shows; the rest are counted."""


def html_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    caption: str = "",
    most: int | None = MOST_ROWS,
) -> str:
    """An HTML table of the first rows, with the number of those left out.

    Parameters
    ----------
    headings : sequence of str
    rows : iterable of sequences
        The first cell of each is its heading.
    caption : str, default=""
    most : int or None, default=12
        Number of rows to show; None shows all.

    Returns
    -------
    str

    Examples
    --------
    >>> html_table(["group"], [["<b>"]])
    '<table><thead><tr><th>group</th></tr></thead><tbody><tr><th>&lt;b&gt;</th></tr></tbody></table>'
    """
    escaped = [[html.escape(show(str(cell))) for cell in row] for row in rows]
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings)
    body = "".join(
        f"<tr><th>{first}</th>{''.join(f'<td>{cell}</td>' for cell in rest)}</tr>"
        for first, *rest in escaped[:most]
    )
    above = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    left_out = 0 if most is None else len(escaped) - most
    below = f"<p>and {left_out:,} more</p>" if left_out > 0 else ""
    return f"<table>{above}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"
