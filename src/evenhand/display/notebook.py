"""Results as short tables: HTML in a notebook, text elsewhere."""

from __future__ import annotations

import html
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

from evenhand.display.text import show

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
    head = "".join(f"<th>{html.escape(show(heading))}</th>" for heading in headings)
    body = "".join(
        f"<tr><th>{first}</th>{''.join(f'<td>{cell}</td>' for cell in rest)}</tr>"
        for first, *rest in escaped[:most]
    )
    above = f"<caption>{html.escape(show(caption))}</caption>" if caption else ""
    left_out = 0 if most is None else len(escaped) - most
    below = f"<p>and {left_out:,} more</p>" if left_out > 0 else ""
    return f"<table>{above}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"


def text_table(
    headings: Sequence[str], rows: Iterable[Sequence[object]], *, caption: str = "", most: int = MOST_ROWS
) -> str:
    """The same as text, with aligned columns: numbers to the right, anything else to the left.

    Examples
    --------
    >>> print(text_table(["sex", "rows"], [["F", 12], ["M", 7]], caption="2 groups"))
    2 groups
    sex  rows
    F      12
    M       7
    """
    cells = [[show(str(cell)) for cell in row] for row in rows]
    columns = enumerate(zip(*cells[:most], strict=True))
    text = {k for k, column in columns if not all(cell[:1] in "+-.0123456789" for cell in column)}
    lines = aligned([headings, *cells[:most]], text=text)
    more = [f"and {len(cells) - most:,} more"] if len(cells) > most else []
    return "\n".join([*([caption] if caption else []), *lines, *more])


def aligned(lines: Sequence[Sequence[str]], *, text: Container[int] = (0,)) -> list[str]:
    r"""Lines with aligned columns, two spaces apart: those with places in `text` are text, others numbers.

    Examples
    --------
    >>> print(*aligned([["group", "rows"], ["sex=F", "12"], ["sex=M", "1,024"]]), sep="\n")
    group   rows
    sex=F     12
    sex=M  1,024
    """
    columns = []
    for k, column in enumerate(zip(*lines, strict=True)):
        width = max(map(len, column))
        columns.append([cell.ljust(width) if k in text else cell.rjust(width) for cell in column])
    return ["  ".join(line).rstrip() for line in zip(*columns, strict=True)]


def inline_svg(draw: Callable[[], Any]) -> str:
    """SVG of the chart that `draw` makes; empty without the extra ``report``."""
    try:
        return str(draw().as_svg())
    except ImportError:
        return ""


class ShownAsTable:
    """What is shown as a short table; subclasses say which, by `_table`."""

    def _table(self) -> tuple[str, Sequence[str], Iterable[Sequence[object]]]:
        """Caption, headings and rows."""
        raise NotImplementedError

    def __repr__(self) -> str:
        caption, headings, rows = self._table()
        return text_table(headings, rows, caption=caption)

    def _repr_html_(self) -> str:
        caption, headings, rows = self._table()
        return html_table(headings, rows, caption=caption)
