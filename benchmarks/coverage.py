"""Do the audit's intervals cover: those of each group's rates, of the mean difference and of the mean ratio.

Run: ``python -m benchmarks.coverage`` (some ten minutes). Tables of counts are drawn from known rates, so
that what is true of the population is known; 2, 4 and 16 groups, the smallest of 1 % of the rows from 4 on.
In the weighted settings a row weighs 1 or 10. Heavy rows are one in fifty, or one in ten, group by group in
turn, and their odds of being selected are twenty times as high.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import evenhand as eh
from benchmarks.record import write
from evenhand.auditing.comparison import compare
from evenhand.auditing.group_rates import find
from evenhand.auditing.tally import Tally
from evenhand.requirements.rates import CellRates

DRAWS = 1000
CONFIDENCE = 0.95
SHARES = {
    2: [0.8, 0.2],
    4: [0.6, 0.3, 0.09, 0.01],
    16: [0.15] * 4 + [0.06] * 4 + [0.03] * 4 + [0.01] * 4,
}
SIZES = (3_000, 20_000)
NOTIONS = {"DP": eh.DemographicParity, "EO": eh.EqualOpportunity, "odds": eh.EqualizedOdds}
ODDS = {"": None, ", weights along with decisions": 20.0}
RATES = {"equal": (0.3, 0.3), "apart": (0.15, 0.55), "rare": (0.01, 0.04)}


@dataclass(frozen=True)
class Population:
    """Kinds of rows, which differ in weight: arrays of shape (kinds, M, 2).

    Attributes
    ----------
    weights : array, shape (kinds, 1, 1)
        The largest is 1.
    joint : array
        P(kind, S=m, Y=y).
    rates : array
        P(decision 1 | kind, S=m, Y=y).
    """

    groups: eh.Groups
    weights: NDArray[np.float64]
    joint: NDArray[np.float64]
    rates: NDArray[np.float64]

    @property
    def true(self) -> CellRates:
        """What is estimated."""
        mass = self.weights * self.joint
        return CellRates(self.groups, mass.sum(axis=0), (mass * self.rates).sum(axis=0))

    def draw(self, n: int, rng: np.random.Generator) -> Tally:
        """Rows of each kind by cell, and how many of them are selected."""
        rows = rng.multinomial(n, self.joint.ravel()).reshape(self.joint.shape)
        chosen = rng.binomial(rows, self.rates)
        w, weighted = self.weights, len(self.weights) > 1
        units = [np.ones_like(w), w, w**2]
        sums = np.array([[(unit * part).sum(axis=0) for part in (rows, chosen)] for unit in units])
        return Tally(self.groups, sums, sums[:, :, :0], weighted, labelled=True)


def population(n_groups: int, between: tuple[float, float], odds: float | None = None) -> Population:
    """Cells with half of each group positive, and selection rates spread between two numbers.

    With `odds` some rows weigh ten times as much as the others, and have so many times their odds.
    """
    groups = eh.Groups.product({"group": range(n_groups)})
    mass = np.outer(SHARES[n_groups], [0.5, 0.5])
    rates = np.random.default_rng(n_groups).permutation(np.linspace(*between, 2 * n_groups)).reshape(-1, 2)
    if odds is None:
        return Population(groups, np.ones((1, 1, 1)), mass[None], rates[None])
    heavy = np.where(np.arange(n_groups) % 2, 0.1, 0.02)[:, None]
    return Population(
        groups,
        np.array([0.1, 1.0])[:, None, None],
        np.stack([mass * (1 - heavy), mass * heavy]),
        np.stack([rates, odds * rates / (1 - rates + odds * rates)]),
    )


def setting(people: Population, n: int) -> dict[str, str]:
    """Coverage and mean width of every interval."""
    true, rng = people.true, np.random.default_rng(n)
    sums = np.broadcast_to([true.mass, true.selected], (3, 2, *true.mass.shape))
    truth = find(Tally(true.groups, sums, sums[:, :, :0], weighted=False, labelled=True), CONFIDENCE)
    hits: dict[str, list[bool]] = {}
    widths: dict[str, list[float]] = {}

    def note(name: str, inside: bool, width: float) -> None:
        hits.setdefault(name, []).append(inside)
        widths.setdefault(name, []).append(width)

    for _ in range(DRAWS):
        counted = people.draw(n, rng)
        for notion, kind in NOTIONS.items():
            for measure, asked in (("MD", kind(difference=0.1)), ("MR", kind(ratio=0.8))):
                found = compare(asked, counted, CONFIDENCE)
                values = [part.value for part in asked.measure(true)]
                value = max(values) if measure == "MD" else min(values)
                inside = found.low - 1e-12 <= value <= found.high + 1e-12
                note(f"{measure}, {notion}", inside, found.high - found.low)
        for group, known in zip(find(counted, CONFIDENCE), truth, strict=True):
            for name, rate in group.rates.items():
                if not np.isnan(rate.value):
                    inside = rate.low <= known.rates[name].value <= rate.high
                    note(f"{name} of a group", inside, rate.high - rate.low)
    return {
        name: f"covered {np.mean(inside):.3f}, width {np.mean(widths[name]):.3f}"
        for name, inside in hits.items()
    }


def main() -> None:
    results: dict[str, Any] = {"draws": DRAWS, "nominal": CONFIDENCE}
    for n_groups in SHARES:
        for n in SIZES:
            for shape, between in RATES.items():
                for kind, odds in ODDS.items():
                    where = f"{n_groups} groups, {n:,} rows, {shape} rates{kind}"
                    for name, text in setting(population(n_groups, between, odds), n).items():
                        results[f"{where}: {name}"] = text
    write("coverage", results, ["evenhand", "numpy", "scipy"])


if __name__ == "__main__":
    main()
