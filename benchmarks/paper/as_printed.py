"""Both of the paper's algorithms exactly as printed, under demographic parity by mean difference.

With r_m(x) = P(S=m|x) / P(S=m), or 1 / P(S=s) for the known group s, and Lambda = sum of lambda,

    Q(x) = sum_m (lambda_m - Lambda P(S=m)) r_m(x).

Algorithm 2 selects where eta(x) - c - Q(x) > 0. Algorithm 1 trains a classifier in which a false positive
costs c + Q(x) and a false negative 1 - c - Q(x); where a cost is negative, the label is turned and the cost
is its size, which is the same risk. As the appendix has it, half of the training rows fit all models,
xgboost with its defaults or logistic regression, without cross-fitting or calibration, and the other half
chooses lambda from a grid over [-1, 1]^M: of those within the tolerance there, the most accurate. Multiples
of (P(S=1), ..., P(S=M)) added to lambda change nothing, so that a grid for two groups is a line of
classifiers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from xgboost import XGBClassifier

from benchmarks.paper.asked import DIFFERENCES, Asked, judged
from benchmarks.paper.methods import Task
from benchmarks.paper.tables import Logistic

__all__ = ["SETTINGS", "STAGES", "as_printed"]

STAGES = {2: ((1.0, 0.01),), 4: ((1.0, 0.1), (0.1, 0.02), (0.02, 0.01))}
"""Of the grid, by the number of groups: how far it goes on each side, and its step. The printed step is 0.01.
For four groups that would be 201^4 points; the box is searched by 0.1, which most printed multipliers are
multiples of, and then around the best of each tolerance."""
TRAINED = 40
"""Tolerances whose multipliers Algorithm 1 trains classifiers with."""
SCALES = (1.0, 0.5, 0.25)
"""Times these multipliers: posteriors of the rows that their model was fitted to are too sure."""
TOLERANCES = [*DIFFERENCES, 0.4]
COST = 0.5
SETTINGS = (STAGES, TRAINED, SCALES, TOLERANCES)
"""What the result depends on."""
_AT_A_TIME = 2_000
DP = Asked("DP")


@dataclass(frozen=True, eq=False)
class Rows:
    """What is needed of some rows: features, labels, groups, eta(x), and r_m(x) of every group."""

    X: np.ndarray
    y: np.ndarray
    codes: np.ndarray
    eta: np.ndarray
    ratios: np.ndarray


@dataclass(frozen=True, eq=False)
class Halves:
    """Rows that the models are fitted to, rows that choose lambda, test rows, and shares of groups."""

    fitted: Rows
    choosing: Rows
    test: Rows
    shares: np.ndarray


def as_printed(task: Task) -> Iterator[tuple[str, dict[str, Any]]]:
    """Both algorithms, and the model without a constraint, on one split."""
    halves = prepared(task)
    tilts, accuracy, disparity = searched(halves.choosing, halves.shares)
    chosen = [tilts[within(accuracy, disparity, tolerance)] for tolerance in TOLERANCES]
    yield "Algorithm 2", {"points": [_point(task, selected(halves.test, tilt)) for tilt in chosen]}
    some = [within(accuracy, disparity, tolerance) for tolerance in np.linspace(0, 0.4, TRAINED)]
    models = [
        _trained(task, halves.fitted, scale * tilts[k]) for k in dict.fromkeys(some) for scale in SCALES
    ]
    own = [rates(halves.choosing, model.predict(halves.choosing.X)[:, None]) for model in models]
    accuracy, disparity = (np.concatenate(values) for values in zip(*own, strict=True))
    best = [models[within(accuracy, disparity, tolerance)] for tolerance in TOLERANCES]
    points = [_point(task, model.predict(halves.test.X)) for model in best]
    yield "Algorithm 1", {"points": points, "fits": len(models)}
    yield "no constraint", {"points": [_point(task, selected(halves.test, 0 * halves.shares))]}


def prepared(task: Task) -> Halves:
    """Fit the models of eta and of the groups to one half of the training rows."""
    order = np.random.default_rng(task.seed).permutation(len(task.train.y))
    first, second = np.array_split(order, 2)
    train, test = task.train, task.test
    X, new = (half.numbers_with_group if task.aware else half.numbers for half in (train, test))
    shares = np.bincount(train.codes[first]) / len(first)
    label = _learner(task).fit(X[first], train.y[first])
    cells = None if task.aware else _learner(task).fit(X[first], 2 * train.codes[first] + train.y[first])

    def rows(X: np.ndarray, y: np.ndarray, codes: np.ndarray) -> Rows:
        if cells is None:
            groups = np.eye(len(shares))[codes]
        else:
            groups = cells.predict_proba(X).reshape(len(X), len(shares), 2).sum(axis=2)
        return Rows(X, y, codes, label.predict_proba(X)[:, 1], groups / shares)

    some = [rows(X[part], train.y[part], train.codes[part]) for part in (first, second)]
    return Halves(some[0], some[1], rows(new, test.y, test.codes), shares)


def searched(rows: Rows, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The tilts lambda_m - Lambda P(S=m) that were tried, and accuracy and MD of Algorithm 2 with each."""
    groups = len(shares)
    found = np.zeros((0, groups)), np.zeros(0), np.zeros(0)
    centres = np.zeros((1, groups))
    for reach, step in STAGES[groups]:
        half = round(reach / step)
        axis = step * np.arange(-half, half + 1)
        box = np.stack(np.meshgrid(*[axis] * groups, indexing="ij"), axis=-1).reshape(-1, groups)
        points = (centres[:, None, :] + box).reshape(-1, groups)
        tilts = points - points.sum(axis=1, keepdims=True) * shares
        tilts = tilts[np.abs(tilts).sum(axis=1).argsort(kind="stable")]  # of equals, the smallest
        new = tilts, *tried(rows, tilts)
        found = tuple(np.concatenate(pair) for pair in zip(found, new, strict=True))  # type: ignore[assignment]
        best = dict.fromkeys(within(found[1], found[2], tolerance) for tolerance in TOLERANCES)
        centres = found[0][list(best)]
    return found


