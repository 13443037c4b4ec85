"""Printed rows beside ours, beside plain models, and beside the paper's algorithms as printed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.paper.asked import Asked
from benchmarks.paper.comparison import at_disparity, between, mean_curve
from benchmarks.paper.kept import Kept
from benchmarks.paper.markdown import markdown_table, points_apart, told_point, with_interval
from benchmarks.paper.published import ROWS, Row
from benchmarks.paper.tables import TABLES

__all__ = [
    "Beside",
    "as_printed",
    "as_printed_in_short",
    "beside",
    "published",
    "published_in_short",
    "reached",
]

DP = str(Asked("DP"))
AS_PRINTED = "as printed"
ALGORITHMS = {"post": "Algorithm 2", "in": "Algorithm 1"}
LEVELS = (0.02, 0.05, 0.1)
"""MD at which algorithms are compared where the paper prints no row."""


@dataclass(frozen=True)
class Beside:
    """A printed row, ours at the same MD, and what a plain model has."""

    row: Row
    ours: float
    half: float
    splits: int
    plain: tuple[float, float]
    mixed: float

    @property
    def word(self) -> str:
        """Whether ours reaches it on average."""
        if self.ours < self.row.accuracy:
            return "**MISSED**"
        return "reached, interval above" if self.ours - self.half > self.row.accuracy else "reached"

    @property
    def by_plain(self) -> str:
        """Whether a plain model is as accurate and as fair, by itself or mixed with a constant answer."""
        if self.plain[0] >= self.row.accuracy and self.plain[1] <= self.row.disparity:
            return "plain"
        return "plain, mixed" if self.mixed >= self.row.accuracy else ""


def beside(kept: Kept) -> list[Beside]:
    """Every printed row that was measured."""
    found = []
    for row in ROWS:
        own = at_disparity(kept, row.table, row.method, row.setting, disparity=row.disparity)
        name = f"plain {TABLES[row.table].learner}"
        plain = mean_curve(kept, row.table, name, row.setting, DP)
        mixed = at_disparity(kept, row.table, name, row.setting, disparity=row.disparity)
        if own is not None and mixed is not None:
            found.append(Beside(row, *own, tuple(plain[0]), mixed[0]))
    return found


def reached(rows: list[Beside]) -> str:
    """How many rows are reached, and by what."""
    by_plain = sum(one.by_plain == "plain" for one in rows)
    mixed = sum(one.by_plain != "" for one in rows)
    above = sum("above" in one.word for one in rows)
    return (
        f"{sum(one.ours >= one.row.accuracy for one in rows)} of {len(ROWS)} are reached, {above} with the "
        "whole interval above the printed figure. A plain model of the same learner, without any constraint, "
        f"reaches {by_plain}; mixed at random with a constant, {mixed}. Only the other {len(rows) - mixed} "
        "say something about methods for fairness."
    )


def published_in_short(kept: Kept) -> Iterable[str]:
    """How many printed rows are reached, by table, method and setting."""
    yield (
        "All rows that the paper prints as numbers are demographic parity by mean difference. A row is "
        "reached if our mean accuracy at a mean MD no larger is at least the printed one. "
        "[Row by row](reproduction/published.md), with the claims of the paper's text and its multipliers.\n"
    )
    found: dict[tuple[str, str, str], list[Beside]] = {}
    for one in beside(kept):
        found.setdefault((one.row.table, one.row.method, one.row.setting), []).append(one)
    counts = [
        [
            *where,
            len(rows),
            sum(one.ours >= one.row.accuracy for one in rows),
            sum("above" in one.word for one in rows),
            sum(one.by_plain == "plain" for one in rows),
            sum(one.by_plain != "" for one in rows),
        ]
        for where, rows in found.items()
    ]
    heads = ["rows", "reached", "interval above", "by a plain model", "plain, mixed with a constant"]
    yield markdown_table(["table", "method", "setting", *heads], counts)


def published(kept: Kept) -> Iterable[str]:
    """The section of printed rows."""
    rows = beside(kept)
    yield (
        "Demographic parity by mean difference; these are all rows that the paper prints as numbers. Of "
        "ours, the mean accuracy at a mean MD no larger, with its 95 % interval over splits. Where our "
        "smallest MD is larger than the printed one, ours is a random choice between that classifier and "
        "the same answer for everyone. Beside it, what a plain model of the same learner has without any "
        "constraint, and its accuracy at the printed MD if it is mixed with one answer for everyone. A row"
        " that a plain model reaches needs no method for fairness.\n"
    )
    yield f"{reached(rows)}\n"
    heads = ["table", "method", "setting", "runs", "printed", "plain model", "plain, mixed", "ours", "splits"]
    yield markdown_table(
        [*heads, "", "reached by"],
        [
            [
                one.row.table,
                one.row.method,
                one.row.setting,
                one.row.runs,
                told_point((one.row.accuracy, one.row.disparity)),
                told_point(one.plain),
                f"{one.mixed:.4f}",
                with_interval(one.ours, one.half),
                one.splits,
                one.word,
                one.by_plain or "ours",
            ]
            for one in rows
        ],
    )


def as_printed(kept: Kept) -> Iterable[str]:
    """The section of the paper's algorithms exactly as printed."""
    yield (
        "Algorithm 2 (post-processing) and Algorithm 1 (in-processing) with nothing of ours: half of the "
        "training rows fit xgboost with its defaults (logistic regression for COMPAS by race, as in the "
        "paper), whose probabilities are taken as they are; multipliers are those of a grid over [-1, 1]^M"
        " that are most accurate within the tolerance on the other half; costs are raw. For two groups the"
        " grid has the printed step of 0.01, which is 40,401 points. For four groups that would be 201^4: "
        "the box is searched by 0.1, then around the best of each tolerance by 0.02 and by 0.01. Algorithm"
        " 1, which trains a model for each point, is tried on the points that Algorithm 2 chooses for 40 "
        "tolerances, and on a half and a quarter of them. Accuracy at the printed MD, like ours in the "
        "table above; where the smallest MD is larger, mixed with one answer for everyone. The plain model"
        " is the same xgboost with multipliers of zero.\n"
    )
    rows = [
        [row.table, row.method, row.setting, told_point((row.accuracy, row.disparity)), *_compared(kept, row)]
        for row in ROWS
    ]
    for name in TABLES:
        if name not in {row.table for row in ROWS}:
            for setting in ("blind", "aware"):
                for method in ALGORITHMS:
                    for level in LEVELS:
                        at = _compared(kept, Row(name, method, setting, 0, level, 0))
                        rows.append([name, method, setting, f"(none) @ {level:g}", *at])
    yield _where_printed_rows_are(kept)
    heads = ["printed", "as printed", "splits", "its plain model", "ours", "splits"]
    yield markdown_table(["table", "method", "setting", *heads], [row for row in rows if row[4]])
    yield from _ours_against_both(kept)


