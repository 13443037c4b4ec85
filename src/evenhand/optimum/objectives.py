"""What is minimised: the risk, the largest risk of a group, or the distance from a notion of fairness."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal

from evenhand.data.checks import check_choice
from evenhand.exceptions import InputError
from evenhand.optimum.minimax import MinimaxProblem
from evenhand.optimum.nearest import NearestProblem
from evenhand.optimum.problem import FairnessProblem
from evenhand.requirements.notions import Notion
from evenhand.requirements.requirement import Constraint

Objective = Literal["risk", "minimax"] | Notion


def check_objective(objective: Any) -> None:
    """Raise an InputError for what cannot be minimised.

    Parameters
    ----------
    objective : {"risk", "minimax"} or Notion
    """
    if not isinstance(objective, Constraint):
        check_choice("objective", objective, ("risk", "minimax"))
        return
    if not isinstance(objective, Notion):
        raise InputError(
            f"objective={objective!r}: only one notion, such as DemographicParity(difference=0), can be an "
            "objective. What must hold besides belongs to the requirement."
        )
    objective.check(None)
    if objective.controls:
        raise InputError("objective: a notion with `given` cannot be an objective; use it as a requirement.")


def read_problem(
    objective: Objective, posteriors: Any, constraint: Constraint, **settings: Any
) -> FairnessProblem:
    """The fairness problem that has this objective, from the arguments of :func:`solve`.

    Parameters
    ----------
    objective : {"risk", "minimax"} or Notion
    posteriors, constraint, **settings
        See :func:`evenhand.solve`.

    Returns
    -------
    FairnessProblem
    """
    check_objective(objective)
    if not isinstance(objective, Notion):
        kind = MinimaxProblem if objective == "minimax" else FairnessProblem
        return kind.read(posteriors, constraint, **settings)
    plain = FairnessProblem.read(posteriors, constraint, **settings)
    objective.linear(plain.masses, plain.groups)  # warns if there is nothing to compare
    own = {field.name: getattr(plain, field.name) for field in fields(plain)}
    return NearestProblem(**own, notion=objective)
