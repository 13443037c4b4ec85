"""Do the audit's intervals cover: those of each group's rates, of the mean difference and of the mean ratio.

Run: ``python -m benchmarks.coverage`` (a few minutes). Tables of counts are drawn from known rates, so that
what is true of the population is known; 2, 4 and 16 groups, the smallest of 1 % of the rows from 4 groups on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import evenhand as eh
from benchmarks.record import write
from evenhand.auditing.comparison import compare
from evenhand.auditing.findings import find
from evenhand.auditing.tally import Tally

DRAWS = 1000
CONFIDENCE = 0.95
SHARES = {
    2: [0.8, 0.2],
    4: [0.6, 0.3, 0.09, 0.01],
    16: [0.15] * 4 + [0.06] * 4 + [0.03] * 4 + [0.01] * 4,
}
SIZES = (3_000, 20_000)
NOTIONS = {"DP": eh.DemographicParity, "EO": eh.EqualOpportunity, "odds": eh.EqualizedOdds}
RATES = {"equal": (0.3, 0.3), "apart": (0.15, 0.55), "rare": (0.01, 0.04)}


def population(n_groups: int, between: tuple[float, float]) -> eh.CellRates:
    """Cells with half of each group positive, and selection rates spread between two numbers."""
    groups = eh.Groups.product({"group": range(n_groups)})
    mass = np.outer(SHARES[n_groups], [0.5, 0.5])
    rates = np.random.default_rng(n_groups).permutation(np.linspace(*between, 2 * n_groups)).reshape(-1, 2)
    return eh.CellRates(groups, mass, mass * rates)


def draw(true: eh.CellRates, n: int, rng: np.random.Generator) -> Tally:
    """Rows by cell, and how many of them are selected."""
    rows = rng.multinomial(n, true.mass.ravel()).reshape(true.mass.shape)
    chosen = rng.binomial(rows, true.rates)
    mass, selected = rows.astype(float), chosen.astype(float)
    return Tally(eh.CellRates(true.groups, mass, selected), mass, mass, selected, weighted=False)


def setting(n_groups: int, n: int, between: tuple[float, float]) -> dict[str, str]:
    """Coverage and mean width of every interval."""
    true, rng = population(n_groups, between), np.random.default_rng(n)
    truth = find(Tally(true, true.mass, true.mass, true.selected, weighted=False), CONFIDENCE)
    hits: dict[str, list[bool]] = {}
    widths: dict[str, list[float]] = {}

    def note(name: str, inside: bool, width: float) -> None:
        hits.setdefault(name, []).append(inside)
        widths.setdefault(name, []).append(width)

    for _ in range(DRAWS):
        counted = draw(true, n, rng)
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
                for name, text in setting(n_groups, n, between).items():
                    results[f"{n_groups} groups, {n:,} rows, {shape} rates: {name}"] = text
    write("coverage", results, ["evenhand", "numpy", "scipy"])


if __name__ == "__main__":
    main()
