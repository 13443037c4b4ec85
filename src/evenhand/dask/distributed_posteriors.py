"""Posteriors by distributed classifiers, which learn from all rows: models of folds, and rows scored by them.

A row is in a fold by a hash of its number, whatever its partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from numbers import Integral
from typing import Any

import dask
import numpy as np
from distributed import Client, Future
from numpy.typing import NDArray

from evenhand.dask.boosters import Rows, fit_distributed, is_distributed
from evenhand.dask.cluster import computed, connected, finish, sent
from evenhand.dask.table import DaskTable
from evenhand.display.progress import track
from evenhand.estimators.all_rows import FoldScore
from evenhand.estimators.base import FairClassifier
from evenhand.estimators.large_table import Batch, Sample, View, weights_of_sample
from evenhand.estimators.learned_posteriors import LearnedPosteriors, collect_posteriors, posterior_spec
from evenhand.exceptions import InputError
from evenhand.inputs.features import take_rows
from evenhand.posteriors.crossfit_batches import (
    OutOfFold,
    Target,
    estimate_sample,
    folds_of,
    model_of,
    numbers_of_folds,
    targets_of,
)
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.learner import Learner
from evenhand.posteriors.models import PosteriorModel
from evenhand.posteriors.spec import PosteriorSpec

__all__ = ["check_distributed", "learn_distributed"]


def check_distributed(classifier: FairClassifier) -> bool:
    """Whether posteriors are learned by distributed classifiers; what these cannot do is an InputError."""
    kinds = {is_distributed(learner) for learner in classifier.posterior_learners}
    if kinds == {False}:
        return False
    if len(kinds) == 2:
        raise InputError(
            "estimator and group_estimator should both be Dask classifiers, or none of them: a sample and "
            "all rows have no folds in common."
        )
    cv = classifier.cv
    if not isinstance(cv, Integral) or isinstance(cv, bool) or cv < 2:
        raise InputError(f"cv should be a number from 2 on for Dask classifiers, but is {cv!r}.")
    return True


def learn_distributed(
    classifier: FairClassifier, table: DaskTable, sample: Sample, view: View, *, seed: int
) -> tuple[LearnedPosteriors, FoldScore]:
    """Learn from all rows, and calibrate on a sample.

    Parameters
    ----------
    classifier : FairClassifier
    table : DaskTable
    sample : Sample
    view : View
    seed : int

    Returns
    -------
    posteriors : LearnedPosteriors
        Of the sample, with weights by which it stands for all rows.
    score : FoldScore
        For all rows.
    """
    spec, examples = posterior_spec(classifier, sample.data, seed), sample.data.examples
    counts = numbers_of_folds(spec, int(classifier.cv))
    client, none = table.client, take_rows(examples.X, np.empty(0, np.intp))
    with connected(client):
        blocks = client.compute(table.tasks(_block, sent(client, view), none, seed, *counts))
    learners = [
        _Learner(factor, examples, blocks, client, place=place, cv=count)
        for place, (factor, count) in enumerate(zip(spec.factors, counts, strict=True))
    ]
    try:  # what is learned from is kept on the workers until all models are fitted
        finish(client, blocks)
        models = []
        for learner in learners:
            folds: list[int | None] = [*range(learner.cv), *([] if classifier.average else [None])]
            watched = track(folds, what="fitting posteriors", total=len(folds), verbose=classifier.verbose)
            models.append([learner.fit(fold) for fold in watched])
    finally:
        for block in blocks:
            block.release()  # xgboost keeps a reference for longer
    out_of_fold, model = OutOfFold.of(models, average=classifier.average, seen=examples.seen, seed=seed)
    found, out_of_fold = estimate_sample(
        out_of_fold,
        model,
        spec,
        examples,
        sample.rows,
        calibration=classifier.calibration,
        fits=sum(learner.fits for learner in learners),
    )
    weights = weights_of_sample(table.counted, sample)
    posteriors = replace(collect_posteriors(found, spec, sample.data), weights=weights)
    return posteriors, FoldScore(view, out_of_fold)


Block = tuple[Any, NDArray[np.intp], NDArray[np.float64], NDArray[np.intp]]
"""Rows of a partition as models see them: X, cells, weights, and the folds of each factor, one per line."""


def _block(batch: Batch, view: View, none: Any, seed: int, *counts: int) -> Block:
    cells = 2 * batch.codes.astype(np.intp) + batch.positive
    weights = batch.weights if batch.weights is not None else np.ones(len(cells))
    X = view.visible(batch).X if len(cells) else none
    return X, cells, weights, np.array([folds_of(batch.numbers, count, seed) for count in counts])


def _counted(block: Block, place: int, cv: int, cells: int) -> NDArray[np.int64]:
    own = block[2] > 0
    return np.bincount(block[3][place, own] * cells + block[1][own], minlength=cv * cells).reshape(cv, cells)


class _Learner:
    """Fits the classifiers of a posterior model, or of one of its factors, to the rows outside of a fold."""

    def __init__(
        self,
        spec: PosteriorSpec,
        examples: Examples,
        blocks: Sequence[Future],
        client: Client,
        *,
        place: int,
        cv: int,
    ) -> None:
        self.spec = spec
        self.examples = examples
        self.blocks = blocks
        self.place = place
        self.cv = cv
        self.client = client
        self.fits = 0

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Rows that count of each fold and cell, shape (cv, 2 M)."""
        count = dask.delayed(_counted, pure=False)
        cells = 2 * self.examples.n_groups
        found = computed(self.client, [count(block, self.place, self.cv, cells) for block in self.blocks])
        return np.asarray(np.sum(found, axis=0))

    def fit(self, fold: int | None) -> PosteriorModel:
        """Posterior model of all rows but those of a fold."""
        counts = self.counts.sum(axis=0) - (0 if fold is None else self.counts[fold])
        return model_of(
            self.spec.form, [self._fit(one, fold, counts) for one in targets_of(self.spec, counts)]
        )

    def _fit(self, target: Target, fold: int | None, counts: NDArray[np.int64]) -> Learner:
        places = np.unique(target.classes[(counts > 0) & (target.classes >= 0)])
        if len(places) == 1:
            return Learner(None, places, target.n_classes)
        self.fits += 1
        rows = dask.delayed(_rows, pure=False, traverse=False)
        parts = [rows(target, block, self.place, fold, places) for block in self.blocks]
        X, which = self.examples.X, np.zeros(len(places), np.intp)
        example = take_rows(X, np.arange(2))
        anchors = take_rows(X, which)
        given = (anchors, np.arange(len(places)), np.zeros(len(places)))
        model = fit_distributed(target.estimator, parts, example, given, client=self.client)
        return Learner(model, places, target.n_classes)


def _rows(target: Target, block: Block, place: int, fold: int | None, places: NDArray[np.intp]) -> Rows:
    """Rows of a partition outside of a fold, with classes renumbered without a gap."""
    X, cells, weights, folds = block
    classes, outside = target.classes[cells], folds[place] != (-1 if fold is None else fold)
    own = np.flatnonzero((classes >= 0) & (weights > 0) & outside)
    return (
        take_rows(X, own),
        np.searchsorted(places, classes[own]),
        weights[own],
    )
