"""The steps of a pipeline that prepare its columns: fitted once, for all models that see the same rows.

Folds of posteriors then differ in their classifiers alone, and rows are transformed once instead of once per
model. Nothing of the label leaks into the rows that a fold leaves out: only steps of scikit-learn that need
no label are shared, and they are not given one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from evenhand.data.features import take_rows
from evenhand.exceptions import InputError
from evenhand.posteriors.examples import LabelExamples
from evenhand.posteriors.table_encoder import TableEncoder


@dataclass(frozen=True, eq=False)
class Preparation:
    """What prepares the columns of X, as a function.

    Attributes
    ----------
    steps : Pipeline
        Fitted transformers.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> X = np.array([[1.0], [3.0]])
    >>> Preparation(Pipeline([("scale", StandardScaler())]).fit(X))(X)
    array([[-1.],
           [ 1.]])
    """

    steps: Pipeline

    def __post_init__(self) -> None:
        """Refuse what no fit gives: files can be altered."""
        if not isinstance(self.steps, Pipeline):
            raise InputError("the preparation of the table is not one that evenhand writes.")

    def __call__(self, X: Any) -> Any:
        """Rows as the classifiers see them."""
        found = self.steps.transform(X)
        rows: Any = found
        return rows.tocsr() if issparse(found) else rows


Encoder = TableEncoder | Preparation
"""What encodes a table for several models."""


def shared_preparation(learner: Any, rows: LabelExamples) -> tuple[Preparation, Any] | None:
    """The preparation of a pipeline, fitted to rows without their labels, and its classifier.

    Parameters
    ----------
    learner : classifier
    rows : LabelExamples
        Those of weight 0 are no examples.

    Returns
    -------
    tuple or None
        None if the classifier is no pipeline of scikit-learn or has a cache, or some steps may need the label
        or cannot be fitted: then each model has steps of its own, and says what is wrong with them.
    """
    if type(learner) is not Pipeline or len(learner.steps) < 2 or learner.memory is not None:
        return None
    steps = clone(Pipeline(learner.steps[:-1]))
    parts = [step for step in steps.get_params().values() if hasattr(step, "get_params")]
    if any(not type(part).__module__.startswith("sklearn.") for part in parts):
        return None
    if any(get_tags(part).target_tags.required for part in parts):
        return None
    X = rows.X
    if rows.weights is not None and rows.weights.any() and not rows.weights.all():
        X = take_rows(X, np.flatnonzero(rows.weights))
    try:
        return Preparation(steps.fit(X)), learner.steps[-1][1]
    except MemoryError:
        raise
    except Exception:  # whatever a function of the pipeline raises; the fit of the first fold says it
        return None
