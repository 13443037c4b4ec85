import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from tests.flat import build

import evenhand as eh
from evenhand.estimators.access import AttributeAccess
from evenhand.estimators.base import FairClassifier
from evenhand.exceptions import GuaranteeWarning, InputError, UnseenGroupWarning

FAIR = eh.DemographicParity(difference=0.1)
X = np.arange(40.0)[:, None]
Y = np.arange(40) % 3 == 0
SEX = np.array(["F", "M"])[np.arange(40) % 2]


@pytest.mark.parametrize("kind", [eh.FairPostprocessor, eh.FairInprocessor])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"posterior": np.ones(2)}, "form must be one of 'auto'"),
        ({"calibration": "platt"}, "calibration must be one of None, 'auto'"),
        ({"missing": 1}, "missing must be one of 'error', 'category'"),
        ({"min_group_size": 1.5}, "min_size must be a non-negative integer"),
        ({"cost": "high"}, "cost must be numbers"),
        ({"aware": 3}, "aware must be True, False or names"),
    ],
    ids=str,
)
def test_settings_are_refused_before_any_model_is_fitted(kind, settings, message, monkeypatch):
    def fitted(self, X, y, sample_weight=None):
        raise AssertionError("a model was fitted")

    monkeypatch.setattr(LogisticRegression, "fit", fitted)
    with pytest.raises(InputError, match=message):
        build(kind, LogisticRegression(), FAIR, **settings).fit(X, Y, sensitive_features=SEX)


def test_posteriors_are_rounded_to_hide_the_last_bits_of_matrix_products():
    p = np.array([[[0.3, 0.7]]])
    groups, codes = eh.Groups.fit(["a"])
    blind, aware = (AttributeAccess(None, (), known, False) for known in (None, groups))
    noisy = blind.posteriors(groups, p + 3e-16, codes, None)
    assert noisy.dense().tobytes() == blind.posteriors(groups, p, codes, None).dense().tobytes()
    assert aware.posteriors(groups, p, codes, None).eta.tolist() == [0.7]


def test_the_base_class_does_not_decide():
    with pytest.raises(NotImplementedError):
        FairClassifier()._decide(X, None, None)


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConstantClassifierWarning")
def test_warnings_point_at_the_line_of_the_user():
    fair = eh.FairPostprocessor(
        LogisticRegression(),
        FAIR,
        aware=True,
        posteriors=eh.CrossFit(2),
        groups=eh.GroupPolicy(unseen="pooled"),
    )
    fair.fit(X, Y, sensitive_features=SEX)
    new = np.full(3, "X")
    for decide in (fair.predict, fair.predict_proba, fair.decision_function, fair.explain):
        with pytest.warns(UnseenGroupWarning) as seen:
            decide(X[:3], sensitive_features=new)
        assert [one.filename for one in seen] == [__file__]
    with pytest.warns(GuaranteeWarning) as seen:
        fair.set_params(guarantee=0.99).fit(X, Y, sensitive_features=SEX)
    assert {one.filename for one in seen if one.category is GuaranteeWarning} == {__file__}
