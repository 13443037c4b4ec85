"""Decisions explained, row by row: a sentence for the person, one for the auditor, and a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.data.checks import check_count
from evenhand.data.tables import Library, Results, make_table
from evenhand.display.notebook import ShownAsTable, html_table
from evenhand.display.text import show
from evenhand.exceptions import InputError
from evenhand.groups.groups import GroupName
from evenhand.optimum.action_rule import ActionRule
from evenhand.optimum.group_thresholds import GroupThreshold
from evenhand.requirements.constraints import ConstraintName

Floats = NDArray[np.float64]

_GRID, _HALVINGS = 2001, 45
_NEGLIGIBLE = 1e-12
_BOUNDARY = 1e-9
_SHOWN, _LABELS = 3, 5
"""Constraints and labels that a sentence lists."""
_NUMBERS = ("risk", "margin", "probability")


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why one row was decided as it was; ``str`` of it is the sentence for the person.

    Attributes
    ----------
    decision : object
        One of the two labels.
    risk : float
        Calibrated probability of the positive label.
    margin : float
        H: positive for the positive label, except for ties.
    probability : float
        Probability of deciding for the positive label.
    unconstrained : object
        The decision of the same probabilities and costs without any requirement.
    moved : dict
        By how much the multiplier of each constraint moved the margin.
    positive : object
        The positive label.
    words : dict
        A word for each label.
    outcome : str
        What the probability is of.
    reasons : dict
        The features that moved the label's probability most towards the decision, and by how much; empty
        unless they were asked for.
    private : frozenset of str
        Reasons that are sensitive features, which the person's sentence does not name.
    """

    decision: Any
    risk: float
    margin: float
    probability: float
    unconstrained: Any
    moved: Mapping[ConstraintName, float]
    positive: Any
    words: Mapping[Any, str]
    outcome: str
    reasons: Mapping[str, float]
    private: frozenset[str] = frozenset()

    @property
    def randomised(self) -> bool:
        """Whether chance had a part in the decision."""
        return 0.0 < self.probability < 1.0

    @property
    def person(self) -> str:
        """For a letter: the decision, the probability, and reasons if asked for; no group, no constraint."""
        word, positive = self.words, self.words[self.positive]
        said = [f"The decision is: {word[self.decision]}.", self._estimate]
        if self.randomised:
            said += [f"Cases like this one are decided by lot: {positive} had a probability of"]
            said += [f"{self.probability:.3f}, and asking again gives the same answer."]
        named = [show(name) for name in self.reasons if name not in self.private]
        return " ".join([*said, *([f"What counted most: {', '.join(named)}."] if named else [])])

    @property
    def _estimate(self) -> str:
        return f"The estimated probability of {self.outcome} is {self.risk:.3f}."

    @property
    def _margin(self) -> str:
        return f"Margin {self.margin:+.4f}"

    @property
    def auditor(self) -> str:
        """For the file: the margin, what each constraint moved, and what decided at the boundary."""
        word, moved = self.words, self._moved()
        if not moved:
            said = [f"{self._margin}; the fairness requirement did not affect it."]
        else:
            changed = self.unconstrained != self.decision
            other = f"would have been {word[self.unconstrained]}" if changed else "the same"
            names = [f"{name} {by:+.4f}" for name, by in moved[:_SHOWN]]
            names += [f"{len(moved) - _SHOWN} more"] if len(moved) > _SHOWN else []
            before = self.margin - sum(self.moved.values())
            said = [f"{self._margin}; without the requirement {before:+.4f}, and the decision {other}."]
            said += [f"Moved by: {', '.join(names)}."]
        if self.randomised:
            chance = f"{word[self.positive]} with probability {self.probability:.3f}"
            said += [f"A tie, randomised: {chance}."]
        elif (self.margin > 0) != (self.decision == self.positive) or abs(self.margin) <= _BOUNDARY:
            said += ["A tie, decided alike for everyone with these probabilities."]
        reasons = ", ".join(f"{show(name)} {by:+.3f}" for name, by in self.reasons.items())
        return " ".join([*said, *([f"Label model: {reasons}."] if reasons else [])])

    def _moved(self) -> list[tuple[str, float]]:
        """Constraints that moved the margin, the largest first."""
        several = len({name.statistic for name in self.moved}) > 1
        found = [(name, by) for name, by in self.moved.items() if abs(by) > _NEGLIGIBLE]
        found.sort(key=lambda item: -abs(item[1]))
        return [(f"{name.who} ({name.statistic})" if several else name.who, by) for name, by in found]

    def __str__(self) -> str:
        return self.person

    def __repr__(self) -> str:
        return f"For the person: {self.person}\nFor the auditor: {self.auditor}"

    def _repr_html_(self) -> str:
        return html_table(["for", "sentence"], [("the person", self.person), ("the auditor", self.auditor)])


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
        likely = sorted(self.labels.items(), key=lambda one: -one[1])[:_LABELS]
        named = ", ".join(f"{show(label)} {p:.3f}" for label, p in likely)
        more = f", and {len(self.labels) - _LABELS} less likely" if len(self.labels) > _LABELS else ""
        return f"The estimated probabilities are: {named}{more}."

    @property
    def _margin(self) -> str:
        return f"Margin over {self.against} {self.margin:+.4f}"


