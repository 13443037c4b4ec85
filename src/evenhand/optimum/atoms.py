"""Ties: posteriors that many rows share are decided at random.

A rule is found on out-of-fold posteriors and used on those of the model for new rows. Where features are
discrete, the latter have atoms, and the former scatter the rows of an atom around it: some are selected, some
are not. One decision for the whole atom would miss the optimum, so it is randomised, with the share of its
rows that was selected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.optimum.action_rule import ActionRule
from evenhand.optimum.rule import REACH_MARGIN, SAME_ATOM, Rule
from evenhand.posteriors.posteriors import GroupedScores, Posteriors
from evenhand.solver.dense import collapsed
from evenhand.solver.oracle import ROUNDING
from evenhand.solver.thresholds import Steps

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
    further_at = partial(_further_at, rule, further)
    rule = replace(rule, resolution=SAME_ATOM)
    off = np.flatnonzero(rule.selection(posteriors) != selection)
    rows = len(selection) + (0 if further is None else further.count)
    least = max(_LEAST_ROWS, _LEAST_SHARE * rows)
    if len(off) < least:
        return rule
    if rule.steps is not None and posteriors.codes is not None:
        # The step function decides alone, so an atom becomes a step of its own.
        steps = _with_atoms(
            rule.steps, posteriors, selection, weights, off=off, least=least, further_at=further_at
        )
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
    known: dict[bytes, float] = {}
    if rule.atoms is not None and rule.chances is not None:
        known = {own.tobytes(): chance for own, chance in zip(rule.atoms, rule.chances.tolist(), strict=True)}
    for atom, begin, end, other in zip(found, first, last, further_at(found), strict=True):
        near = order[begin:end]  # the same H: few of them are other atoms
        members = near[(posteriors.dense(near) == atom).all(axis=(1, 2))]
        known[atom.tobytes()] = _mean(selection, weights, members, other)
    atoms = np.array([np.frombuffer(key) for key in known]).reshape(-1, *rule.table.shape)
    reach = max(rule.reach, REACH_MARGIN * float(np.abs(own).max()))
    return replace(rule, atoms=atoms, chances=np.array(list(known.values())), reach=reach)


def randomise_action_atoms(
    rule: ActionRule, posteriors: Floats, selection: Floats, weights: Floats | None
) -> ActionRule:
    """The same for several actions: every atom that many rows share has the mean selection of its rows.

    Parameters
    ----------
    rule : ActionRule
    posteriors : array, shape (n, M, L)
        By the model for new rows.
    selection : array, shape (n, K)
    weights : array, shape (n,), or None

    Returns
    -------
    ActionRule
    """
    rule = replace(rule, resolution=SAME_ATOM)
    off = (rule.selection(posteriors) != selection).any(axis=1)
    least = max(_LEAST_ROWS, _LEAST_SHARE * len(off))
    w = np.ones(len(off)) if weights is None else weights
    atoms, mass, kind = collapsed(posteriors + 0.0, w)
    shared = (np.bincount(kind, off, len(mass)) >= least) & (mass > 0)
    if not shared.any():
        return rule
    shares = np.column_stack([np.bincount(kind, w * one, len(mass)) for one in selection.T])
    found, chances = atoms[shared], shares[shared] / mass[shared, None]
    if rule.atoms is not None and rule.chances is not None:
        own = {atom.tobytes() for atom in found}
        kept = [k for k, atom in enumerate(rule.atoms) if atom.tobytes() not in own]
        found, chances = np.vstack([rule.atoms[kept], found]), np.vstack([rule.chances[kept], chances])
    return replace(rule, atoms=found, chances=chances)


def _with_atoms(
    steps: Steps,
    scores: GroupedScores,
    selection: Floats,
    weights: Floats | None,
    *,
    off: NDArray[np.intp],
    least: float,
    further_at: Callable[[Floats], list[tuple[float, float]]],
) -> Steps:
    edges, chances = list(steps.edges), list(steps.chances)
    for m in np.unique(scores.codes[off]).tolist():
        values, counts = np.unique(scores.eta[off[scores.codes[off] == m]], return_counts=True)
        group = np.flatnonzero(scores.codes == m)
        group = group[np.argsort(scores.eta[group])]
        atoms = np.zeros((np.count_nonzero(counts >= least), scores.n_groups, 2))
        atoms[:, m, 1] = values[counts >= least]
        atoms[:, m, 0] = 1.0 - atoms[:, m, 1]
        for eta, other in zip(atoms[:, m, 1].tolist(), further_at(atoms), strict=True):
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


def _further_at(rule: Rule, further: FurtherRows | None, atoms: Floats) -> list[tuple[float, float]]:
    """What the rule decides for further rows at each atom: their weight, and the probability."""
    if further is None or not len(atoms):
        return [(0.0, 0.0)] * len(atoms)
    rows: Any = atoms
    if rule.steps is not None:
        codes = atoms.sum(axis=2).argmax(axis=1)
        rows = GroupedScores(atoms[np.arange(len(atoms)), codes, 1], codes, atoms.shape[1])
    return list(zip(further.weight(atoms).tolist(), rule.selection(rows).tolist(), strict=True))


def _mean(
    selection: Floats, weights: Floats | None, members: NDArray[np.intp], other: tuple[float, float]
) -> float:
    """Mean selection of some rows, and of others with a total weight and a selection."""
    own = np.ones(len(members)) if weights is None or not weights[members].any() else weights[members]
    weight, chance = other
    return float((own @ selection[members] + weight * chance) / (own.sum() + weight))
