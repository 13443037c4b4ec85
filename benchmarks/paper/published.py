"""The numbers that the paper prints, under demographic parity by mean difference for sex x race."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MULTIPLIERS", "ROWS", "Row"]


@dataclass(frozen=True)
class Row:
    """A printed row: accuracy and MD on test rows, as a mean of so many runs."""

    table: str
    method: str
    setting: str
    accuracy: float
    disparity: float
    runs: int


MEANS = {
    ("COMPAS, race x sex", "post", "blind"): (
        "0.5936 0.1096, 0.6233 0.1596, 0.6461 0.2108, 0.6650 0.2571, 0.6735 0.2927"
    ),
    ("COMPAS, race x sex", "post", "aware"): (
        "0.6413 0.0916, 0.6419 0.1403, 0.6408 0.2038, 0.6438 0.2387, 0.6569 0.2877"
    ),
}
"""Means of ten runs: the table of confidence intervals."""

MULTIPLIERS = {
    ("COMPAS, race x sex", "in", "blind"): [
        "0.5737 0.1045 -0.25 -0.9167 -0.3333 -0.8333",
        "0.6264 0.2617 0.0 0.9167 0.6667 -0.5",
        "0.6783 0.2932 0.6667 -0.8333 0.8333 0.25",
    ],
    ("COMPAS, race x sex", "in", "aware"): [
        "0.6499 0.1147 -0.0625 -0.1875 -0.0625 -0.1875",
        "0.6635 0.1938 -0.125 -0.5625 -0.125 -0.375",
        "0.6722 0.3121 -0.125 -0.625 -0.125 -0.375",
    ],
    ("COMPAS, race x sex", "post", "blind"): [
        "0.5369 0.0890 0.2 0.4 0.4 -0.6",
        "0.5790 0.1282 0.0 0.4 0.4 -0.2",
        "0.6499 0.2316 0.2 1.0 0.4 0.8",
    ],
    ("COMPAS, race x sex", "post", "aware"): [
        "0.6188 0.1046 0.0 0.1 0.0 0.0",
        "0.6283 0.2084 -0.1 -0.5 -0.1 -0.3",
        "0.6317 0.2192 0.0 0.0 0.0 0.0",
    ],
    ("Adult, sex x race", "in", "blind"): [
        "0.8251 0.0290 0.0 0.3 0.3 0.8",
        "0.8336 0.0556 0.0 0.4 0.1 0.4",
        "0.8550 0.1604 0.3 0.0 -0.2 -0.4",
    ],
    ("Adult, sex x race", "in", "aware"): [
        "0.8449 0.0794 0.0 0.0 0.0 0.2",
        "0.8544 0.1534 0.0 0.0 0.1 0.1",
        "0.8592 0.2382 0.1 0.0 0.1 0.0",
    ],
    ("Adult, sex x race", "post", "blind"): [
        "0.8425 0.0712 -0.1 0.2 -0.4 -0.8",
        "0.8507 0.1552 0.2 -0.1 -0.4 -0.8",
        "0.8540 0.2072 0.3 0.0 -0.2 -0.4",
    ],
    ("Adult, sex x race", "post", "aware"): [
        "0.8416 0.0703 0.0 0.0 -0.1 0.1",
        "0.8536 0.1592 0.0 0.0 0.1 0.1",
        "0.8556 0.2071 0.0 0.0 0.0 -0.2",
    ],
}
"""Two tables of multipliers, of one run each: accuracy, MD, and what a grid search chose for four groups."""

ROWS = [
    *(Row(*where, *map(float, row.split()), 10) for where, rows in MEANS.items() for row in rows.split(", ")),
    *(Row(*where, *map(float, row.split()[:2]), 1) for where, rows in MULTIPLIERS.items() for row in rows),
]
"""All 34 rows of the three tables that give accuracy and MD."""
