"""Signs that a frozen model was fitted to the rows at hand.

Two tests (docs/guarantee.md says what they detect). A model that is not regularised much leaves no
correlation between features and residuals on the rows of its fit, where chance would. A model that remembers
rows has a smaller error on them than copies of it could have on new rows, however many rows they were given.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.stats import chi2
from sklearn.base import clone

from evenhand.data.features import take_rows
from evenhand.posteriors.learner import fit_learner
from evenhand.posteriors.table_encoder import TableEncoder

Floats = NDArray[np.float64]
_ENOUGH, _MOST = 200, 2000
"""Fewer rows tell nothing; more are not needed to compare with copies."""

_ALPHA = 0.001
"""Probability that residuals of a model that has not seen the rows are as uncorrelated as is refused."""

_ERRORS = 4
"""Standard errors between a loss and its limits. These are estimates as well, hence more than 3."""

_SLOWEST = 1 / 3
"""Losses of copies are taken to fall with the number of rows n like n^(-1/3), slower than most learners' do:
a model fitted to any number of other rows is then above the limit."""


def has_seen(
    model: Any,
    rows: Sequence[tuple[Any, NDArray[np.intp]]],
    *,
    n_classes: int,
    names: NDArray[Any] | None = None,
    seed: int = 0,
) -> bool | None:
    """Whether a frozen model was fitted to some rows; None if that cannot be told.

    Parameters
    ----------
    model : FrozenEstimator
    rows : sequence of pairs
        Features and class numbers, in one part or several. Copies of the model are fitted to the first.
    n_classes : int
    names : array, default=None
        See :func:`evenhand.posteriors.learner.fit_learner`.
    seed : int, default=0

    Returns
    -------
    bool or None
    """
    X, target = rows[0]
    if len(target) < _ENOUGH or len(np.unique(target)) < 2:
        return None
    frozen = fit_learner(model, X, target, n_classes=n_classes, names=names)
    residuals = [np.eye(n_classes)[own] - frozen.proba(x) for x, own in rows]
    if _uncorrelated([x for x, _ in rows], residuals) < _ALPHA:
        return True
    chosen = np.random.default_rng(seed).permutation(len(target))[:_MOST]
    loss = (residuals[0][chosen] ** 2).sum(axis=1)
    try:
        with warnings.catch_warnings(action="ignore"):
            few, own = take_rows(X, chosen), target[chosen]
            return _remembers(model.estimator, loss, few, own, n_classes=n_classes, seed=seed)
    except Exception:  # not every model that predicts can be fitted again
        return None


def _uncorrelated(tables: list[Any], residuals: list[Floats]) -> float:
    """Probability that residuals of unseen rows are correlated with features as little as these, or less.

    Let s be the products of a row's residuals and features, S their sum and V the sum of s s'. On rows that
    the model has not seen S' V^-1 S is a chi-squared variable, or larger where the model is wrong.
    """
    n = sum(map(len, residuals))
    most = max(1, n // (50 * (residuals[0].shape[1] - 1)))
    encode = None if issparse(tables[0]) else TableEncoder.fit(tables[0])
    products = []
    for X, residual in zip(tables, residuals, strict=True):
        columns = np.empty((len(residual), 0)) if encode is None else np.nan_to_num(encode(X).matrix)
        design = np.column_stack([np.ones(len(residual)), columns])[:, :most]
        products.append((residual[:, 1:, None] * design[:, None]).reshape(len(residual), -1))
    each = np.concatenate(products)
    scale = np.sqrt((each**2).sum(axis=0))
    each = each[:, scale > 0] / scale[scale > 0]
    V = each.T @ each
    rank = int(np.linalg.matrix_rank(V, hermitian=True)) if V.size else 0
    total = each.sum(axis=0)
    return float(chi2.cdf(total @ np.linalg.pinv(V, hermitian=True) @ total, rank)) if rank else 1.0


def _remembers(
    model: Any, loss: Floats, X: Any, target: NDArray[np.intp], *, n_classes: int, seed: int
) -> bool | None:
    """Compare the loss of a model with those of its copies, on rows that these have seen and have not."""
    n = len(target)
    part = np.random.default_rng(seed).permutation(n) % 3
    model = clone(model)
    drawn = [
        name for name, value in model.get_params().items() if name.endswith("random_state") and not value
    ]
    model.set_params(**dict.fromkeys(drawn, seed))

    def losses(own: NDArray[np.bool_]) -> Floats:
        rows = np.flatnonzero(own)
        copy = fit_learner(model, take_rows(X, rows), target[rows], n_classes=n_classes)
        return np.asarray(((np.eye(n_classes)[target] - copy.proba(X)) ** 2).sum(axis=1))

    seen, unseen, gain = np.zeros(n), np.zeros(n), 0.0
    for k in range(3):
        out = part == k
        more, fewer = losses(~out), losses(out)
        unseen[out] = more[out]
        seen[~out] += more[~out] / 2
        gain = max(gain, float(fewer[~out].mean() - more[out].mean()))
    # Copies of twice the rows are better by `gain`: at a rate of n^-b all further rows add gain / (2^b - 1).
    limit = unseen - gain / (2**_SLOWEST - 1)
    halfway = (seen + unseen) / 2  # where unbiased models with ever more of other rows end
    if min(_distance(halfway - loss), _distance(limit - loss)) > _ERRORS:
        return True
    return False if _distance(loss - halfway) > _ERRORS else None


def _distance(difference: Floats) -> float:
    """Mean in standard errors."""
    error = difference.std() / np.sqrt(len(difference))
    return float(difference.mean() / error) if error > 0 else 0.0
