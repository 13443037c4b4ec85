"""P(S | x, y) where sensitive features are known in part: one feature after the other.

Each feature is learned for every combination of values of the features before it, from the rows in which it
and they are known. With the features in the order in which most rows have them, a row contributes what it
knows; a feature that is missing at random given x, y and the features before it is learned without bias.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.posteriors.calibration import (
    Calibration,
    Calibrator,
    Curves,
    InContext,
    fit_calibrator,
    fit_in_context,
)
from evenhand.posteriors.examples import Examples, KnownFeatures
from evenhand.posteriors.learner import Learner
from evenhand.posteriors.table_encoder import without_last

__all__ = ["ChainCalibrator", "FeatureChain", "fit_chain", "fit_chain_calibrator", "fits_of_chain"]

Floats = NDArray[np.float64]
Fit = Callable[[Examples, NDArray[np.intp], int], Learner]
"""Fits a classifier to examples, their classes, and the number of classes."""

_SHARED = 20.0
"""Rows that each curve gets on which there is nothing to correct, so that a few rows change it little."""


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
            for model, own in zip(models, _branches(self.levels, place), strict=True):
                values, which = np.unique(self.levels[own, place], return_inverse=True)
                if len(values) > 1:
                    p[:, own] *= _shares(model.proba(X)[:, values])[:, which]
        return p


def fits_of_chain(levels: NDArray[np.intp]) -> int:
    """Number of classifiers in a chain, those of a single value included."""
    return sum(len(_branches(levels, place)) for place in range(levels.shape[1]))


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
    known = _known(rows)
    rows = replace(rows, X=without_last(rows.X, known.tells))
    models = []
    for place in range(known.levels.shape[1]):
        branches = _branches(known.levels, place)
        models.append(tuple(_fit_branch(fit, rows, place, own) for own in branches))
    return FeatureChain(tuple(models), known.levels, known.tells)


def _fit_branch(fit: Fit, rows: Examples, place: int, own: NDArray[np.intp]) -> Learner:
    """A model of one feature, given the values before it that some groups share."""
    known = _known(rows)
    classes = known.values[place].shape[1]
    values = np.unique(known.levels[own, place])
    if len(values) == 1:
        return Learner(None, values, classes)
    for before in (place, 0):  # where no row has these values before, all rows that have the feature
        which, target, weights = _targets(known, known.levels[own[0], :before], place, values)
        if rows.weights is not None:
            counted = rows.weights[which] > 0
            which, target, weights = which[counted], target[counted], weights[counted]
        if len(which):
            return fit(_weighted(rows, which, weights), target, classes)
    return Learner(None, values, classes)  # even shares, by `_shares`


def _weighted(rows: Examples, which: NDArray[np.intp], weights: Floats) -> Examples:
    """Some of the examples, once or several times; with weights only if they differ from 1."""
    part = rows.take(which)
    if (weights == 1).all():
        return part
    own = weights if part.weights is None else weights * part.weights
    return replace(part, weights=own)


def _targets(
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


@dataclass(frozen=True, eq=False)
class ChainCalibrator:
    """Corrects P(Y | x), and each feature of the chain for either label; shape (n, 2 M) as cells 2 m + y.

    Attributes
    ----------
    label : Calibrator or InContext
        Of P(Y | x), from all rows.
    features : pair of tuples of tuples of Calibrator or InContext
        For each label and feature, one per combination of values of the features before.
    levels : array of int, shape (M, features)
    tells : int, default=0
        Number of columns that tell which features are known; see :class:`KnownFeatures`.
    """

    label: Calibrator | InContext
    features: tuple[tuple[tuple[Calibrator | InContext, ...], ...], ...]
    levels: NDArray[np.intp]
    tells: int = 0

    def __call__(self, p: Floats) -> Floats:
        """Calibrated posteriors of the cells, shape (n, 2 M)."""
        cells = p.reshape(len(p), -1, 2)
        labels = _corrected(self.label, _shares(cells.sum(axis=1)), p)
        context = _context(cells, self.tells)
        new = np.empty_like(cells)
        for y, chain in enumerate(self.features):
            q = np.ones(cells.shape[:2])
            for place, curves in enumerate(chain):
                for curve, own in zip(curves, _branches(self.levels, place), strict=True):
                    values, which = np.unique(self.levels[own, place], return_inverse=True)
                    if len(values) > 1:
                        q[:, own] *= _corrected(curve, _branch_shares(cells[:, own, y], which), context)[
                            :, which
                        ]
            new[:, :, y] = labels[:, [y]] * q
        return new.reshape(p.shape)


def fit_chain_calibrator(how: Calibration, p: Floats, rows: Examples) -> ChainCalibrator:
    """Fit corrections to posteriors of rows that know some of their sensitive features.

    The label's curve is fitted to all rows, that of a feature to the rows that know it and those before.

    Parameters
    ----------
    how : {"dirichlet", "sigmoid", "isotonic", "binning"}
    p : array, shape (n, 2 M)
        Out-of-fold or held-out posteriors of the cells.
    rows : Examples
        The same rows, with ``known``.

    Returns
    -------
    ChainCalibrator
    """
    known = _known(rows)
    cells = p.reshape(len(p), -1, 2)
    everybody = np.arange(len(p)), rows.positive.astype(np.intp), np.ones(len(p))
    both = np.array([0, 1])
    label = _curve(
        how, _shares(cells.sum(axis=1)), everybody, both, row_weights=rows.weights, p=p, levels=known.levels
    )
    context, features = _context(cells, known.tells), []
    for y in (False, True):
        part = np.flatnonzero(rows.positive == y)
        weights = None if rows.weights is None else rows.weights[part]
        chain = []
        for place in range(known.levels.shape[1]):
            curves = []
            for own in _branches(known.levels, place):
                values, which = np.unique(known.levels[own, place], return_inverse=True)
                q = _branch_shares(cells[part][:, own, int(y)], which)
                given = _targets(known.take(part), known.levels[own[0], :place], place, values)
                curves.append(
                    _curve(how, q, given, values, row_weights=weights, p=context[part], levels=known.levels)
                )
            chain.append(tuple(curves))
        features.append(tuple(chain))
    return ChainCalibrator(label, tuple(features), known.levels, known.tells)


def _curve(
    how: Calibration,
    q: Floats,
    given: tuple[NDArray[np.intp], NDArray[np.intp], Floats],
    values: NDArray[np.intp],
    *,
    row_weights: Floats | None,
    p: Floats,
    levels: NDArray[np.intp],
) -> Calibrator | InContext:
    """The correction of one feature in one branch, or of the label."""
    which, target, weights = given
    if row_weights is not None:
        weights = weights * row_weights[which]
    counted = weights > 0
    which, target, weights = which[counted], np.searchsorted(values, target[counted]), weights[counted]
    K, total = len(values), weights.sum()
    if K == 1 or not total > 0:
        return Curves((None,) * K)
    rows = q[which]
    if how == "dirichlet":
        weights = weights * max(1.0, len(weights) / total) if row_weights is not None else weights
        return fit_in_context(rows, p[which], target, weights, levels=levels)
    prior = _SHARED * rows * (weights / total)[:, None]
    return fit_calibrator(
        how,
        np.concatenate([rows] * (K + 1)),
        np.concatenate([target, *(np.full(len(rows), k) for k in range(K))]),
        np.concatenate([weights, *prior.T]),
    )


def _context(cells: Floats, tells: int) -> Floats:
    """What corrections of sensitive features may depend on, shape (n, 2 M): the posteriors of the cells.

    Without P(Y | x) where that depends on which features are known: corrections are learned where one is
    known, and hold where it is not only if they do not depend on that.
    """
    if tells:
        total = cells.sum(axis=1, keepdims=True)
        even = np.full_like(cells, 0.5 / cells.shape[1])
        cells = np.where(total > 0, 0.5 * cells / np.where(total > 0, total, 1.0), even)
    return cells.reshape(len(cells), -1)


def _corrected(curve: Calibrator | InContext, q: Floats, p: Floats) -> Floats:
    return curve(q, p) if isinstance(curve, InContext) else curve(q)


def _branches(levels: NDArray[np.intp], place: int) -> list[NDArray[np.intp]]:
    """Groups that share the values of the first features."""
    before, which = np.unique(levels[:, :place], axis=0, return_inverse=True)
    return [np.flatnonzero(which.ravel() == k) for k in range(len(before))]


def _branch_shares(p: Floats, which: NDArray[np.intp]) -> Floats:
    """Probabilities of the values of a feature within a branch, from those of its groups."""
    return _shares(p @ np.eye(which.max() + 1)[which])


def _shares(p: Floats) -> Floats:
    """Probabilities scaled to sum to 1; even where all are 0."""
    total = p.sum(axis=1, keepdims=True)
    return np.where(total > 0, p / np.where(total > 0, total, 1.0), 1.0 / p.shape[1])


def _known(rows: Examples) -> KnownFeatures:
    if rows.known is None:
        raise ValueError("these rows do not tell which of their sensitive features are known.")
    return rows.known
