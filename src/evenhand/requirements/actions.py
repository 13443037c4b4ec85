"""Decisions among several actions: what they cost, and the rates that requirements are about.

With actions a, labels y and rates rho[m, y, a] = P(action a | S=m, Y=y), a statistic of a group is

    q_g = sum over cells (m, y) in g of mask_y pi[m, y] sum over a of values[y, a] rho[m, y, a]
          / sum over cells in g of mask_y pi[m, y],

and notions and bounds become linear constraints on the rates as they do for two decisions.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.data.checks import check_number, check_rows, near_names
from evenhand.data.columns import factorize
from evenhand.data.labels import MAX_CLASSES
from evenhand.exceptions import InputError
from evenhand.requirements import notions
from evenhand.requirements.action_rates import ActionRates, ActionStatistic
from evenhand.requirements.bounds import Bound, NoWorse
from evenhand.requirements.rates import read_rows
from evenhand.requirements.requirement import AllOf, Constraint, Requirement

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Costs:
    """What each action costs for each label.

    Parameters
    ----------
    table : mapping of mappings
        For each action, its cost for each label. Costs are not negative; only their differences matter.

    Examples
    --------
    >>> costs = Costs({"approve": {"bad": 5, "good": 0}, "decline": {"bad": 0, "good": 1}})
    >>> costs.labels, costs.array().tolist()
    (('bad', 'good'), [[5.0, 0.0], [0.0, 1.0]])
    """

    table: Mapping[Any, Mapping[Any, float]]

    def __post_init__(self) -> None:
        table = self.table
        nested = isinstance(table, Mapping) and all(isinstance(part, Mapping) for part in table.values())
        if not nested or not table:
            raise InputError(
                "Costs takes a mapping from each action to what it costs for each label, such as "
                f"{{'approve': {{'bad': 5, 'good': 0}}, ...}}, got {table!r}."
            )
        _check_names("actions", list(table))
        _check_names("labels", list(self.labels))
        for action, costs in table.items():
            if not isinstance(action, str | Real):
                raise InputError(f"Costs: name actions by text or numbers, got {action!r}.")
            missing = [label for label in self.labels if label not in costs]
            if missing:
                raise InputError(f"Costs: the action {action!r} has no cost for the label {missing[0]!r}.")
            for label, value in costs.items():
                if not isinstance(value, Real) or not np.isfinite(float(value)) or value < 0:
                    raise InputError(
                        f"Costs: the cost of {action!r} for {label!r} must be a finite, non-negative number, "
                        f"got {value!r}."
                    )

    def __repr__(self) -> str:
        return f"Costs({self.table!r})"

    @property
    def labels(self) -> tuple[Any, ...]:
        """The labels, in the order in which they are first named."""
        return tuple(dict.fromkeys(label for costs in self.table.values() for label in costs))

    def array(self, labels: Sequence[Any] | None = None) -> Floats:
        """The costs of labels in a given order, shape (L, K)."""
        order = self.labels if labels is None else tuple(labels)
        for one, others, where in ((order, self.labels, "costs"), (self.labels, order, "labels of the rows")):
            missing = [label for label in one if label not in others]
            if missing:
                near = near_names(missing[0], others, "They are")
                raise InputError(f"Costs: the label {missing[0]!r} is not among the {where}. {near}")
        return np.array([[float(costs[label]) for costs in self.table.values()] for label in order])


def _check_names(what: str, names: Sequence[Any]) -> None:
    """Raise an InputError unless names are at least two, and remain different when they are printed."""
    if len(names) < 2:
        raise InputError(f"there must be at least two {what} to decide between, got {names!r}.")
    seen: dict[str, Any] = {}
    for name in names:
        if str(name) in seen:
            raise InputError(f"two {what} have the same name: {seen[str(name)]!r} and {name!r}.")
        seen[str(name)] = name


@dataclass(frozen=True, eq=False)
class Actions:
    """The actions that are decided between, the labels, and what an action costs for each label.

    Attributes
    ----------
    labels, names : tuple
        Of labels and actions.
    costs : array, shape (L, K)
    """

    labels: tuple[Any, ...]
    names: tuple[Any, ...]
    costs: Floats

    @classmethod
    def of(cls, cost: Any, labels: Sequence[Any]) -> Actions:
        """From Costs, an array of shape (L, K), or the default 0.5: then an error costs 1."""
        labels = tuple(labels)
        _check_names("labels", labels)
        if isinstance(cost, Costs):
            return cls(labels, tuple(cost.table), cost.array(labels))
        try:
            table = np.asarray(cost, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(f"cost must be Costs or numbers, got {cost!r}.") from None
        if table.ndim == 0:
            if table != 0.5:
                raise InputError(
                    f"cost={cost!r} is for two labels: with {len(labels)}, pass Costs or an array of shape "
                    f"(labels, actions). By default every error costs 1."
                )
            return cls(labels, labels, 1.0 - np.eye(len(labels)))
        if table.ndim != 2 or len(table) != len(labels):
            raise InputError(f"cost must have shape ({len(labels)}, actions), got {table.shape}.")
        names = labels if table.shape[1] == len(labels) else tuple(range(table.shape[1]))
        _check_names("actions", names)
        if not np.isfinite(table).all() or (table < 0).any():
            raise InputError("costs must be finite and non-negative.")
        return cls(labels, names, table)

    @property
    def right(self) -> Floats:
        """1 where no other action costs less for a label, shape (L, K)."""
        return np.asarray(self.costs <= self.costs.min(axis=1, keepdims=True), dtype=np.float64)

    def share(self, action: Any) -> tuple[str, Floats]:
        """The name of a rate of actions, and the value of each action in it, shape (K,)."""
        values = np.zeros(len(self.names))
        if isinstance(action, Mapping):
            parts, name = dict(action), "mean value"
            missing = [one for one in self.names if one not in parts]
            if missing:
                raise InputError(f"action: the action {missing[0]!r} has no value in {dict(action)!r}.")
        else:
            several = list(action) if isinstance(action, list | tuple) else [action]
            if not several or not all(isinstance(one, Hashable) for one in several):
                raise InputError(f"action: name an action, or a list of them, got {action!r}.")
            parts, name = dict.fromkeys(several, 1.0), f"rate of {' or '.join(map(str, several))}"
        for one, value in parts.items():
            if one not in self.names:
                near = near_names(one, self.names, "The actions are")
                raise InputError(f"there is no action {one!r}. {near}")
            check_number(f"the value of the action {one!r}", value)
            values[self.names.index(one)] = value
        return name, values


def read_decisions(
    y_true: Any, y_pred: Any, actions: Any
) -> tuple[Actions, NDArray[np.intp] | None, NDArray[np.intp]]:
    """Actions by Costs or their names, and the numbers of each row's label and of its action.

    Parameters
    ----------
    y_true : array, sequence, series or None
    y_pred : array, sequence or series
    actions : Costs, or sequence of names
        With names, labels are among them, and an action is right if it equals the label.

    Returns
    -------
    actions : Actions
    labels : array of int or None
    taken : array of int
    """
    if isinstance(actions, Costs):
        among = Actions.of(actions, actions.labels)
    elif isinstance(actions, str) or not isinstance(actions, Sequence | np.ndarray):
        raise InputError(f"actions must be Costs or a list of names, got {actions!r}.")
    else:
        among = Actions.of(0.5, tuple(actions))
    check_rows({"y_true": y_true, "y_pred": y_pred})
    taken = positions(y_pred, among.names, "y_pred", "actions")
    if y_true is None:
        return among, None, taken
    return among, positions(y_true, among.labels, "y_true", "labels of Costs, or actions"), taken


def positions(values: Any, names: Sequence[Any], what: str, which: str) -> NDArray[np.intp]:
    """The position of each value among names.

    Parameters
    ----------
    values : array, sequence or series
    names : sequence
    what, which : str
        Of the argument and of the names, for messages.

    Returns
    -------
    array of int
    """
    levels, codes = factorize(values, what=what, limit=MAX_CLASSES)
    unknown = [level for level in levels if level not in names]
    if unknown or (codes < 0).any():
        missing = "missing values" if not unknown else f"{unknown[0]!r}"
        raise InputError(f"{what} holds {missing}, which is not among the {which}: {list(names)!r}.")
    return np.array([names.index(level) for level in levels], np.intp)[codes]


def count_actions(
    y_true: Any, y_pred: Any, sensitive_features: Any, actions: Any, **settings: Any
) -> ActionRates:
    """Count decisions among several actions by group and label; see :func:`evenhand.cell_rates`.

    Parameters
    ----------
    y_true, y_pred, sensitive_features
        See there.
    actions : Costs, or sequence of names
    **settings
        Of the reading of rows.

    Returns
    -------
    ActionRates
    """
    among, labels, taken = read_decisions(y_true, y_pred, actions)
    rows = read_rows(None, taken > 0, sensitive_features, **settings)
    shape = (rows.n_codes, *among.costs.shape)
    place = np.ravel_multi_index((rows.codes, np.int64(0) if labels is None else labels, taken), shape)
    counted = np.bincount(place, rows.weights, int(np.prod(shape))).reshape(shape)[: len(rows.groups)]
    counts = counted.astype(np.float64)
    return ActionRates(rows.groups, among, counts.sum(axis=2), counts, labelled=labels is not None)


def on_actions(constraint: Constraint, actions: Actions) -> Constraint:
    """A requirement written for the decisions among given actions.

    Parameters
    ----------
    constraint : Constraint
    actions : Actions

    Returns
    -------
    Constraint
    """
    parts = [_written(part, actions) for part in constraint.requirements]
    return parts[0] if len(parts) == 1 else AllOf(parts)


def _written(part: Requirement, actions: Actions) -> Requirement:
    written = copy(part)
    if isinstance(part, notions.Notion):
        kinds = [kind for kind in _STATISTICS if isinstance(part, kind)]
        if not kinds:
            raise InputError(f"{type(part).__name__} is defined for two decisions, not for several actions.")
        vars(written)["statistics"] = tuple(_STATISTICS[kinds[0]](actions, part.action))
    elif isinstance(part, Bound):
        statistic = vars(written)["_statistic"] = _bounded(actions, part.rate)
        if isinstance(part, NoWorse):
            _check_reference(part, actions, statistic)
    else:
        raise InputError(f"{part!r} is for two decisions, not for several actions.")
    return written


def _bounded(actions: Actions, rate: Any) -> ActionStatistic:
    every = np.ones(len(actions.labels))
    if isinstance(rate, str) and rate == "accuracy" and rate not in actions.names:
        return ActionStatistic("accuracy", every, actions.right)
    name, values = actions.share(rate)
    return ActionStatistic(name, every, np.tile(values, (len(every), 1)))


def _check_reference(part: NoWorse, actions: Actions, statistic: ActionStatistic) -> None:
    """Raise an InputError unless the reference has rates of the same actions."""
    than = part.than
    if isinstance(than, str):
        return
    if not isinstance(than, ActionRates) or than.actions.names != actions.names:
        raise InputError(f"{part!r}: the reference must have rates of the actions {list(actions.names)!r}.")
    if statistic.needs_labels and not than.labelled:
        raise InputError(f"{part!r}: the reference was counted without labels.")


def _shares(actions: Actions, action: Any) -> list[tuple[str, Floats]]:
    """The rates that are compared: of every action, or as asked; of two, the second says it all."""
    if action is not None:
        return [actions.share(action)]
    return [actions.share(name) for name in actions.names[1 if len(actions.names) == 2 else 0 :]]


def _of_all(actions: Actions, action: Any) -> Iterator[ActionStatistic]:
    """The rate of each action."""
    for name, values in _shares(actions, action):
        yield ActionStatistic(name, np.ones(len(actions.labels)), np.tile(values, (len(actions.labels), 1)))


def _among(actions: Actions, label: int, name: str, values: Floats) -> ActionStatistic:
    """A rate among the rows of one label."""
    mask = np.zeros(len(actions.labels))
    mask[label] = 1.0
    return ActionStatistic(f"{name} among {actions.labels[label]}", mask, np.tile(values, (len(mask), 1)))


def _of_labels(actions: Actions, action: Any) -> Iterator[ActionStatistic]:
    """The rate of the right action among each label; with two labels, among the second, the positive one."""
    labels = range(1 if len(actions.labels) == 2 else 0, len(actions.labels))
    if action is None:
        for label in labels:
            right = [one for one, good in zip(actions.names, actions.right[label], strict=True) if good]
            yield _among(actions, label, *actions.share(right))
        return
    name, values = actions.share(action)
    found = [label for label in labels if len(labels) == 1 or (actions.right[label] * values).any()]
    if not found:
        raise InputError(f"equal opportunity: the action {action!r} is the best one for no label.")
    for label in found:
        yield _among(actions, label, name, values)


def _of_negatives(actions: Actions, action: Any) -> Iterator[ActionStatistic]:
    """The rate of wrong actions among the first of two labels."""
    if len(actions.labels) != 2:
        raise InputError("predictive equality is for two labels: use EqualizedOdds.")
    name, values = ("error rate", 1.0 - actions.right[0]) if action is None else actions.share(action)
    yield _among(actions, 0, name, values)


def _of_pairs(actions: Actions, action: Any) -> Iterator[ActionStatistic]:
    """The rate of each action among each label."""
    for label in range(len(actions.labels)):
        for name, values in _shares(actions, action):
            yield _among(actions, label, name, values)


def _of_errors(actions: Actions, action: Any) -> Iterator[ActionStatistic]:
    """The share of rows that another action would have been better for."""
    if action is not None:
        raise InputError("accuracy parity is about all actions: leave out action=.")
    yield ActionStatistic("error rate", np.ones(len(actions.labels)), 1.0 - actions.right)


_STATISTICS = {
    notions.DemographicParity: _of_all,
    notions.EqualOpportunity: _of_labels,
    notions.PredictiveEquality: _of_negatives,
    notions.EqualizedOdds: _of_pairs,
    notions.AccuracyParity: _of_errors,
}
