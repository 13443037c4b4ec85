"""Fits to 200 rows, which tests of what FairPostprocessor takes and refuses share."""

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from tests.flat import build

import evenhand as eh

N = 200
FAIR = eh.DemographicParity(difference=0.05)
EXACT = eh.DemographicParity(difference=0.0)
PLAIN = {"average": False, "calibration": None}
MISSING = [None, float("nan"), pd.NA, pd.NaT]


def sample(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 3))
    sex = np.where(rng.random(N) < 0.5, "F", "M")
    return X, sex, (X[:, 0] + 0.8 * (sex == "M") + rng.normal(size=N) > 0.4).astype(int)


X, SEX, Y = sample(0)
OTHER_X, OTHER_SEX, OTHER_Y = sample(1)
TABLE = pd.DataFrame(X, columns=["a", "b", "c"])
FULL = TABLE.assign(sex=SEX)
ATOMS = (X[:, :2] > 0).astype(float)
FROZEN = FrozenEstimator(LogisticRegression().fit(OTHER_X, OTHER_Y))
FROZEN_GROUP = FrozenEstimator(LogisticRegression().fit(OTHER_X, (OTHER_SEX == "M").astype(int)))


def fair(**settings):
    return build(
        eh.FairPostprocessor,
        **{"estimator": LogisticRegression(), "constraint": FAIR, "cv": 2, "group_estimator": None}
        | settings,
    )


def fit(X=X, y=Y, sex=SEX, weights=None, **settings):
    # `weights` are sample weights here; for the parameter of that name use `fair`
    return fair(**settings).fit(X, y, sensitive_features=sex, sample_weight=weights)


def difference(constraint, y, decisions, sex=SEX):
    return max(found.difference for found in constraint.measure(eh.cell_rates(y, decisions, sex)))


def some(values, bad, count=3):
    """The values as objects, the first few replaced."""
    changed = np.array(values, dtype=object)
    changed[:count] = bad
    return changed


class Unfittable(LogisticRegression):
    def fit(self, X, y, sample_weight=None):  # noqa: ARG002
        raise AssertionError("work has started")


class Scores(ClassifierMixin, BaseEstimator):
    """Scores the first three rows with `value` and the others with one half."""

    def __init__(self, value=0.5):
        self.value = value

    def fit(self, X, y, sample_weight=None):  # noqa: ARG002
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        p = np.full((len(X), 2), 0.5)
        p[:3] = 1 - self.value, self.value
        return p


class Sure(ClassifierMixin, BaseEstimator):
    """Predicts probabilities of 0 and 1 only."""

    def fit(self, X, y, sample_weight=None):  # noqa: ARG002
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        yes = np.asarray(X)[:, 0] > 0
        return np.column_stack([~yes, yes]).astype(float)
