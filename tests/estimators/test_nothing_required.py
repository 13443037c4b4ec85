"""A requirement that requires nothing leaves decisions to the label's model, whatever the group model is."""

import numpy as np
import polars as pl
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from tests.flat import build

import evenhand as eh
from evenhand.posteriors.models import Calibrated, Encoded
from evenhand.posteriors.tabular import TabularClassifier


class Noise(ClassifierMixin, BaseEstimator):
    """Probabilities that have nothing to do with the classes, and are sure of themselves."""

    def fit(self, X, y, sample_weight=None):  # noqa: ARG002
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        angle = 1000 * np.asarray(X, float)[:, [0]] * (1 + np.arange(len(self.classes_)))
        p = np.exp(3 * np.sin(angle))
        return p / p.sum(axis=1, keepdims=True)


def draw(n, seed):
    """Two sensitive features with six groups, which depend on the label and on what models see."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    race = np.clip(np.round(X[:, 1] + rng.normal(size=n)), -1, 1).astype(int)
    sex = (rng.random(n) < 0.5 + 0.1 * race).astype(int)
    y = (rng.random(n) < 1 / (1 + np.exp(1.2 - 1.5 * X[:, 0] - 0.7 * race))).astype(int)
    return X, y, {"race": race.astype(str), "sex": sex.astype(str)}


X, Y, GROUPS = draw(500, 0)
NEW, _, NEW_GROUPS = draw(800, 1)
LR = LogisticRegression()
FROZEN = FrozenEstimator(LogisticRegression().fit(*draw(500, 2)[:2]))
NOTHING = eh.DemographicParity(difference=1)


def fitted(estimator=LR, constraint=NOTHING, sensitive=GROUPS, **settings):
    fair = build(eh.FairPostprocessor, estimator, constraint, **{"cv": 2, **settings})
    return fair.fit(X, Y, sensitive_features=sensitive)


def label_part(fair, seen=None):
    """P(Y=1 | x) of new rows by the model that is calibrated, and the curve of it."""
    rows = fair.access_.read(fair, NEW, seen)
    allowed, model = fair.access_.allowed(fair.groups_, rows.known), fair.posterior_model_
    encode = (lambda x: x) if not isinstance(model, Encoded) else model.encoder
    model = model.model if isinstance(model, Encoded) else model
    curve = None
    if isinstance(model, Calibrated):
        model, curve = model.model, model.calibrator.label
    p = model.cells(encode(rows.X), allowed).sum(axis=1)
    return (p if curve is None else curve(p))[:, 1]


def assert_decided_by_the_label(fair, cost=0.5, seen=None):
    """Decisions of new rows are those of the calibrated label at the cost's threshold."""
    calibrated = label_part(fair, seen)
    risk = fair.predict_label_proba(NEW, sensitive_features=seen)
    np.testing.assert_allclose(risk, calibrated, atol=1e-9)
    clear = np.abs(risk - cost) > 1e-9
    decisions = fair.predict(NEW, sensitive_features=seen)
    np.testing.assert_array_equal(decisions[clear], (risk > cost)[clear])
    return decisions


LEARNERS = {
    "logistic": LR,
    "forest": RandomForestClassifier(5, max_depth=6, random_state=0),
    "trees": TabularClassifier(max_iter=5),
}
FORMS = ["separate", "label_then_group", "joint"]


@pytest.mark.parametrize("calibration", ["dirichlet", None])
@pytest.mark.parametrize("posterior", FORMS)
@pytest.mark.parametrize("learner", LEARNERS)
def test_decisions_are_those_of_the_label_at_the_threshold(learner, posterior, calibration):
    fair = fitted(LEARNERS[learner], posterior=posterior, calibration=calibration, cost=0.4)
    assert_decided_by_the_label(fair, cost=0.4)


@pytest.mark.parametrize("calibration", ["dirichlet", None])
@pytest.mark.parametrize(
    "settings",
    [
        {"posterior": "separate"},
        {"posterior": "label_then_group", "constraint": eh.EqualizedOdds(difference=1)},
        {"aware": ["sex"], "average": False},
        {"aware": ["sex"], "posterior": "separate"},
        {"cv": 0.4},
        {"estimator": FROZEN},
    ],
    ids=str,
)
def test_the_group_model_changes_nothing(settings, calibration):
    seen = {"sex": NEW_GROUPS["sex"]} if "aware" in settings else None
    found = []
    for group in (LR, Noise()):
        fair = fitted(calibration=calibration, group_estimator=group, **settings)
        decisions = assert_decided_by_the_label(fair, seen=seen)
        found.append((fair.predict_label_proba(NEW, sensitive_features=seen), decisions))
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-9)
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_known_groups_are_decided_by_their_calibrated_probability():
    for calibration in ("dirichlet", None):
        fair = fitted(aware=True, calibration=calibration)
        risk = fair.predict_label_proba(NEW, sensitive_features=NEW_GROUPS)
        decisions = fair.predict(NEW, sensitive_features=NEW_GROUPS)
        np.testing.assert_array_equal(decisions, risk > 0.5)


