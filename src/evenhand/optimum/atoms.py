"""Ties: posteriors that many rows share are decided at random.

A rule is found on out-of-fold posteriors and used on those of the model for new rows. Where features are
discrete, the latter have atoms, and the former scatter the rows of an atom around it: some are selected, some
are not. One decision for the whole atom would miss the optimum, so it is randomised, with the share of its
rows that was selected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.optimum.rule import REACH_MARGIN, SAME_ATOM, Rule
from evenhand.posteriors.posteriors import GroupedScores, Posteriors
from evenhand.solver.oracle import ROUNDING
from evenhand.solver.thresholds import Steps

__all__ = ["FurtherRows", "randomise_atoms"]

_LEAST_SHARE = 1e-3  # fewer rows change the selection rate by less than 0.1 %
_LEAST_ROWS = 10  # of fewer the share is noise
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FurtherRows:
    """Rows that the rule was found on besides those at hand, with posteriors by the model for new rows.

    Attributes
    ----------
    count : int
    weight : function
        The total weight of the rows at each of some posteriors, of shape (k, M, 2).
    """

    count: int
    weight: Callable[[Floats], Floats]


def randomise_atoms(
    rule: Rule,
    posteriors: Posteriors,
    selection: Floats,
    weights: Floats | None,
    *,
    further: FurtherRows | None = None,
) -> Rule:
    """Randomise every atom that many rows share, with the mean selection of its rows.

    Parameters
    ----------
    rule : Rule
    posteriors : Posteriors
        Of the rows that the rule was found on, by the model for new rows.
    selection : array, shape (n,)
        The optimum for these rows.
    weights : array, shape (n,), or None
    further : FurtherRows, default=None
        Other rows that the rule was found on; they are decided as the rule decides.

    Returns
    -------
    Rule
    """
    found_on = rule
    rule = replace(rule, resolution=SAME_ATOM)
    off = np.flatnonzero(rule.selection(posteriors) != selection)
    rows = len(selection) + (0 if further is None else further.count)
    least = max(_LEAST_ROWS, _LEAST_SHARE * rows)
    others = _Others(found_on, further)
    if len(off) < least:
        return rule
    if rule.steps is not None and posteriors.codes is not None:
        # The step function decides alone, so an atom becomes a step of its own.
        steps = _with_atoms(rule.steps, posteriors, selection, weights, off=off, least=least, others=others)
        return replace(rule, steps=steps)
    found, counts = np.unique(posteriors.dense(off), axis=0, return_counts=True)
    found = found[counts >= least]
    if not len(found):
        return rule
    H = rule.decision(posteriors)
    own = np.tensordot(found, rule.table, axes=2)
    order = np.argsort(H)
    width = ROUNDING * max(rule.unit, float(np.abs(rule.table).max()))
    first, last = np.searchsorted(H[order], [own - width, own + width])
    known = rule.boundary()
    for atom, begin, end, other in zip(found, first, last, others.at(found), strict=True):
        near = order[begin:end]  # the same H: few of them are other atoms
        members = near[(posteriors.dense(near) == atom).all(axis=(1, 2))]
        known[atom.tobytes()] = _mean(selection, weights, members, other)
    atoms = np.array([np.frombuffer(key) for key in known]).reshape(-1, *rule.table.shape)
    reach = max(rule.reach, REACH_MARGIN * float(np.abs(own).max()))
    return replace(rule, atoms=atoms, chances=np.array(list(known.values())), reach=reach)


def _with_atoms(
    steps: Steps,
    scores: GroupedScores,
    selection: Floats,
    weights: Floats | None,
    *,
    off: NDArray[np.intp],
    least: float,
    others: _Others,
) -> Steps:
    edges, chances = list(steps.edges), list(steps.chances)
    for m in np.unique(scores.codes[off]).tolist():
        values, counts = np.unique(scores.eta[off[scores.codes[off] == m]], return_counts=True)
        group = np.flatnonzero(scores.codes == m)
        group = group[np.argsort(scores.eta[group])]
        atoms = np.zeros((np.count_nonzero(counts >= least), scores.n_groups, 2))
        atoms[:, m, 1] = values[counts >= least]
        atoms[:, m, 0] = 1.0 - atoms[:, m, 1]
        for eta, other in zip(atoms[:, m, 1].tolist(), others.at(atoms), strict=True):
            first, last = (np.searchsorted(scores.eta[group], eta, side=side) for side in ("left", "right"))
            chance = _mean(selection, weights, group[first:last], other)
            edges[m], chances[m] = _with_atom(edges[m], chances[m], eta, chance)
    return Steps(tuple(edges), tuple(chances))


def _with_atom(edges: Floats, chances: Floats, eta: float, chance: float) -> tuple[Floats, Floats]:
    """Cut a single score out of a step function and give it a probability of its own."""
    below, above = eta - SAME_ATOM, eta + SAME_ATOM  # last bits differ between processors
    before, after = edges[edges < below], edges[edges > above]
    return (
        np.concatenate([before, [below, above], after]),
        np.concatenate([chances[: len(before) + 1], [chance], chances[len(edges) - len(after) :]]),
    )


@dataclass(frozen=True, eq=False)
class _Others:
    """What the rule decides for further rows at an atom: their weight, and the probability."""

    rule: Rule
    further: FurtherRows | None

    def at(self, atoms: Floats) -> list[tuple[float, float]]:
        if self.further is None or not len(atoms):
            return [(0.0, 0.0)] * len(atoms)
        chances = self.rule.selection(self._as_rows(atoms))
        return list(zip(self.further.weight(atoms).tolist(), chances.tolist(), strict=True))

    def _as_rows(self, atoms: Floats) -> NDArray[Any] | GroupedScores:
        if self.rule.steps is None:
            return atoms
        codes = atoms.sum(axis=2).argmax(axis=1)
        return GroupedScores(atoms[np.arange(len(atoms)), codes, 1], codes, atoms.shape[1])


def _mean(
    selection: Floats, weights: Floats | None, members: NDArray[np.intp], other: tuple[float, float]
) -> float:
    """Mean selection of some rows, and of others with a total weight and a selection."""
    own = np.ones(len(members)) if weights is None or not weights[members].any() else weights[members]
    weight, chance = other
    return float((own @ selection[members] + weight * chance) / (own.sum() + weight))
