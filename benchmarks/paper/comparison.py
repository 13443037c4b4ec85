"""Accuracy at matched disparity, and a verdict with its interval.

A method's curve is the mean over splits of accuracy and disparity, tolerance by tolerance. A hull of the
points of a single split would pick the lucky ones, and a method with more points would be luckier. Two mean
curves are compared over the disparities that both have, all alike; how low either gets is a second question.
Intervals of differences are by leaving out each split in turn, of both curves at once, and allow for the rows
that splits share (`intervals`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.paper.asked import Asked
from benchmarks.paper.intervals import jackknife_half, one_sided
from benchmarks.paper.kept import Kept
from benchmarks.paper.methods import METHODS, OURS
from benchmarks.paper.plan import asked_of
from benchmarks.paper.tables import TABLES, read

__all__ = [
    "PEERS",
    "Verdict",
    "at_disparity",
    "between",
    "coin",
    "hull",
    "mean_curve",
    "on_hull",
    "splits_of",
    "verdicts",
]

DP = Asked("DP")
FEWEST = 3
"""Splits without which there is no verdict."""
PEERS = [name for name in METHODS if name not in OURS]


@dataclass(frozen=True)
class Verdict:
    """One cell: ours against a peer on a table."""

    table: str
    asked: Asked
    setting: str
    ours: str
    peer: str
    splits: int
    mean: float
    half: float
    lower: float
    lower_half: float

    @property
    def word(self) -> str:
        """Ahead or behind in accuracy, by a 95 % interval, or undecided."""
        return _word(self.mean, self.half, self.splits)

    def shows(self, margin: float) -> str:
        """No worse, or worse, by a margin of accuracy and one-sided 95 % limits; empty if neither is shown.

        An interval without width shows nothing: the curves are equal, or meet in one point.
        """
        if self.splits < FEWEST or not self.half > 0:
            return ""
        away = one_sided(self.half, self.splits)
        return "no worse" if self.mean - away > -margin else "worse" if self.mean + away < -margin else ""

    @property
    def reach(self) -> str:
        """The same of how fair it can get; nothing for a peer that was not asked for parity."""
        asked = not self.peer.startswith(("plain", "ExponentiatedGradient"))
        return _word(self.lower, self.lower_half, self.splits) if asked else ""


def _word(mean: float, half: float, splits: int) -> str:
    if splits < FEWEST:
        return "too few"
    return "ahead" if mean > half else "behind" if mean < -half else "undecided"


def hull(points: Iterable[Iterable[float]], start: tuple[float, float] | None) -> np.ndarray:
    """The upper hull of a curve, as rows of disparity and accuracy, from the coin on if there is one.

    By difference, whatever lies on it can be had by a random choice between two classifiers, or a classifier
    and the coin. By ratio it is a line between points.
    """
    rows = sorted(
        [*([] if start is None else [start]), *((d, a) for a, d in points if np.isfinite(d))],
        key=lambda row: (row[0], -row[1]),
    )
    found: list[tuple[float, float]] = []
    for d, a in rows:
        if found and a <= found[-1][1]:
            continue
        while len(found) > 1 and _bends_up(found[-2], found[-1], (d, a)):
            found.pop()
        found.append((d, a))
    return np.array(found)


def on_hull(corners: np.ndarray, disparity: float) -> float:
    """Accuracy at a disparity no larger."""
    return float(np.interp(disparity, corners[:, 0], corners[:, 1]))


def coin(table: str, asked: Asked) -> tuple[float, float] | None:
    """What needs no model: everyone gets the more frequent label, or for accuracy parity a coin.

    By ratio, a random choice between a classifier and such a decision need not be fairer, and
    there is none.
    """
    if asked.measure == "ratio":
        return None
    share = float(read(TABLES[table]).y.mean())
    return 0.0, 0.5 if asked.notion == "AP" else max(share, 1 - share)


def splits_of(kept: Kept, table: str, method: str, setting: str, what: str) -> list[int]:
    """The splits that were measured."""
    return [seed for seed in range(100) if (table, method, setting, what, seed) in kept.cells]


def verdicts(kept: Kept) -> list[Verdict]:
    """Each of ours against each peer, wherever both were measured on the same splits."""
    found = []
    for table in TABLES.values():
        for asked in asked_of(table):
            for setting in ("blind", "aware"):
                for ours in OURS:
                    for peer in PEERS:
                        one = _compared(kept, table.name, asked, setting, ours=ours, peer=peer)
                        if one is not None:
                            found.append(one)
    return found


def mean_curve(
    kept: Kept, table: str, method: str, setting: str, what: str, *, missing: Any = None
) -> np.ndarray | Any:
    """Mean accuracy and disparity over splits, tolerance by tolerance."""
    seeds = splits_of(kept, table, method, setting, what)
    if not seeds:
        return missing
    return np.mean([kept.cells[table, method, setting, what, seed]["points"] for seed in seeds], axis=0)


def at_disparity(
    kept: Kept, table: str, method: str, setting: str, *, what: str = str(DP), disparity: float
) -> tuple[float, float, int] | None:
    """Mean accuracy at a mean MD no larger, half of its interval, and the number of splits."""
    seeds = splits_of(kept, table, method, setting, what)
    if len(seeds) < 2:
        return None
    points = np.array([kept.cells[table, method, setting, what, seed]["points"] for seed in seeds])
    start = coin(table, DP)

    def found(some: np.ndarray) -> float:
        return on_hull(hull(some.mean(axis=0), start), disparity)

    half = jackknife_half(found(points), [found(np.delete(points, k, 0)) for k in range(len(seeds))])
    return found(points), half, len(seeds)


def _compared(kept: Kept, table: str, asked: Asked, setting: str, *, ours: str, peer: str) -> Verdict | None:
    found = between(kept, table, asked, setting, ours=(ours, str(asked)), peer=peer)
    return None if found is None else Verdict(table, asked, setting, ours, peer, *found)


def between(
    kept: Kept, table: str, asked: Asked, setting: str, *, ours: tuple[str, str], peer: str
) -> tuple[int, float, float, float, float] | None:
    """Compare a method and what was measured of it with a peer.

    Gives the number of splits, how much more accurate ours is, how much lower its smallest disparity is, and
    half of the interval of each.
    """
    keys = [(table, *own) for own in [(ours[0], setting, ours[1]), (peer, setting, str(asked))]]
    seeds = set(splits_of(kept, *keys[0])) & set(splits_of(kept, *keys[1]))
    if not seeds:
        return None
    own, theirs = (np.array([kept.cells[*key, seed]["points"] for seed in sorted(seeds)]) for key in keys)
    start, n = coin(table, asked), len(seeds)
    pairs = [(np.delete(own, k, 0), np.delete(theirs, k, 0)) for k in range(n)] if n > 1 else []
    apart, lower = _apart(own, theirs, start), _lower(own, theirs)
    apart_half = jackknife_half(apart, [_apart(*pair, start) for pair in pairs])
    return n, apart, apart_half, lower, jackknife_half(lower, [_lower(*pair) for pair in pairs])


def _apart(own: np.ndarray, theirs: np.ndarray, start: tuple[float, float] | None) -> float:
    """How much more accurate our mean curve is, on average over the disparities that both curves have."""
    line, corners = (hull(points.mean(axis=0), start) for points in (own, theirs))
    first = 0 if start is None else 1
    least = max(some[min(first, len(some) - 1), 0] for some in (line, corners))
    grid = np.linspace(least, max(least, corners[-1, 0]), 101)
    return float(np.mean([on_hull(line, d) - on_hull(corners, d) for d in grid]))


def _lower(own: np.ndarray, theirs: np.ndarray) -> float:
    """How much lower the smallest disparity of our mean curve is."""
    return float(theirs.mean(axis=0)[:, 1].min() - own.mean(axis=0)[:, 1].min())


def _bends_up(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[0] - a[0]) * (c[1] - a[1]) >= (b[1] - a[1]) * (c[0] - a[0])
