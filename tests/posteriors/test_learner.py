import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from xgboost import XGBClassifier

from evenhand.exceptions import InputError
from evenhand.posteriors.learner import check_learner, fit_learner, left_out

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


def test_a_step_may_have_nothing_to_fit():
    """A Pipeline that ends in such a step says of itself that it is not fitted."""

    class Squares(TransformerMixin, BaseEstimator):
        def fit(self, X, y=None):  # noqa: ARG002
            return self

        def transform(self, X):
            return np.column_stack([X, X**2])

    learner = fit_learner(
        make_pipeline("passthrough", Squares(), LogisticRegression()), X, (THREE > 0).astype(int), n_classes=2
    )
    assert learner.center == pytest.approx([X.mean(), (X**2).mean()])


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
            "KNeighborsClassifier does not take sample_weight in fit. Choose another classifier",
        ),
        (
            make_pipeline(StandardScaler(), KNeighborsClassifier()),
            True,
            "Pipeline does not take sample_weight",
        ),
        (Ridge(), False, "estimator Ridge is a regressor, and a classifier is needed"),
        (make_pipeline(StandardScaler(), Ridge()), False, "Pipeline is a regressor, and a classifier is"),
        (FrozenEstimator(Ridge().fit(X, X[:, 0])), False, "Ridge is a regressor"),
        (LogisticRegression, False, "must be a scikit-learn classifier"),
        ("tree", False, "must be a scikit-learn classifier, got 'tree'"),
    ],
)
def test_unusable_estimators_are_refused(estimator, weighted, message):
    with pytest.raises(InputError, match=message):
        check_learner(estimator, weighted=weighted, role="estimator")


def test_usable_estimators_are_accepted():
    check_learner(KNeighborsClassifier(), weighted=False, role="estimator")
    check_learner(make_pipeline(StandardScaler(), LogisticRegression()), weighted=True, role="estimator")


def test_a_model_that_fails_is_named_with_its_classes():
    class OnlyTwo(LogisticRegression):
        def fit(self, X, y, sample_weight=None):  # noqa: ARG002
            raise RuntimeError("Only two classes.\nUse another solver.")

    expected = (
        "OnlyTwo, as the model of the groups, cannot be fitted to 60 rows in 3 classes, the smallest of 20: "
        "RuntimeError: Only two classes. Use another solver."
    )
    with pytest.raises(InputError, match=expected) as raised:
        fit_learner(OnlyTwo(), X, THREE, n_classes=4, what="groups")
    assert isinstance(raised.value.__cause__, RuntimeError)


TABLE = pd.DataFrame({"a": [0.0, 1.0], "b": [1.0, 0.0], "known_0": [0.0, 1.0], "known_1": [1.0, 0.0]})


@pytest.mark.parametrize(
    ("chosen", "more", "lost"),
    [
        (["a", "b"], {}, ["known_0", "known_1"]),
        (["a", "known_1"], {}, ["known_0"]),
        (make_column_selector(pattern="^[ab]"), {}, ["known_0", "known_1"]),
        (make_column_selector(dtype_include="number"), {}, []),
        (slice("a", "known_0"), {}, ["known_1"]),
        ([0, -1], {}, ["known_0"]),
        (["a"], {"remainder": "passthrough"}, []),
        (["none"], {}, []),  # fit says that there is no such column
    ],
)
def test_columns_that_a_column_transformer_leaves_out_are_found(chosen, more, lost):
    transformer = ColumnTransformer([("some", StandardScaler(), chosen)], **more)
    pipeline = make_pipeline(transformer, LogisticRegression())
    assert left_out(pipeline, TABLE, 2) == lost
    assert left_out(CalibratedClassifierCV(pipeline), TABLE, 2) == lost
    assert left_out(LogisticRegression(), TABLE, 2) == []
    assert left_out(make_pipeline("passthrough", LogisticRegression()), TABLE, 2) == []


def test_columns_of_a_matrix_are_named_by_their_position():
    pipeline = make_pipeline(ColumnTransformer([("some", "passthrough", [0, 1])]), LogisticRegression())
    assert left_out(pipeline, TABLE.to_numpy(), 1) == ["x3"]
