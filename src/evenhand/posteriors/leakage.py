"""Detection of frozen models that were fitted to the rows they are evaluated on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.linear_model import LogisticRegression

from evenhand.exceptions import TrainingRowsWarning, warn_user

__all__ = ["warn_if_seen"]

_ENOUGH = 200
_TOO_CLOSE = 0.003


def warn_if_seen(eta: NDArray[np.float64], positive: NDArray[np.bool_]) -> bool:
    """Warn if the scores of a frozen model look like those of training rows; return whether they do.

    On its training rows a model is underconfident (the log-odds of the label rise faster than those of the
    score), or its mean score matches the share of positives far more closely than chance allows, or its
    scores separate the labels.
    """
    if len(eta) < _ENOUGH or positive.all() or not positive.any():
        return False
    error = np.sqrt((eta * (1 - eta)).sum())
    off = abs(float((positive - eta).sum()))
    inner = np.clip(eta, 1e-6, 1 - 1e-6)
    slope, spread = _slope(np.asarray(logit(inner)), positive)
    separated = eta[positive].min(initial=1) > eta[~positive].max(initial=0)
    if separated or off < _TOO_CLOSE * error or slope - 1 > max(0.2, 4 * spread):
        warn_user(
            "the frozen model seems to have been fitted to these rows. Its scores are then better here than "
            "on new rows, where the tolerance may not hold: fit with rows that it has not seen.",
            TrainingRowsWarning,
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
