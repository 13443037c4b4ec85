import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from lightgbm import LGBMClassifier
from scipy import sparse
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier
from tests.flat import build
from xgboost import XGBClassifier

import evenhand as eh
from evenhand.datasets import GaussianProblem
from evenhand.exceptions import GroupError, InputError, PooledGroupsWarning, TrainingRowsWarning
from evenhand.optimum.rule import Rule

PARITY = eh.DemographicParity(difference=0.02)
PROBLEM = GaussianProblem.random(levels=(2, 2), seed=5)
TRAIN, TEST = PROBLEM.sample(4000, seed=0), PROBLEM.sample(4000, seed=1)
EASY = eh.DemographicParity(difference=0.5)


def fitted(estimator=None, constraint=PARITY, drawn=TRAIN, **settings):
    model = LogisticRegression() if estimator is None else estimator
    fair = build(eh.FairPostprocessor, model, constraint, **settings)
    return fair.fit(drawn.X, drawn.y, sensitive_features=drawn.sensitive)


def disparity(fair, drawn=TEST, constraint=PARITY):
    decisions = fair.predict(drawn.X, sensitive_features=drawn.sensitive)
    rates = eh.cell_rates(drawn.y, decisions, drawn.sensitive)
    return max(found.difference for found in constraint.measure(rates)), rates.risk()


@pytest.mark.parametrize("aware", [False, True, ["A1"]], ids=["blind", "aware", "mixed"])
def test_the_tolerance_holds_nearly_on_new_rows(aware):
    unfair, cheap = disparity(fitted(constraint=EASY, aware=aware, cv=5))
    fair, dear = disparity(fitted(aware=aware, cv=5))
    assert fair < 0.08
    assert unfair > 0.15
    assert dear > cheap


@pytest.mark.parametrize("posterior", ["separate", "joint", "label_then_group"])
@pytest.mark.parametrize("aware", [False, ["A2"]])
def test_every_form_of_posteriors_can_be_used(posterior, aware):
    assert disparity(fitted(posterior=posterior, aware=aware))[0] < 0.08


@pytest.mark.parametrize(
    "settings",
    [
        {"average": False},
        {"cv": 0.5},
        {"calibration": None},
        {"group_estimator": GaussianNB()},
        {"cv": 2, "n_jobs": 2},
    ],
    ids=str,
)
def test_every_way_to_learn_posteriors_can_be_used(settings):
    with parallel_config(backend="threading"):  # test_crossfit starts processes, which takes seconds
        assert disparity(fitted(**settings))[0] < 0.1


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
def test_one_split_can_be_used_where_rows_are_held_out_for_a_guarantee():
    assert fitted(cv=0.25, confidence=0.9).certificate_.gap < 1e-6


@pytest.mark.parametrize(
    "learner",
    [XGBClassifier(n_estimators=10, n_jobs=1), LGBMClassifier(n_estimators=10, n_jobs=1, verbose=-1)],
    ids=["xgboost", "lightgbm"],
)
@pytest.mark.parametrize("aware", [False, True])
def test_learners_of_other_libraries_can_be_used(learner, aware):
    assert disparity(fitted(learner, aware=aware, cv=2))[0] < 0.12


@pytest.fixture(scope="module")
def blind():
    return fitted()


def test_the_result_has_a_certificate_and_names_its_multipliers(blind):
    fair = blind
    assert abs(fair.certificate_.gap) < 1e-6
    assert fair.certificate_.violation < 1e-8
    assert len(fair.multipliers_) == 4
    assert "demographic parity, selection rate: A1=0, A2=0" in [str(name) for name in fair.multipliers_]
    assert set(fair.shadow_prices_) == set(fair.multipliers_)
    assert fair.groups_.counts.sum() == 4000
    assert fair.rule_.table.shape == (4, 2)
    assert fair.rates_.masses.sum() == pytest.approx(1)


