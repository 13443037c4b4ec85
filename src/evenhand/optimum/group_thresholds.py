"""A rule with known groups as thresholds that a person can read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.optimum.rule import Rule
from evenhand.solver.thresholds import Steps

Floats = NDArray[np.float64]

_ROUNDING = 1e-9
"""Probabilities this close to 0 or 1 are rounding errors."""
_NOISE = 1e-12
"""Weights this small, compared with the costs, are rounding errors."""
_NARROW = 0.01
"""A range of scores this narrow, in which decisions are randomised, is shown as one threshold."""


@dataclass(frozen=True)
class GroupThreshold:
    """How one group is decided by its score.

    Attributes
    ----------
    threshold : float or None
        Rows with a larger score are selected; None where there is no single threshold.
    note : str or None
        What happens instead.
    steps : str or None
        Where decisions are randomised, the probability of selection over the range of scores.
    """

    threshold: float | None
    note: str | None = None
    steps: str | None = None


def group_thresholds(rule: Rule) -> list[GroupThreshold]:
    """The threshold of each group, for a rule whose groups are known.

    Examples
    --------
    >>> import numpy as np
    >>> rule = Rule(np.array([[-0.5, 0.5], [-0.3, 0.7]]))
    >>> [one.threshold for one in group_thresholds(rule)]
    [0.5, 0.3]
    """
    table = np.asarray(rule.table, dtype=np.float64)
    noise = _NOISE * max(rule.unit, float(np.abs(table).max()))
    steps = rule.steps or Steps(*zip(*(sides(weights, noise) for weights in table), strict=True))
    return [_threshold(*step) for step in zip(steps.edges, steps.chances, table, strict=True)]


def sides(weights: Floats, noise: float = 0.0) -> tuple[Floats, Floats]:
    """The sign of H as a step function of the score of a group, from its weights in the table W."""
    low, high = np.where(np.abs(weights) <= noise, 0.0, weights).tolist()  # H at the scores 0 and 1
    if (low > 0) == (high > 0) or low == high:
        return np.empty(0), np.array([float(low + high > 0)])
    return np.array([low / (low - high)]), np.array([0.0, 1.0] if high > low else [1.0, 0.0])


def _threshold(edges: Floats, chances: Floats, weights: Floats) -> GroupThreshold:
    """A threshold, or the probabilities of selection if decisions are randomised over a range of scores."""
    ends = [0.0 if chance <= _ROUNDING else 1.0 if chance >= 1 - _ROUNDING else chance for chance in chances]
    if (ends[0], ends[-1]) == (0.0, 1.0) and edges[-1] - edges[0] <= _NARROW:
        root = -weights[0] / (weights[1] - weights[0]) if weights[1] > weights[0] else edges[-1]
        return GroupThreshold(float(np.clip(root, max(edges[0], 0.0), min(edges[-1], 1.0))))
    if not len(edges) and ends[0] in (0.0, 1.0):
        return GroupThreshold(None, "everyone is selected" if ends[0] else "no one is selected")
    if not len(edges):
        return GroupThreshold(None, "randomised", f"chance {ends[0]:.3g} for every score")
    parts = [
        f"{ends[0]:.3g} below {edges[0]:.3f}",
        *(
            f"{chance:.3g} from {low:.3f}" + (f" to {high:.3f}" if high is not None else " on")
            for chance, low, high in zip(ends[1:], edges, [*edges[1:], None], strict=True)
        ),
    ]
    note = "selected below a score" if ends == [1.0, 0.0] else "randomised"
    return GroupThreshold(None, note, f"chance {', '.join(parts)}")
