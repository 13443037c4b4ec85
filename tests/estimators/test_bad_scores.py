"""Scores that are no probabilities, constant, tied or sure."""

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from tests.estimators.small_fits import (
    ATOMS,
    EXACT,
    FROZEN,
    FROZEN_GROUP,
    OTHER_X,
    OTHER_Y,
    PLAIN,
    SEX,
    N,
    Scores,
    Sure,
    X,
    Y,
    difference,
    fit,
    some,
)

import evenhand as eh
from evenhand.exceptions import (
    ConstantScoreWarning,
    InputError,
)

# Scores that are not probabilities


@pytest.mark.parametrize("score", [1.5, -0.1, float("nan"), float("inf")])
@pytest.mark.parametrize("aware", [False, True])
def test_scores_that_are_not_probabilities_are_refused_and_counted(score, aware):
    with pytest.raises(InputError, match=r"probabilities of Scores are NaN, outside \[0, 1\] .* in 3 of 100"):
        fit(estimator=Scores(score), group_estimator=LogisticRegression(), aware=aware)


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConstantClassifierWarning")
def test_scores_that_are_not_probabilities_are_refused_at_prediction():
    found = fit(estimator=FrozenEstimator(Scores(0.6).fit(X, Y)), aware=True, **PLAIN)
    found.posterior_model_.label.model.estimator.value = float("nan")
    with pytest.raises(InputError, match=r"probabilities of Scores are NaN.* in 3 of 200 rows"):
        found.predict(X, sensitive_features=SEX)


def test_predictions_that_are_not_probabilities_are_refused_and_counted():
    with pytest.raises(InputError, match=r"y_pred has 3 of 200 probabilities that are NaN or outside \[0, 1"):
        eh.cell_rates(Y, some(np.full(N, 0.5), 1.2).astype(float), SEX)


# Constant scores

CONSTANT = DummyClassifier(strategy="prior")


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConstantClassifierWarning")
@pytest.mark.filterwarnings("ignore::evenhand.exceptions.TrainingRowsWarning")
@pytest.mark.parametrize("estimator", [CONSTANT, FrozenEstimator(CONSTANT.fit(OTHER_X, OTHER_Y))])
@pytest.mark.parametrize("aware", [False, True])
def test_constant_scores_are_warned_of(estimator, aware):
    with pytest.warns(ConstantScoreWarning, match="decisions can only be randomised"):
        found = fit(estimator=estimator, group_estimator=CONSTANT, aware=aware)
    assert found.certificate_.violation < 1e-9


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConstantClassifierWarning")
@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConstantScoreWarning")
@pytest.mark.parametrize("aware", [False, True])
def test_constant_features_lead_to_feasible_randomised_decisions(aware):
    alike, constraint = np.ones((N, 1)), eh.AccuracyParity(difference=0.0)
    found = fit(X=alike, constraint=constraint, aware=aware)
    chances = found.predict_proba(alike, sensitive_features=SEX)[:, 1]
    assert ((chances > 0) & (chances < 1)).any()
    assert difference(constraint, Y, chances) < 0.02


# Tied scores and randomised decisions

TIED = np.column_stack([ATOMS, np.arange(N)])  # four scores, but no two equal rows
FROZEN_TIES = FrozenEstimator(
    LogisticRegression().fit(np.column_stack([OTHER_X[:, :2] > 0, 0 * OTHER_Y]), OTHER_Y)
)


def test_tied_rows_have_the_same_probability():
    found = fit(X=TIED, estimator=FROZEN_TIES, constraint=EXACT, aware=True)
    chances = found.predict_proba(TIED, sensitive_features=SEX)[:, 1]
    mixed = (chances > 1e-9) & (chances < 1 - 1e-9)
    assert len(np.unique(chances[mixed])) == 1
    assert len(np.unique(TIED[mixed, :2], axis=0)) == 1
    assert difference(EXACT, Y, chances) < 1e-9


def test_ties_of_cross_fitted_scores_are_randomised_to_parity():
    found = fit(X=ATOMS, constraint=EXACT, aware=True)
    chances = found.predict_proba(ATOMS, sensitive_features=SEX)[:, 1]
    assert difference(EXACT, Y, chances) < 0.01


