"""Decisions among several actions explained, and the scores at which each action begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.display.notebook import ShownAsTable
from evenhand.display.text import show
from evenhand.estimators.explanation import Explanation
from evenhand.groups.groups import GroupName
from evenhand.optimum.action_rule import ActionRule
from evenhand.requirements.constraints import ByName, ConstraintName

Floats = NDArray[np.float64]

_GRID, _HALVINGS = 2001, 45
_SHOWN = 5
"""Labels that a sentence lists."""


@dataclass(frozen=True, eq=False, repr=False)
class ActionExplanation(Explanation):
    """Why one row got its action; ``str`` of it is the sentence for the person.

    The attributes are those of an explanation of two decisions. These differ:

    Attributes
    ----------
    decision, unconstrained : object
        Actions.
    margin : float
        By how much the action is above another one: the one without any requirement, or the second best.
    probability : float
        Of the action that was taken.
    against : str
        The other action.
    labels : dict
        The probability of each label.
    """

    against: str = ""
    labels: Mapping[Any, float] = field(default_factory=dict)

    @property
    def _estimate(self) -> str:
        if len(self.labels) == 2:
            return super()._estimate
        likely = sorted(self.labels.items(), key=lambda one: -one[1])[:_SHOWN]
        named = ", ".join(f"{show(label)} {p:.3f}" for label, p in likely)
        more = f", and {len(self.labels) - _SHOWN} less likely" if len(self.labels) > _SHOWN else ""
        return f"The estimated probabilities are: {named}{more}."

    @property
    def _margin(self) -> str:
        return f"Margin over {self.against} {self.margin:+.4f}"


def explained_actions(
    rule: ActionRule,
    p: Floats,
    *,
    H: Floats,
    shifts: tuple[Sequence[ConstraintName], Floats],
    decided: NDArray[np.intp],
    labels: Sequence[Any],
    **same: Any,
) -> list[ActionExplanation]:
    """Decisions among several actions, explained.

    Parameters
    ----------
    rule : ActionRule
    p : array, shape (n, M, L)
    H : array, shape (n, K)
        Of rows that the costs alone decide, minus the expected costs.
    shifts : names, and array of shape (J, M L K)
        What each constraint adds to the table W.
    decided : array of int, shape (n,)
    labels : sequence
    **same
        ``words`` and ``outcome`` of all of them.

    Returns
    -------
    list of ActionExplanation
    """
    place, free = np.arange(len(p)), rule.by_costs(p)
    others, best, chances = H.copy(), free.argmax(axis=1), rule.selection(p)
    others[place, decided] = -np.inf
    against = np.where(best == decided, others.argmax(axis=1), best)
    tables = shifts[1].reshape(-1, *rule.table.shape)
    moved = np.array([np.einsum("nml,mlk->nk", p, table) for table in tables])
    moved = (moved[:, place, decided] - moved[:, place, against]).T
    moved[(free == H).all(axis=1)] = 0.0
    of_label, names = p.sum(axis=1), rule.actions
    return [
        ActionExplanation(
            decision=names[decided[k]],
            risk=float(of_label[k, -1] if len(labels) == 2 else of_label[k].max()),
            margin=float(H[k, decided[k]] - H[k, against[k]]),
            probability=float(chances[k, decided[k]]),
            unconstrained=names[best[k]],
            moved=ByName(zip(shifts[0], moved[k].tolist(), strict=True)),
            positive=names[decided[k]],
            reasons={},
            against=same["words"][names[against[k]]],
            labels=dict(zip(labels, of_label[k].tolist(), strict=True)),
            **same,
        )
        for k in place.tolist()
    ]


class ActionRanges(ShownAsTable, dict[GroupName, tuple[tuple[Any, float, float], ...]]):
    """The action of each range of scores, by group: its name, and where the range begins and ends."""

    def _table(self) -> tuple[str, Sequence[str], list[tuple[str, str]]]:
        rows = [
            (str(name), "; ".join(f"{action} from {low:.4f} to {high:.4f}" for action, low, high in ranges))
            for name, ranges in self.items()
        ]
        return "", ["group", "action by P(Y=1 | x, group)"], rows


def action_ranges(rule: ActionRule, group: int) -> tuple[tuple[Any, float, float], ...]:
    """The ranges of scores of a known group that get each action, for two labels.

    Scores that are randomised one by one are left out.

    Examples
    --------
    >>> costs = np.array([[2.0, 0.0, 0.3], [0.0, 1.0, 0.3]])
    >>> rule = ActionRule(-costs[None], costs, ("approve", "decline", "review"))
    >>> [(name, round(low, 6), round(high, 6)) for name, low, high in action_ranges(rule, 0)]
    [('decline', 0.0, 0.3), ('review', 0.3, 0.85), ('approve', 0.85, 1.0)]
    """
    sure, (low, high) = replace(rule, atoms=None, chances=None), rule.table[group]

    def action_at(eta: Floats) -> NDArray[np.intp]:
        rows = np.zeros((len(eta), *rule.table.shape[:2]))
        rows[:, group] = np.column_stack([1 - eta, eta])
        return np.asarray(sure.selection(rows).argmax(axis=1))

    # Where two actions are equal, h_a = h_b; and a grid, because others may tie for a range.
    first, slope = low[:, None] - low, (high - low)[:, None] - (high - low)
    equal = -first[slope != 0] / slope[slope != 0]
    ends = np.clip(np.concatenate([equal - 1e-9, equal + 1e-9, np.linspace(0, 1, _GRID)]), 0, 1)
    scores = np.unique(ends)
    chosen = action_at(scores)
    turns = np.flatnonzero(chosen[1:] != chosen[:-1])
    below, above = scores[turns], scores[turns + 1]
    for _ in range(_HALVINGS if len(turns) else 0):
        middle = (below + above) / 2
        same = action_at(middle) == chosen[turns]
        below, above = np.where(same, middle, below), np.where(same, above, middle)
    actions = chosen[[*turns, len(chosen) - 1]]
    edges = pairwise([0.0, *above.tolist(), 1.0])
    return tuple((rule.actions[a], *edge) for a, edge in zip(actions, edges, strict=True))
