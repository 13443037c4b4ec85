"""Colour-blind safe colours for light and dark backgrounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evenhand.exceptions import InputError

__all__ = ["Look", "Theme", "contrast", "legible", "look_of", "mixed"]

Theme = Literal["light", "dark"]


@dataclass(frozen=True)
class Look:
    """Colours of a theme.

    Attributes
    ----------
    paper, ink, faint, grid : str
        Background, text, secondary text, and lines behind the data.
    colours : tuple of str
        After Okabe and Ito, made darker or lighter where the contrast with the background was too low.
    diverging : tuple of str
        For values below, at and above 0.
    """

    paper: str
    ink: str
    faint: str
    grid: str
    colours: tuple[str, ...]
    diverging: tuple[str, str, str]


_LOOKS = {
    "light": Look(
        paper="#ffffff",
        ink="#1b1e23",
        faint="#5b6068",
        grid="#e3e5e8",
        colours=("#0072B2", "#D55E00", "#009E73", "#B65A8E", "#9A6A00", "#555555"),
        diverging=("#C75400", "#f4f4f2", "#0067A3"),
    ),
    "dark": Look(
        paper="#15181d",
        ink="#eceef0",
        faint="#a9b0b8",
        grid="#343a42",
        colours=("#56B4E9", "#E69F00", "#35C79A", "#E08FBF", "#F0E442", "#BBBBBB"),
        diverging=("#E69F00", "#262b32", "#56B4E9"),
    ),
}


def look_of(theme: str) -> Look:
    """Colours of a theme."""
    if theme not in _LOOKS:
        raise InputError(f"theme is {theme!r}; it must be one of {[*_LOOKS]}")
    return _LOOKS[theme]


def mixed(one: str, other: str, share: float) -> str:
    """A colour between two others.

    Examples
    --------
    >>> mixed("#000000", "#ff8000", 0.5)
    '#804000'
    """
    parts = zip(*(bytes.fromhex(colour[1:]) for colour in (one, other)), strict=True)
    return "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in parts)


def legible(behind: str) -> str:
    """Black or white, whichever is easier to read on a colour.

    Examples
    --------
    >>> legible("#F0E442"), legible("#0072B2")
    ('#000000', '#ffffff')
    """
    return max(("#000000", "#ffffff"), key=lambda ink: contrast(ink, behind))


def contrast(one: str, other: str) -> float:
    """Contrast of two colours as WCAG 2 defines it, from 1 to 21.

    Examples
    --------
    >>> contrast("#000000", "#ffffff")
    21.0
    """
    dark, light = sorted(_luminance(colour) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = (part / 255 for part in bytes.fromhex(colour[1:]))
    linear = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