def tried(rows: Rows, tilts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Accuracy and MD of Algorithm 2 with each tilt."""
    found = [
        rates(rows, selected(rows, some.T))
        for some in np.array_split(tilts, max(1, len(tilts) // _AT_A_TIME))
    ]
    accuracy, disparity = zip(*found, strict=True)
    return np.concatenate(accuracy), np.concatenate(disparity)


def within(accuracy: np.ndarray, disparity: np.ndarray, tolerance: float) -> int:
    """The most accurate within the tolerance, or the fairest if none is."""
    fair = disparity <= tolerance
    return int(np.where(fair, accuracy, -1).argmax() if fair.any() else disparity.argmin())


def selected(rows: Rows, tilts: np.ndarray) -> np.ndarray:
    """Decisions of Algorithm 2, with one tilt or several as columns."""
    margin = (rows.eta - COST).astype(np.float32)
    moved = rows.ratios.astype(np.float32) @ tilts.astype(np.float32)
    return (margin[:, None] if moved.ndim > 1 else margin) > moved


def rates(rows: Rows, decisions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Accuracy and MD of decisions, one classifier a column."""
    groups = rows.codes.max() + 1
    indicator = np.eye(2 * groups, dtype=np.float32)[2 * rows.codes + rows.y].T
    hits = (indicator @ decisions.astype(np.float32)).reshape(groups, 2, -1).astype(float)
    sizes = np.bincount(2 * rows.codes + rows.y, minlength=2 * groups).reshape(groups, 2)
    accuracy = (hits[:, 1].sum(0) + sizes[:, 0].sum() - hits[:, 0].sum(0)) / len(rows.y)
    shares = hits.sum(axis=1) / sizes.sum(axis=1)[:, None]
    return accuracy, np.abs(shares - hits.sum(axis=(0, 1)) / len(rows.y)).max(axis=0)


def weighted(rows: Rows, tilt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Labels and weights whose weighted error is the fair cost-sensitive risk, but for a constant."""
    false_positive = COST + rows.ratios @ tilt
    cost = np.where(rows.y == 1, 1 - false_positive, false_positive)
    return np.where(cost < 0, 1 - rows.y, rows.y), np.abs(cost)


def _trained(task: Task, rows: Rows, tilt: np.ndarray) -> Any:
    labels, weights = weighted(rows, tilt)
    if labels.min() == labels.max():
        return _Constant(int(labels[0]))
    return _learner(task).fit(rows.X, labels, sample_weight=weights)


@dataclass(frozen=True)
class _Constant:
    answer: int

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), self.answer)


def _learner(task: Task) -> Any:
    if task.table.learner == "logistic":
        return Logistic()
    return XGBClassifier(n_jobs=1)


def _point(task: Task, decisions: np.ndarray) -> tuple[float, float]:
    return DP.point(judged(task.test, decisions))
