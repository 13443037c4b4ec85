"""Widths of text, so that a picture looks the same with any font.

A chart is laid out with the widths of Arial. If a browser falls back to a wider font, names of groups would
overlap and run out of the picture. SVG can state the width of a text, and the browser then squeezes it.
"""

from __future__ import annotations

import html
import re
import unicodedata

__all__ = ["fitted", "width"]

_FIRST = ord(" ")
_REGULAR = (
    *(278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278),
    *(556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556),
    *(1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778),
    *(667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556),
    *(333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556),
    *(556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584),
)
_BOLD = (
    *(278, 333, 474, 556, 556, 889, 722, 238, 333, 333, 389, 584, 278, 333, 278, 278),
    *(556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 333, 333, 584, 584, 584, 611),
    *(975, 722, 722, 722, 722, 667, 611, 778, 722, 278, 556, 722, 611, 833, 722, 778),
    *(667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 333, 278, 333, 584, 556),
    *(333, 556, 611, 556, 611, 556, 333, 611, 611, 278, 278, 556, 278, 889, 611, 611),
    *(611, 611, 389, 556, 333, 611, 556, 778, 556, 556, 500, 389, 280, 389, 584),
)
"""In thousandths of the font size, starting at the space; Liberation Sans has the widths of Arial."""

_OTHERS = {"…": 1000, "·": 333, "\u2212": 584, "\u2013": 556, "←": 1000, "→": 1000}  # minus sign, dash

_TEXT = re.compile(r"<text((?:[^>]*[^>/])?)>(.*?)</text>", re.DOTALL)  # not <text/>, which is empty
_PART = re.compile(r"<tspan([^>]*)>([^<]*)</tspan>")


def width(text: str, size: float, *, bold: bool = False) -> float:
    """Width of a text in Arial; letters that Arial may lack get a typical width.

    Parameters
    ----------
    text : str
    size : float
        Font size.
    bold : bool, default=False

    Returns
    -------
    float

    Examples
    --------
    >>> round(width("race=White", 12), 1), width("女", 12)
    (61.0, 12.0)
    """
    return sum(_letter(letter, _BOLD if bold else _REGULAR) for letter in text) * size / 1000


def _letter(letter: str, table: tuple[int, ...]) -> int:
    place = ord(letter) - _FIRST
    if 0 <= place < len(table):
        return table[place]
    if letter in _OTHERS:
        return _OTHERS[letter]
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):  # combining or invisible
        return 0
    return 1000 if unicodedata.east_asian_width(letter) in "WF" else 600


def fitted(svg: str) -> str:
    """The picture with the width of each text stated.

    Parameters
    ----------
    svg : str
        As written by Vega.

    Returns
    -------
    str

    Examples
    --------
    >>> fitted('<text font-size="10px">Hi</text>')
    '<text font-size="10px" textLength="9.4" lengthAdjust="spacingAndGlyphs">Hi</text>'
    """

    def whole(found: re.Match[str]) -> str:
        attributes, inside = found.groups()
        size = re.search(r'font-size="([\d.]+)px"', attributes)
        bold = 'font-weight="bold"' in attributes
        if size is None:
            return found[0]

        def sized(attributes: str, text: str) -> str:
            wide = width(html.unescape(text), float(size[1]), bold=bold)
            squeezed = f' textLength="{wide:.1f}" lengthAdjust="spacingAndGlyphs"' if wide else ""
            return f"{attributes}{squeezed}>{text}"

        if "<" not in inside:
            return f"<text{sized(attributes, inside)}</text>"
        parts = _PART.sub(lambda part: f"<tspan{sized(part[1], part[2])}</tspan>", inside)
        return f"<text{attributes}>{parts}</text>"

    return _TEXT.sub(whole, svg)
