"""Many people with the same posterior: what a rule does for them all.

A rule is found on posteriors that models of the folds give, and used on those of the model for new rows.
Where features are discrete, the latter put many people on the same spot, and the former scatter them around
it: some are decided one way, some the other. One decision for the whole spot would miss what was found, so it
is decided by lot, with the share that was.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairness.scores import GroupedScores
from evenhand.optimum.rule import SAME_ATOM, Rule, written_out
from evenhand.solver.oracle import ROUNDING
from evenhand.solver.thresholds import Steps

__all__ = ["randomise_atoms"]

_LEAST_SHARE = 1e-3
_LEAST_ROWS = 10
Floats = NDArray[np.float64]


def randomise_atoms(
    rule: Rule, posteriors: NDArray[Any] | GroupedScores, selection: Floats, weights: Floats | None
) -> Rule:
    """Give spots that many people share the selection that was found for these people.

    Parameters
    ----------
    rule : Rule
    posteriors : array of shape (n, M, 2), or GroupedScores
        Of the rows that the rule was found on, by the model for new rows.
    selection : array, shape (n,)
        What was found for them.
    weights : array or None
        How much each row counts.

    Returns
    -------
    Rule
    """
    rule = replace(rule, resolution=SAME_ATOM)
    off = np.flatnonzero(rule.selection(posteriors) != selection)
    least = max(_LEAST_ROWS, _LEAST_SHARE * len(selection))
    if len(off) < least:
        return rule
    if rule.steps is not None and isinstance(posteriors, GroupedScores):
        # The step function of a known group says everything, so a spot is cut out of it.
        return replace(rule, steps=_stepped(rule.steps, posteriors, selection, weights, off=off, least=least))
    spots, counts = np.unique(written_out(posteriors, off, len(rule.table)), axis=0, return_counts=True)
    spots = spots[counts >= least]
    if not len(spots):
        return rule
    H = rule.decision(posteriors)
    own = np.tensordot(spots, rule.table, axes=2)
    order = np.argsort(H)
    width = ROUNDING * max(rule.unit, float(np.abs(rule.table).max()))
    first, last = np.searchsorted(H[order], [own - width, own + width])
    known = rule.boundary()
    for spot, begin, end in zip(spots, first, last, strict=True):
        rows = order[begin:end]  # those with the same H, of which few are elsewhere
        members = rows[(written_out(posteriors, rows, len(rule.table)) == spot).all(axis=(1, 2))]
        known[spot.tobytes()] = _mean(selection, weights, members)
    atoms = np.array([np.frombuffer(key) for key in known]).reshape(-1, *rule.table.shape)
    reach = max(rule.reach, 1.001 * float(np.abs(own).max()))
    return replace(rule, atoms=atoms, chances=np.array(list(known.values())), reach=reach)


def _stepped(
    steps: Steps,
    scores: GroupedScores,
    selection: Floats,
    weights: Floats | None,
    *,
    off: NDArray[np.intp],
    least: float,
) -> Steps:
    edges, chances = list(steps.edges), list(steps.chances)
    for m in np.unique(scores.codes[off]).tolist():
        values, counts = np.unique(scores.eta[off[scores.codes[off] == m]], return_counts=True)
        group = np.flatnonzero(scores.codes == m)
        group = group[np.argsort(scores.eta[group])]
        for spot in values[counts >= least].tolist():
            first, last = (np.searchsorted(scores.eta[group], spot, side=side) for side in ("left", "right"))
            chance = _mean(selection, weights, group[first:last])
            edges[m], chances[m] = _with_spot(edges[m], chances[m], spot, chance)
    return Steps(tuple(edges), tuple(chances))


def _with_spot(edges: Floats, chances: Floats, spot: float, chance: float) -> tuple[Floats, Floats]:
    """Cut a single score out of a step function and give it a chance of its own."""
    below, above = spot - SAME_ATOM, spot + SAME_ATOM  # another processor gives other last bits
    before, after = edges[edges < below], edges[edges > above]
    return (
        np.concatenate([before, [below, above], after]),
        np.concatenate([chances[: len(before) + 1], [chance], chances[len(edges) - len(after) :]]),
    )


def _mean(selection: Floats, weights: Floats | None, members: NDArray[np.intp]) -> float:
    if weights is None or not weights[members].any():
        return float(selection[members].mean())
    return float(np.average(selection[members], weights=weights[members]))
