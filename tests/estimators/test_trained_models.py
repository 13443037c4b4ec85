import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import evenhand as eh
from evenhand.datasets import GaussianProblem
from evenhand.estimators.trained_models import ClassifierMixture, GroupThresholds
from evenhand.exceptions import ToleranceWarning
from evenhand.posteriors.learner import fit_learner

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4000, 2))
FIRST, SECOND = (fit_learner(LogisticRegression(), X, (X[:, k] > 0).astype(int), n_classes=2) for k in (0, 1))
MIXTURE = ClassifierMixture((FIRST, SECOND), np.array([0.3, 0.7]), "key")


def test_a_mixture_decides_the_same_person_always_alike():
    decided = MIXTURE.predict(X)
    order = RNG.permutation(len(X))
    assert (MIXTURE.predict(X[order]) == decided[order]).all()
    assert (MIXTURE.predict(X[7:8]) == decided[7:8]).all()
    assert (MIXTURE.predict(pd.DataFrame(X).to_numpy()) == decided).all()


def test_a_mixture_decides_in_the_shares_of_its_weights():
    decided, chance = MIXTURE.predict(X), MIXTURE.predict_proba(X)[:, 1]
    assert set(np.round(np.unique(chance), 9)) == {0.0, 0.3, 0.7, 1.0}
    for value in (0.3, 0.7):
        here = np.isclose(chance, value)
        assert decided[here].mean() == pytest.approx(value, abs=4 * np.sqrt(0.21 / here.sum()))
    certain = np.isclose(chance, 0) | np.isclose(chance, 1)
    assert (decided[certain] == chance[certain]).all()


def test_a_persons_probability_is_the_same_in_every_batch_to_the_last_bit():
    rng = np.random.default_rng(5)
    targets = [(X @ rng.normal(size=2) > rng.normal()).astype(int) for _ in range(7)]
    members = [fit_learner(LogisticRegression(), X, target, n_classes=2) for target in targets]
    mixture = ClassifierMixture(tuple(members), rng.dirichlet(np.ones(7)), "key")
    whole, decided = mixture.predict_proba(X), mixture.predict(X)
    for size in (1, 3, 64):
        parts = [slice(start, start + size) for start in range(0, 150, size)]
        alone = np.concatenate([mixture.predict_proba(X[part]) for part in parts])
        assert (alone == whole[: len(alone)]).all()
        assert (np.concatenate([mixture.predict(X[part]) for part in parts]) == decided[: len(alone)]).all()


def test_another_key_or_an_id_draws_anew():
    decided = MIXTURE.predict(X)
    other = ClassifierMixture(MIXTURE.members, MIXTURE.weights, "another")
    ids = np.arange(len(X))
    assert (other.predict(X) != decided).any()
    assert (MIXTURE.predict(X, ids) != decided).any()
    assert (MIXTURE.predict(X, ids) == MIXTURE.predict(X, ids.astype(str).astype(int))).all()


def test_a_mixture_can_be_pickled():
    again = pickle.loads(pickle.dumps(MIXTURE))  # noqa: S301
    assert (again.predict(X) == MIXTURE.predict(X)).all()
    assert repr(again) == "<ClassifierMixture of 2 classifiers>"


def indicators(codes):
    return np.eye(3)[codes]


@pytest.mark.parametrize(
    "made",
    [
        np.asarray,
        csr_array,
        lambda matrix: pd.DataFrame(matrix, columns=[*"abcde"]),
        lambda matrix: pl.DataFrame(matrix, schema=[*"abcde"]),
    ],
    ids=["array", "sparse", "pandas", "polars"],
)
def test_each_group_has_its_own_threshold(made):
    codes = np.arange(len(X)) % 3
    table = made(np.hstack([X, indicators(codes)]))
    learner = fit_learner(LogisticRegression(), table, (X[:, 0] > 0).astype(int), n_classes=2)
    own = GroupThresholds(learner, np.array([-1.0, 0.0, 1.0]))
    score = learner.score(table)
    assert (own.predict(table) == (score > np.array([-1.0, 0.0, 1.0])[codes])).all()
    assert own.decision_function(table) == pytest.approx(score - np.array([-1.0, 0.0, 1.0])[codes])


