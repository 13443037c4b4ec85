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
from evenhand.estimators.large_table import Batch, LargeTable, Sample, Score
from evenhand.estimators.learned_posteriors import (
    LearnedPosteriors,
    as_posteriors,
    collect_posteriors,
    learn_posteriors,
    posterior_spec,
)
from evenhand.exceptions import InputError
from evenhand.fairness.scores import GroupedScores
from evenhand.inputs.features import columns_of, naming_bad_rows, read_features
from evenhand.posteriors.crossfit_batches import OutOfFold, cross_fit_batches
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.external import check_batch_features, check_batch_learner

__all__ = ["LearnedInBatches", "check_all_rows", "learn_in_batches"]


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
    if classifier.posterior_holdout is not None:
        raise InputError("holdout cannot be used with learn_rows=None, where rows are in folds: set cv.")
    if isinstance(cv, bool) or not isinstance(cv, Integral) or cv < 2:
        raise InputError(f"cv should be a whole number from 2 on with learn_rows=None, but is {cv!r}.")
    if classifier.balance == "upsample":
        raise InputError("balance='upsample' needs rows in memory: set balance='weight', or learn_rows.")


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
    view = _View(classifier, large, sample)
    # The models of a fold are fitted to the batches without its rows.
    estimated, out_of_fold = cross_fit_batches(
        spec,
        view.read,
        data.examples,
        sample.rows,
        cv=int(classifier.cv),
        average=classifier.average,
        calibration=classifier.calibration,
        seed=seed,
        verbose=classifier.verbose,
    )
    posteriors = replace(collect_posteriors(estimated, spec, data), weights=_weights(large, sample))
    return LearnedInBatches(posteriors, _Score(view, out_of_fold))


def _weights(large: LargeTable, sample: Sample) -> NDArray[np.float64] | None:
    """How much each row of the sample stands for, in risk and requirement."""
    cells, own = sample.data.examples.cells, sample.data.weights
    drawn = np.bincount(cells, minlength=large.counts.size)
    if (drawn == large.counts.ravel()).all():
        return own
    factor = np.asarray((large.counts.ravel() / np.maximum(drawn, 1))[cells])
    return factor if own is None else factor * own


@dataclass(frozen=True, eq=False)
class _View:
    """All rows as models see them."""

    classifier: FairClassifier
    large: LargeTable
    sample: Sample

    def read(self) -> Iterator[tuple[NDArray[np.intp], Examples]]:
        for batch in self.large.batches():
            yield batch.numbers, self.examples(batch)

    def examples(self, batch: Batch) -> Examples:
        access, groups = self.sample.data.access, self.large.groups
        X = read_features(self.classifier, batch.X, reset=False)
        visible = access.view(X, columns_of(X, list(groups.features)))
        return Examples(
            visible.X,
            batch.codes.astype(np.intp),
            batch.positive,
            len(groups),
            access.allowed(groups, visible.known),
            batch.weights if self.classifier.weights != "constraint" else None,
        )


@dataclass(frozen=True, eq=False)
class _Score:
    """Out-of-fold posteriors of a batch."""

    view: _View
    out_of_fold: OutOfFold

    def __call__(self, batch: Batch) -> NDArray[Any] | GroupedScores:
        groups, access = self.view.large.groups, self.view.sample.data.access
        cells = self.out_of_fold.cells(batch.numbers, self.view.examples(batch))
        return as_posteriors(cells, batch.codes, groups, known=access.knows(groups))

    def weights(self, batch: Batch) -> NDArray[np.float64]:
        return np.ones(len(batch.codes)) if batch.weights is None else batch.weights
