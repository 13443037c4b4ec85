import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

import evenhand as eh
from evenhand.estimators.scorer import accuracy_within
from evenhand.exceptions import GroupError

FAIR = eh.DemographicParity(difference=0.2)
X = pd.DataFrame({"x": np.arange(8.0), "sex": list("FMFMFMFM")})
Y = np.array([0, 1, 0, 1, 0, 0, 1, 1])


def test_fair_predictions_score_above_unfair_ones():
    fair = accuracy_within(Y, np.zeros(8, int), constraint=FAIR, sensitive_features=X["sex"])
    unfair = accuracy_within(Y, (X["sex"] == "M").astype(int), constraint=FAIR, sensitive_features=X["sex"])
    assert fair == 0.5
    assert unfair == pytest.approx(0.2 - 0.5)


def test_a_requirement_that_is_undefined_in_every_group_has_no_score():
    given = {"constraint": eh.EqualOpportunity(difference=0.2), "sensitive_features": list("aabb")}
    assert accuracy_within([0, 0, 0, 1], [0, 0, 0, 1], **given) == 1  # undefined in one group only
    assert np.isnan(accuracy_within([0, 0, 0, 1], [0, 0, 0, 1], sample_weight=[1, 1, 1, 0], **given))


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConstantClassifierWarning")
def test_a_scorer_finds_groups_by_its_own_setting_or_that_of_the_estimator():
    plain = DummyClassifier(strategy="constant", constant=1).fit(X, Y)
    assert eh.fair_scorer(FAIR, sensitive_features="sex")(plain, X, Y) == 0.5
    with pytest.raises(GroupError, match="no sensitive features: name the columns of X"):
        eh.fair_scorer(FAIR)(plain, X, Y)
    fair = eh.FairPostprocessor(
        LogisticRegression(), FAIR, sensitive_features="sex", posteriors=eh.CrossFit(2)
    ).fit(X, Y)
    expected = accuracy_within(Y, fair.predict(X), constraint=FAIR, sensitive_features=X["sex"])
    assert eh.fair_scorer(FAIR)(fair, X, Y) == expected


def test_weights_count():
    plain = DummyClassifier(strategy="constant", constant=0).fit(X, Y)
    scorer = eh.fair_scorer(FAIR, sensitive_features="sex")
    assert scorer(plain, X, Y) == 0.5
    assert scorer(plain, X, Y, sample_weight=np.where(Y, 1, 3)) == 0.75