def test_a_row_of_no_known_group_has_the_classifiers_own_threshold():
    table = np.hstack([X, np.zeros((len(X), 3))])
    learner = fit_learner(LogisticRegression(), table, (X[:, 0] > 0).astype(int), n_classes=2)
    assert (GroupThresholds(learner, np.array([9.0, 9.0, 9.0])).choose(table) == learner.choose(table)).all()


PROBLEM = GaussianProblem.random(levels=(2, 2), seed=3)
TRAIN, TEST = PROBLEM.sample(3000, seed=0), PROBLEM.sample(3000, seed=1)


@pytest.fixture(scope="module")
def mixed():
    fair = eh.FairInprocessor(LogisticRegression(), eh.DemographicParity(difference=0.03), randomize=True)
    return fair.fit(TRAIN.X, np.where(TRAIN.y, "yes", "no"), sensitive_features=TRAIN.sensitive)


def test_a_fair_mixture_is_small_and_decides_with_its_probabilities(mixed):
    model = mixed.model_
    assert isinstance(model, ClassifierMixture)
    assert 2 <= len(model.members) <= len(mixed.multipliers_) + 1
    assert model.weights.sum() == pytest.approx(1.0)
    chance = mixed.predict_proba(TEST.X)[:, list(mixed.classes_).index("yes")]
    assert chance == pytest.approx(model.predict_proba(TEST.X)[:, 1])
    assert ((chance > 0) & (chance < 1)).any()
    assert (mixed.predict(TEST.X) == np.where(model.predict(TEST.X), "yes", "no")).all()
    assert (mixed.decision_function(TEST.X) == chance - 0.5).all()
    assert (mixed.predict(TEST.X) == "yes").mean() == pytest.approx(chance.mean(), abs=0.03)


def test_a_fair_mixture_can_be_saved_verified_and_audited(mixed, tmp_path):
    path = tmp_path / "mixed.evenhand"
    eh.save(mixed, path)
    again = eh.load(path)
    assert (again.predict(TEST.X) == mixed.predict(TEST.X)).all()
    assert again.predict_proba(TEST.X) == pytest.approx(mixed.predict_proba(TEST.X))
    assert again.certificate_ == mixed.certificate_
    rows = (TRAIN.X, np.where(TRAIN.y, "yes", "no"))
    proof = eh.verify(path, data=rows, sensitive_features=TRAIN.sensitive).proof
    assert proof.confirmed, proof.verdict
    audit = eh.audit(np.where(TEST.y, "yes", "no"), again.predict(TEST.X), TEST.sensitive, pos_label="yes")
    assert audit["demographic parity"].value < 0.12


def test_the_certificate_of_a_mixture_is_confirmed_where_counted_groups_correct_its_rates(tmp_path):
    """Corrections are shrunk for each classifier, so that they are not those of the mixed decisions."""
    rows = PROBLEM.sample(300, seed=0)
    similar = eh.EqualOpportunity(difference=0.05)
    fair = eh.FairInprocessor(GaussianNB(), similar, randomize=True, max_fits=14)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ToleranceWarning)
        fair.fit(rows.X, rows.y, sensitive_features=rows.sensitive)
    decided = fair.model_.decisions(rows.X)
    assert (decided != decided[0]).any()
    eh.save(fair, tmp_path / "mixed.evenhand")
    proof = eh.verify(
        tmp_path / "mixed.evenhand", data=(rows.X, rows.y), sensitive_features=rows.sensitive
    ).proof
    assert proof.confirmed, proof.verdict


def test_ids_decide_who_is_drawn(mixed):
    ids = np.arange(len(TEST.X))
    by_id = mixed.predict(TEST.X, ids=ids)
    assert (by_id != mixed.predict(TEST.X)).any()
    assert (by_id[::-1] == mixed.predict(TEST.X[::-1], ids=ids[::-1])).all()
