"""The exact optimum for several actions: labels, costs, and a requirement on the rates of actions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from evenhand.data.batched_table import is_dask, is_lazy
from evenhand.exceptions import ConstantClassifierWarning, InputError, warn_user
from evenhand.groups.groups import Groups
from evenhand.optimum.action_rule import ActionRule, regret_score
from evenhand.optimum.problem import FairnessProblem, unit_of
from evenhand.optimum.rounding import DIGITS, best_choice
from evenhand.optimum.solution import Solution
from evenhand.optimum.solver_rows import read_action_rows
from evenhand.posteriors.posteriors import GroupedScores
from evenhand.requirements.action_rates import ActionRates
from evenhand.requirements.actions import Actions, Costs, on_actions
from evenhand.requirements.bounds import needs_reference, with_reference
from evenhand.requirements.constraints import LinearConstraints
from evenhand.requirements.requirement import Constraint
from evenhand.solver.action_optimum import find_conflict, optimize_actions
from evenhand.solver.action_rows import ActionRows
from evenhand.solver.conflict import CONFLICT_ROWS, Conflict
from evenhand.solver.dense import collapsed, tie_width
from evenhand.solver.optimize import Accepted, Optimum
from evenhand.solver.oracle import Problem

Floats = NDArray[np.float64]

_MAX_BYTES = 2 << 30
_CONFLICT_ROWS = 4_000
"""Rows of the program that looks for a conflict: with several variables for each, a program of seconds."""
_NEGLIGIBLE = 1e-12
_NEVER = 1e-9
"""Rate below which an action counts as never taken."""


@dataclass(frozen=True, eq=False, repr=False)
class ActionSolution(Solution):
    """The best choice among several actions that satisfies a requirement, given the posteriors of some rows.

    The attributes are those of :class:`~evenhand.optimum.solution.Solution`. These differ:

    Attributes
    ----------
    rule : ActionRule
        The table W, and its decisions where actions tie.
    selection : array, shape (n, K)
        The probability of each action for each row.
    rates : ActionRates
        Masses of the cells, and how often each action is taken in them, according to the posteriors.
    certificate : Certificate
        Expected cost attained, the bound that proves it, gap and worst violation.
    """

    rule: ActionRule  # type: ignore[assignment]
    rates: ActionRates  # type: ignore[assignment]


def several_actions(posteriors: Any, cost: Any) -> bool:
    """Whether decisions are among several actions: by Costs, or by the number of labels or of columns."""
    shape = getattr(posteriors, "shape", None)
    several_labels = isinstance(shape, tuple) and len(shape) == 3 and shape[2] > 2  # a Delayed has any shape
    if isinstance(cost, Costs) or several_labels:
        return True
    try:
        return np.ndim(cost) == 2 and np.shape(cost)[-1] > 2
    except ValueError:  # rows of different lengths, which are refused where costs are read
        return False


@dataclass(frozen=True, eq=False)
class ActionsProblem(FairnessProblem):
    """A fairness requirement on given rows, for decisions among several actions.

    The attributes are those of :class:`FairnessProblem`, and the actions. Posteriors are an array of shape
    (n, M, L).
    """

    actions: Actions

    @classmethod
    def of(
        cls,
        posteriors: Any,
        constraint: Constraint,
        *,
        cost: Any = 0.5,
        sample_weight: Any = None,
        groups: Groups | None = None,
        labels: Sequence[Any] | None = None,
    ) -> ActionsProblem:
        """Validate posteriors, costs and requirement; labels are by default in the order of the costs."""
        if not isinstance(constraint, Constraint):
            raise InputError(f"constraint must be a notion of fairness or a bound, got {constraint!r}.")
        if is_lazy(posteriors) or is_dask(posteriors) or isinstance(posteriors, GroupedScores):
            raise InputError("several actions need posteriors in memory, as an array of shape (n, M, L).")
        values = np.asarray(posteriors)
        if values.ndim != 3 or values.dtype.kind != "f" or not values.shape[1]:
            raise InputError(
                f"posteriors for several actions must be floats of shape (n, M, L), got {values.dtype} of "
                f"shape {values.shape}."
            )
        if labels is None:
            labels = cost.labels if isinstance(cost, Costs) else range(values.shape[2])
        if len(labels) != values.shape[2]:
            raise InputError(f"posteriors have {values.shape[2]} labels, and Costs has {len(labels)}.")
        actions = Actions.of(cost, labels)
        refuse_many_cells(values.shape[1], actions)
        constraint = on_actions(constraint, actions)
        oracle, masses = read_action_rows(values, sample_weight, len(actions.names))
        masses = np.where(masses < _NEGLIGIBLE, 0.0, masses)
        groups = groups if groups is not None else Groups.product({"group": range(len(masses))})
        if len(groups) != len(masses):
            raise InputError(f"posteriors have {len(masses)} groups, and groups names {len(groups)}.")
        unit = unit_of(actions.costs)
        if needs_reference(constraint):
            sums = oracle.totals(_gain(masses, actions.costs / unit)).sums
            constraint = with_reference(constraint, _rates(groups, actions, masses, sums))
        linear = constraint.linear(masses, groups)
        program, rows = _program(linear, masses, actions.costs / unit), oracle.with_scalars(linear.n_scalars)
        return cls(values, constraint, groups, masses, linear, unit, rows, program, actions)  # type: ignore[arg-type]

    @property
    def rows(self) -> ActionRows:
        """The rows of the solver."""
        return cast("ActionRows", self.oracle)

    @property
    def second_score(self) -> Any:
        """By which actions are chosen that tie."""
        return regret_score(self.actions.costs)

    def conflict(self, problem: Problem, *, rows: int = CONFLICT_ROWS) -> Conflict:
        """Look for multipliers that prove bounds impossible on these rows."""
        return find_conflict(self.rows, problem, most=min(rows, _CONFLICT_ROWS))

    def _optimal(self, accepted: Accepted) -> Any:
        optimum = optimize_actions(self.rows, self.program, accepted)
        return None if optimum is None else self._solution(optimum)

    kind = ActionSolution

    def _solution(self, optimum: Optimum) -> Any:
        """The solution with what its rule attains: it can decide only tied rows otherwise."""
        solution = replace(super()._solution(optimum), selection=optimum.totals.selection.dense())
        where = self._tied(optimum)
        rows, weights = np.asarray(self.posteriors)[where], self.rows.weights_of(where)
        moved = solution.rule.selection(rows) - solution.selection[where]
        sums = optimum.totals.sums[: self._size]
        if moved.any():
            sums = sums + ActionRows(rows, weights, moved.shape[1]).mixed(moved)
        violation, cost = self._attained(self._rates(sums), self.linear_constraints)
        proof = replace(solution.certificate, shipped_objective=self.unit * cost, shipped_violation=violation)
        return replace(solution, certificate=proof)

    def deterministic(
        self, rule: Any, deployed: Any = None, *, linear: LinearConstraints | None = None
    ) -> Any:
        """The nearest rule that never randomises, as :meth:`FairnessProblem.deterministic`."""
        if not rule.randomises:
            return rule
        required = self.linear_constraints if linear is None else linear
        mixed = np.flatnonzero(((rule.chances > 0) & (rule.chances < 1)).any(axis=1))
        numbers, K = rule.chances.copy(), rule.chances.shape[1]
        numbers[mixed] = 2.0 + np.arange(len(mixed))[:, None]
        rows, views = np.asarray(self.posteriors), []
        for by in [rows] if deployed is None else [rows, deployed]:
            shares = replace(rule, chances=numbers).selection(by)
            which = np.where(shares[:, 0] >= 2, shares[:, 0] - 2, -1).astype(np.intp)
            weights = self.rows.weights_of(slice(None))
            base = self.rows.mixed(np.where(which[:, None] < 0, shares, 0.0))
            own = [weights * (which == k) @ rows.reshape(len(rows), -1) for k in range(len(mixed))]
            views.append((base[: self._size].reshape(-1, K), np.array(own)))

        def key(choice: tuple[int, ...]) -> tuple[float, ...]:
            found = []
            for base, own in views:
                sums = base.copy()
                np.add.at(sums.T, np.array(choice), own)
                found.append(self._attained(self._rates(sums.ravel()), required))
            violation, cost = (round(sum(part), DIGITS) for part in zip(*found, strict=True))
            return violation, cost, -float(rule.chances[mixed, np.array(choice)].sum())

        # One action after the other instead of the parts of a tie; the first choice is the likeliest action.
        mass = [np.full(K - 1, one) for one in sum(own.sum(axis=1) for _, own in views)]
        start = [(np.arange(K - 1) < k) * 1.0 for k in rule.chances[mixed].argmax(axis=1)]
        chances = rule.chances.copy()
        chances[mixed] = np.eye(K)[np.array(best_choice(mass, start, key))]
        return replace(rule, chances=chances)

    def _sums(self, rule: Any, parts: int = 0, by: Any = None) -> Floats:  # noqa: ARG002
        """Sums over rows of a rule's decisions, on these posteriors or on others."""
        return self.rows.mixed(rule.selection(self.posteriors if by is None else by))

    @property
    def _size(self) -> int:
        return self.masses.size * len(self.actions.names)

    def _rates(self, sums: Floats) -> Any:
        return _rates(self.groups, self.actions, self.masses, sums)

    def _objective(self, rates: Any) -> float:
        return float((rates.selected * self.actions.costs).sum() / self.unit)

    def _rule(self, optimum: Optimum, program: Problem) -> Any:
        shape = (*self.masses.shape, len(self.actions.names))
        table = program.direction(optimum.multipliers)[: self._size].reshape(shape)
        ties = None
        if optimum.tie_multipliers is not None:
            ties = (optimum.tie_multipliers @ program.A[:, : self._size]).reshape(shape)
        rule = ActionRule(self.unit * table, self.actions.costs, self.actions.names, ties, unit=self.unit)
        where = self._tied(optimum)
        weights, given = self.rows.weights_of(where), optimum.totals.selection.dense()[where]
        # Copies of a row may have been given different actions: the mean of these has the same sums.
        rows, mass, kind = collapsed(np.asarray(self.posteriors)[where].astype(np.float64) + 0.0, weights)
        shares = np.stack([np.bincount(kind, weights * column, len(mass)) for column in given.T], axis=1)
        known = mass > np.finfo(np.float64).tiny
        atoms, chances = rows[known], shares[known] / mass[known, None]
        off = (rule.selection(atoms) != chances).any(axis=1)
        return replace(rule, atoms=atoms[off], chances=chances[off]) if off.any() else rule

    def _tied(self, optimum: Optimum) -> NDArray[np.intp]:
        """Rows that the table alone does not decide."""
        chosen, v = optimum.totals.selection, self.program.direction(optimum.multipliers)
        return np.union1d(chosen.index, np.flatnonzero(chosen.margins <= tie_width(v)))


