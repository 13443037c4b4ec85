"""P(S | x, y) where sensitive features are known in part: one feature after the other.

Each feature is learned for every combination of values of the features before it, from the rows in which it
and they are known. With the features in the order in which most rows have them, a row contributes what it
knows; a feature that is missing at random given x, y and the features before it is learned without bias.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from evenhand.posteriors.examples import Examples, KnownFeatures
from evenhand.posteriors.learner import Learner
from evenhand.posteriors.table_encoder import without_last

Floats = NDArray[np.float64]
Fit = Callable[[Examples, NDArray[np.intp], int], Learner]
"""Fits a classifier to examples, their classes, and the number of classes."""


@dataclass(frozen=True, eq=False)
class FeatureChain:
    """P(S | x): a model of each sensitive feature for every combination of values of those before it.

    Attributes
    ----------
    models : tuple of tuples of Learner
        For each feature, one model per combination of values of the features before, in their sorted order.
    levels : array of int, shape (M, features)
        Which value of each feature a group has, in the order in which features are learned.
    tells : int, default=0
        Number of columns at the right end of X that the models do not see.
    """

    models: tuple[tuple[Learner, ...], ...]
    levels: NDArray[np.intp]
    tells: int = 0

    def proba(self, X: Any) -> Floats:
        """P(S=m | x), shape (n, M)."""
        X = without_last(X, self.tells)
        p = np.ones((X.shape[0], len(self.levels)))
        for place, models in enumerate(self.models):
            for model, own in zip(models, branches(self.levels, place), strict=True):
                values, which = np.unique(self.levels[own, place], return_inverse=True)
                if len(values) > 1:
                    p[:, own] *= shares(model.proba(X)[:, values])[:, which]
        return p


def fit_chain(fit: Fit, rows: Examples) -> FeatureChain:
    """Learn the groups from rows that know some of their sensitive features.

    Parameters
    ----------
    fit : function
        Fits a classifier to examples, their classes, and the number of classes.
    rows : Examples
        With ``known``.

    Returns
    -------
    FeatureChain
    """
    known = cast("KnownFeatures", rows.known)
    rows = replace(rows, X=without_last(rows.X, known.tells))
    models = tuple(
        tuple(_fit_branch(fit, rows, place, own) for own in branches(known.levels, place))
        for place in range(known.levels.shape[1])
    )
    return FeatureChain(models, known.levels, known.tells)


def _fit_branch(fit: Fit, rows: Examples, place: int, own: NDArray[np.intp]) -> Learner:
    """A model of one feature, given the values before it that some groups share."""
    known = cast("KnownFeatures", rows.known)
    classes = known.values[place].shape[1]
    values = np.unique(known.levels[own, place])
    if len(values) == 1:
        return Learner(None, values, classes)
    for before in (place, 0):  # where no row has these values before, all rows that have the feature
        which, target, weights = targets(known, known.levels[own[0], :before], place, values)
        if rows.weights is not None:
            counted = rows.weights[which] > 0
            which, target, weights = which[counted], target[counted], weights[counted]
        if len(which):
            return fit(_weighted(rows, which, weights), target, classes)
    return Learner(None, values, classes)  # even shares, by `shares`


def _weighted(rows: Examples, which: NDArray[np.intp], weights: Floats) -> Examples:
    """Some of the examples, once or several times; with weights only if they differ from 1."""
    part = rows.take(which)
    if (weights == 1).all():
        return part
    own = weights if part.weights is None else weights * part.weights
    return replace(part, weights=own)


def targets(
    known: KnownFeatures, before: NDArray[np.intp], place: int, values: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Rows that know a feature and have some values before it: their numbers, their values, and weights.

    A row with probabilities in place of a value comes once for each value that it may have.
    """
    reached = np.ones(len(known.values[place]))
    for earlier, value in enumerate(before):
        reached = reached * known.values[earlier][:, value]
    weights = reached[:, None] * known.values[place][:, values]
    which, column = np.nonzero(weights)
    return which, values[column], weights[which, column]


def branches(levels: NDArray[np.intp], place: int) -> list[NDArray[np.intp]]:
    """Groups that share the values of the first features."""
    before, which = np.unique(levels[:, :place], axis=0, return_inverse=True)
    return [np.flatnonzero(which.ravel() == k) for k in range(len(before))]


def shares(p: Floats) -> Floats:
    """Probabilities scaled to sum to 1; even where all are 0."""
    total = p.sum(axis=1, keepdims=True)
    return np.where(total > 0, p / np.where(total > 0, total, 1.0), 1.0 / p.shape[1])


def complete(rows: Examples) -> KnownFeatures:
    """What is known of rows that all have a group: the groups as the values of one feature."""
    return KnownFeatures(np.arange(rows.n_groups)[:, None], (np.eye(rows.n_groups)[rows.codes],))
