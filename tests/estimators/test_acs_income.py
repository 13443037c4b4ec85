"""Real data: nine races times two sexes, one group of about ten rows."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenhand as eh


@pytest.fixture
def income(acs_folder):
    data = eh.datasets.load_acs("income", folder=acs_folder, sensitive=["RAC1P", "SEX"])
    rows = np.random.default_rng(0).choice(len(data), 12_000, replace=False)
    tiny = np.flatnonzero(data.sensitive["RAC1P"].to_numpy() == 4)
    return data, np.union1d(rows, tiny)


@pytest.mark.parametrize("aware", [False, True], ids=["blind", "aware"])
def test_the_default_trains_on_a_real_table(income, aware):
    data, rows = income
    fair = eh.FairPostprocessor(constraint=eh.DemographicParity(difference=0.05), aware=aware, cv=2)
    fair.fit(data.features[rows], data.label[rows], sensitive_features=data.sensitive[rows])
    assert len(fair.groups_) >= 17
    assert fair.groups_.counts.min() <= 12
    assert abs(fair.certificate_.gap) < 1e-6
    decisions = fair.predict(data.features[rows], sensitive_features=data.sensitive[rows])
    assert (decisions == data.label[rows].to_numpy()).mean() > 0.7


@pytest.mark.parametrize("aware", [False, True], ids=["blind", "aware"])
def test_every_notion_can_be_asked_for(income, notion, aware):
    data, rows = income
    X = np.nan_to_num(data.one_hot()[0][rows])
    model = make_pipeline(StandardScaler(), LogisticRegression())
    fair = eh.FairPostprocessor(model, notion(difference=0.05), aware=aware, cv=2)
    fair.fit(X, data.label[rows], sensitive_features=data.sensitive[rows])
    assert abs(fair.certificate_.gap) < 1e-6
    assert fair.certificate_.violation < 1e-8
    p = fair.predict_proba(X, sensitive_features=data.sensitive[rows])
    assert np.isfinite(p).all()