def test_probabilities_decisions_and_h_agree(blind):
    fair = blind
    p = fair.predict_proba(TEST.X)
    sure = (p[:, 1] == 0) | (p[:, 1] == 1)
    assert sure.mean() > 0.99
    assert (fair.predict(TEST.X)[sure] == p[sure, 1]).all()
    H = fair.decision_function(TEST.X)
    clear = np.abs(H) > 1e-9
    assert ((H > 0) == (p[:, 1] == 1))[clear & sure].all()


def test_blind_decisions_need_no_groups_and_ignore_them(blind):
    fair = blind
    with_groups = fair.predict(TEST.X, sensitive_features=TEST.sensitive)
    assert (fair.predict(TEST.X) == with_groups).all()


@pytest.mark.parametrize("aware", [True, ["A1"]])
def test_aware_decisions_need_groups(aware):
    with pytest.raises(GroupError, match=r"aware of A1.*pass sensitive_features= here, or name columns of X"):
        fitted(aware=aware, cv=2).predict(TEST.X)


def test_mixed_decisions_need_only_the_features_that_may_be_used():
    fair = fitted(aware=["A1"], cv=2)
    part = {"A1": TEST.sensitive["A1"]}
    assert (
        fair.predict(TEST.X, sensitive_features=part)
        == fair.predict(TEST.X, sensitive_features=TEST.sensitive)
    ).all()


def test_blind_tables_may_lack_sensitive_columns_at_prediction():
    table = pd.DataFrame({"x": TRAIN.X[:, 0], **TRAIN.sensitive})
    fair = eh.FairPostprocessor(
        LogisticRegression(), PARITY, sensitive_features=["A1", "A2"], posteriors=eh.CrossFit(2)
    )
    fair.fit(table, TRAIN.y)
    assert (fair.predict(table) == fair.predict(table[["x"]])).all()
    assert (fair.predict(table) == fair.predict(table[["x", "A2"]])).all()
    with pytest.raises(ValueError, match="feature names should match"):
        fair.predict(table[["A1", "A2"]])


@pytest.mark.parametrize("labels", [("no", "yes"), (-1, 1), (False, True), (1, 2), (0.0, 1.0)])
def test_predictions_have_the_labels_of_fit(labels):
    y = np.array(labels)[TRAIN.y]
    fair = eh.FairPostprocessor(LogisticRegression(), PARITY, posteriors=eh.CrossFit(2)).fit(
        TRAIN.X, y, sensitive_features=TRAIN.sensitive
    )
    assert fair.classes_.tolist() == list(labels)
    assert set(fair.predict(TEST.X)) == set(labels)
    assert fair.predict(TEST.X).dtype == y.dtype
    assert fair.score(TEST.X, np.array(labels)[TEST.y]) > 0.5


def test_the_positive_label_can_be_the_first():
    y = np.where(TRAIN.y == 1, "approve", "deny")
    fair = eh.FairPostprocessor(LogisticRegression(), PARITY, pos_label="approve", cost=0.3)
    fair.fit(TRAIN.X, y, sensitive_features=TRAIN.sensitive)
    assert fair.classes_.tolist() == ["approve", "deny"]
    assert fair.pos_label_ == "approve"
    same = fitted(cost=0.3)
    assert ((fair.predict(TEST.X) == "approve") == (same.predict(TEST.X) == 1)).all()


def test_costs_move_decisions():
    shares = [fitted(constraint=EASY, cost=cost, cv=2).predict(TEST.X).mean() for cost in (0.2, (1, 1), 0.8)]
    assert shares[0] > shares[1] + 0.05 > shares[2] + 0.1


def test_weights_count_in_fit_and_constraint():
    of_group = np.where(TRAIN.sensitive["A1"] == 0, 5.0, 0.2)
    fair = eh.FairPostprocessor(LogisticRegression(), PARITY, aware=True, posteriors=eh.CrossFit(2))
    fair.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive, sample_weight=of_group)
    assert fair.rates_.masses[:2].sum() > 0.9
    before = fair.predict_label_proba(TEST.X, sensitive_features=TEST.sensitive).mean()
    of_label = np.where(TRAIN.y == 1, 5.0, 1.0)
    fair.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive, sample_weight=of_label)
    assert fair.predict_label_proba(TEST.X, sensitive_features=TEST.sensitive).mean() > before + 0.1