def warn_if_never(rule: ActionRule, selection: Floats) -> None:
    """Warn of actions that nobody gets: others cost less everywhere, or a bound rules them out.

    Parameters
    ----------
    rule : ActionRule
    selection : array, shape (n, K)
    """
    shares = selection.mean(axis=0)
    never = [name for name, share in zip(rule.actions, shares, strict=True) if share <= _NEVER]
    if never:
        warn_user(
            f"nobody gets the action{'s' * (len(never) > 1)} {', '.join(map(repr, never))}: others cost "
            "less, given these probabilities and the requirement. Lower its costs, or leave it out.",
            ConstantClassifierWarning,
        )


def _program(linear: LinearConstraints, masses: Floats, costs: Floats) -> Problem:
    """Expected cost and requirement as functions of the sums s[m, y, a] = pi[m, y] rho[m, y, a]."""
    A, lo, hi = linear.in_sums(masses)
    gain = np.append(_gain(masses, costs), np.zeros(linear.n_scalars))
    return Problem(gain, A, lo, hi, scalars=linear.n_scalars)


def _gain(masses: Floats, costs: Floats) -> Floats:
    return np.broadcast_to(-costs, (len(masses), *costs.shape)).ravel()


def _rates(groups: Groups, actions: Actions, masses: Floats, sums: Floats) -> ActionRates:
    """Rates of the sums over rows; what follows them, such as scalars, is left out."""
    shape = (*masses.shape, len(actions.names))
    selected = np.clip(sums[: math.prod(shape)].reshape(shape), 0.0, None)
    return ActionRates(groups, actions, masses, selected * (masses > 0)[..., None])


def refuse_many_cells(n_groups: int, actions: Actions) -> None:
    """Raise an InputError if the curvature of the dual would need too much memory.

    Parameters
    ----------
    n_groups : int
    actions : Actions
    """
    cells = n_groups * actions.costs.size
    needed = 2 * cells**2 * 8
    if needed > _MAX_BYTES:
        L, K = actions.costs.shape
        raise InputError(
            f"{n_groups} groups, {L} labels and {K} actions need {needed / 2**30:.1f} GiB of memory, "
            f"and at most {_MAX_BYTES >> 30} GiB are used: merge rare labels or groups."
        )
