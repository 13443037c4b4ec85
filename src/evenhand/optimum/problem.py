"""A fairness requirement on rows with posteriors, as the problem that the solver sees, and its solution."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.exceptions import CertificateError, EvenhandWarning, InputError, VacuousConstraintWarning
from evenhand.groups.groups import Groups
from evenhand.optimum.group_thresholds import sides
from evenhand.optimum.infeasible import refuse_infeasible
from evenhand.optimum.rounding import nearest_deterministic
from evenhand.optimum.rule import REACH_MARGIN, Rule, label_log_odds
from evenhand.optimum.solution import Solution
from evenhand.optimum.solver_rows import read_rows
from evenhand.posteriors.posteriors import AnyPosteriors, GroupedScores, Posteriors, read_posteriors
from evenhand.requirements.action_rates import ActionRates
from evenhand.requirements.actions import Actions, on_actions
from evenhand.requirements.bounds import needs_reference, with_reference
from evenhand.requirements.constraints import ByName, ConstraintName, LinearConstraints
from evenhand.requirements.measurement import NOBODY
from evenhand.requirements.rates import CellRates
from evenhand.requirements.requirement import Constraint
from evenhand.solver.certificate import Certificate
from evenhand.solver.conflict import CONFLICT_ROWS, Conflict, find_conflict
from evenhand.solver.dense import collapsed, tie_width
from evenhand.solver.grouped import GroupedRows
from evenhand.solver.optimize import Accepted, Optimum
from evenhand.solver.oracle import Oracle, Problem, Vector
from evenhand.solver.partitioned import PartitionedRows
from evenhand.solver.partitions import Part, Partitions
from evenhand.solver.scalars import RowsWithScalars, without_scalars
from evenhand.solver.stratified import StratifiedRows, optimize_in_strata
from evenhand.solver.thresholds import Steps

_RATIO_PRECISION = 1e-5
"""Shortfall of a ratio that is ignored; ratios are then right to 3e-5 (docs/decisions.md)."""
_TIGHTENINGS = 3
"""The rate that a ratio is divided by changes a little each time, so one may not be enough."""
_NEGLIGIBLE = 1e-12
"""Mass below which a cell counts as empty: its rates would be quotients of rounding errors."""


@dataclass(frozen=True, eq=False)
class FairnessProblem:
    """A fairness requirement on given rows, as the problem that the solver sees.

    Attributes
    ----------
    posteriors : Posteriors or Partitions
    constraint : Constraint
    groups : Groups
    masses : array, shape (M, 2)
        Masses of the cells, according to the posteriors.
    linear_constraints : LinearConstraints
        The requirement as linear constraints.
    unit : float
        Size of costs, by which those in `program` are divided.
    oracle : Oracle
    program : Problem
    """

    posteriors: Posteriors | Partitions
    constraint: Constraint
    groups: Groups
    masses: NDArray[np.float64]
    linear_constraints: LinearConstraints
    unit: float
    oracle: Oracle
    program: Problem

    @classmethod
    def read(
        cls,
        posteriors: AnyPosteriors | Partitions,
        constraint: Constraint,
        *,
        cost: ArrayLike = 0.5,
        sample_weight: Any = None,
        groups: Groups | None = None,
    ) -> FairnessProblem:
        """Validate the arguments of :func:`solve`."""
        if not isinstance(constraint, Constraint):
            raise InputError(f"constraint must be a notion of fairness or a bound, got {constraint!r}.")
        if not isinstance(groups, Groups | None):
            raise InputError(f"groups must be made by Groups, got {type(groups).__name__}.")
        if not isinstance(posteriors, Partitions):
            posteriors = read_posteriors(posteriors)
        oracle, masses = read_rows(posteriors, sample_weight)
        masses = np.where(masses < _NEGLIGIBLE, 0.0, masses)
        groups = groups if groups is not None else Groups.product({"group": range(len(masses))})
        if len(groups) != len(masses):
            raise InputError(f"posteriors have {len(masses)} groups, and groups names {len(groups)}.")
        prices = prices_of(cost, groups)
        unit = unit_of(prices)
        constraint = _with_reference(constraint, oracle, prices / unit, masses, groups)
        linear = constraint.linear(masses, groups)
        program = _program(linear, masses, prices / unit)
        return cls(
            posteriors, constraint, groups, masses, linear, unit, _with_scalars(oracle, linear), program
        )

    second_score: ClassVar[Any] = staticmethod(label_log_odds)
    """By which rows with H = 0 are decided."""

    def conflict(self, problem: Problem, *, rows: int = CONFLICT_ROWS) -> Conflict:
        """Look for multipliers that prove bounds impossible on these rows."""
        return find_conflict(self.oracle, problem, self.masses.ravel(), rows=rows)

    def tightened(self, share: float) -> FairnessProblem:
        """The same problem with tolerances tightened by a share: 0 leaves them, 1 is exact parity."""
        return self.under(self.constraint.tightened(share))

    def under(self, constraint: Constraint) -> FairnessProblem:
        """The same problem with another requirement."""
        inner = self.ordinary_rows
        prices = self.program.gain[: self.masses.size].reshape(-1, 2) * [-1.0, 1.0]
        constraint = _with_reference(constraint, inner, prices, self.masses, self.groups)
        with warnings.catch_warnings(action="ignore", category=VacuousConstraintWarning):
            linear = constraint.linear(self.masses, self.groups)
        return replace(
            self,
            constraint=constraint,
            linear_constraints=linear,
            program=_program(linear, self.masses, prices),
            oracle=_with_scalars(inner, linear),
        )

    def solve(self, *, tol: float = 1e-6, advise: bool = True) -> Solution:
        """Find the optimum and prove it.

        Parameters
        ----------
        tol : float, default=1e-6
            Largest gap that is accepted.
        advise : bool, default=True
            Whether an InfeasibleError says what would work, which takes longer than to find that this does
            not.

        Returns
        -------
        Solution
        """
        # Not called at once, because to look for a conflict can take longer than to solve.
        refuse = partial(refuse_infeasible, self, advise=advise)
        accepted = Accepted(tol, on_failure=refuse, score=self.second_score)
        solution = self._optimal(accepted)
        if solution is None:
            refuse()
            raise CertificateError(
                f"no algorithm proved a solution to a gap of {tol:g} on {self.oracle.n_rows:,} rows: use "
                "costs and weights of similar size, or pass a larger tol to evenhand.solve."
            )
        for _ in range(_TIGHTENINGS):
            feasibility = _feasibility(self.constraint, solution.rates)
            if feasibility is None:
                break
            tightened = self._optimal(replace(accepted, feasibility=feasibility, on_failure=None))
            if tightened is None:
                break
            solution = tightened
        return solution

    def _optimal(self, accepted: Accepted) -> Solution | None:
        """The solution to these tolerances; None if no algorithm reached them."""
        optimum = optimize_in_strata(self.oracle, self.program, accepted)
        return None if optimum is None else self._solution(optimum)

    kind: ClassVar[type[Solution]] = Solution

    def _solution(self, optimum: Optimum) -> Solution:
        rates, linear = self._rates(optimum.totals.sums), self.linear_constraints
        multipliers = by_name(linear.names, self.unit * optimum.multipliers)
        proof, scalars = optimum.certificate, optimum.totals.sums
        return self.kind(
            self._rule(optimum, self.program),
            optimum.totals.selection,
            multipliers,
            self._prices(multipliers, rates, scalars[len(scalars) - linear.n_scalars :]),
            rates,
            Certificate(self.unit * proof.objective, self.unit * proof.bound, proof.violation),
            linear,
        )

    def shipped(self, solution: Solution, rule: Rule) -> Solution:
        """The solution, with what a rule that was made of it attains on the same rows in its certificate."""
        violation, risk = self._attained(self.rates_of(rule), solution.linear_constraints)
        shipped = replace(
            solution.certificate, shipped_objective=self.unit * risk, shipped_violation=violation
        )
        return replace(solution, certificate=shipped)

    def deterministic(
        self, rule: Rule, deployed: Posteriors | None = None, *, linear: LinearConstraints | None = None
    ) -> Rule:
        """The nearest rule that never randomises.

        Parameters
        ----------
        rule : Rule
        deployed : Posteriors, default=None
            Of the rows of this problem, by the model for new rows, if it is another one. Ties of that model
            are chosen by the rows that it puts there, which count by their own posteriors.
        linear : LinearConstraints, default=None
            Whose violation counts; by default the requirement of the problem.

        Returns
        -------
        Rule
        """
        required = self.linear_constraints if linear is None else linear

        def sums(numbered: Rule, parts: int) -> list[NDArray[np.float64]]:
            views = [None] if deployed is None else [None, deployed]
            return [self._sums(numbered, parts, by).reshape(1 + parts, -1) for by in views]

        return nearest_deterministic(rule, sums, lambda s: self._attained(self._rates(s), required))

    def rates_of(self, rule: Rule) -> CellRates:
        """Masses and selection rates of a rule on these rows."""
        return self._rates(self._sums(rule))

    def _sums(self, rule: Rule, parts: int = 0, by: Posteriors | None = None) -> Vector:
        """Sum of w f p, given the selection f of a rule, by other posteriors if given; see `_in_parts`."""
        rows = self.ordinary_rows
        if isinstance(rows, PartitionedRows):
            return rows.summed(_chosen_sums, rule, parts)
        selection = rule.selection(cast("Posteriors", self.posteriors) if by is None else by)
        if isinstance(rows, StratifiedRows):
            selection = selection[rows.order]
        return _in_parts(rows, selection, parts)

    def _attained(self, rates: CellRates, linear: LinearConstraints) -> tuple[float, float]:
        """Violation, and what is minimised, in units."""
        return linear.violation(np.nan_to_num(rates.rates)), self._objective(rates)

    def _objective(self, rates: CellRates) -> float:
        """What is minimised, in units."""
        sums = np.nan_to_num(rates.rates) * self.masses
        return self.program.constant - float(self.program.gain[: self.masses.size] @ sums.ravel())

    @property
    def ordinary_rows(self) -> Any:
        """The rows without those that stand for scalars."""
        return self.oracle.inner if isinstance(self.oracle, RowsWithScalars) else self.oracle

    def _rates(self, sums: Vector) -> CellRates:
        """Masses and selection rates, from the sums over selected rows."""
        return CellRates(self.groups, self.masses, _selected(sums[: self.masses.size], self.masses))

    def _rule(self, optimum: Optimum, program: Problem) -> Rule:
        table = program.direction(optimum.multipliers)[: self.masses.size].reshape(self.masses.shape)
        rule = _rule(table, optimum, program.A)
        if rule.steps is not None:
            parts = zip(rule.steps.edges, rule.steps.chances, table, self.masses, strict=True)
            own = (sides(pair) if not mass.any() else (at, f) for at, f, pair, mass in parts)
            rule = replace(rule, steps=Steps(*zip(*own, strict=True)))
        return replace(rule, table=self.unit * table, unit=self.unit, reach=self.unit * rule.reach)

    def _prices(
        self, multipliers: Mapping[ConstraintName, float], rates: CellRates, scalars: Vector
    ) -> ByName[ConstraintName]:
        """Change of the optimal risk per unit of the tolerance or bound of each constraint.

        That is lambda times how much faster the binding bound moves than the constraint.
        """
        with warnings.catch_warnings(action="ignore", category=VacuousConstraintWarning):
            value, lo, hi = self.constraint.slopes(rates, scalars)
        names = self.linear_constraints.names
        lam = np.array([multipliers[name] for name in names])
        return by_name(names, -lam * (value - np.where(lam > 0, lo, hi)) + 0.0)


def label_and_group_suffice(
    constraint: Constraint,
    cost: ArrayLike,
    masses: NDArray[np.float64],
    groups: Groups,
    actions: Actions | None = None,
) -> bool:
    """Whether risk and requirement depend on P(Y | x) and P(S | x) alone, not on how the two go together.

    Demographic parity under costs that are the same for all groups is such a problem: a decision counts the
    same for both labels in the requirement, and for all groups in the risk.

    Parameters
    ----------
    constraint : Constraint
    cost : float, pair or array of shape (M, 2)
    masses : array, shape (M, L)
        P(S=m, Y=y), in each stratum if there are any. If one of them is 0 in all strata, the answer is no.
    groups : Groups
    actions : Actions, default=None
        If there are several, whose costs are the same for all groups.

    Returns
    -------
    bool
    """
    prices = prices_of(cost, groups)
    if (masses.reshape(-1, len(groups.combinations), masses.shape[1]).sum(axis=0) == 0).any():
        return False
    if (prices != prices[0]).any():
        return False
    with warnings.catch_warnings(action="ignore", category=EvenhandWarning):
        # Coefficients do not depend on the reference.
        even: CellRates | ActionRates = CellRates(groups, masses, masses / 2)
        if actions is not None:
            constraint, K = on_actions(constraint, actions), len(actions.names)
            even = ActionRates(groups, actions, masses, np.repeat(masses[..., None] / K, K, axis=-1))
        linear = with_reference(constraint, even).linear(masses, groups)
    A, full = linear.in_sums(masses)[0], (masses > 0).all(axis=1)
    per_mass = A[:, : A.shape[1] - linear.n_scalars].reshape(len(linear), *masses.shape, -1)[:, full]
    return bool(np.allclose(per_mass[:, :, :1], per_mass))


def prices_of(cost: ArrayLike, groups: Groups) -> NDArray[np.float64]:
    """Cost of an error in each cell, false positive and false negative, which is the same in all strata.

    Parameters
    ----------
    cost : float, pair or array of shape (M, 2)
    groups : Groups

    Returns
    -------
    array, shape (number of codes, 2)
    """
    n_groups = len(groups.combinations)
    try:
        prices = np.asarray(cost, dtype=np.float64)
    except (TypeError, ValueError):
        hint = " Costs are for FairPostprocessor and evenhand.solve." if hasattr(cost, "table") else ""
        raise InputError(f"cost must be numbers, got {cost!r}.{hint}") from None
    if prices.ndim == 0:
        if not 0 <= prices <= 1:
            raise InputError(f"cost must be a number from 0 to 1, got {cost!r}.")
        prices = np.array([prices, 1 - prices])
    if prices.shape not in ((2,), (n_groups, 2)):
        raise InputError(
            f"cost must be a number, a pair or of shape {(n_groups, 2)}, got shape {prices.shape}."
        )
    if not np.isfinite(prices).all() or (prices < 0).any():
        raise InputError("costs must be finite and non-negative.")
    prices = np.broadcast_to(prices, (n_groups, 2))
    return prices if groups.strata is None else np.tile(prices, (len(groups.strata), 1))


def unit_of(prices: NDArray[np.float64]) -> float:
    """Size by which costs are divided, because the solver's tolerances are for costs of about 1."""
    largest = float(prices.max())
    return 1.0 if 0.5 <= largest <= 1.0 or largest == 0.0 else largest


