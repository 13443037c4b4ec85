"""Calibration of posteriors on rows that their model has not seen: the label, and the groups given the label.

P(S, Y | x) = P(Y | x) P(S | x, y). The label's probability is corrected by a curve of itself alone, and only
if the rows contradict it. The groups are corrected given the label. So the cells add up to the label's
calibrated probability, whatever the group model is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, softmax
from scipy.stats import chi2

from evenhand.posteriors.chain import branches, complete, shares, targets
from evenhand.posteriors.examples import Examples
from evenhand.posteriors.multinomial import Regression, fit

__all__ = ["CellCalibrator", "GroupCalibrator", "fit_calibrator", "fit_group_calibrator"]

Floats = NDArray[np.float64]

_LEVEL = 0.01  # of the test whether the rows contradict a probability of the label
_TINY = 1e-12
_LEAST = 1e-6
_SHRINK = 100.0
_MOST_CELLS = 16
_LEAST_SHARE = 1e-30  # of the total weight; a smaller weight counts as zero
_LEAST_RIDGE = 1e-10  # many rows or large weights make the ridge small; below this it is lost in rounding


@dataclass(frozen=True, eq=False)
class Sigmoid:
    """1 / (1 + exp(-(slope * logit(p) + intercept))), where p is at least `least` and at most 1 - `least`."""

    slope: float
    intercept: float
    least: float

    def __call__(self, p: Floats) -> Floats:
        """Calibrated P(Y | x), shape (n, 2)."""
        inner = np.clip(p[:, 1], self.least, 1 - self.least)
        second = expit(self.slope * logit(inner) + self.intercept)
        return np.column_stack([1 - second, second])


@dataclass(frozen=True, eq=False)
class LabelSoftmax:
    """The softmax of slope * log p_y + intercept_y, for more than two labels; p_y is at least `least`."""

    slope: float
    intercepts: Floats
    least: float

    def __call__(self, p: Floats) -> Floats:
        """Calibrated P(Y | x), shape (n, L)."""
        logs = np.log(np.clip(p, self.least, 1.0))
        return np.asarray(softmax(self.slope * logs + self.intercepts, axis=1))


Curve = Sigmoid | LabelSoftmax | None
"""The calibrated probability of the label as a function of the probability; None leaves it alone."""


@dataclass(frozen=True, eq=False)
class GroupCalibrator:
    """P(Y | x, s) where the group is known: a curve for all rows, then one for each group."""

    overall: Curve
    groups: tuple[Curve, ...]

    def __call__(self, p: Floats, codes: NDArray[Any]) -> Floats:
        """Calibrated P(Y | x, s), shape (n, L); only the overall curve is applied where the code is -1."""
        new = _applied(self.overall, p)
        for m, curve in enumerate(self.groups):
            own = np.flatnonzero(codes == m)
            if curve is not None and len(own):
                new[own] = _applied(curve, new[own])
        return new


@dataclass(frozen=True, eq=False)
class Softmax:
    """The softmax of (1 + slope) log q_k + sum over features of B[j, k] z_j + c_k, for parts q of a whole.

    The parts are the values of one sensitive feature among rows of one label. The features z are the
    log-probabilities of all cells, centred and scaled, so the correction of a group can depend on the score
    of the label. With more than 16 cells, z are the log-odds of the label, and of the values of each
    sensitive feature against its first one; `levels` says which value a group has. Values without rows
    (False in `seen`) are not changed.
    """

    seen: NDArray[np.bool_]
    slope: float
    B: Floats
    center: Floats
    scale: Floats
    levels: NDArray[np.intp] | None

    def __call__(self, q: Floats, p: Floats) -> Floats:
        """Calibrated q, given the posteriors of the cells, shape (n, M, L)."""
        z = (_features(p, self.levels) - self.center) / self.scale
        rest = 1 - q[:, ~self.seen].sum(axis=1, keepdims=True)
        new = q.copy()
        new[:, self.seen] = rest * softmax(
            (1 + self.slope) * _logs(q[:, self.seen]) + z @ self.B[:-1] + self.B[-1], axis=1
        )
        return new


Shares = Softmax | None
"""The correction of the shares of a feature's values; None leaves them alone."""


