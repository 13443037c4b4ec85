"""The certificate of a selection by the formulas alone, written out in NumPy independently of the solver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.data.columns import blocks
from evenhand.exceptions import InputError
from evenhand.groups.groups import GroupName, Groups
from evenhand.optimum.action_rule import ActionRule
from evenhand.optimum.minimax import WORST_GROUP
from evenhand.optimum.nearest import distance, named_distance, slack_of
from evenhand.optimum.rule import Rule
from evenhand.requirements.action_rates import ActionRates
from evenhand.requirements.actions import Actions, on_actions
from evenhand.requirements.bounds import needs_reference, with_reference
from evenhand.requirements.constraints import ConstraintName, LinearConstraints
from evenhand.requirements.notions import Notion
from evenhand.requirements.rates import CellRates
from evenhand.requirements.requirement import Constraint
from evenhand.solver.certificate import Certificate

Floats = NDArray[np.float64]
Part = tuple[Any, Floats | None]
"""Posteriors of some rows, an array where there are several actions, and their weights."""

_NEGLIGIBLE = 1e-12
"""Mass below which a cell counts as empty, as in `solve`."""

_LESS = 1e-6
"""By how much a tolerance is below the bound where it is proven that it cannot be satisfied."""

_SUM = 1e-6
"""By how much weights may miss a sum of 1."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """What proves that the largest risk of a group cannot be smaller, besides the multipliers.

    Attributes
    ----------
    weights : mapping
        Of the groups, mu: not negative, with sum 1.
    rule_multipliers : mapping
        Those that the rule follows from: of the requirement, and kappa of the risk of each group.
    """

    weights: Mapping[GroupName, float]
    rule_multipliers: Mapping[ConstraintName, float]

    @classmethod
    def of(cls, model: Any) -> Mixture | None:
        """That of a fitted model; None if it minimises something else."""
        return cls(model.group_weights_, model.rule_multipliers_) if model.objective == "minimax" else None

    def costs(self, costs: Floats, sizes: Floats, groups: Groups) -> tuple[Floats, Floats]:
        """Costs by which the bound follows, and those by which the rule does.

        Parameters
        ----------
        costs : array, shape (M, L, K)
        sizes : array, shape (M,)
            P(S=m).
        groups : Groups

        Returns
        -------
        of_bound, of_rule : arrays, shape (M, L, K)
        """
        names, members = (family := groups.members()).names, family.matrix.astype(np.float64)
        mu = np.array([self.weights.get(name, 0.0) for name in names])
        if not ((mu >= 0).all() and abs(mu.sum() - 1) <= _SUM):
            raise InputError("weights of groups must sum to 1.")
        of_groups = {
            name.group: value for name, value in self.rule_multipliers.items() if name.notion == "minimax"
        }
        kappa = np.array([of_groups.get(name, 0.0) for name in names])
        sizes = members @ sizes
        per_size = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0)
        of_cells = members.T @ np.column_stack([mu / mu.sum() * per_size, kappa * per_size])
        of_bound, of_rule = of_cells.T[..., None, None]
        return costs * of_bound, costs * (1 + kappa.sum() - of_rule)


@dataclass(frozen=True, eq=False)
class Nearness:
    """What proves that no selection is nearer to a notion, besides the multipliers.

    Attributes
    ----------
    objective, attained : Notion
        With the tolerance that was asked for, and with the one that is attained.
    bound : float
        The tolerance up to which the multipliers prove that the notion cannot be satisfied.
    rule_multipliers : mapping
        Those that the rule follows from: of the requirement and of the notion.
    """

    objective: Notion
    attained: Notion
    bound: float
    rule_multipliers: Mapping[ConstraintName, float]

    @classmethod
    def of(cls, model: Any) -> Nearness | None:
        """That of a fitted model; None if it minimises something else."""
        asked = model.objective
        if not isinstance(asked, Notion):
            return None
        if model.nearest_.with_slack(0.5) != asked.with_slack(0.5):
            raise InputError("what is attained is another notion.")
        return cls(asked, model.nearest_, model.certificate_.bound, model.rule_multipliers_)

    @property
    def goal(self) -> float:
        """The distance below which nothing is gained."""
        return slack_of(self.objective)

    def reached(self, rates: CellRates) -> float:
        """The distance of some rates."""
        return max(self.goal, distance(self.objective, rates))

    def proven(self, value: float) -> float:
        """The bound, if the dual value at slightly less is positive; otherwise nothing is proven."""
        return self.bound if self.bound <= self.goal + _LESS or value >= _LESS / 2 else self.goal


def recompute(
    parts: Callable[[], Iterable[Part]],
    groups: Groups,
    constraint: Constraint,
    *,
    costs: Floats,
    multipliers: Mapping[ConstraintName, float],
    rule: Rule | ActionRule | None,
    shipped: Rule | ActionRule | None = None,
    actions: Actions | None = None,
    mixture: Mixture | None = None,
    nearness: Nearness | None = None,
) -> tuple[Certificate, Floats]:
    """The certificate of a rule, and the table W of the multipliers.

    With p the posteriors, w the weights, f_a the probability of action a, r the costs, and the requirement
    lo <= C rho + B t + k <= hi for some t in [0, 1]:

        masses = sum of w p,  s_a = sum of w f_a p,  rho = s / masses
        W      = -r + C^T lambda / masses
        cost   = <r, s>
        bound  = - sum of w max over a of <W_a, p> - sum of max(0, B^T lambda)
                 + sum of lambda (lo - k where lambda > 0, hi - k where lambda < 0)

    Of two decisions, C is about the second. Without a rule, f is 1 for the first action whose <W_a, p> is
    largest.

    With weights mu of the groups, the largest risk of a group is at least the mean of their risks under mu.
    That is the risk if prices are multiplied by mu / P(S=m), so the bound follows with these prices. The rule
    is that of W with prices multiplied by 1 + sum of kappa - kappa / P(S=m).

    Parameters
    ----------
    parts : function
        All rows, a part at a time; asked for two or three times.
    groups : Groups
    constraint : Constraint
    costs : array, shape (M, L, K)
        What each action costs in each cell.
    multipliers : mapping
    rule, shipped : Rule, ActionRule or None
        The rule of the optimum, and the one that is shipped.
    actions : Actions, default=None
        If there are several; by default the decisions are 0 and 1.
    mixture : Mixture, default=None
        If the largest risk of a group was minimised.
    nearness : Nearness, default=None
        If the distance from a notion was minimised. The bound is the stored one if its multipliers prove that
        slightly less cannot be satisfied: with prices of 0, the dual value of the requirement and the notion
        at that tolerance is positive. Multipliers are those of the distance, so it is what the tolerance
        lacks.

    Returns
    -------
    certificate
    W : array, shape (M, 2) of two decisions, and (M, L, K) of several actions
    """
    total = sum(float(w.sum()) for _, _, w in _blocks(parts()))
    masses: Floats = np.sum([np.tensordot(w, p, axes=1) for _, p, w in _blocks(parts())], axis=0) / total
    masses = np.where(masses < _NEGLIGIBLE, 0.0, masses)
    held = masses[..., None] > 0

    def rates(s: Floats) -> Any:
        if actions is not None:
            return ActionRates(groups, actions, masses, s)
        return CellRates(groups, masses, np.minimum(s[..., 1], masses))

    if actions is not None:
        constraint = on_actions(constraint, actions)
    if needs_reference(constraint):
        chosen = np.zeros_like(costs)
        for _, p, w in _blocks(parts()):
            chosen += _sums(p, w / total, _best(-np.tensordot(p, costs, axes=2)))
        constraint = with_reference(constraint, rates(chosen))
    linear = (constraint if nearness is None else constraint & nearness.attained).linear(masses, groups)
    lam = np.array([multipliers[name] for name in linear.names])
    sizes, of_bound, of_rule, ruling, proof = masses.sum(axis=1), costs, costs, lam, linear
    if nearness is not None:
        ruling, of_bound = np.array([nearness.rule_multipliers[name] for name in linear.names]), 0.0 * costs
        proof = (
            constraint & nearness.objective.with_slack(max(nearness.goal, nearness.bound - _LESS))
        ).linear(masses, groups)
    if mixture is not None:
        of_bound, of_rule = mixture.costs(costs, sizes, groups)
        ruling = np.array([mixture.rule_multipliers[name] for name in linear.names])

    def table(costs: Floats, lam: Floats, linear: LinearConstraints) -> Floats:
        C = linear.C if actions is not None else np.stack([0.0 * linear.C, linear.C], axis=-1)
        return np.tensordot(lam, np.divide(C, masses[..., None], out=0.0 * C, where=held), axes=1) - costs

    V, W = table(of_bound, lam, proof), table(of_rule, ruling, linear)
    s, s_shipped, best = np.zeros_like(costs), np.zeros_like(costs), 0.0
    for posteriors, p, weights in _blocks(parts()):
        w = weights / total
        best += float(w @ np.tensordot(p, V, axes=2).max(axis=1))
        f = _best(np.tensordot(p, W, axes=2)) if rule is None else _chances(rule, posteriors)
        s += _sums(p, w, f)
        if shipped is not None:
            s_shipped += _sums(p, w, _chances(shipped, posteriors))

    def attained(s: Floats) -> tuple[float, float]:
        rho = np.divide(s, masses[..., None], out=np.zeros_like(s), where=held)
        violation = float(linear.violation(rho if actions is not None else rho[..., 1]))
        if nearness is not None:
            return nearness.reached(rates(s)), violation
        paid = (costs * s).sum(axis=(1, 2))
        if mixture is None:
            return float(paid.sum()), violation
        paid, people = (groups.members().matrix @ part for part in (paid, sizes))
        return float((paid[people > 0] / people[people > 0]).max()), violation

    bound, minimised = _paid(proof, lam) - best, "risk" if mixture is None else WORST_GROUP
    if nearness is not None:
        bound, minimised = nearness.proven(bound), named_distance(nearness.objective)
    objective, violation = attained(s)
    of_shipped = (None, None) if shipped is None else attained(s_shipped)
    found = Certificate(objective, bound, violation, minimised, *of_shipped)
    return found, W if actions is not None else W[..., 1] - W[..., 0]


def _best(values: Floats) -> Floats:
    """1 for the first of the largest values in each row."""
    return np.asarray(np.eye(values.shape[1])[values.argmax(axis=1)])


def _chances(rule: Rule | ActionRule, posteriors: Any) -> Floats:
    """Probability of each action for each row."""
    f = rule.selection(posteriors)
    return f if f.ndim == 2 else np.column_stack([1 - f, f])


def _sums(p: Floats, w: Floats, f: Floats) -> Floats:
    """Sum of w f p over rows, shape (M, L, K)."""
    return np.asarray(np.tensordot(p, w[:, None] * f, axes=(0, 0)))


def _paid(linear: LinearConstraints, lam: Floats) -> float:
    """What the bounds add to the dual value, from their multipliers."""
    paid = np.flatnonzero(lam)  # at an end that is not set, any price but 0 makes the bound -inf
    value = (np.where(lam > 0, linear.lo, linear.hi) - linear.k)[paid] @ lam[paid]
    if linear.B is not None:  # a scalar t in [0, 1] gains at most max(0, <lambda, B>)
        value -= np.maximum(lam @ linear.B, 0.0).sum()
    return float(value)


def _blocks(parts: Iterable[Part]) -> Iterator[tuple[Any, Floats, Floats]]:
    """Some rows at a time: posteriors as they are, as an array of shape (k, M, L), and weights."""
    for posteriors, weights in parts:
        for where in blocks(len(posteriors)):
            whole = isinstance(posteriors, np.ndarray)  # of several actions
            own = posteriors[where] if whole else posteriors.take(where)
            w = np.ones(len(own)) if weights is None else np.asarray(weights[where], dtype=np.float64)
            yield own, own if whole else own.dense(), w
