"""Rates of the groups over time."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from evenhand.monitoring.comparisons import block_sums, find_comparisons
from evenhand.monitoring.history import History
from evenhand.monitoring.mixture import rate_limits
from evenhand.requirements.requirement import Constraint

__all__ = ["periods"]


def periods(constraint: Constraint, history: History, alpha: float) -> list[dict[str, Any]]:
    """Rates between two records, with intervals; see :meth:`Monitor.history`."""
    if not history.cells:
        return []
    blocks = {(one.statistic, one.who): one.inside for one in find_comparisons(constraint, history.groups[0])}
    found: list[dict[str, Any]] = []
    for before, after in pairwise(history.records):
        sums = history.placed(after.sums - before.sums).astype(np.float64)
        for (statistic, who), inside in blocks.items():
            start, width = statistic.range
            n, total = (np.atleast_1d(part[inside].sum()) for part in block_sums(statistic, sums))
            if n[0] <= 0:
                continue
            ends = (total / n, *rate_limits(n, total, alpha))
            rate, low, high = (float(start + width * end[0]) for end in ends)
            named = {"batch": after.batch, "time": after.time, "group": who, "statistic": statistic.name}
            found.append(
                {**named, "rate": rate, "low": low, "high": high, "evidence": float(np.exp(after.evidence))}
            )
    return found
