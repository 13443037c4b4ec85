"""Posteriors for a table that is read in batches: from a sample, or from all rows (`learn_rows=None`).

In the latter case a row belongs to a fold by a hash of its number. The models of a fold read the table
without its rows, so the posteriors of all rows are out of fold. The sample is then for what needs rows in
memory: the calibration, and the atoms of the model for new rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.estimators.base import FairClassifier
from evenhand.estimators.large_table import (
    Batch,
    LargeTable,
    Sample,
    Score,
    View,
    weights_of_sample,
)
from evenhand.estimators.learned_posteriors import (
    LearnedPosteriors,
    collect_posteriors,
    learn_posteriors,
    posterior_spec,
)
from evenhand.exceptions import InputError
from evenhand.fairness.scores import GroupedScores
from evenhand.inputs.features import naming_bad_rows
from evenhand.posteriors.crossfit_batches import OutOfFold, cross_fit_batches
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.external import check_batch_features, check_batch_learner

__all__ = ["FoldScore", "LearnedInBatches", "check_all_rows", "learn_in_batches"]


@dataclass(frozen=True, eq=False)
class LearnedInBatches:
    """Posteriors that were learned for a table that is read in batches.

    Attributes
    ----------
    posteriors : LearnedPosteriors
        Of the sample. If models learned from all rows, their weights make up for the rates of the draw, so
        that the sample stands for all rows.
    score : Score or None
        Out-of-fold posteriors of a batch, if models learned from all rows.
    """

    posteriors: LearnedPosteriors
    score: Score | None


def check_all_rows(classifier: FairClassifier) -> None:
    """Raise an InputError, before anything is read, if models cannot learn from all rows in batches."""
    if classifier.learn_rows is not None:
        return
    classifier.check_settings()
    label, group = classifier.posterior_learners
    check_batch_learner(label, role="estimator")
    check_batch_learner(group, role="group_estimator")
    cv = classifier.cv
    if isinstance(cv, bool) or not isinstance(cv, Integral) or cv < 2:
        raise InputError(f"cv should be a whole number from 2 on with learn_rows=None, but is {cv!r}.")


def learn_in_batches(
    classifier: FairClassifier, large: LargeTable, sample: Sample, seed: int
) -> LearnedInBatches:
    """Learn posteriors from the sample; or, where `learn_rows` is None, from all rows.

    Parameters
    ----------
    classifier : FairClassifier
        Whose settings have been checked.
    large : LargeTable
    sample : Sample
    seed : int

    Returns
    -------
    LearnedInBatches
    """
    data = sample.data
    if classifier.learn_rows is not None:
        with naming_bad_rows(data.examples.X, sample.rows):
            return LearnedInBatches(learn_posteriors(classifier, data, seed=seed), None)
    for learner in classifier.posterior_learners:
        check_batch_features(data.examples.X, learner)
    spec = posterior_spec(classifier, data, seed)
    view = View(classifier, large.groups, data.access)

    def read() -> Iterator[tuple[NDArray[np.intp], Examples]]:
        for batch in large.batches():
            yield batch.numbers, view.examples(batch)

    # The models of a fold are fitted to the batches without its rows.
    estimated, out_of_fold = cross_fit_batches(
        spec,
        read,
        data.examples,
        sample.rows,
        cv=int(classifier.cv),
        average=classifier.average,
        calibration=classifier.calibration,
        seed=seed,
        verbose=classifier.verbose,
    )
    weights = weights_of_sample(large.counted, sample)
    posteriors = replace(collect_posteriors(estimated, spec, data), weights=weights)
    return LearnedInBatches(posteriors, FoldScore(view, out_of_fold))


@dataclass(frozen=True, eq=False)
class FoldScore:
    """Posteriors of a batch, each row by the models of the folds that left it out.

    Attributes
    ----------
    view : View
    out_of_fold : OutOfFold
    """

    view: View
    out_of_fold: OutOfFold

    def __call__(self, batch: Batch) -> NDArray[Any] | GroupedScores:
        """Posteriors of all rows of a batch, which may be none."""
        cells = self.view.empty_cells(0)
        if len(batch.codes):
            cells = self.out_of_fold.cells(batch.numbers, self.view.examples(batch))
        return self.view.posteriors(cells, batch)

    def weights(self, batch: Batch) -> NDArray[np.float64]:
        """How much each row counts."""
        return self.view.weights(batch)