def as_printed_in_short(kept: Kept) -> Iterable[str]:
    """What the paper's algorithms reach with nothing of ours, and ours beside them."""
    yield (
        "Algorithm 2 (post-processing) and Algorithm 1 (in-processing) with nothing of ours: xgboost or "
        "logistic regression on half of the training rows, raw probabilities, and multipliers from a grid on "
        "the other half. [Row by row](reproduction/as_printed.md).\n"
    )
    yield _where_printed_rows_are(kept)
    yield from _ours_against_both(kept)


def _where_printed_rows_are(kept: Kept) -> str:
    inside = _inside(kept)
    return (
        f"Of the {sum(inside.values())} printed rows that were run, {inside['inside']} are inside the "
        f"interval of what was found here, {inside['above']} above it and {inside['below']} below; the paper "
        "does not say how the points that it prints were chosen. Its plain model reaches "
        f"{_by_their_plain(kept)} of them by itself.\n"
    )


def _ours_against_both(kept: Kept) -> Iterable[str]:
    yield (
        "Ours against both as printed, over the disparities that both curves have: how much more accurate,"
        " in points of a hundred.\n"
    )
    apart = [
        [name, setting, *(_ahead(kept, name, setting, method) for method in ALGORITHMS)]
        for name in TABLES
        for setting in ("blind", "aware")
    ]
    heads = [f"{method} against {what}" for method, what in ALGORITHMS.items()]
    yield markdown_table(["table", "setting", *heads], [row for row in apart if any(row[2:])])


def _inside(kept: Kept) -> Counter[str]:
    """Where printed rows lie, by the interval of the algorithm as printed."""
    found: Counter[str] = Counter()
    for row in ROWS:
        what = ALGORITHMS[row.method]
        here = at_disparity(kept, row.table, AS_PRINTED, row.setting, what=what, disparity=row.disparity)
        if here is not None:
            apart = row.accuracy - here[0]
            found["inside" if abs(apart) <= here[1] else "above" if apart > 0 else "below"] += 1
    return found


def _by_their_plain(kept: Kept) -> int:
    """Printed rows that xgboost on half of the training rows reaches without multipliers."""
    found = 0
    for row in ROWS:
        plain = mean_curve(kept, row.table, AS_PRINTED, row.setting, "no constraint")
        if plain is not None:
            found += plain[0][0] >= row.accuracy and plain[0][1] <= row.disparity
    return int(found)


def _ahead(kept: Kept, name: str, setting: str, method: str) -> str:
    printed = (AS_PRINTED, ALGORITHMS[method])
    found = between(kept, name, Asked("DP"), setting, ours=printed, peer=method)
    return "" if found is None else points_apart(-found[1], found[2])


def _compared(kept: Kept, row: Row) -> list[str]:
    what = ALGORITHMS[row.method]
    theirs = at_disparity(kept, row.table, AS_PRINTED, row.setting, what=what, disparity=row.disparity)
    own = at_disparity(kept, row.table, row.method, row.setting, disparity=row.disparity)
    plain = mean_curve(kept, row.table, AS_PRINTED, row.setting, "no constraint")
    if theirs is None or own is None or plain is None:
        return ["", "", "", "", ""]
    (mean, half, splits), (ours, own_half, own_splits) = theirs, own
    return [
        with_interval(mean, half),
        str(splits),
        told_point(plain[0]),
        with_interval(ours, own_half),
        str(own_splits),
    ]
