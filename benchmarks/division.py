"""Guarantees where test rows are divided from rows to learn from in two ways, without any model.

Made to break a guarantee: features tell the label exactly, so that a rule's rates are the label shares of the
rows that it was found on; all groups are at the border of the tolerance; and most rows are kept back, so that
few are left to find the rule on. If the division is stratified by group and label, both parts have the same
label shares, and the test does not see how far these are from the population's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import evenhand as eh
from evenhand.data.features import random_split
from evenhand.guarantee.guarantee import guaranteed
from evenhand.guarantee.margins import internal_requirements
from evenhand.optimum.solution import Solution
from evenhand.posteriors.examples import Examples
from evenhand.requirements.rates import CellRates
from evenhand.requirements.requirement import Constraint

Divide = Callable[[Examples, float, int], tuple[NDArray[np.intp], NDArray[np.intp]]]

WAYS: dict[str, Divide] = {
    "by group and label": Examples.split,
    "at random": lambda rows, share, seed: random_split(len(rows), share, seed),
}


@dataclass(frozen=True)
class Setting:
    """A population and what is to be guaranteed of it.

    Attributes
    ----------
    n_groups, kept_back : int
        Groups, all alike in size, and rows of each that are kept back.
    constraint : Constraint
    confidence, reserve : float
    apart : float
        Label shares are 1/2 less or more than that, by turns.
    """

    n_groups: int
    kept_back: int
    constraint: Constraint
    confidence: float
    reserve: float
    apart: float

    def __str__(self) -> str:
        return (
            f"{self.n_groups} groups of {self.kept_back:,} rows kept back, {self.constraint!r}, "
            f"confidence {self.confidence:g}, reserve {self.reserve:g}"
        )


PARITY = eh.DemographicParity(difference=0.04)
SETTINGS = [
    Setting(10, 2000, PARITY, 0.8, 0.7, 0.05),
    Setting(10, 2000, PARITY, 0.8, 0.9, 0.05),
    Setting(10, 2000, PARITY, 0.8, 0.5, 0.05),
    Setting(10, 2000, PARITY, 0.5, 0.7, 0.05),
    Setting(10, 2000, PARITY, 0.95, 0.3, 0.05),
    Setting(20, 1000, eh.DemographicParity(difference=0.06), 0.8, 0.8, 0.07),
    Setting(10, 2000, eh.DemographicParity(ratio=0.9), 0.8, 0.7, 0.06),
    Setting(2, 500, eh.DemographicParity(difference=0.06), 0.8, 0.9, 0.08),
]
"""As found; more and fewer rows kept back; low and high confidence; many groups; a ratio; few rows."""


def draw(setting: Setting, divide: Divide, seed: int) -> tuple[bool, bool]:
    """Whether something is guaranteed of a sample, and whether that is broken in the population."""
    rng = np.random.default_rng(seed)
    M, groups = setting.n_groups, eh.Groups.product({"group": range(setting.n_groups)})
    base = 0.5 + setting.apart * np.where(np.arange(M) % 2, 1, -1)
    codes = rng.integers(0, M, round(M * setting.kept_back / setting.reserve))
    sample = Examples(None, codes, rng.random(len(codes)) < base[codes], M)
    learned, held_out = (sample.take(rows) for rows in divide(sample, setting.reserve, seed))
    drawn = rng.random(len(held_out))
    scores = eh.GroupedScores(np.tile([0.02, 0.98], M), np.repeat(np.arange(M), 2), M)
    counts = np.bincount(learned.cells, minlength=2 * M)

    def solution(internal: Constraint) -> Solution:
        return eh.solve(scores, internal, sample_weight=counts, groups=groups)

    def candidates() -> Iterator[tuple[Constraint, NDArray[Any], list[CellRates]]]:
        loosest = solution(setting.constraint)
        for internal in internal_requirements(setting.constraint, loosest.rates, len(held_out)):
            chosen = solution(internal).selection
            yield internal, chosen, [CellRates.count(groups, held_out.cells, drawn < chosen[held_out.cells])]

    everyone = CellRates.count(groups, sample.cells, sample.positive)
    selection, guarantee = guaranteed(candidates(), setting.constraint, setting.confidence, all_rows=everyone)
    mass = np.column_stack([1 - base, base]) / M
    rates = CellRates(groups, mass, mass * selection.reshape(M, 2))
    return guarantee.holds, max(found.excess for found in setting.constraint.measure(rates)) > 0