@pytest.mark.parametrize("seed", [0, None])
def test_a_row_always_gets_the_same_decision(seed):
    found = fit(X=TIED, estimator=FROZEN_TIES, constraint=EXACT, aware=True, random_state=seed)
    first = found.predict(TIED, sensitive_features=SEX)
    chances = found.predict_proba(TIED, sensitive_features=SEX)[:, 1]
    mixed = (chances > 1e-9) & (chances < 1 - 1e-9)
    assert mixed.any()
    if seed is not None:  # about one random seed in a hundred decides the same for all of them
        assert 0 < first[mixed].mean() < 1
    shuffled = np.random.default_rng(0).permutation(N)
    assert np.array_equal(found.predict(TIED, sensitive_features=SEX), first)
    assert np.array_equal(found.predict(TIED[shuffled], sensitive_features=SEX[shuffled]), first[shuffled])
    alone = [found.predict(TIED[[k]], sensitive_features=SEX[[k]])[0] for k in np.flatnonzero(mixed)]
    assert alone == first[mixed].tolist()


def test_the_same_seed_leads_to_the_same_randomised_decisions():
    one, two = (fit(X=ATOMS, constraint=EXACT, aware=True, random_state=3) for _ in range(2))
    assert np.array_equal(
        one.predict(ATOMS, sensitive_features=SEX), two.predict(ATOMS, sensitive_features=SEX)
    )


# Scores of 0 and 1, rare labels, groups of little weight


@pytest.mark.parametrize("aware", [False, True])
def test_scores_of_exactly_zero_and_one_are_solved(notion, aware):
    found = fit(
        estimator=Sure(),
        group_estimator=LogisticRegression(),
        constraint=notion(difference=0.02),
        aware=aware,
    )
    assert abs(found.certificate_.gap) < 1e-6
    assert found.certificate_.violation < 1e-9


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConstantClassifierWarning")
@pytest.mark.parametrize("aware", [False, True])
@pytest.mark.parametrize("positives", [1, 2])
def test_a_rare_label_is_solved(positives, aware):
    y = (np.arange(N) < positives).astype(int)
    found = fit(y=y, constraint=eh.EqualizedOdds(difference=0.02), aware=aware)
    assert abs(found.certificate_.gap) < 1e-6
    assert found.certificate_.violation < 1e-9


@pytest.mark.parametrize("share", [1e-3, 1e-6])
def test_a_group_of_little_weight_is_held_to_its_bound(share):
    strict = eh.DemographicParity(difference=0.01)
    found = fit(estimator=FROZEN, weights=np.where(SEX == "F", share, 1.0), constraint=strict, aware=True)
    [measured] = strict.measure(found.rates_)
    assert measured.difference <= 0.01 + 1e-9


# Calibration


@pytest.mark.parametrize("aware", [False, True])
def test_the_certificate_refers_to_the_scores_and_calibration_fits_them_to_the_data(aware):
    sure = {"estimator": FrozenEstimator(Sure().fit(X, Y)), "group_estimator": FROZEN_GROUP, "aware": aware}
    loose = eh.DemographicParity(difference=0.5)
    believed, calibrated = (fit(**sure, constraint=loose, calibration=how) for how in (None, "dirichlet"))
    errors = [1 - model.score(X, Y, sensitive_features=SEX) for model in (believed, calibrated)]
    assert believed.certificate_.objective == pytest.approx(believed.rates_.risk(), abs=1e-9)
    assert 2 * believed.certificate_.objective < 0.01
    assert errors[0] > 0.2
    assert 2 * calibrated.certificate_.objective == pytest.approx(errors[1], abs=0.02)


@pytest.mark.parametrize("aware", [False, True, ["sex"]])
def test_scores_can_be_calibrated_with_any_knowledge_of_the_group(aware):
    groups = {"sex": SEX, "side": X[:, 1] > 0}
    settings = {"estimator": DecisionTreeClassifier(max_depth=6, random_state=0), "aware": aware}
    found, plain = (fit(sex=groups, calibration=how, **settings) for how in ("dirichlet", None))
    H, before = (model.decision_function(X, sensitive_features=groups) for model in (found, plain))
    assert not np.allclose(H, before)
    assert np.corrcoef(H, before)[0, 1] > 0.5
