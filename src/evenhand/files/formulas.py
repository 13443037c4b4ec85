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
from evenhand.optimum.minimax import WORST_GROUP
from evenhand.optimum.nearest import distance, named_distance, slack_of
from evenhand.optimum.rule import Rule
from evenhand.posteriors.posteriors import Posteriors
from evenhand.requirements.action_rates import ActionRates
from evenhand.requirements.actions import Actions, on_actions
from evenhand.requirements.bounds import needs_reference, with_reference
from evenhand.requirements.constraints import ConstraintName, LinearConstraints
from evenhand.requirements.notions import Notion
from evenhand.requirements.rates import CellRates
from evenhand.requirements.requirement import Constraint
from evenhand.solver.certificate import Certificate

Floats = NDArray[np.float64]
Part = tuple[Posteriors, Floats | None]
"""Posteriors of some rows, and their weights."""

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

    def prices(self, prices: Floats, sizes: Floats, groups: Groups) -> tuple[Floats, Floats]:
        """Prices of errors by which the bound follows, and those by which the rule does.

        Parameters
        ----------
        prices : array, shape (M, 2)
        sizes : array, shape (M,)
            P(S=m).
        groups : Groups

        Returns
        -------
        of_bound, of_rule : arrays, shape (M, 2)
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
        return prices * of_cells[:, :1], prices * (1 + kappa.sum() - of_cells[:, 1:])


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
    prices: Floats,
    multipliers: Mapping[ConstraintName, float],
    rule: Rule | None,
    shipped: Rule | None = None,
    mixture: Mixture | None = None,
    nearness: Nearness | None = None,
) -> tuple[Certificate, Floats]:
    """The certificate of a rule, and the table W of the multipliers.

    With p the posteriors, w the weights, f the selection (1[<W, p> > 0] without a rule), and the requirement
    lo <= C rho + B t + k <= hi for some t in [0, 1]:

        masses = sum of w p,  s = sum of w f p,  rho = s / masses
        W      = (-price of a false positive, price of a false negative) + C^T lambda / masses
        risk   = <false positive prices, s[:, 0]> + <false negative prices, masses[:, 1] - s[:, 1]>
        bound  = <false negative prices, masses[:, 1]> - sum of w max(0, <W, p>) - sum of max(0, B^T lambda)
                 + sum of lambda (lo - k where lambda > 0, hi - k where lambda < 0)

    With weights mu of the groups, the largest risk of a group is at least the mean of their risks under mu.
    That is the risk if prices are multiplied by mu / P(S=m), so the bound follows with these prices. The rule
    is that of W with prices multiplied by 1 + sum of kappa - kappa / P(S=m).

    Parameters
    ----------
    parts : function
        All rows, a part at a time; asked for two or three times.
    groups : Groups
    constraint : Constraint
    prices : array, shape (M, 2)
    multipliers : mapping
    rule, shipped : Rule or None
        The rule of the optimum, and the one that is shipped.
    mixture : Mixture, default=None
        If the largest risk of a group was minimised.
    nearness : Nearness, default=None
        If the distance from a notion was minimised. The bound is the stored one if its multipliers prove that
        slightly less cannot be satisfied: with prices of 0, the dual value of the requirement and the notion
        at that tolerance is positive. Multipliers are those of the distance, so it is what the tolerance
        lacks.

    Returns
    -------
    certificate, W
    """
    M = len(prices)
    masses, total = np.zeros((M, 2)), 0.0
    for _, p, w in _blocks(parts()):
        masses += np.tensordot(w, p, axes=1)
        total += float(w.sum())
    masses /= total
    masses = np.where(masses < _NEGLIGIBLE, 0.0, masses)
    if needs_reference(constraint):
        best = _unconstrained(parts(), prices) / total
        constraint = with_reference(constraint, CellRates(groups, masses, np.minimum(best, masses)))
    asked = constraint if nearness is None else constraint & nearness.attained
    linear = asked.linear(masses, groups)
    lam = np.array([multipliers[name] for name in linear.names])
    C = np.divide(linear.C, masses, out=np.zeros_like(linear.C), where=masses > 0)
    sizes, of_bound, of_rule, ruling, proof = masses.sum(axis=1), prices, prices, lam, linear
    if nearness is not None:
        ruling, of_bound = np.array([nearness.rule_multipliers[name] for name in linear.names]), 0.0 * prices
        proof = (
            constraint & nearness.objective.with_slack(max(nearness.goal, nearness.bound - _LESS))
        ).linear(masses, groups)
    if mixture is not None:
        of_bound, of_rule = mixture.prices(prices, sizes, groups)
        ruling = np.array([mixture.rule_multipliers[name] for name in linear.names])
    C_bound = np.divide(proof.C, masses, out=np.zeros_like(proof.C), where=masses > 0)
    V = of_bound * [-1.0, 1.0] + np.tensordot(lam, C_bound, axes=1)
    W = of_rule * [-1.0, 1.0] + np.tensordot(ruling, C, axes=1)

    s, s_shipped, positive_part = np.zeros((M, 2)), np.zeros((M, 2)), 0.0
    for posteriors, p, weights in _blocks(parts()):
        w = weights / total
        H = np.tensordot(p, W, axes=2)
        f = H > 0 if rule is None else rule.selection(posteriors)
        s += np.tensordot(w * f, p, axes=1)
        if shipped is not None:
            s_shipped += np.tensordot(w * shipped.selection(posteriors), p, axes=1)
        positive_part += float(w @ np.maximum(np.tensordot(p, V, axes=2), 0.0))

    def attained(s: Floats) -> tuple[float, float]:
        rho = np.divide(s, masses, out=np.zeros_like(s), where=masses > 0)
        if nearness is not None:
            return nearness.reached(CellRates(groups, masses, s)), float(linear.violation(rho))
        errors = prices[:, 0] * s[:, 0] + prices[:, 1] * (masses[:, 1] - s[:, 1])
        if mixture is None:
            return float(errors.sum()), float(linear.violation(rho))
        costs, people = (groups.members().matrix @ part for part in (errors, sizes))
        return float((costs[people > 0] / people[people > 0]).max()), float(linear.violation(rho))

    bound = float(of_bound[:, 1] @ masses[:, 1]) - positive_part + _paid(proof, lam)
    minimised = "risk" if mixture is None else WORST_GROUP
    if nearness is not None:
        bound, minimised = nearness.proven(bound), named_distance(nearness.objective)
    objective, violation = attained(s)
    of_shipped = (None, None) if shipped is None else attained(s_shipped)
    return Certificate(objective, bound, violation, minimised, *of_shipped), W


def recompute_actions(
    parts: Callable[[], Iterable[tuple[Any, Floats | None]]],
    groups: Groups,
    constraint: Constraint,
    *,
    actions: Actions,
    multipliers: Mapping[ConstraintName, float],
    rule: Any,
    shipped: Any,
) -> tuple[Certificate, Floats]:
    """The certificate of a rule for several actions, and the table W of the multipliers.

    With p the posteriors, w the weights, f_a the probability of action a, r the costs, and the requirement
    lo <= C rho + B t + k <= hi for some t in [0, 1]:

        masses = sum of w p,  s_a = sum of w f_a p,  rho = s / masses
        W      = -r + C^T lambda / masses
        cost   = <r, s>
        bound  = - sum of w max over a of <W_a, p> - sum of max(0, B^T lambda)
                 + sum of lambda (lo - k where lambda > 0, hi - k where lambda < 0)

    Parameters
    ----------
    parts : function
        Posteriors of shape (n, M, L) and weights of some rows at a time; asked for twice.
    groups : Groups
    constraint : Constraint
    actions : Actions
    multipliers : mapping
    rule, shipped : ActionRule
        The rule of the optimum, and the one that is shipped.

    Returns
    -------
    certificate, W
    """

    def rows() -> Iterator[tuple[Floats, Floats]]:
        for p, w in parts():
            for where in blocks(len(p)):
                yield p[where], np.ones(len(p[where])) if w is None else w[where]

    total = sum(float(w.sum()) for _, w in rows())
    masses: Floats = np.sum([np.tensordot(w, p, axes=1) for p, w in rows()], axis=0) / total
    masses = np.where(masses < _NEGLIGIBLE, 0.0, masses)
    asked = on_actions(constraint, actions)
    if needs_reference(asked):
        chosen = np.zeros((*masses.shape, len(actions.names)))
        for p, w in rows():
            cheapest = (p.sum(axis=1) @ actions.costs).argmin(axis=1)
            for a in range(len(actions.names)):
                chosen[..., a] += np.tensordot(w * (cheapest == a), p, axes=1) / total
        asked = with_reference(asked, ActionRates(groups, actions, masses, chosen))
    linear = asked.linear(masses, groups)
    lam = np.array([multipliers[name] for name in linear.names])
    held = masses[..., None] > 0
    W = np.tensordot(lam, np.divide(linear.C, masses[..., None], out=0.0 * linear.C, where=held), axes=1)
    W = W - actions.costs
    best, sums = 0.0, np.zeros((2, *W.shape))
    for p, weights in rows():
        w = weights / total
        best += float(w @ np.einsum("nmy,mya->na", p, W).max(axis=1))
        for k, one in enumerate((rule, shipped)):
            sums[k] += np.einsum("n,na,nmy->mya", w, one.selection(p), p, optimize=True)
    bound = _paid(linear, lam) - best
    costs = [float((actions.costs * s).sum()) for s in sums]
    rho = np.divide(sums, masses[..., None], out=0.0 * sums, where=held)
    broken = [float(linear.violation(one)) for one in rho]
    found = Certificate(costs[0], bound, broken[0], shipped_objective=costs[1], shipped_violation=broken[1])
    return found, W


def _paid(linear: LinearConstraints, lam: Floats) -> float:
    """What the bounds add to the dual value, from their multipliers."""
    paid = np.flatnonzero(lam)  # at an end that is not set, any price but 0 makes the bound -inf
    value = (np.where(lam > 0, linear.lo, linear.hi) - linear.k)[paid] @ lam[paid]
    if linear.B is not None:  # a scalar t in [0, 1] gains at most max(0, <lambda, B>)
        value -= np.maximum(lam @ linear.B, 0.0).sum()
    return float(value)


def _unconstrained(parts: Iterable[Part], prices: Floats) -> Floats:
    """Sum of w f p of the best rule without a requirement."""
    gain, best = prices * [-1.0, 1.0], np.zeros_like(prices)
    for _, p, w in _blocks(parts):
        best += np.tensordot(w * (np.tensordot(p, gain, axes=2) > 0), p, axes=1)
    return best


def _blocks(parts: Iterable[Part]) -> Iterator[tuple[Posteriors, Floats, Floats]]:
    """Some rows at a time: posteriors as they are, of shape (k, M, 2), and weights."""
    for posteriors, weights in parts:
        for where in blocks(len(posteriors)):
            own = posteriors.take(where)
            w = np.ones(len(own)) if weights is None else np.asarray(weights[where], dtype=np.float64)
            yield own, own.dense(), w
