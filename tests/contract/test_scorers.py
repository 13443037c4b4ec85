"""Scikit-learn's scorers, whichever label is the positive one."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer, get_scorer_names, make_scorer, precision_score, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.flat import build

import evenhand as eh

DRAWN = eh.datasets.GaussianProblem.random(levels=(2,), seed=3).sample(600, seed=0)
X, CODES = np.column_stack([DRAWN.X, DRAWN.sensitive["A1"]]), DRAWN.y
PARITY = eh.DemographicParity(difference=0.1)
WIDE = eh.DemographicParity(difference=0.6)  # with one feature no linear classifier is within 0.1
KINDS = {
    "post": lambda **more: build(eh.FairPostprocessor, LogisticRegression(), PARITY, cv=2, **more),
    "in": lambda **more: build(eh.FairInprocessor, LogisticRegression(), WIDE, max_refits=2, **more),
}
LABELS = [(1, 2), (-1, 1), ("no", "yes")]
# All scorers of binary labels; not those of continuous targets, clusters and multilabel targets.
NAMES = [
    name
    for name in get_scorer_names()
    if not name.endswith("_samples")
    if name in ("accuracy", "balanced_accuracy", "average_precision", "matthews_corrcoef", "top_k_accuracy")
    or name.startswith(("f1", "precision", "recall", "jaccard", "roc_auc", "positive_l", "neg_negative_l"))
    or name in ("neg_log_loss", "neg_brier_score", "d2_log_loss_score", "d2_brier_score")
]


class Answers(ClassifierMixin, BaseEstimator):
    """A classifier with given answers, in the order of the sorted labels, as scikit-learn's are."""

    def __init__(self, labels, selected, proba, score):
        self.classes_ = np.array(labels)
        self.selected, self.proba, self.score_ = selected, proba, score

    def predict(self, X):  # noqa: ARG002
        return self.classes_[self.selected.astype(int)]

    def predict_proba(self, X):  # noqa: ARG002
        return np.column_stack([1 - self.proba, self.proba])

    def decision_function(self, X):  # noqa: ARG002
        return self.score_


def fitted(kind, y, **settings):
    return KINDS[kind](sensitive_features=1, **settings).fit(X, y)


def score(name, model, y):
    try:
        return get_scorer(name)(model, X, y)
    except ValueError:  # some scorers need a label 1
        return None


@pytest.fixture(scope="module", params=KINDS)
def pair(request):
    """A kind of classifier, and one fitted to labels 0 and 1."""
    return request.param, fitted(request.param, CODES)


@pytest.mark.parametrize("labels", LABELS, ids=str)
@pytest.mark.parametrize("first", [False, True], ids=["last is positive", "first is positive"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_every_scorer_agrees_with_its_score_of_sorted_answers(pair, labels, first):
    kind, plain = pair
    y = np.array(labels)[1 - CODES if first else CODES]
    found = fitted(kind, y, pos_label=labels[0] if first else None)
    chosen, share, H = plain.predict(X) == 1, plain.predict_proba(X)[:, 1], plain.decision_function(X)
    known = Answers(labels, chosen != first, 1 - share if first else share, -H if first else H)
    assert found.classes_.tolist() == list(labels)
    assert found.pos_label_ == labels[0 if first else 1]
    assert (found.predict(X) == known.predict(X)).all()
    assert np.array_equal(found.predict_proba(X), known.predict_proba(X))
    assert np.allclose(found.decision_function(X), known.decision_function(X), rtol=0, atol=1e-12)
    sure = np.abs(found.decision_function(X)) > 1e-9
    ours = found.classes_[(found.decision_function(X) > 0).astype(int)]
    assert (ours == found.predict(X))[sure].all()
    scores = {name: [score(name, model, y) for model in (found, known)] for name in NAMES}
    assert sum(theirs is not None for _, theirs in scores.values()) > 15
    for name, (own, theirs) in scores.items():
        assert own == (None if theirs is None else pytest.approx(theirs, abs=1e-9, nan_ok=True)), name
    assert get_scorer("roc_auc")(found, X, y) > 0.6


def test_scores_do_not_depend_on_how_labels_are_written(pair):
    """Labels 1 and 2 of which 1 is positive, against 0 and 1 of which 1 is."""
    kind, plain = pair
    y = np.array([1, 2])[1 - CODES]
    found = fitted(kind, y, pos_label=1)
    precision = {}
    for label, code in ((1, 1), (2, 0)):
        precision[label] = make_scorer(precision_score, pos_label=label)(found, X, y)
        assert precision[label] == precision_score(CODES, plain.predict(X), pos_label=code)
    assert precision[1] != precision[2]
    ranked = roc_auc_score(CODES, plain.decision_function(X))
    assert get_scorer("roc_auc")(found, X, y) == pytest.approx(ranked)


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConstantClassifierWarning")
def test_a_grid_search_does_not_pick_the_worst_model():
    y = np.array([1, 2])[1 - CODES]
    fair = KINDS["post"](sensitive_features=1, pos_label=1)
    grid = {"estimator": [DummyClassifier(), LogisticRegression()]}
    fair.set_params(
        constraint=eh.DemographicParity(difference=1.0), posteriors__group_estimator=LogisticRegression()
    )
    found = GridSearchCV(fair, grid, scoring="roc_auc", cv=3).fit(X, y)
    assert isinstance(found.best_params_["estimator"], LogisticRegression)
    assert found.best_score_ > 0.6


def test_the_fair_scorer_finds_the_positive_label_of_searches_and_pipelines():
    y = np.where(CODES, "bad", "good")
    exact = eh.EqualOpportunity(difference=0.0)
    fair = KINDS["post"](sensitive_features=1, pos_label="bad")
    search = GridSearchCV(fair, {"cost": [0.5]}, cv=2, scoring="accuracy").fit(X, y)
    inside = make_pipeline(StandardScaler(with_mean=False, with_std=False), fair).fit(X, y)
    for model in (search, inside):
        bad, good = (eh.fair_scorer(exact, pos_label=name)(model, X, y) for name in ("bad", "good"))
        assert eh.fair_scorer(exact)(model, X, y) == bad != good
