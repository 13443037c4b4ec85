"""As near to parity as a requirement allows: the least disparity, with a proof.

The distance t from a notion is its largest difference, or 1 minus its smallest ratio; the notion with this
tolerance is a requirement like any other. The optimum is found in two stages:

1. With the notion at a tolerance, minimise by how much its constraints are broken: a free scalar. If they
   must be, the multipliers prove that no tolerance below some t can be satisfied. By difference that is the
   least one. By ratio coefficients depend on the tolerance, and the same is repeated just below what was
   attained.
2. Many rules may attain it: minimise the risk subject to the requirement and the notion at that tolerance.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields, replace

import numpy as np

from evenhand.exceptions import EvenhandWarning
from evenhand.optimum.infeasible import root
from evenhand.optimum.problem import FairnessProblem, by_name
from evenhand.optimum.solution import Solution
from evenhand.optimum.two_stages import NOTHING, first_stage, second_stage
from evenhand.requirements.constraints import ByName
from evenhand.requirements.notions import Notion
from evenhand.requirements.rates import CellRates
from evenhand.solver.certificate import Certificate
from evenhand.solver.optimize import Accepted
from evenhand.solver.oracle import Vector

_ROUNDS, _NEARER = 20, 0.9
"""By difference one round is enough. By ratio what is attained converges superlinearly (Dinkelbach), and the
last round, at slightly less, proves it."""
_SHARPER = 1e-2
"""Of the tolerance, in the first stage: breaking a constraint by v changes a ratio by v / q."""


def distance(notion: Notion, rates: CellRates) -> float:
    """The largest difference of a notion, or 1 minus the smallest ratio; 0 where nothing is compared.

    Examples
    --------
    >>> from evenhand import DemographicParity, cell_rates
    >>> rates = cell_rates(None, [1, 1, 0, 1], {"sex": ["F", "F", "M", "M"]})
    >>> distance(DemographicParity(ratio=1, against={"sex": "F"}), rates)
    0.5
    """
    found = [
        one.difference if notion.compares_by == "difference" else 1 - one.ratio
        for one in notion._measure(rates)
    ]
    return float(np.nanmax([0.0, *found]))


def slack_of(notion: Notion) -> float:
    """The tolerance of a notion as a distance: a difference, or 1 minus a ratio.

    Examples
    --------
    >>> from evenhand import DemographicParity
    >>> slack_of(DemographicParity(ratio=0.75))
    0.25
    """
    return notion.tolerance if notion.compares_by == "difference" else 1 - notion.tolerance


def named_distance(notion: Notion) -> str:
    """What is minimised, in the words of a certificate.

    Examples
    --------
    >>> from evenhand import DemographicParity
    >>> named_distance(DemographicParity(ratio=1))
    'distance from demographic parity (1 - ratio)'
    """
    by = "difference" if notion.compares_by == "difference" else "1 - ratio"
    return f"distance from {notion.label} ({by})"


@dataclass(frozen=True, eq=False)
class _Least:
    """Result of the first stage; multipliers are scaled to be those of the distance."""

    attained: float
    bound: float
    multipliers: Vector
    rates: CellRates
    scalars: Vector

    def joined(self, other: _Least) -> _Least:
        """The better of two selections with the better of two proofs."""
        attained, proof = min(self.attained, other.attained), max(self, other, key=lambda one: one.bound)
        return replace(proof, attained=attained)


@dataclass(frozen=True, eq=False)
class NearestProblem(FairnessProblem):
    """A fairness problem in which the distance from a notion is minimised, and then the risk.

    Attributes
    ----------
    notion : Notion
        Nothing is gained by being nearer than its tolerance.
    """

    notion: Notion

    @property
    def _goal(self) -> float:
        return slack_of(self.notion)

    def _objective(self, rates: CellRates) -> float:
        # `shipped` multiplies by the unit of costs, which a distance does not have.
        return max(self._goal, distance(self.notion, rates)) / self.unit

    def _optimal(self, accepted: Accepted) -> Solution | None:
        with warnings.catch_warnings(action="ignore", category=EvenhandWarning):  # `read` has warned
            least = self._least(accepted)
            if least is None:
                return None

            def solve(more: float, quick: Accepted) -> Solution | None:
                near = self.notion.with_slack(min(1.0, least.attained + more))
                second = self._beside(near)._optimal(quick)
                return None if second is None else self._of_stages(least, second, near)

            return second_stage(self.oracle.n_rows, accepted, solve)

    def _beside(self, notion: Notion) -> FairnessProblem:
        """The requirement together with the notion, as a problem of least risk."""
        own = {field.name: getattr(self, field.name) for field in fields(FairnessProblem)}
        return FairnessProblem(**own).under(self.constraint & notion)

    def _least(self, accepted: Accepted) -> _Least | None:
        """The first stage: nearer by less than the tolerance until that is proven to be impossible."""
        J, tol = len(self.linear_constraints), accepted.tol
        sharp = replace(accepted, tol=(_SHARPER if self.notion.compares_by == "ratio" else 0.5) * tol)
        slack, best = self._goal, None
        for _ in range(_ROUNDS):
            beside = self._beside(self.notion.with_slack(slack))
            stage = first_stage(self.ordinary_rows, beside.program, J, sharp)
            if stage is None:
                return best
            optimum, multipliers = stage
            multipliers = np.where(np.abs(multipliers) <= NOTHING, 0.0, multipliers)
            rates = self._rates(optimum.totals.sums)
            scalars = optimum.totals.sums[self.masses.size : -1]
            attained = self._objective(rates) * self.unit
            bound = self._proven(multipliers, slack, attained) if multipliers[J:].any() else self._goal
            if bound <= self._goal:  # nothing is proven
                multipliers = np.zeros_like(multipliers)
            speed = self._speed(multipliers, rates, scalars)
            found = _Least(attained, bound, multipliers / speed, rates, scalars)
            best = found if best is None else found.joined(best)
            if best.attained - best.bound <= tol:
                break
            slack = max(best.bound, best.attained - _NEARER * tol)
        return best

    def _proven(self, multipliers: Vector, low: float, high: float) -> float:
        """The tolerance up to which multipliers prove that the notion cannot be satisfied."""

        def value(slack: float) -> float:
            task = self._beside(self.notion.with_slack(slack))
            found = task.oracle.totals(multipliers @ task.program.A)
            return found.positive_part + task.program.penalty(multipliers)

        if value(low) >= 0:
            return self._goal
        return high if value(high) <= NOTHING else root(value, low, high)

    def _speed(self, multipliers: Vector, rates: CellRates, scalars: Vector) -> float:
        """How fast a larger tolerance undoes the proof."""
        value, lo, hi = (self.constraint & self.notion).slopes(rates, scalars)
        held = np.where(multipliers > 0, lo, hi)
        own = slice(len(self.linear_constraints), None)
        speed = abs(float(multipliers[own] @ (value - held)[own]))
        return speed if speed > NOTHING else 1.0

    def _of_stages(self, least: _Least, second: Solution, near: Notion) -> Solution:
        J = len(self.linear_constraints)
        names = second.linear_constraints.names
        required = by_name(names[:J], least.multipliers[:J])
        scalars = least.scalars[: self.linear_constraints.n_scalars]
        return replace(
            second,
            multipliers=by_name(names, least.multipliers),
            rule_multipliers=ByName(second.multipliers),
            shadow_prices=self._prices(required, least.rates, scalars),
            certificate=Certificate(
                self._objective(second.rates) * self.unit,
                least.bound,
                second.certificate.violation,
                named_distance(self.notion),
            ),
            nearest=near,
        )