class Explanations(ShownAsTable, Results[Explanation]):
    """One explanation per row; ``to_frame()`` is the whole table, with both sentences of each row."""

    def _table(self) -> tuple[str, Sequence[str], list[tuple[str, ...]]]:
        outcome = self._rows[0].outcome if self._rows else ""
        columns: dict[str, list[str]] = {
            "decision": [row.words[row.decision] for row in self._rows],
            f"P({outcome})": [f"{row.risk:.3f}" for row in self._rows],
            "margin": [f"{row.margin:+.4f}" for row in self._rows],
            "moved by": [f"{sum(row.moved.values()):+.4f}" for row in self._rows],
            "mostly by": [next((name for name, _ in row._moved()), "-") for row in self._rows],
            "unconstrained": [row.words[row.unconstrained] for row in self._rows],
        }
        if any(row.randomised for row in self._rows):
            columns["by lot"] = [f"{row.probability:.3f}" if row.randomised else "" for row in self._rows]
        if any(row.reasons for row in self._rows):
            columns["reasons"] = [", ".join(map(show, row.reasons)) for row in self._rows]
        return "", list(columns), list(zip(*columns.values(), strict=True))

    def to_frame(self, *, backend: Library | None = None) -> Any:
        """One row per decision.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default=None
            By default the library of X.

        Returns
        -------
        table
            Columns ``decision``, ``risk``, ``margin``, ``probability``, ``randomised``, ``unconstrained``,
            one column per constraint with what it moved, ``reason_1``, ... if reasons were asked for, and the
            sentences ``person`` and ``auditor``.
        """
        most = max((len(row.reasons) for row in self._rows), default=0)
        rows = [
            {
                "decision": row.words[row.decision],
                **{name: getattr(row, name) for name in _NUMBERS},
                "randomised": "yes" if row.randomised else "no",
                "unconstrained": row.words[row.unconstrained],
                **{str(name): value for name, value in row.moved.items()},
                **{f"reason_{k + 1}": name for k, name in enumerate([*row.reasons, *[""] * most][:most])},
                "person": row.person,
                "auditor": row.auditor,
            }
            for row in self._rows
        ]
        numbers = {*_NUMBERS, *(str(name) for row in self._rows for name in row.moved)}
        return make_table(rows, numbers=numbers, library=backend or self._library)


def read_words(words: Any, labels: Sequence[Any]) -> dict[Any, str]:
    """A word for each of the two labels, or of several actions; by default these themselves."""
    if words is None:
        words = {label: label for label in labels}
    if not isinstance(words, Mapping) or set(words) != set(labels):
        example = f"{{{labels[1]!r}: 'approved', {labels[0]!r}: 'declined'}}"
        what = "both labels" if len(labels) == 2 else f"all of {list(labels)!r}"
        raise InputError(f"`words` must map {what} to a word, such as {example}, got {words!r}.")
    return {label: show(words[label]) for label in labels}


def strongest_reasons(
    contributions: Callable[[], dict[Any, Floats]],
    decided: NDArray[np.bool_],
    *,
    most: Any,
    groups: tuple[str, Sequence[Any]],
) -> list[dict[str, float]]:
    """The features that led most towards the decision of each row, the strongest first.

    Parameters
    ----------
    contributions : function
        What each column adds to the label's probability, by name.
    decided : array of bool, shape (n,)
        Whether the decision is for the positive label.
    most : int
        How many features; 0 asks for none.
    groups : (str, sequence)
        A name for the columns that tell the group, which are one reason together, and these columns.

    Returns
    -------
    list of dict
    """
    check_count("`reasons`", most)
    found = contributions() if most else {}
    if not found:
        return [{} for _ in decided]
    own, columns = groups
    for name in columns:
        found[own] = found.get(own, np.zeros(len(decided))) + found.pop(name, 0.0)
    names, values = list(map(str, found)), np.column_stack(list(found.values()))
    towards = np.where(decided[:, None], values, -values)
    strongest = enumerate(np.argsort(-towards, axis=1, kind="stable")[:, :most].tolist())
    return [{names[k]: float(values[n, k]) for k in order if towards[n, k] > 0} for n, order in strongest]


class Thresholds(ShownAsTable, dict[GroupName, GroupThreshold]):
    """The threshold of each group, short when it is shown."""

    def _table(self) -> tuple[str, Sequence[str], list[tuple[str, str]]]:
        rows = [
            (str(name), f"{one.threshold:.4f}" if one.threshold is not None else one.steps or str(one.note))
            for name, one in self.items()
        ]
        return "", ["group", "selected above P(Y=1 | x, group)"], rows


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
