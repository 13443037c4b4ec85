"""Posteriors of rows on a cluster: a sample is drawn there, folds are fitted there, all rows scored there."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, Future
from numpy.typing import NDArray

from evenhand.dask.cluster import connected, gather, sent
from evenhand.dask.distributed_posteriors import check_distributed, learn_distributed
from evenhand.dask.partitions import DaskPartitions
from evenhand.dask.table import DaskTable
from evenhand.estimators.all_rows import FoldScore
from evenhand.estimators.base import FairClassifier
from evenhand.estimators.large_table import (
    Batch,
    Counted,
    Draw,
    Sample,
    SamplePosteriors,
    SampleScore,
    View,
    draw_candidates,
    join_sample,
    plan_draw,
)
from evenhand.estimators.learned_posteriors import LearnedPosteriors, learn_posteriors
from evenhand.estimators.rule_making import further_rows, make_rule_of_batches
from evenhand.fairness.scores import GroupedScores
from evenhand.inputs.features import naming_bad_rows
from evenhand.optimum.problem import FairnessProblem
from evenhand.optimum.rule import Rule
from evenhand.optimum.solution import Solution
from evenhand.posteriors.crossfit import Fold
from evenhand.posteriors.examples import Examples
from evenhand.solver.threads import one_thread

__all__ = ["Learned", "draw_and_learn", "score_partitions"]

_BLOCK = 1 << 24
"""Bytes of posteriors that are kept together, whatever the partitions of X: sums over other blocks would be
rounded differently, and where two optima are equally good, the other could be found."""


@dataclass(frozen=True, eq=False)
class Learned:
    """What was learned, and how all rows are scored.

    Attributes
    ----------
    sample : Sample
        Rows that posteriors were learned from, or calibrated on.
    posteriors : LearnedPosteriors
        Of these.
    score : SampleScore or FoldScore
        By the model for new rows, but for the sample; or each row by the model of its fold.
    """

    sample: Sample
    posteriors: LearnedPosteriors
    score: SampleScore | FoldScore

    def rule(self, solution: Solution, problem: FairnessProblem, seed: int) -> Rule:
        """The rule for new rows, found on all rows."""
        further = None  # no row has posteriors of the model for new rows: the sample tells of its atoms
        if isinstance(self.score, SampleScore):
            further = further_rows(problem.oracle, self.posteriors, kind=np.float64)
        return make_rule_of_batches(solution.rule, self.posteriors, further, seed, kind=np.float64)


def draw_and_learn(
    classifier: FairClassifier, settings: Callable[[], FairClassifier], table: DaskTable, seed: int
) -> Learned:
    """Draw a sample, and learn from it, each fold on a worker; or from all rows by distributed classifiers.

    Parameters
    ----------
    classifier : FairClassifier
        ``n_features_in_`` and ``feature_names_in_`` are recorded on it.
    settings : function
        The same classifier, as it is, without what cannot travel.
    table : DaskTable
    seed : int

    Returns
    -------
    Learned
    """
    client, distributed = table.client, check_distributed(classifier)
    draw = plan_draw(classifier, table.counted, classifier.learn_rows, seed)
    with connected(client):
        candidates = client.compute(table.tasks(draw_candidates, draw))
    sample = join_sample(classifier, table.counted, draw, gather(client, candidates))
    view = View(settings(), table.counted.groups, sample.data.access)
    if distributed:
        return Learned(sample, *learn_distributed(classifier, table, sample, view, seed=seed))
    # The workers join the same rows, so that these need not be sent, and are not lost with a worker.
    with connected(client):
        examples = client.submit(_examples, settings(), table.counted, draw, candidates, pure=False)
    with naming_bad_rows(sample.data.examples.X, sample.rows):
        posteriors = learn_posteriors(classifier, sample.data, seed=seed, run=_Workers(client, examples))
    score = SampleScore(view, posteriors.model, SamplePosteriors.of(sample, posteriors))
    return Learned(sample, posteriors, score)


def _examples(
    settings: FairClassifier, counted: Counted, draw: Draw, candidates: Sequence[Batch]
) -> Examples:
    return join_sample(copy.copy(settings), counted, draw, candidates).data.examples


class _Workers:
    """Fits folds on the workers of a cluster.

    Parameters
    ----------
    client : distributed.Client
    examples : Future of Examples
    """

    def __init__(self, client: Client, examples: Future) -> None:
        self.client = client
        self.examples = examples

    def __call__(self, folds: Sequence[Fold]) -> list[Any]:
        """What each fold returns."""
        tasks = [
            self.client.submit(_fit, sent(self.client, fold), self.examples, pure=False) for fold in folds
        ]
        try:
            return gather(self.client, tasks)
        finally:
            for task in tasks:
                task.release()


def _fit(fold: Fold, examples: Examples) -> Any:
    return fold(examples)


def score_partitions(table: DaskTable, learned: Learned) -> DaskPartitions:
    """Posteriors of all rows, computed where the rows are and kept there.

    Parameters
    ----------
    table : DaskTable
    learned : Learned

    Returns
    -------
    DaskPartitions
    """
    client, places, score = table.client, table.places, learned.score
    weighted, given = table.weighted, None
    if isinstance(score, SampleScore):
        # The model is sent once, and to each partition the posteriors of its own rows.
        own = score.sample
        weighted = weighted or len(own.seen) > 0
        given = [sent(client, own.between(place.first, place.size)) for place in places]
        score = replace(score, sample=own.between(0, 0))
    blocks = table.tasks(_score, sent(client, score), each=given)
    sizes = [place.size for place in places]
    cut = dask.delayed(_cut, pure=False)

    def column(k: int, shape: tuple[int, ...], kind: type) -> da.Array:
        parts = [
            da.from_delayed(cut(block, k), (size, *shape), dtype=kind)
            for block, size in zip(blocks, sizes, strict=True)
        ]
        return da.concatenate(parts).rechunk({0: rows})

    M = len(table.counted.groups)
    rows = max(_BLOCK // (16 * M), 1)
    weights = column(2, (), np.float64) if weighted else None
    if score.view.known:
        scores = GroupedScores(column(0, (), np.float64), column(1, (), np.int32), M)
        return DaskPartitions(scores, weights, client=client, optimize_graph=False)
    return DaskPartitions(column(0, (M, 2), np.float64), weights, client=client, optimize_graph=False)


Scored = tuple[NDArray[Any], NDArray[np.int32], NDArray[np.float64]]


def _score(batch: Batch, score: Any, sample: SamplePosteriors | None = None) -> Scored:
    """Posteriors (or scores), codes and weights of a partition."""
    score = score if sample is None else replace(score, sample=sample)
    with one_thread("blas"):
        found = score(batch)
    return found.eta if isinstance(found, GroupedScores) else found, batch.codes, score.weights(batch)


def _cut(block: Scored, k: int) -> NDArray[Any]:
    return block[k]