def test_missing_values_that_are_imputed_do_not_change_the_label():
    hidden = np.arange(len(Y)) % 3 == 0
    sensitive = {**GROUPS, "race": np.where(hidden, None, GROUPS["race"])}
    risks = []
    for group in (LR, Noise()):
        fair = fitted(sensitive=sensitive, missing="impute", group_estimator=group)
        assert_decided_by_the_label(fair)
        risks.append(fair.predict_label_proba(NEW))
    np.testing.assert_allclose(*risks, atol=1e-9)


def test_a_cell_without_rows_does_not_change_the_label():
    """Nobody of a group is positive: positives are of the other group, and as many as before."""
    sex = np.where(Y == 1, "0", GROUPS["sex"])
    for posterior in ("separate", "label_then_group"):
        fair = fitted(sensitive={"sex": sex}, posterior=posterior, calibration=None)
        one = fitted(sensitive={"sex": GROUPS["sex"]}, posterior=posterior, calibration=None, cv=2)
        assert_decided_by_the_label(fair)
        assert abs(fair.predict_label_proba(NEW).mean() - one.predict_label_proba(NEW).mean()) < 0.02


def test_tables_in_batches_are_decided_by_the_label_too():
    table = pl.DataFrame(X, schema=list("abcd")).with_columns(y=pl.Series(Y), sex=pl.Series(GROUPS["sex"]))
    new = pl.DataFrame(NEW, schema=list("abcd"))
    risks = []
    for group in (LR, Noise()):
        fair = eh.FairPostprocessor(
            LR, NOTHING, sensitive_features=["sex"], posteriors=eh.CrossFit(2, group_estimator=group)
        )
        fair.fit(table.lazy(), "y")
        risks.append(fair.predict_label_proba(new))
        np.testing.assert_array_equal(fair.predict(new), risks[-1] > 0.5)
    np.testing.assert_allclose(*risks, atol=1e-9)


def test_many_groups_leave_a_logistic_model_as_it_is():
    """Eighteen groups and 1,000 rows: new rows are decided as by the plain model, but for cross-fitting."""
    rng = np.random.default_rng(3)
    X, y, _ = draw(1000, 3)
    X = np.hstack([X, rng.normal(size=(1000, 20))])
    race = np.minimum(rng.geometric(0.3, 1000), 9)
    new = np.hstack([NEW, rng.normal(size=(800, 20))])
    fair = eh.FairPostprocessor(LR, NOTHING, posteriors=eh.CrossFit(5))
    fair.fit(X, y, sensitive_features={"race": race, "sex": rng.integers(0, 2, 1000)})
    plain = LogisticRegression().fit(X, y).predict(new)
    assert np.mean(fair.predict(new) != plain) < 0.01


def test_a_frozen_model_that_sees_a_known_feature_is_not_moved_by_the_groups():
    names = list("abcd")
    table = pl.DataFrame(X, schema=names).with_columns(
        race=pl.Series(GROUPS["race"]).cast(int), sex=pl.Series(GROUPS["sex"]).cast(int)
    )
    seen = table.drop("race").to_pandas()
    frozen = FrozenEstimator(LogisticRegression().fit(seen[250:], Y[250:]))
    risks = []
    for group in (LR, Noise()):
        fair = eh.FairPostprocessor(frozen, NOTHING, sensitive_features=["race", "sex"], aware=["sex"])
        fair.set_params(posteriors=eh.CrossFit(2, group_estimator=group, calibration=None))
        fair.fit(table[:250].to_pandas(), Y[:250])
        risks.append(fair.predict_label_proba(table[:250].to_pandas()))
    np.testing.assert_allclose(risks[0], frozen.predict_proba(seen[:250])[:, 1], atol=1e-9)
    np.testing.assert_allclose(*risks, atol=1e-9)
