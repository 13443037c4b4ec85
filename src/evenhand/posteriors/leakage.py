"""Signs that a model was fitted to the rows that it is judged on."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.linear_model import LogisticRegression

from evenhand.exceptions import TrainingRowsWarning

__all__ = ["warn_if_seen"]

_ENOUGH = 200
_TOO_CLOSE = 0.003


def warn_if_seen(eta: NDArray[np.float64], positive: NDArray[np.bool_]) -> bool:
    """Warn if a frozen model looks as models do on the rows they were fitted to.

    There they are right more often than they are sure: the log-odds of the label rise faster than their own.
    Or the mean score equals the share of positives, far closer than chance would have it.
    """
    if len(eta) < _ENOUGH or positive.all() or not positive.any():
        return False
    error = np.sqrt((eta * (1 - eta)).sum())
    off = abs(float((positive - eta).sum()))
    inner = np.clip(eta, 1e-6, 1 - 1e-6)
    slope, spread = _slope(np.asarray(logit(inner)), positive)
    by_heart = eta[positive].min(initial=1) > eta[~positive].max(initial=0)
    if by_heart or off < _TOO_CLOSE * error or slope - 1 > max(0.2, 4 * spread):
        warnings.warn(
            "the frozen model seems to have been fitted to these rows, so that its scores are better here "
            "than on new ones and the tolerance may not hold there: fit with rows that it has not seen.",
            TrainingRowsWarning,
            stacklevel=5,
        )
        return True
    return False


def _slope(scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> tuple[float, float]:
    """Slope of the log-odds of the label in `scores`, and its standard error."""
    if np.ptp(scores) == 0:
        return 1.0, np.inf
    column = scores[:, None]
    model = LogisticRegression(C=1e6).fit(column, positive)
    p = model.predict_proba(column)[:, 1]
    design = np.column_stack([np.ones(len(p)), scores])
    information = design.T @ (design * (p * (1 - p))[:, None])
    return float(model.coef_[0, 0]), float(np.sqrt(np.linalg.pinv(information)[1, 1]))
