"""Decisions among several actions by a classifier: posteriors of all labels, and the rule for new rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenhand.exceptions import ConstantClassifierWarning, EvenhandWarning, warn_user
from evenhand.groups.groups import Groups
from evenhand.optimum.action_problem import ActionsProblem, warn_if_never
from evenhand.optimum.rule import SAME_ATOM
from evenhand.requirements.actions import Actions, on_actions
from evenhand.requirements.requirement import Constraint
from evenhand.solver.dense import collapsed

if TYPE_CHECKING:
    from evenhand.estimators.access import AttributeAccess
    from evenhand.estimators.learned_posteriors import LearnedPosteriors
    from evenhand.estimators.settings import Settings
    from evenhand.estimators.training_data import TrainingData
    from evenhand.optimum.action_rule import ActionRule

Floats = NDArray[np.float64]

_LEAST_ROWS, _LEAST_SHARE = 10, 1e-3
"""Rows that an atom must have, as for two decisions (``optimum/atoms.py``)."""
_DIGITS = 12
"""To which posteriors are rounded, as for two decisions (``access.py``)."""


def posteriors_of_actions(
    access: AttributeAccess, groups: Groups, cells: Floats, codes: NDArray[Any]
) -> Floats:
    """Posteriors of rows in the cells of all groups, shape (n, M, L).

    Parameters
    ----------
    access : AttributeAccess
    groups : Groups
    cells : array, shape (n, M, L), or (n, 1, L) where groups are known
    codes : array of int, shape (n,)
        The group of each row, where it is known.

    Returns
    -------
    array
        Rounded, so that the last bits of a matrix product tell no rows apart.
    """
    p = np.round(cells, _DIGITS)
    if not access.knows(groups):
        return p
    found = np.zeros((len(p), len(groups), p.shape[2]))
    found[np.arange(len(p)), codes] = p[:, 0]
    return found


def labels_and_groups_suffice(
    constraint: Constraint, actions: Actions, masses: Floats, groups: Groups
) -> bool:
    """Whether the requirement depends on P(Y | x) and P(S | x) alone, not on how the two go together.

    Parameters
    ----------
    constraint : Constraint
    actions : Actions
    masses : array, shape (M, L)
    groups : Groups

    Returns
    -------
    bool
    """
    if (masses == 0).any():
        return False
    with warnings.catch_warnings(action="ignore", category=EvenhandWarning):
        linear = on_actions(constraint, actions).linear(masses, groups)
    shape = (len(linear), *masses.shape, len(actions.names))
    table = linear.in_sums(masses)[0][:, : masses.size * shape[-1]].reshape(shape)
    return bool(np.allclose(table, table[:, :, :1]))


@dataclass(frozen=True, eq=False)
class ActionDecisions:
    """What a fit finds for several actions.

    Attributes
    ----------
    problem : ActionsProblem
    solution : ActionSolution
    rule : ActionRule
        For new rows.
    """

    problem: ActionsProblem
    solution: Any
    rule: Any

    @classmethod
    def find(cls, settings: Settings, data: TrainingData, learned: LearnedPosteriors, seed: int) -> Any:
        """The optimum among several actions on learned posteriors, and its rule for new rows."""
        problem = problem_of_actions(settings, data, learned)
        solution: Any = problem.solve()
        rule: Any = for_new_rows(solution.rule, learned, solution.selection, seed)
        _warn_if_alike(solution.rates, rule.selection(learned.deployed))
        return cls(problem, problem.shipped(solution, rule), rule)

    def rounded(self, learned: LearnedPosteriors) -> Any:
        """The nearest rule that never randomises, its certificate and its rates; None if it does not."""
        if not self.rule.randomises:
            return None
        found = self.problem.deterministic(
            self.rule, learned.deployed, linear=self.solution.linear_constraints
        )
        attained = self.problem.shipped(self.solution, found).certificate
        return found, attained, self.problem.rates_of(found)


def problem_of_actions(settings: Settings, data: TrainingData, learned: LearnedPosteriors) -> ActionsProblem:
    """The requirement on learned posteriors, for decisions among several actions.

    Parameters
    ----------
    settings : Settings
    data : TrainingData
    learned : LearnedPosteriors

    Returns
    -------
    ActionsProblem
    """
    return ActionsProblem.of(
        learned.out_of_fold,
        settings.constraint,
        cost=settings.classifier.cost,
        sample_weight=learned.weights,
        groups=data.compared,
        labels=data.classes.tolist(),
    )


def for_new_rows(rule: ActionRule, learned: LearnedPosteriors, selection: Floats, seed: int) -> ActionRule:
    """The rule for new rows: atoms of the deployed model are randomised, each with the mean of its rows.

    Parameters
    ----------
    rule : ActionRule
    learned : LearnedPosteriors
    selection : array, shape (n, K)
        Of the out-of-fold posteriors.
    seed : int

    Returns
    -------
    ActionRule
    """
    rule = replace(rule, resolution=SAME_ATOM, key=f"{seed:08x}")
    deployed: Any = learned.deployed
    off = (rule.selection(deployed) != selection).any(axis=1)
    least = max(_LEAST_ROWS, _LEAST_SHARE * len(off))
    if np.count_nonzero(off) < least:
        return rule
    weights = np.ones(len(off)) if learned.weights is None else learned.weights
    atoms, mass, kind = collapsed(deployed + 0.0, weights)
    shares = np.column_stack([np.bincount(kind, weights * one, len(mass)) for one in selection.T])
    chosen = (np.bincount(kind, off, len(mass)) >= least) & (mass > 0)
    found, chances = atoms[chosen], shares[chosen] / mass[chosen, None]
    if rule.atoms is not None and rule.chances is not None:
        known = {atom.tobytes() for atom in found}
        kept = [k for k, atom in enumerate(rule.atoms) if atom.tobytes() not in known]
        found = np.concatenate([rule.atoms[kept], found])
        chances = np.concatenate([rule.chances[kept], chances])
    return replace(rule, atoms=found, chances=chances) if len(found) else rule


def _warn_if_alike(rates: Any, selection: Floats) -> None:
    """Warn if everyone gets the same action, or if nobody gets some."""
    if (selection == selection[0]).all():
        names = [name for name, one in zip(rates.actions.names, selection[0], strict=True) if one > 0]
        warn_user(
            f"this classifier is constant: everyone gets {' or '.join(map(repr, names))} among the rows of "
            "fit. A wider tolerance, other costs, more rows or aware=True may give one that tells people "
            "apart.",
            ConstantClassifierWarning,
        )
    else:
        warn_if_never(rates)


def by_costs(p: Floats, rule: Any) -> Floats:
    """Minus the expected cost of each action, shape (n, K), without any requirement."""
    return np.asarray(-(p.sum(axis=1) @ rule.costs))
