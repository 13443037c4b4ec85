"""From a fairness problem to multipliers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.display.progress import track
from evenhand.estimators.search import PlugIn, Trial, best_trial, read_search
from evenhand.optimum.problem import FairnessProblem
from evenhand.optimum.solution import Solution

if TYPE_CHECKING:
    from evenhand.estimators.postprocess import FairPostprocessor

__all__ = ["choose_multipliers"]


def choose_multipliers(
    classifier: FairPostprocessor, problem: FairnessProblem, *, start: Solution | None = None
) -> tuple[Solution, tuple[Trial, ...]]:
    """Solution of a fairness problem, by the solver or by the search that the classifier names.

    Parameters
    ----------
    classifier : FairPostprocessor
    problem : FairnessProblem
    start : Solution, default=None
        For the solver to start from.

    Returns
    -------
    solution : Solution
    trials : tuple of Trial
        What a search tried; empty for the solver.
    """
    search = read_search(classifier.search)
    if search is None:
        return problem.solve(tol=classifier.tol, start=start), ()
    trials = search.run(
        PlugIn(problem, classifier.n_jobs),
        watch=lambda steps, total: track(steps, what="searching", total=total, verbose=classifier.verbose),
    )
    return problem.at(best_trial(trials).multipliers), tuple(trials)