def test_a_row_twice_is_a_row_of_weight_two():
    frozen = FrozenEstimator(LogisticRegression().fit(TEST.X, TEST.y))
    twice = np.repeat(np.arange(1000), np.where(np.arange(1000) % 3 == 0, 2, 1))
    weights = np.where(np.arange(1000) % 3 == 0, 2.0, 1.0)
    fair = eh.FairPostprocessor(frozen, PARITY, aware=True, posteriors=eh.CrossFit(calibration=None))
    groups = {name: values[:1000] for name, values in TRAIN.sensitive.items()}
    one = fair.fit(TRAIN.X[:1000], TRAIN.y[:1000], sensitive_features=groups, sample_weight=weights)
    table, bound = one.rule_.table, one.certificate_.bound
    again = {name: values[twice] for name, values in groups.items()}
    two = fair.fit(TRAIN.X[twice], TRAIN.y[twice], sensitive_features=again)
    assert np.allclose(two.rule_.table, table)
    assert two.certificate_.bound == pytest.approx(bound)


@pytest.fixture
def trees():
    """A frozen shallow tree: it has few scores, so some decisions are randomised."""
    return FrozenEstimator(DecisionTreeClassifier(max_depth=2, random_state=0).fit(TEST.X, TEST.y))


@pytest.mark.parametrize("aware", [False, True])
def test_randomised_decisions_depend_on_the_row_and_the_seed_only(trees, aware):
    group = DecisionTreeClassifier(max_depth=2, random_state=0)
    frozen = FrozenEstimator(group.fit(TEST.X, TEST.codes))
    fair = fitted(trees, aware=aware, group_estimator=frozen, calibration=None)
    f = fair.predict_proba(TEST.X, sensitive_features=TEST.sensitive)[:, 1]
    mixed = (f > 0) & (f < 1)
    assert mixed.mean() > 0.02
    decisions = fair.predict(TEST.X, sensitive_features=TEST.sensitive)
    assert decisions[mixed].mean() == pytest.approx(f[mixed].mean(), abs=4 * np.sqrt(0.25 / mixed.sum()))
    for rows in (np.arange(4000)[::-1], np.arange(0, 4000, 7)):
        part = {name: values[rows] for name, values in TEST.sensitive.items()}
        assert (fair.predict(TEST.X[rows], sensitive_features=part) == decisions[rows]).all()
    other = fitted(trees, aware=aware, group_estimator=frozen, calibration=None, random_state=1)
    changed = other.predict(TEST.X, sensitive_features=TEST.sensitive) != decisions
    assert changed[mixed].any()
    assert not changed[~mixed].any()


def test_a_rule_survives_json_exactly(trees):
    for aware in (False, True):
        fair = fitted(trees, aware=aware, constraint=eh.EqualizedOdds(difference=0.02), cv=2)
        again = Rule.from_json(fair.rule_.to_json())
        assert again.to_json() == fair.rule_.to_json()
        before = fair.predict_proba(TEST.X, sensitive_features=TEST.sensitive)
        fair.rule_ = again
        assert (fair.predict_proba(TEST.X, sensitive_features=TEST.sensitive) == before).all()


def test_a_frozen_label_model_is_not_fitted_again():
    frozen = FrozenEstimator(LogisticRegression().fit(TEST.X, TEST.y))
    for aware in (False, True):
        fair = fitted(frozen, aware=aware, group_estimator=LogisticRegression(), calibration=None)
        assert disparity(fair, drawn=PROBLEM.sample(4000, seed=2))[0] < 0.08


def test_a_frozen_joint_model_predicts_cells():
    frozen = FrozenEstimator(LogisticRegression().fit(TEST.X, 2 * TEST.codes + TEST.y))
    assert disparity(fitted(frozen, posterior="joint"))[0] < 0.08
    label = FrozenEstimator(LogisticRegression().fit(TEST.X, np.where(TEST.y, "yes", "no")))
    with pytest.raises(InputError, match=r"classes .*no.*yes.*form='label_then_group'"):
        fitted(label, posterior="joint")


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(C=1e6, tol=1e-10),  # its residuals are uncorrelated with the features
        DecisionTreeClassifier(min_samples_leaf=20),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_frozen_model_on_its_training_rows_is_warned_of(model):
    groups = LogisticRegression()
    with pytest.warns(TrainingRowsWarning, match="fit with rows that it has not seen"):
        fitted(FrozenEstimator(model.fit(TRAIN.X, TRAIN.y)), group_estimator=groups)


