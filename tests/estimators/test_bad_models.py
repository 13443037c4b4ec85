"""Models that FairPostprocessor takes or refuses."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from tests.estimators.small_fits import (
    FROZEN,
    FROZEN_GROUP,
    OTHER_SEX,
    OTHER_X,
    OTHER_Y,
    SEX,
    TABLE,
    N,
    Unfittable,
    X,
    Y,
    fair,
    fit,
)

from evenhand.exceptions import (
    InputError,
    TrainingRowsWarning,
    VisibleFeatureWarning,
)

# Frozen models


@pytest.mark.parametrize(
    "model", [DecisionTreeClassifier(random_state=0), RandomForestClassifier(20, random_state=0)]
)
@pytest.mark.parametrize("aware", [False, True])
def test_a_frozen_model_fitted_to_the_same_rows_is_warned_of(model, aware):
    with pytest.warns(TrainingRowsWarning, match="fitted to these rows.*fit with rows that it has not seen"):
        fit(estimator=FrozenEstimator(model.fit(X, Y)), group_estimator=LogisticRegression(), aware=aware)


@pytest.mark.parametrize("aware", [False, True])
def test_a_frozen_model_fitted_to_other_rows_is_not_changed(aware):
    before = FROZEN.coef_.copy()
    fit(estimator=FROZEN, group_estimator=LogisticRegression(), aware=aware)
    assert np.array_equal(FROZEN.coef_, before)


@pytest.mark.parametrize("aware", [False, True])
def test_calibration_does_not_cause_a_warning_of_training_rows(aware):
    fit(estimator=FROZEN, group_estimator=FROZEN_GROUP, aware=aware)


def test_a_frozen_model_fitted_to_sensitive_columns_is_refused_with_a_remedy():
    other = pd.DataFrame(OTHER_X, columns=["a", "b", "c"]).assign(male=1.0 * (OTHER_SEX == "M"))
    model = FrozenEstimator(LogisticRegression().fit(other, OTHER_Y))
    table = TABLE.assign(male=1.0 * (SEX == "M"))
    with pytest.raises(InputError, match=r"fitted to all columns of X, including 'male'.*pass the sensitive"):
        fair(estimator=model, sensitive_features=["male"]).fit(table, Y)
    fair(estimator=model, sensitive_features=["male"], aware=True).fit(table, Y)
    with pytest.warns(VisibleFeatureWarning, match="A frozen model cannot be fitted again: use one that"):
        fair(estimator=model).fit(table, Y, sensitive_features=table[["male"]])


class NoEstimator:
    """Has the methods of a classifier but is not derived from scikit-learn's classes."""

    classes_ = np.array([0, 1])

    def fit(self, *_):
        return self

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)


@pytest.mark.parametrize("estimator", [NoEstimator(), FrozenEstimator(NoEstimator())])
def test_an_object_that_is_not_a_scikit_learn_estimator_is_refused(estimator):
    with pytest.raises(InputError, match=r"NoEstimator, which is not a scikit-learn classifier: derive it"):
        fit(estimator=estimator)


def test_a_frozen_model_must_be_fitted():
    with pytest.raises(NotFittedError, match="LogisticRegression instance is not fitted yet"):
        fit(estimator=FrozenEstimator(LogisticRegression()))


def test_a_frozen_model_of_other_labels_is_refused():
    other = FrozenEstimator(LogisticRegression().fit(OTHER_X, np.where(OTHER_Y, "a", "b")))
    with pytest.raises(
        InputError,
        match=r"frozen LogisticRegression has the classes \['a', 'b'\], where \['no', 'yes'\] were expected",
    ):
        fit(y=np.where(Y, "yes", "no"), estimator=other, aware=True)


def test_a_frozen_model_of_the_label_is_refused_as_a_joint_model():
    with pytest.raises(InputError, match=r"has the classes \[0, 1\], where \[0, 1, 2, 3\] were expected"):
        fit(estimator=FROZEN, posterior="joint")


def test_a_frozen_model_of_too_few_groups_is_refused():
    three = np.array(["a", "b", "c"])[np.arange(N) % 3]
    with pytest.raises(InputError, match=r"has the classes \[0, 1\], where \[0, 1, 2\] were expected"):
        fit(sex=three, group_estimator=FROZEN_GROUP)


# Models that cannot be used


@pytest.mark.parametrize(
    "model",
    [LinearSVC(), make_pipeline(StandardScaler(), LinearSVC()), FrozenEstimator(LinearSVC().fit(X, Y))],
)
def test_a_model_without_probabilities_is_refused(model):
    with pytest.raises(InputError, match=r"estimator \w+ has no predict_proba.*CalibratedClassifierCV"):
        fit(estimator=model)


def test_a_group_model_without_probabilities_is_refused_before_any_work():
    with pytest.raises(InputError, match="group_estimator LinearSVC has no predict_proba"):
        fit(estimator=Unfittable(), group_estimator=LinearSVC())


@pytest.mark.parametrize(
    "model", [KNeighborsClassifier(), make_pipeline(StandardScaler(), KNeighborsClassifier())]
)
@pytest.mark.parametrize("role", ["estimator", "group_estimator"])
def test_a_model_that_takes_no_weights_is_refused_before_any_work(model, role):
    models = {"estimator": Unfittable(), "group_estimator": Unfittable()} | {role: model}
    with pytest.raises(InputError, match=rf"^{role} \w+ does not take sample_weight in fit. Choose another"):
        fit(weights=np.ones(N), **models)


@pytest.mark.parametrize("model", [LogisticRegression, "logistic", 3])
@pytest.mark.parametrize("role", ["estimator", "group_estimator"])
def test_an_object_that_is_not_a_model_is_refused(model, role):
    with pytest.raises(InputError, match=f"^{role} must be a scikit-learn classifier, got "):
        fit(**{role: model})


@pytest.mark.parametrize("role", ["estimator", "group_estimator"])
@pytest.mark.parametrize("cv", [2, 0.5])
def test_a_model_that_fails_on_rows_left_out_of_its_fit_is_named_as_the_cause(role, cv):
    """A category that one row has is unknown to the model that scores this row."""
    table = pd.DataFrame({"x": X[:, 0], "kind": [f"only {k}" for k in range(N)]})
    strict = make_pipeline(OneHotEncoder(), LogisticRegression())
    models = {"estimator": simple(), "group_estimator": simple(), role: strict}
    model = fair(cv=cv, **models)
    with pytest.raises(InputError, match="rows that were left out of its fit: ValueError: Found unknown cat"):
        model.fit(table, Y, sensitive_features=SEX)


def simple():
    return make_pipeline(ColumnTransformer([("x", StandardScaler(), ["x"])]), LogisticRegression())