@dataclass(frozen=True, eq=False)
class CellCalibrator:
    """Corrects P(Y | x), and the groups given the label; shape (n, M L) as cells L m + y.

    Attributes
    ----------
    label : Curve
    features : tuple of tuples of tuples of Shares
        For each label and sensitive feature, one per combination of values of the features before; empty
        where groups are left alone.
    levels : array of int, shape (M, features)
        Which value of each feature a group has; the groups are one feature unless some rows lack theirs.
    tells : int, default=0
        Number of columns that tell which features are known; see :class:`KnownFeatures`.

    Examples
    --------
    >>> import numpy as np
    >>> overconfident = Sigmoid(slope=0.5, intercept=0.0, least=1e-6)
    >>> curves = CellCalibrator(overconfident, ((), ()), np.array([[0], [1]]))
    >>> curves(np.array([[0.05, 0.9, 0.05, 0.0]])).round(3)  # P(Y=1 | x) was 0.9 and is 0.75
    array([[0.125, 0.75 , 0.125, 0.   ]])
    """

    label: Curve
    features: tuple[tuple[tuple[Shares, ...], ...], ...]
    levels: NDArray[np.intp]
    tells: int = 0

    def __call__(self, p: Floats) -> Floats:
        """Calibrated posteriors of the cells, shape (n, M L)."""
        cells = p.reshape(len(p), -1, len(self.features))
        labels = _applied(self.label, cells.sum(axis=1))
        context = _context(cells, self.tells)
        new = np.empty_like(cells)
        for y, chain in enumerate(self.features):
            q = np.ones(cells.shape[:2]) if chain else shares(cells[:, :, y])
            for place, curves in enumerate(chain):
                for curve, own in zip(curves, branches(self.levels, place), strict=True):
                    values, which = np.unique(self.levels[own, place], return_inverse=True)
                    if len(values) > 1:
                        given = _branch_shares(cells[:, own, y], which)
                        q[:, own] *= (given if curve is None else curve(given, context))[:, which]
            new[:, :, y] = labels[:, [y]] * q
        return new.reshape(p.shape)


def fit_calibrator(
    p: Floats,
    rows: Examples,
    *,
    levels: NDArray[np.intp] | None = None,
    proxies: bool = False,
) -> CellCalibrator:
    """Fit corrections to out-of-fold or held-out posteriors.

    Logistic in the log-odds for the label, and for the groups linear in the log-probabilities of all cells,
    shrunk towards no change. The label's curve is fitted to all rows; that of a feature to the rows of one
    label that know it and those before.

    Parameters
    ----------
    p : array, shape (n, M L)
        Posteriors of the cells.
    rows : Examples
        The same rows.
    levels : array of int, shape (M, features), default=None
        The value of each sensitive feature in group m. Used with more than 16 cells.
    proxies : bool, default=False
        Whether the groups' probabilities are given, and left alone.

    Returns
    -------
    CellCalibrator
    """
    known = complete(rows) if rows.known is None else rows.known
    levels = levels if rows.known is None else known.levels
    cells = p.reshape(len(p), -1, rows.n_labels)
    labels = np.column_stack([cells[:, :, y].sum(axis=1) for y in range(rows.n_labels)])
    label = _label_curve(labels, rows.labels, rows.weights)
    if proxies:
        return CellCalibrator(label, ((),) * rows.n_labels, known.levels)
    context, features = _context(cells, known.tells), []
    for y in range(rows.n_labels):
        part = np.flatnonzero(rows.labels == y)
        weights, own_known = None if rows.weights is None else rows.weights[part], known.take(part)
        chain = []
        for place in range(known.levels.shape[1]):
            curves = []
            for own in branches(known.levels, place):
                values, which = np.unique(known.levels[own, place], return_inverse=True)
                q = _branch_shares(cells[part][:, own, y], which)
                given = targets(own_known, known.levels[own[0], :place], place, values)
                curves.append(
                    _shares_curve(q, given, values, row_weights=weights, p=context[part], levels=levels)
                )
            chain.append(tuple(curves))
        features.append(tuple(chain))
    return CellCalibrator(label, tuple(features), known.levels, known.tells)


def fit_group_calibrator(p: Floats, rows: Examples) -> GroupCalibrator:
    """Fit a curve to all rows, then one to each group, because rates within a group depend on it.

    Parameters
    ----------
    p : array, shape (n, L)
        P(Y | x, s).
    rows : Examples
        The same rows.

    Returns
    -------
    GroupCalibrator
    """
    overall = _label_curve(p, rows.labels, rows.weights)
    shared, curves = _applied(overall, p), []
    for m in range(rows.n_groups):
        own = np.flatnonzero(rows.codes == m)
        given = None if rows.weights is None else rows.weights[own]
        curves.append(_label_curve(shared[own], rows.labels[own], given, level=_LEVEL / rows.n_groups))
    return GroupCalibrator(overall, tuple(curves))


