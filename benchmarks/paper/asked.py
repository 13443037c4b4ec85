"""What is asked of a classifier, and how it is judged on test rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import evenhand as eh
from benchmarks.paper.tables import Half

__all__ = ["DIFFERENCES", "FEW_DIFFERENCES", "FEW_RATIOS", "NOTIONS", "RATIOS", "Asked", "Point", "judged"]

NOTIONS: dict[str, Any] = {
    "DP": eh.DemographicParity,
    "EO": eh.EqualOpportunity,
    "PE": eh.PredictiveEquality,
    "AP": eh.AccuracyParity,
    "odds": eh.EqualizedOdds,
}
DIFFERENCES = [0.0, 0.01, 0.025, 0.045, 0.07, 0.1, 0.14, 0.2, 0.3]
RATIOS = [1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.25]
FEW_DIFFERENCES = [0.0, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2]
"""For methods that train a model for each tolerance."""
FEW_RATIOS = [1.0, 0.9, 0.75, 0.55, 0.35, 0.2]

Point = tuple[float, float]
"""Accuracy and disparity on test rows: MD, or 1 - MR, so that less is fairer."""


@dataclass(frozen=True)
class Asked:
    """A notion, and how groups are compared."""

    notion: str
    measure: Literal["difference", "ratio"] = "difference"
    groups: str = "intersectional"

    def __str__(self) -> str:
        return f"{self.notion} by {self.measure}"

    def at(self, tolerance: float) -> Any:
        """The requirement at a tolerance."""
        return NOTIONS[self.notion](**{self.measure: tolerance}, groups=self.groups)

    def tolerances(self, *, few: bool = False) -> list[float]:
        """All tolerances to ask for, or a few."""
        if self.measure == "difference":
            return FEW_DIFFERENCES if few else DIFFERENCES
        return FEW_RATIOS if few else RATIOS

    def disparity(self, rates: Any) -> float:
        """How unfair that is."""
        found = self.at(0.5).measure(rates)
        if self.measure == "difference":
            return float(max(statistic.difference for statistic in found))
        return 1 - float(min(statistic.ratio for statistic in found))

    def point(self, rates: Any) -> Point:
        """Accuracy and disparity."""
        return 1 - 2 * rates.risk(), self.disparity(rates)


def judged(test: Half, selection: np.ndarray) -> Any:
    """Rates of decisions with these probabilities, without the noise of drawing them."""
    return eh.cell_rates(test.y, np.clip(np.asarray(selection, float), 0, 1), test.sensitive)