@pytest.mark.filterwarnings("ignore:5 of 5 rows belong to groups that were not seen")
def test_an_unseen_group_is_refused_or_decided_by_the_costs():
    new = {"A1": np.full(5, 7), "A2": np.zeros(5, int)}
    with pytest.raises(GroupError, match="not seen in fit: A1=7, A2=0"):
        fitted(aware=True).predict(TEST.X[:5], sensitive_features=new)
    fair = fitted(aware=True, unseen="pooled")
    p = fair.predict_proba(TEST.X[:5], sensitive_features=new)[:, 1]
    H = fair.decision_function(TEST.X[:5], sensitive_features=new)
    assert (p == (H > 0)).all()
    assert (fair.predict(TEST.X[:5], sensitive_features=new) == p).all()


def test_small_groups_can_be_pooled_and_that_is_recorded():
    rare = {"who": np.where(np.arange(4000) < 10, "x", np.where(np.arange(4000) < 15, "y", "z"))}
    fair = eh.FairPostprocessor(
        LogisticRegression(), PARITY, posteriors=eh.CrossFit(2), groups=eh.GroupPolicy(min_size=20)
    )
    with pytest.warns(PooledGroupsWarning, match=r"who=x \(10 rows\); who=y \(5 rows\)"):
        fair.fit(TRAIN.X, TRAIN.y, sensitive_features=rare)
    assert fair.groups_.pooled == {("x",): 10, ("y",): 5}
    assert len(fair.groups_) == 2


def test_a_sparse_matrix_is_accepted_if_the_model_accepts_it():
    X = sparse.csr_array(np.hstack([TRAIN.X, np.ones((4000, 1))]))
    fair = eh.FairPostprocessor(LogisticRegression(), PARITY, aware=True, posteriors=eh.CrossFit(2))
    fair.fit(X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    groups = {name: values[:50] for name, values in TRAIN.sensitive.items()}
    assert set(fair.predict(X[:50], sensitive_features=groups)) == {0, 1}


def test_an_interrupted_fit_leaves_an_unfitted_estimator(monkeypatch):
    fair = fitted(cv=2)

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("evenhand.optimum.problem.FairnessProblem.solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fair.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    with pytest.raises(AttributeError, match="not fitted yet"):
        fair.predict(TEST.X)


def test_the_same_seed_gives_the_same_rule_and_others_do_not():
    one, same, other = (fitted(random_state=seed, cv=2).rule_.to_json() for seed in (0, 0, 1))
    assert one == same != other


def test_ids_distinguish_rows_with_the_same_features(trees):
    fair = fitted(trees, aware=True, calibration=None)
    f = fair.predict_proba(TEST.X, sensitive_features=TEST.sensitive)[:, 1]
    row = int(np.flatnonzero((f > 0.1) & (f < 0.9))[0])
    X = np.repeat(TEST.X[[row]], 2000, axis=0)
    groups = {name: np.repeat(values[row], 2000) for name, values in TEST.sensitive.items()}
    assert len(set(fair.predict(X, sensitive_features=groups))) == 1
    ids = [f"account {k}" for k in range(2000)]
    decisions = fair.predict(X, sensitive_features=groups, ids=ids)
    assert decisions.mean() == pytest.approx(f[row], abs=0.05)
    few = {name: values[:10] for name, values in groups.items()}
    assert (fair.predict(X[:10], sensitive_features=few, ids=ids[:10]) == decisions[:10]).all()
    with pytest.raises(InputError, match="ids has 3 where 2,000 were expected"):
        fair.predict(X, sensitive_features=groups, ids=[1, 2, 3])
