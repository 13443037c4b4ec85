"""Scikit-learn's own checks of an estimator, and its tools."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import evenhand as eh
from evenhand.tabular import TabularClassifier


def above_median(X):
    """Two groups from the first column of X, whatever X is."""
    first = X[:, [0]].toarray()[:, 0] if sparse.issparse(X) else np.asarray(X)[:, 0]
    first = first.astype(float)
    return {"high": first > 0.5}


def fair(**settings):
    return eh.FairPostprocessor(
        LogisticRegression(),
        eh.DemographicParity(difference=0.9),
        sensitive_features=above_median,
        **settings,
    )


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
@parametrize_with_checks([fair(), fair(aware=True), TabularClassifier()])
def test_passes_every_check_of_scikit_learn(estimator, check):
    check(estimator)
