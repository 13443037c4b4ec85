"""The guarantee of a fitted model, checked on the rows that it was fitted to."""

from __future__ import annotations

from typing import Any

from evenhand.data.row_keys import row_keys
from evenhand.estimators.cost_sensitive import RateEstimator
from evenhand.estimators.inprocess import FairInprocessor
from evenhand.estimators.learned_posteriors import LearnedPosteriors
from evenhand.estimators.postprocess import FairPostprocessor
from evenhand.estimators.rank_thresholds import (
    count_all,
    count_ranked,
    plan_ranks,
    ranked_scores,
    set_thresholds,
)
from evenhand.estimators.training_data import TrainingData
from evenhand.guarantee.group_tests import run_tests
from evenhand.guarantee.ranks import counted_labels, violation_chances
from evenhand.optimum.action_rule import ActionRule
from evenhand.optimum.problem import FairnessProblem
from evenhand.optimum.rule import Rule
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.posteriors import Posteriors
from evenhand.requirements.rates import CellRates

_SAME_CHANCE = 1.1
"""Other versions of NumPy may draw other numbers; a computed probability has an error of a few per cent."""


def deployed_posteriors(model: FairPostprocessor, rows: Examples) -> Posteriors:
    """Posteriors of some rows by the model for new rows."""
    cells = model.posterior_model_.cells(rows.X, rows.allowed)
    several = isinstance(model.rule_, ActionRule)
    return model.access_.posteriors(model.groups_, cells, rows.codes, rows.strata, actions=several)


def with_ranks(model: Any, rule: Rule, held_out: Examples | None) -> Rule:
    """The rule with its thresholds where held-out rows have the ranks of the guarantee, if it has any."""
    ranks = None if model.guarantee_ is None else model.guarantee_.ranks
    if ranks is None or held_out is None or model.guarantee_.attainable is None:
        return rule
    return set_thresholds(rule, deployed_posteriors(model, held_out), held_out.positive, ranks) or rule


def compare_guarantee(
    model: Any,
    problem: FairnessProblem,
    posteriors: LearnedPosteriors,
    data: TrainingData,
    held_out: Examples,
) -> list[str]:
    """Where a guarantee disagrees with the rows of the fit: tested again, or its ranks planned again.

    Parameters
    ----------
    model : FairPostprocessor or FairInprocessor
    problem : FairnessProblem
        The requirement on the rows of the fit.
    posteriors : LearnedPosteriors
        Learned again.
    data : TrainingData
        Rows that were learned from.
    held_out : Examples

    Returns
    -------
    list of str
    """
    learned, found = data.examples, model.guarantee_.attainable
    if found is None:
        return []
    problem = problem if model.guarantee_.holds else problem.under(found)
    if model.guarantee_.ranks is not None:
        return _compare_ranks(model, problem, posteriors, learned, held_out)
    if isinstance(model, FairInprocessor):
        decisions = model.learner_.choose(held_out.X) == 1
    else:
        scores = deployed_posteriors(model, held_out)
        decisions = model.rule_.decide(scores, lambda rows: row_keys(held_out.X, rows))
    rates = CellRates.count(model.compared_, held_out.compared_cells, decisions)
    tests = run_tests(problem.constraint, rates, 1 - model.guarantee_.confidence, all_rows=data.everyone)
    passed = all(test.passed for test in tests)
    return [] if passed else [f"{found!r} is not guaranteed by the held-out rows"]


def _compare_ranks(
    model: Any, problem: FairnessProblem, posteriors: LearnedPosteriors, learned: Examples, held_out: Examples
) -> list[str]:
    """Plan the ranks of the guarantee again, and compute again how probable it is that they break it."""
    ranks, groups = model.guarantee_.ranks, model.compared_
    labels = counted_labels(problem.constraint, groups)
    if labels is None or labels != ranks.labels or posteriors.deployed.codes is None:
        return ["the guarantee rests on ranks, which do not belong to its requirement"]
    at = learned.take(posteriors.rows)
    selected = RateEstimator(problem, at, posteriors.weights).by_posteriors(
        model.solved_rule_.selection(posteriors.out_of_fold)
    )
    sizes, everyone = count_ranked(labels, held_out, groups), count_all(labels, learned, held_out, groups)
    planned = plan_ranks(
        CellRates(groups, problem.masses, selected),
        labels,
        ranked_scores(posteriors.deployed, labels, at.positive),
        sizes,
    )
    near = all(
        abs(one - other) <= 1  # on another processor a rank may be rounded to the next
        for ours, theirs in ((ranks.ranks, planned.ranks), (ranks.slack, planned.slack))
        for one, other in zip(ours, theirs, strict=True)
    )
    if ranks.sizes != planned.sizes or not near:
        return ["the ranks that the guarantee rests on are not those of these rows"]
    level = 1 - model.guarantee_.confidence
    chance, _ = violation_chances(problem.constraint, groups, ranks, everyone, level)
    if not chance <= _SAME_CHANCE * level:
        return [f"thresholds at the ranks of the guarantee break it with probability {chance:.3f}"]
    return []
