"""Minimax fairness: the smallest possible risk of the group that has the largest.

The risk of group g is what errors cost within it, c_g = (sum of the costs of its errors) / P(S=g). It is
affine in the sums over rows, as everything else is. The optimum is found in two stages:

1. Minimise t subject to c_g <= t for all groups, and the requirement. t is a free scalar. Its multipliers on
   c_g <= t are weights of the groups that sum to 1, and prove that no rule has a smaller t.
2. Many rules may attain it, because groups below t are free: minimise the risk subject to c_g <= t.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenhand.groups.groups import Groups
from evenhand.optimum.problem import FairnessProblem, by_name
from evenhand.optimum.solution import Solution
from evenhand.optimum.two_stages import NOTHING, first_stage, second_stage
from evenhand.requirements.constraints import ByName, ConstraintName, LinearConstraints
from evenhand.requirements.rates import CellRates
from evenhand.solver.certificate import Certificate
from evenhand.solver.optimize import Accepted, Optimum, optimize
from evenhand.solver.oracle import Problem, Vector

WORST_GROUP = "largest risk of a group"
"""What is minimised, in the words of a certificate."""


@dataclass(frozen=True, eq=False)
class MinimaxProblem(FairnessProblem):
    """A fairness problem in which the largest risk of a group is minimised, and then the risk."""

    def _optimal(self, accepted: Accepted) -> Solution | None:
        J, least = len(self.linear_constraints), replace(accepted, tol=0.5 * accepted.tol)
        found = first_stage(self.ordinary_rows, self._capped(0.0), J, least)
        if found is None:
            return None
        first, multipliers = found
        attained = self._objective(self._rates(first.totals.sums))

        def solve(more: float, quick: Accepted) -> Solution | None:
            capped = self._capped(attained + more)
            second = optimize(self.oracle, capped, quick)
            if second is None:
                return None
            return self._of_stages(first.certificate.bound, multipliers, second, capped)

        return second_stage(self.oracle.n_rows, accepted, solve)

    @cached_property
    def _risks(self) -> LinearConstraints:
        """Risk of each group as a function of the rates, in units."""
        costs = self.program.gain[: self.masses.size].reshape(self.masses.shape) * [-1.0, 1.0]
        return group_risks(self.masses, costs, self.groups)

    def _objective(self, rates: CellRates) -> float:
        return float(self._risks.values(np.nan_to_num(rates.rates)).max())

    def _capped(self, most: float) -> Problem:
        """Minimise the risk, with c_g <= most."""
        program, risks = self.program, self._risks
        A, _, hi = risks.in_sums(self.masses)
        A = np.hstack([A, np.zeros((len(risks), program.scalars))])
        return replace(
            program,
            A=np.vstack([program.A, A]),
            lo=np.concatenate([program.lo, np.full(len(risks), -np.inf)]),
            hi=np.concatenate([program.hi, hi + most]),
        )

    def _of_stages(self, bound: float, least: Vector, second: Optimum, capped: Problem) -> Solution:
        linear, risks, rates = self.linear_constraints, self._risks, self._rates(second.totals.sums)
        J = len(linear)
        multipliers = by_name(linear.names, self.unit * least[:J])
        weights = np.where(-least[J:] > NOTHING, -least[J:], 0.0)
        # W is that of the risk plus multiples of the risks of groups. They are scaled so that the weights of
        # these risks sum to 1, because the multiples can be in the thousands, and the rule stays the same.
        scale = 1.0 / (1.0 - float(second.multipliers[J:].sum()))
        rule = self._rule(second, capped)
        rule = replace(rule, table=scale * rule.table, unit=scale * rule.unit, reach=scale * rule.reach)
        return Solution(
            rule,
            second.totals.selection,
            multipliers,
            self._prices(multipliers, rates, second.totals.sums[self.masses.size :]),
            rates,
            Certificate(
                self.unit * self._objective(rates),
                self.unit * bound,
                self.program.violation(second.totals.sums),
                WORST_GROUP,
            ),
            linear,
            ByName({name.group: weight for name, weight in zip(risks.names, weights.tolist(), strict=True)}),
            ByName(
                by_name(linear.names, scale * self.unit * second.multipliers[:J])
                | by_name(risks.names, scale * second.multipliers[J:])
            ),
        )


def group_risks(masses: NDArray[np.float64], costs: NDArray[np.float64], groups: Groups) -> LinearConstraints:
    """The risk of every group as a linear function of the selection rates, bounded by 0.

    Groups without mass are left out.

    Parameters
    ----------
    masses : array, shape (M, 2)
        P(S=m, Y=y).
    costs : array, shape (M, 2)
        Cost of an error in each cell.
    groups : Groups

    Returns
    -------
    LinearConstraints
        ``C rho + k`` is the risk of each group, and both bounds are 0.

    Examples
    --------
    >>> masses, costs = np.array([[0.3, 0.2], [0.1, 0.4]]), np.full((2, 2), 0.5)
    >>> risks = group_risks(masses, costs, Groups.product({"sex": ["F", "M"]}))
    >>> risks.values([[0.0, 0.0], [0.0, 0.5]])  # half of the error rate
    array([0.2, 0.2])
    """
    family = groups.members()  # rare groups may be pooled, and strata do not matter
    sizes = family.matrix @ masses.sum(axis=1)
    held = np.flatnonzero(sizes > 0)
    share = family.matrix[held, :, None] * masses / sizes[held, None, None]
    names = tuple(ConstraintName("minimax", "risk", family.names[m]) for m in held.tolist())
    zero = np.zeros(len(held))
    C = costs * share * [1.0, -1.0]
    return LinearConstraints(names, C, (costs[:, 1] * share[:, :, 1]).sum(axis=1), zero, zero)
