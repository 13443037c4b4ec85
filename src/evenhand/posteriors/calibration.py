"""Calibration of class probabilities: all classes jointly, or one curve per class, scaled to sum to 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, softmax
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from evenhand.posteriors.multinomial import Regression, fit

__all__ = [
    "Calibration",
    "Calibrator",
    "Curves",
    "Dirichlet",
    "GroupCalibrator",
    "InContext",
    "LabelCalibrator",
    "fit_calibrator",
    "fit_group_calibrator",
    "fit_in_context",
]

Calibration = Literal["dirichlet", "sigmoid", "isotonic", "binning"]
Floats = NDArray[np.float64]

_BINS = 40
_PRIOR = 1.0
_SHARED = 20.0
_TINY = 1e-12
_SHRINK = 100.0
_SLACK = 1e-3
_LEAST = 1e-6
_MOST_CLASSES = 16
_LEAST_SHARE = 1e-30  # of the total weight; a smaller weight counts as zero
_LEAST_RIDGE = 1e-10  # many rows or large weights make the ridge small; below this it is lost in rounding


@dataclass(frozen=True, eq=False)
class Sigmoid:
    """1 / (1 + exp(-(slope * logit(p) + intercept)))."""

    slope: float
    intercept: float

    def __call__(self, p: Floats) -> Floats:
        return np.asarray(expit(self.slope * _logits(p) + self.intercept))


@dataclass(frozen=True, eq=False)
class Isotonic:
    """A monotone curve."""

    model: Any

    def __call__(self, p: Floats) -> Floats:
        return np.asarray(self.model.predict(p))


@dataclass(frozen=True, eq=False)
class Bins:
    """A step function of p."""

    edges: Floats
    values: Floats

    def __call__(self, p: Floats) -> Floats:
        return np.asarray(self.values[np.searchsorted(self.edges, p, side="right")])


class Calibrator(Protocol):
    """Corrects probability vectors, shape (n, classes), each of which sums to 1."""

    def __call__(self, p: Floats) -> Floats:
        """Calibrated probabilities."""
        ...


@dataclass(frozen=True, eq=False)
class Dirichlet:
    """The softmax of (1 + slope) log p_k + sum over features of B[j, k] z_j + c_k.

    The features z are the log-probabilities of all classes, centred and scaled, so the correction of one
    class can depend on the others: that of a group among the positives, say, on the score of the label.
    With more than 16 cells of group and label, z are the log-odds of the label, and of the values of each
    sensitive feature against its first one; `levels` says which value a group has. Classes without rows
    (False in `seen`) are not changed.
    """

    seen: NDArray[np.bool_]
    slope: float
    B: Floats
    center: Floats
    scale: Floats
    levels: NDArray[np.intp] | None = None

    def __call__(self, p: Floats) -> Floats:
        """Calibrated probabilities, shape (n, classes)."""
        logs = _logs(p)
        z = (_features(p, logs, self.levels) - self.center) / self.scale
        rest = 1 - p[:, ~self.seen].sum(axis=1, keepdims=True)
        new = p.copy()
        new[:, self.seen] = rest * softmax(
            (1 + self.slope) * logs[:, self.seen] + z @ self.B[:-1] + self.B[-1], axis=1
        )
        return new


@dataclass(frozen=True, eq=False)
class Curves:
    """A curve for each class of a probability vector.

    Examples
    --------
    >>> import numpy as np
    >>> p = np.repeat([[0.8, 0.2], [0.4, 0.6]], 50, axis=0)
    >>> target = np.array([0] * 40 + [1] * 10 + [0] * 10 + [1] * 40)
    >>> fit_calibrator("isotonic", p, target)(p[[0, 50]]).round(2)
    array([[0.8, 0.2],
           [0.2, 0.8]])
    """

    curves: tuple[Callable[[Floats], Floats] | None, ...]

    def __call__(self, p: Floats) -> Floats:
        """Calibrated probabilities, shape (n, classes)."""
        if len(self.curves) == 2:  # the second curve determines the first
            second = p[:, 1] if self.curves[1] is None else self.curves[1](p[:, 1])
            return np.column_stack([1 - second, second])
        new = np.column_stack([p[:, k] if f is None else f(p[:, k]) for k, f in enumerate(self.curves)])
        total = new.sum(axis=1, keepdims=True)
        return np.where(total > _TINY, new / np.maximum(total, _TINY), p)


@dataclass(frozen=True, eq=False)
class InContext:
    """The softmax of (1 + slope) log q_k + sum over features of B[j, k] z_j + c_k, for parts q of a whole.

    As :class:`Dirichlet`, but q are probabilities of some of the things that the posteriors p of the cells
    tell of, such as the values of one sensitive feature, and the features z are of all cells.
    """

    slope: float
    B: Floats
    center: Floats
    scale: Floats
    levels: NDArray[np.intp] | None = None

    def __call__(self, q: Floats, p: Floats) -> Floats:
        """Calibrated q, given the posteriors of the cells, shape (n, 2 M)."""
        z = (_features(p, _logs(p), self.levels) - self.center) / self.scale
        return np.asarray(softmax((1 + self.slope) * _logs(q) + z @ self.B[:-1] + self.B[-1], axis=1))


@dataclass(frozen=True, eq=False)
class LabelCalibrator:
    """Corrects P(Y | x) and leaves the groups as they are; shape (n, 2 M) as cells 2 m + y."""

    label: Calibrator

    def __call__(self, p: Floats) -> Floats:
        """Calibrated posteriors of the cells."""
        cells = p.reshape(len(p), -1, 2)
        labels = cells.sum(axis=1)
        factor = self.label(labels) / np.where(labels > 0, labels, 1.0)
        return np.asarray((cells * factor[:, None, :]).reshape(p.shape))


def fit_in_context(
    q: Floats, p: Floats, target: NDArray[Any], weights: Floats, *, levels: NDArray[np.intp] | None = None
) -> InContext:
    """Fit a correction of q to rows whose value is known, shrunk towards no change.

    Parameters
    ----------
    q : array, shape (n, values)
    p : array, shape (n, 2 M)
        Posteriors of the cells.
    target : array of int, shape (n,)
        The value of each row.
    weights : array
        Number of rows that each row counts as.
    levels : array of int, shape (M, features), default=None

    Returns
    -------
    InContext
    """
    features, total = _features(p, _logs(p), levels), weights.sum()
    w = weights / total
    center = w @ features
    scale = np.sqrt(w @ (features - center) ** 2)
    scale = np.where(scale > 0, scale, 1.0)
    F, K = features.shape[1], q.shape[1]
    # Unlike for all cells together, rows can be so few here that even the intercepts must be held.
    ridge = np.concatenate([[1.0], np.full(F * K, _SHRINK), np.ones(K)]) / total
    parts = Regression(
        _logs(q), features, center, scale, np.asarray(target, np.intp), w, np.maximum(ridge, _LEAST_RIDGE)
    )
    found = fit(parts)
    return InContext(float(found[0]), found[1:].reshape(F + 1, K), center, scale, levels)


def fit_calibrator(
    how: Calibration,
    p: Floats,
    target: NDArray[Any],
    weights: Floats | None = None,
    *,
    levels: NDArray[np.intp] | None = None,
) -> Calibrator:
    """Fit a correction to out-of-fold or held-out probabilities.

    Parameters
    ----------
    how : {"dirichlet", "sigmoid", "isotonic", "binning"}
        All classes jointly, linear in their log-probabilities and shrunk towards no change; or one curve per
        class: logistic in the log-odds; monotone; or the mean of each of 40 bins of equal count, to which
        one row at the mean probability of the bin is added.
    p : array, shape (n, classes)
    target : array of int, shape (n,)
        The class of each row.
    weights : array, default=None
    levels : array of int, shape (M, features), default=None
        Where the classes are cells 2 m + y: the value of each sensitive feature in group m. Used with more
        than 16 cells.

    Returns
    -------
    Calibrator
    """
    w = _counts(weights, len(p))
    if how == "dirichlet":
        if p.shape[1] > 2:
            return _dirichlet(p, target, w, levels)
        how = "sigmoid"  # with two classes the log-odds are the only feature
    curves: list[Callable[[Floats], Floats] | None] = []
    for k in range(p.shape[1]):
        hit = (target == k).astype(np.float64)
        share = w @ hit
        curves.append(_CURVES[how](p[:, k], hit, w) if 0 < share < w.sum() and np.ptp(p[:, k]) > 0 else None)
    return Curves(tuple(curves))


@dataclass(frozen=True, eq=False)
class GroupCalibrator:
    """A curve for all rows, then one for each known group."""

    overall: Calibrator
    groups: tuple[Calibrator, ...]

    def __call__(self, p: Floats, codes: NDArray[Any]) -> Floats:
        """Calibrated P(Y | x, s), shape (n, 2); only the overall curve is applied where the code is -1."""
        new = self.overall(p)
        for m, curve in enumerate(self.groups):
            own = np.flatnonzero(codes == m)
            if len(own):
                new[own] = curve(new[own])
        return new


def fit_group_calibrator(
    how: Calibration,
    p: Floats,
    positive: NDArray[Any],
    weights: Floats | None,
    *,
    codes: NDArray[Any],
    M: int,
) -> GroupCalibrator:
    """Fit a curve to all rows, then one to each group, because rates within a group depend on it.

    Each group gets 20 extra rows on which the overall curve is right, so a small group changes it little.

    Parameters
    ----------
    how : {"dirichlet", "sigmoid", "isotonic", "binning"}
        "dirichlet" is the same as "sigmoid" here.
    p : array, shape (n, 2)
        P(Y | x, s).
    positive : array, shape (n,)
    weights : array or None
    codes : array of int, shape (n,)
        The group of each row.
    M : int
        The number of groups.

    Returns
    -------
    GroupCalibrator
    """
    overall = fit_calibrator(how, p, positive, weights)
    shared, w, curves = overall(p), _counts(weights, len(p)), []
    for m in range(M):
        own = np.flatnonzero(codes == m)
        rows = shared[own]
        prior = _SHARED * rows * (w[own] / max(w[own].sum(), _TINY))[:, None]
        curves.append(
            fit_calibrator(
                how,
                np.concatenate([rows] * 3),
                np.concatenate([positive[own], np.zeros(len(own)), np.ones(len(own))]),
                np.concatenate([w[own], prior[:, 0], prior[:, 1]]),
            )
            if len(own)
            else Curves((None, None))
        )
    return GroupCalibrator(overall, tuple(curves))


def _counts(weights: Floats | None, n: int) -> Floats:
    """Weights as numbers of rows, at least 1 on average, so that penalties and priors stay small."""
    if weights is None:
        return np.ones(n)
    total = float(weights.sum())
    if total == 0:  # a group none of whose rows count
        return weights
    return np.asarray(weights * max(1.0, np.count_nonzero(weights) / total))


def _dirichlet(p: Floats, target: NDArray[Any], w: Floats, levels: NDArray[np.intp] | None) -> Dirichlet:
    """Minimise the log loss over all rows with a ridge penalty that is close to zero for intercepts."""
    total = w.sum()
    w = w / total
    counted = w > _LEAST_SHARE
    if not counted.all():
        p, target, w = p[counted], target[counted], w[counted]
    logs = _logs(p)
    seen = np.bincount(target, minlength=p.shape[1]) > 0
    features = _features(p, logs, levels)
    center = w @ features
    scale = np.sqrt(w @ (features - center) ** 2)
    scale = np.where(scale > 0, scale, 1.0)
    F, K = features.shape[1], int(seen.sum())
    ridge = np.concatenate([[1.0], np.full(F * K, _SHRINK), np.full(K, _SLACK)]) / total
    found = fit(
        Regression(
            logs if seen.all() else logs[:, seen],
            features,
            center,
            scale,
            (np.cumsum(seen) - 1)[target],
            w,
            np.maximum(ridge, _LEAST_RIDGE),
        )
    )
    return Dirichlet(seen, float(found[0]), found[1:].reshape(F + 1, K), center, scale, levels)


def _logs(p: Floats) -> Floats:
    return np.log(np.clip(p, _LEAST, 1.0))


def _features(p: Floats, logs: Floats, levels: NDArray[np.intp] | None) -> Floats:
    """The log-probabilities of up to 16 classes; of more, log-odds of the label and of each feature."""
    if logs.shape[1] <= _MOST_CLASSES:
        return logs
    cells = p.reshape(len(p), -1, 2)
    groups = cells.sum(axis=2)
    marginals = [cells.sum(axis=1)]
    if levels is not None:
        marginals += [groups @ np.eye(level.max() + 1)[level] for level in levels.T]
    return np.column_stack([_logs(q[:, 1:]) - _logs(q[:, [0]]) for q in marginals])


def _sigmoid(p: Floats, hit: Floats, w: Floats) -> Sigmoid:
    model = LogisticRegression(C=1e6).fit(_logits(p)[:, None], hit, sample_weight=w)
    return Sigmoid(float(model.coef_[0, 0]), float(model.intercept_[0]))


def _isotonic(p: Floats, hit: Floats, w: Floats) -> Isotonic:
    model = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
    return Isotonic(model.fit(p, hit, sample_weight=w))


def _binning(p: Floats, hit: Floats, w: Floats) -> Bins:
    edges = np.unique(np.quantile(p, np.linspace(0, 1, _BINS + 1)[1:-1]))
    bins = np.searchsorted(edges, p, side="right")
    count, hits, sums = (np.bincount(bins, weights=v, minlength=len(edges) + 1) for v in (w, w * hit, w * p))
    middle = np.divide(sums, count, out=np.append(edges, edges[-1]), where=count > 0)
    return Bins(edges, (hits + _PRIOR * middle) / (count + _PRIOR))


def _logits(p: Floats) -> Floats:
    return np.asarray(logit(np.clip(p, _TINY, 1 - _TINY)))


_CURVES: dict[str, Callable[[Floats, Floats, Floats], Callable[[Floats], Floats]]] = {
    "sigmoid": _sigmoid,
    "isotonic": _isotonic,
    "binning": _binning,
}
