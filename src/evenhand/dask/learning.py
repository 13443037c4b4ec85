"""Posteriors of rows on a cluster: a sample is drawn there, folds are fitted there, all rows scored there."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, Future
from numpy.typing import NDArray

from evenhand.dask.cluster import connected, gather, sent
from evenhand.dask.partitions import DaskPartitions
from evenhand.dask.table import DaskTable
from evenhand.estimators.base import FairClassifier
from evenhand.estimators.large_table import (
    Batch,
    Counted,
    OutOfFold,
    Sample,
    Score,
    draw_rates,
    draw_rows,
    join_sample,
)
from evenhand.estimators.learned_posteriors import LearnedPosteriors, learn_posteriors
from evenhand.fairness.scores import GroupedScores
from evenhand.posteriors.crossfit import Fold
from evenhand.posteriors.examples import Examples
from evenhand.solver.threads import one_thread

__all__ = ["draw_and_learn", "score_partitions"]

_BLOCK = 1 << 24
"""Bytes of posteriors that are kept together, whatever the partitions of X: sums over other blocks would be
rounded differently, and where two optima are equally good, the other could be found."""


def draw_and_learn(
    classifier: FairClassifier, settings: FairClassifier, table: DaskTable, seed: int
) -> tuple[Sample, LearnedPosteriors]:
    """Draw the rows to learn from, and learn from them, each fold on a worker.

    Parameters
    ----------
    classifier : FairClassifier
        ``n_features_in_`` and ``feature_names_in_`` are recorded on it.
    settings : FairClassifier
        The same, without what cannot travel.
    table : DaskTable
    seed : int

    Returns
    -------
    sample : Sample
    posteriors : LearnedPosteriors
    """
    client, rates = table.client, draw_rates(classifier, table.counted)
    with connected(client):
        drawn = client.compute(table.tasks(draw_rows, rates, seed))
    sample = join_sample(classifier, table.counted, gather(client, drawn))
    # The workers join the same rows, so that these need not be sent, and are not lost with a worker.
    examples = client.submit(_examples, settings, table.counted, drawn, pure=False)
    return sample, learn_posteriors(classifier, sample.data, seed=seed, run=_Workers(client, examples))


def _examples(settings: FairClassifier, counted: Counted, drawn: Sequence[Batch]) -> Examples:
    return join_sample(copy.copy(settings), counted, drawn).data.examples


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


def score_partitions(
    classifier: FairClassifier, table: DaskTable, score: Score, own: OutOfFold, seen: NDArray[np.intp]
) -> DaskPartitions:
    """Posteriors of all rows, computed where the rows are and kept there.

    Parameters
    ----------
    classifier : FairClassifier
    table : DaskTable
    score : Score
    own : OutOfFold
        Of the rows that were learned from.
    seen : array of int
        Numbers of rows that models have seen and that have no posteriors of their own: they do not count.

    Returns
    -------
    DaskPartitions
    """
    client, places = table.client, table.places
    weighted = (table.weighted and classifier.weights != "fit") or len(seen) > 0
    given = [
        sent(client, (own.between(place.first, place.size), _between(seen, place.first, place.size)))
        for place in places
    ]
    blocks = table.tasks(_score, sent(client, score), classifier.weights != "fit", each=given)
    sizes = [place.size for place in places]
    cut = dask.delayed(_cut, pure=False)

    def column(k: int, shape: tuple[int, ...], kind: type) -> da.Array:
        parts = [
            da.from_delayed(cut(block, k), (size, *shape), dtype=kind)
            for block, size in zip(blocks, sizes, strict=True)
        ]
        return da.concatenate(parts).rechunk({0: rows})

    M = len(score.groups)
    rows = max(_BLOCK // (16 * M), 1)
    weights = column(2, (), np.float64) if weighted else None
    if score.access.knows(score.groups):
        scores = GroupedScores(column(0, (), np.float64), column(1, (), np.int32), M)
        return DaskPartitions(scores, weights, client=client, optimize_graph=False)
    return DaskPartitions(column(0, (M, 2), np.float64), weights, client=client, optimize_graph=False)


Scored = tuple[NDArray[Any], NDArray[np.int32], NDArray[np.float64]]


def _score(batch: Batch, score: Score, weigh: bool, given: tuple[OutOfFold, NDArray[np.intp]]) -> Scored:
    """Posteriors (or scores), codes and weights of a partition."""
    own, seen = given
    with one_thread("blas"):
        found = score(batch, own)
    weights = np.ones(len(batch.codes))
    if batch.weights is not None and weigh:
        weights = batch.weights.copy()
    weights[seen - batch.numbers[:1]] = 0.0
    return found.eta if isinstance(found, GroupedScores) else found, batch.codes, weights


def _cut(block: Scored, k: int) -> NDArray[Any]:
    return block[k]


def _between(numbers: NDArray[np.intp], first: int, count: int) -> NDArray[np.intp]:
    return numbers[slice(*np.searchsorted(numbers, (first, first + count)))]
