"""Scores for grid search and cross-validation: accuracy subject to fairness."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from evenhand.data.features import Columns, columns_of
from evenhand.exceptions import GroupError
from evenhand.requirements.rates import cell_rates
from evenhand.requirements.requirement import Constraint


def accuracy_within(
    y_true: Any,
    y_pred: Any,
    *,
    constraint: Constraint,
    sensitive_features: Any,
    sample_weight: Any = None,
    pos_label: Any = None,
) -> float:
    """Accuracy if the predictions satisfy a requirement, else minus the amount by which they violate it.

    So predictions that satisfy it rank above those that do not. It can be used with
    ``sklearn.metrics.make_scorer`` if metadata routing passes the sensitive features.

    Parameters
    ----------
    y_true : array
        Labels.
    y_pred : array
        Predicted labels, or probabilities of a positive decision.
    constraint : Constraint
        The requirement.
    sensitive_features : table, mapping, array or sequence
        One column per sensitive feature.
    sample_weight : array, default=None
        Weight of each row.
    pos_label : object, default=None
        The positive label; None stands for the one that sorts last.

    Returns
    -------
    float
        NaN if the requirement is undefined in every group.

    Examples
    --------
    >>> from evenhand import DemographicParity
    >>> fair = DemographicParity(difference=0.1)
    >>> accuracy_within([0, 1, 0, 1], [0, 1, 0, 1], constraint=fair, sensitive_features=list("aabb"))
    1.0
    >>> accuracy_within([0, 0, 1, 1], [0, 0, 1, 1], constraint=fair, sensitive_features=list("aabb"))
    -0.4
    """
    rates = cell_rates(y_true, y_pred, sensitive_features, sample_weight=sample_weight, pos_label=pos_label)
    excesses = [found.excess for found in constraint.measure(rates) if not math.isnan(found.excess)]
    worst = max(excesses, default=math.nan)
    return 1 - 2 * rates.risk() if worst == 0 else -worst


@dataclass(frozen=True)
class FairScorer:
    """A scorer ``(estimator, X, y)``; made by :func:`fair_scorer`."""

    constraint: Constraint
    sensitive_features: Columns | None = None
    pos_label: Any = None

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score an estimator's predictions on X."""
        inner = estimator  # the classifier at the end of pipelines and fitted searches
        while isinstance(inner, Pipeline) or hasattr(inner, "best_estimator_"):
            inner = inner.steps[-1][1] if isinstance(inner, Pipeline) else inner.best_estimator_
        where = self.sensitive_features
        where = getattr(inner, "sensitive_features", None) if where is None else where
        if where is None:
            raise GroupError(
                "no sensitive features: name the columns of X that hold them, in fair_scorer or in the "
                "estimator."
            )
        last = getattr(inner, "classes_", (None, None))[1]
        positive = getattr(inner, "pos_label_", last) if self.pos_label is None else self.pos_label
        return accuracy_within(
            y,
            estimator.predict(X),
            constraint=self.constraint,
            sensitive_features=columns_of(X, where),
            sample_weight=sample_weight,
            pos_label=positive.item() if isinstance(positive, np.generic) else positive,
        )


def fair_scorer(
    constraint: Constraint, *, sensitive_features: Columns | None = None, pos_label: Any = None
) -> FairScorer:
    """Scorer for ``GridSearchCV``, ``cross_validate`` and the like: accuracy subject to fairness.

    Parameters
    ----------
    constraint : Constraint
        The requirement on the rows that are scored.
    sensitive_features : str, int, list of these, or function, default=None
        Columns of X that hold the sensitive features; None stands for those that the estimator names.
    pos_label : object, default=None
        The positive label; None stands for the estimator's.

    Returns
    -------
    FairScorer

    Examples
    --------
    >>> import evenhand as eh
    >>> from sklearn.model_selection import cross_val_score
    >>> compas = eh.datasets.load_compas()
    >>> X = compas.features.hstack(compas.sensitive)
    >>> fair = eh.FairPostprocessor(
    ...     constraint=eh.DemographicParity(difference=0.02), sensitive_features=["sex", "race"], aware=True
    ... )
    >>> scorer = eh.fair_scorer(eh.DemographicParity(difference=0.15))
    >>> bool((cross_val_score(fair, X, compas.label, cv=3, scoring=scorer) > 0.6).all())
    True
    """
    return FairScorer(constraint, sensitive_features, pos_label)