def _label_curve(p: Floats, labels: NDArray[Any], weights: Floats | None, *, level: float = _LEVEL) -> Curve:
    """A curve of P(Y | x); None where a likelihood-ratio test does not reject the probabilities.

    A correction that is within the noise of the rows would change decisions for nothing.
    """
    w = np.ones(len(p)) if weights is None else weights
    counted = w > _LEAST_SHARE * w.sum()
    p, y, w = p[counted], np.asarray(labels[counted], np.intp), w[counted]
    if not len(p) or (y == y[0]).all() or np.ptp(p[:, 1:], axis=0).max() == 0:
        return None
    w, own = _copies(w), (np.arange(len(y)), y)
    # Of n rows, a probability of 0 means no more than that it is below one in n.
    L = p.shape[1]
    least = min(0.5 / L, 0.5 / float(w.sum()))
    if L == 2:
        p = np.column_stack([1 - p[:, 1], p[:, 1]])
    curve = _fitted_curve(p, y, w, least)
    before, after = (w @ np.log(np.clip(q[own], least, 1.0)) for q in (p, _applied(curve, p)))
    return curve if 2 * (after - before) > chi2.isf(level, L) else None


def _fitted_curve(p: Floats, y: NDArray[np.intp], w: Floats, least: float) -> Sigmoid | LabelSoftmax:
    L = p.shape[1]
    inner = np.clip(p, least, 1 - least if L == 2 else 1.0)
    if L == 2:
        inner[:, 0] = 1 - inner[:, 1]
    none, total = np.empty(0), w.sum()
    ridge = np.maximum(np.ones(1 + L) / total, _LEAST_RIDGE)
    found = fit(Regression(np.log(inner), np.empty((len(p), 0)), none, none, y, w / total, ridge))
    if L > 2:
        return LabelSoftmax(float(1 + found[0]), found[1:], least)
    return Sigmoid(float(1 + found[0]), float(found[2] - found[1]), least)


def _shares_curve(
    q: Floats,
    given: tuple[NDArray[np.intp], NDArray[np.intp], Floats],
    values: NDArray[np.intp],
    *,
    row_weights: Floats | None,
    p: Floats,
    levels: NDArray[np.intp] | None,
) -> Shares:
    """The correction of one feature in one branch, fitted to rows of one label."""
    which, target, weights = given
    if row_weights is not None:
        weights = weights * row_weights[which]
    counted = weights > _LEAST_SHARE * weights.sum()
    which, target, weights = which[counted], np.searchsorted(values, target[counted]), weights[counted]
    if len(values) == 1 or not weights.sum() > 0:
        return None
    if row_weights is not None:
        weights = _copies(weights)
    # The log loss, with a ridge penalty that is close to zero for slope and intercepts.
    q, features, total = q[which], _features(p[which], levels), weights.sum()
    w = weights / total
    center = w @ features
    scale = np.sqrt(w @ (features - center) ** 2)
    scale = np.where(scale > 0, scale, 1.0)
    seen = np.bincount(target, minlength=q.shape[1]) > 0
    F, K = features.shape[1], int(seen.sum())
    ridge = np.concatenate([[1.0], np.full(F * K, _SHRINK), np.ones(K)]) / total
    found = fit(
        Regression(
            _logs(q[:, seen]),
            features,
            center,
            scale,
            (np.cumsum(seen) - 1)[target],
            w,
            np.maximum(ridge, _LEAST_RIDGE),
        )
    )
    return Softmax(seen, float(found[0]), found[1:].reshape(F + 1, K), center, scale, levels)


def _copies(weights: Floats) -> Floats:
    """Weights as numbers of rows, at least 1 on average: penalties and priors then stay small."""
    return np.asarray(weights * max(1.0, len(weights) / weights.sum()))


def _applied(curve: Curve, p: Floats) -> Floats:
    """P(Y | x), shape (n, L), with a curve."""
    return p.copy() if curve is None else curve(p)


def _context(cells: Floats, tells: int) -> Floats:
    """What corrections of sensitive features may depend on, shape (n, M, L): the posteriors of the cells.

    Without P(Y | x) where that depends on which features are known: corrections are learned where one is
    known, and hold where it is not only if they do not depend on that.
    """
    if tells:
        total = cells.sum(axis=1, keepdims=True)
        part = 1 / cells.shape[2]
        even = np.full_like(cells, part / cells.shape[1])
        cells = np.where(total > 0, part * cells / np.where(total > 0, total, 1.0), even)
    return cells


def _branch_shares(p: Floats, which: NDArray[np.intp]) -> Floats:
    """Probabilities of the values of a feature within a branch, from those of its groups."""
    return shares(p @ np.eye(which.max() + 1)[which])


def _features(cells: Floats, levels: NDArray[np.intp] | None) -> Floats:
    """The log-probabilities of up to 16 cells; of more, log-odds of the label and of each feature."""
    if cells.shape[1] * cells.shape[2] <= _MOST_CELLS:
        return _logs(cells.reshape(len(cells), -1))
    groups = cells.sum(axis=2)
    marginals = [cells.sum(axis=1)]
    if levels is not None:
        marginals += [groups @ np.eye(level.max() + 1)[level] for level in levels.T]
    return np.column_stack([_logs(q[:, 1:]) - _logs(q[:, [0]]) for q in marginals])


def _logs(p: Floats) -> Floats:
    return np.log(np.clip(p, _LEAST, 1.0))
