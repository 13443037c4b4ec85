import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from xgboost import XGBClassifier

from evenhand.exceptions import InputError
from evenhand.posteriors.learner import check_learner, fit_learner

X = np.linspace(-1, 1, 60)[:, None]
THREE = np.repeat([0, 2, 3], 20)


@pytest.fixture(params=["sklearn", "xgboost", "lightgbm"])
def classifier(request):
    if request.param == "sklearn":
        return LogisticRegression()
    if request.param == "xgboost":
        return XGBClassifier(n_estimators=5, n_jobs=1)
    return LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1)


def test_classes_that_never_occur_have_probability_zero(classifier):
    p = fit_learner(classifier, X, THREE, n_classes=5).proba(X)
    assert p.shape == (60, 5)
    assert (p[:, [1, 4]] == 0).all()
    assert np.allclose(p.sum(axis=1), 1)
    assert p[0].argmax() == 0
    assert p[-1].argmax() == 3


def test_a_single_class_has_probability_one():
    p = fit_learner(LogisticRegression(), X, np.full(60, 2), n_classes=3).proba(X)
    assert (p == [0, 0, 1]).all()


def test_rows_of_weight_zero_are_ignored():
    weights = np.where(THREE == 3, 0.0, 1.0)
    p = fit_learner(LogisticRegression(), X, THREE, n_classes=4, weights=weights).proba(X)
    assert (p[:, 3] == 0).all()
    kept = THREE != 3
    alone = fit_learner(LogisticRegression(), X[kept], THREE[kept], n_classes=4).proba(X)
    assert np.allclose(p, alone)


@pytest.mark.parametrize("labels", [np.array(["no", "yes"]), np.array([0, 1]), np.array([False, True])])
def test_a_frozen_model_may_have_the_labels_of_the_user(labels):
    y = (X[:, 0] > 0.1).astype(int)
    frozen = FrozenEstimator(LogisticRegression().fit(X, labels[y]))
    found = fit_learner(frozen, X, y, n_classes=2, names=np.array(["no", "yes"]))
    assert found.model is frozen
    assert found.proba(X)[-1, 1] > 0.5


def test_a_frozen_model_of_other_classes_is_refused():
    frozen = FrozenEstimator(LogisticRegression().fit(X, THREE))
    with pytest.raises(InputError, match=r"classes \[.*0.*2.*3.*\], where \['no', 'yes'\] were expected"):
        fit_learner(frozen, X, THREE, n_classes=2, names=["no", "yes"])


def test_probabilities_that_are_nan_are_refused():
    class Invalid(DummyClassifier):
        def predict_proba(self, X):
            return np.full((len(X), 2), np.nan)

    y = (X[:, 0] > 0).astype(int)
    with pytest.raises(InputError, match=r"Invalid are NaN, outside \[0, 1\] or do not sum to 1 in 60 of 60"):
        fit_learner(Invalid(), X, y, n_classes=2).proba(X)


@pytest.mark.parametrize(
    ("estimator", "weighted", "message"),
    [
        (LinearSVC(), False, "estimator LinearSVC has no predict_proba.*CalibratedClassifierCV"),
        (
            KNeighborsClassifier(),
            True,
            "KNeighborsClassifier does not take sample_weight.*weights='constraint'",
        ),
        (
            make_pipeline(StandardScaler(), KNeighborsClassifier()),
            True,
            "Pipeline does not take sample_weight",
        ),
        (LogisticRegression, False, "should be a scikit-learn classifier"),
        ("tree", False, "should be a scikit-learn classifier, but is 'tree'"),
    ],
)
def test_unusable_estimators_are_refused(estimator, weighted, message):
    with pytest.raises(InputError, match=message):
        check_learner(estimator, weighted=weighted, role="estimator")


def test_usable_estimators_are_accepted():
    check_learner(KNeighborsClassifier(), weighted=False, role="estimator")
    check_learner(make_pipeline(StandardScaler(), LogisticRegression()), weighted=True, role="estimator")
