"""The nearest deterministic rule: every tie of a randomised rule decided one way, or cut at a score.

A tie is a posterior with a probability between 0 and 1, which is then decided 0 or 1; or in a known group a
range of scores, which is cut into a lower part and an upper one. Of all choices the one of smallest violation
is taken, of those the one of smallest risk, and then the one nearest to the probabilities. If there are more
than `_MOST`, that is done for the heaviest ties, and then one tie after the other is improved until nothing
changes: another choice may be better then, but none that differs in a single tie.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from evenhand.optimum.rule import Rule
from evenhand.solver.thresholds import Steps

Floats = NDArray[np.float64]
Choice = tuple[int, ...]
"""How many parts of each tie are selected."""

_MOST = 256
"""Choices that are tried together."""
_PARTS = 16
"""Parts of a range of scores, of the same width."""
_NARROW = 1e-9
"""Width of a single score, which is not cut: last digits differ between processors."""
_SWEEPS = 20
DIGITS = 10
"""To which violations and risks are compared: rounding errors decide nothing."""


def nearest_deterministic(
    rule: Rule,
    sums: Callable[[Rule, int], Sequence[Floats]],
    attained: Callable[[Floats], tuple[float, float]],
) -> Rule:
    """A rule that never randomises, as near as possible to one that does.

    Parameters
    ----------
    rule : Rule
    sums : function
        For a rule that has the numbers 2, 3, ... in place of probabilities, and how many, the sums of w p
        over selected rows and over those with each number: an array for each way of looking at the rows.
    attained : function
        Violation and risk, for the sums over selected rows.

    Returns
    -------
    Rule
        The same if it does not randomise.
    """
    if not rule.randomises:
        return rule
    rule = _with_cuts(rule)
    levels: Floats = np.concatenate([rule.chances] if rule.steps is None else rule.steps.chances)
    ties = _ties(rule, levels)
    parts = np.concatenate(ties)
    numbers = levels.copy()
    numbers[parts] = 2.0 + np.arange(len(parts))
    views = [(found[0], found[1:]) for found in sums(_with_levels(rule, numbers), len(parts))]
    ends = np.cumsum([len(tie) for tie in ties])[:-1]

    def decided(choice: Choice) -> Floats:
        of_ties = zip(choice, ties, strict=True)
        return np.concatenate([(np.arange(len(tie)) < k).astype(np.float64) for k, tie in of_ties])

    def key(choice: Choice) -> tuple[float, float, float]:
        chosen = decided(choice)
        found = [attained(base + chosen @ of_parts) for base, of_parts in views]
        violation, risk = (round(math.fsum(part), DIGITS) for part in zip(*found, strict=True))
        return violation, risk, float(np.abs(chosen - levels[parts]).sum())

    mass = np.split(np.sum([of_parts.sum(axis=1) for _, of_parts in views], axis=0), ends)
    best = best_choice(mass, [levels[tie] for tie in ties], key)
    levels[parts] = decided(best)
    return _without_steps_of_nothing(_with_levels(rule, levels))


def best_choice(
    mass: Sequence[Floats], chances: Sequence[Floats], key: Callable[[Choice], tuple[float, ...]]
) -> Choice:
    """Start where each tie selects about its share; try the heaviest together, and then one at a time.

    Parameters
    ----------
    mass, chances : sequence of arrays
        Of the parts of each tie, in the order in which they are selected.
    key : function
        The choice with the smallest one is the best.

    Returns
    -------
    tuple of int
        How many parts of each tie are selected.
    """
    selected = [np.concatenate([[0.0], np.cumsum(own)]) for own in mass]
    wanted = [float(own @ share) for own, share in zip(mass, chances, strict=True)]
    best = tuple(int(np.abs(own - want).argmin()) for own, want in zip(selected, wanted, strict=True))
    order = sorted(range(len(mass)), key=lambda tie: -mass[tie].sum())
    sizes = np.cumprod([float(len(mass[tie]) + 1) for tie in order])
    together = order[: int(np.count_nonzero(sizes <= _MOST))]

    def others(ties: Sequence[int]) -> Iterator[Choice]:
        for found in itertools.product(*(range(len(mass[tie]) + 1) for tie in ties)):
            own = dict(zip(ties, found, strict=True))
            yield tuple(own.get(tie, k) for tie, k in enumerate(best))

    best = min(others(together), key=key)
    for _ in range(_SWEEPS if len(together) < len(order) else 0):
        before = best
        for tie in order:
            best = min(others([tie]), key=key)
        if best == before:
            break
    return best


def _with_levels(rule: Rule, levels: Floats) -> Rule:
    """The same rule with other probabilities of deciding 1: of the steps of known groups, or of the atoms."""
    if rule.steps is None:
        return replace(rule, chances=levels)
    ends = np.cumsum([len(own) for own in rule.steps.chances])[:-1]
    return replace(rule, steps=Steps(rule.steps.edges, tuple(np.split(levels, ends))))


def _ties(rule: Rule, levels: Floats) -> list[NDArray[np.intp]]:
    """The levels of each tie, in the order in which they are selected: in a range, the highest first."""
    if rule.steps is None:
        return [np.array([level]) for level in np.flatnonzero((levels > 0) & (levels < 1)).tolist()]
    found, start = [], 0
    for own in rule.steps.chances:
        inside, around = np.flatnonzero((own > 0) & (own < 1)), [0.0, *own, 1.0]
        for part in np.split(inside, np.flatnonzero(np.diff(inside) > 1) + 1) if len(inside) else []:
            falls = (around[part[0]], around[part[-1] + 2]) == (1.0, 0.0)
            found.append(start + (part if falls else part[::-1]))
        start += len(own)
    return found


def _with_cuts(rule: Rule) -> Rule:
    """The same rule, with more edges inside ranges of scores that are randomised."""
    if rule.steps is None:
        return rule
    edges, chances = [], []
    for at, own in zip(rule.steps.edges, rule.steps.chances, strict=True):
        ends = np.clip(np.concatenate([[0.0], at, [1.0]]), 0.0, 1.0)
        wide = (own > 0) & (own < 1) & (np.diff(ends) > _NARROW)
        inside = [np.linspace(ends[k], ends[k + 1], _PARTS + 1)[1:-1] for k in np.flatnonzero(wide)]
        edges.append(np.sort(np.concatenate([at, *inside])))
        chances.append(np.repeat(own, np.where(wide, _PARTS, 1)))
    return replace(rule, steps=Steps(tuple(edges), tuple(chances)))


def _without_steps_of_nothing(rule: Rule) -> Rule:
    """The same rule without edges where nothing changes."""
    if rule.steps is None:
        return rule
    kept = [np.flatnonzero(np.diff(own)) for own in rule.steps.chances]
    edges = (at[where] for at, where in zip(rule.steps.edges, kept, strict=True))
    chances = (own[[0, *(where + 1)]] for own, where in zip(rule.steps.chances, kept, strict=True))
    return replace(rule, steps=Steps(tuple(edges), tuple(chances)))