def _program(linear: LinearConstraints, masses: NDArray[np.float64], prices: NDArray[np.float64]) -> Problem:
    """Risk and requirement as functions of the sums s = masses * rates."""
    A, lo, hi = linear.in_sums(masses)
    gain = np.concatenate([(prices * [-1.0, 1.0]).ravel(), np.zeros(linear.n_scalars)])
    constant = float(prices[:, 1] @ masses[:, 1])
    return Problem(gain=gain, A=A, lo=lo, hi=hi, constant=constant, scalars=linear.n_scalars)


def _with_scalars(oracle: Oracle, linear: LinearConstraints) -> Oracle:
    return RowsWithScalars(oracle, linear.n_scalars) if linear.n_scalars else oracle


def _with_reference(
    constraint: Constraint,
    oracle: Oracle,
    prices: NDArray[np.float64],
    masses: NDArray[np.float64],
    groups: Groups,
) -> Constraint:
    """The requirement with the rates of the best rule without it, where these are its reference."""
    if not needs_reference(constraint):
        return constraint
    sums = oracle.totals((prices * [-1.0, 1.0]).ravel()).sums
    return with_reference(constraint, CellRates(groups, masses, _selected(sums, masses)))


def _selected(sums: Vector, masses: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mass of each cell that is selected: all of it where only rounding errors are missing."""
    selected = sums.reshape(masses.shape)
    return np.where(selected >= (1 - _NEGLIGIBLE) * masses, masses, selected)


def _feasibility(constraint: Constraint, rates: CellRates) -> float | None:
    """Largest violation of bounds at which ratios are right where few are selected; None if they are right.

    Breaking a bound by v changes a ratio by v / q, or v / (1 - q).
    """
    wrong = [
        found
        for notion in constraint.notions
        for found in notion.measure(rates)
        if found.measure == "ratio" and found.excess > _RATIO_PRECISION
    ]
    overall = [float(found.overall) for found in wrong]
    shares = [share for q in overall for share in (q, 1 - q) if share > NOBODY]
    return 0.5 * _RATIO_PRECISION * min(shares) if shares else None


def by_name(names: Sequence[ConstraintName], values: Vector) -> ByName[ConstraintName]:
    """One number for each constraint."""
    return ByName(zip(names, values.tolist(), strict=True))


def multipliers_of(given: Mapping[ConstraintName, float], linear: LinearConstraints) -> Vector:
    """Multipliers in the order of linear constraints; 0 where none is given."""
    values = np.array([given.get(name, 0.0) for name in linear.names])
    return np.where(np.isfinite(values), values, 0.0)


def _chosen_sums(part: Part, rule: Rule, parts: int) -> Vector:
    """Sum of w f p over the rows of a partition that a rule selects; see `_in_parts`."""
    if isinstance(part, GroupedRows):
        return _in_parts(part, rule.selection(GroupedScores(part.eta, part.codes, part.n_groups)), parts)
    return _in_parts(part, rule.selection(part.rows.reshape(-1, *rule.table.shape)), parts)


def _in_parts(rows: Any, selection: Vector, parts: int) -> Vector:
    """Sum of w f p; or of w p over selected rows, and then over those with the numbers 2, 3, ... instead."""
    if not parts:
        return np.asarray(rows.selected(selection))
    tied = np.flatnonzero(selection > 1)
    numbers = selection[tied] - 2
    own = (tied[numbers == part] for part in range(parts))
    sums = [rows.weights_of(index) @ rows.take(index) for index in own]
    return np.concatenate([rows.selected(1.0 * (selection == 1)), *sums])


def _rule(table: NDArray[np.float64], optimum: Optimum, A: NDArray[np.float64]) -> Rule:
    """The rule, with the rows that no score decides as atoms."""
    if optimum.steps is not None or optimum.finish is None:
        return Rule(table, steps=optimum.steps)
    ties = None
    if optimum.tie_multipliers is not None:
        ties = (optimum.tie_multipliers @ A[:, : table.size]).reshape(table.shape)
    undecided, ordinary = without_scalars(optimum.finish.rows, table.size)
    rows, mass, kind = collapsed(
        undecided.matrix + 0.0, undecided.weights_of(slice(None))
    )  # no negative zeros
    values = np.empty(len(rows))
    values[kind] = optimum.finish.selection[ordinary]  # copies have the same
    rule = Rule(table, ties)
    sure, decided = rule.decided(rows.reshape(-1, *table.shape))
    kept = (mass > 0) & (~sure | (values != decided))
    reach = REACH_MARGIN * max(tie_width(table), float(np.abs(rows[kept] @ table.ravel()).max(initial=0.0)))
    return replace(rule, atoms=rows[kept].reshape(-1, *table.shape), chances=values[kept], reach=reach)
