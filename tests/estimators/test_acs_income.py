"""Real data: nine races times two sexes, with groups of two and eight rows."""

from functools import cache

import numpy as np
import pytest
from benchmarks.acs import load_acs
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenhand as eh


@cache
def read(folder):
    """Some rows of the data, and all rows of the smallest groups."""
    data = load_acs("income", folder=folder, sensitive=["RAC1P", "SEX"])
    rows = np.random.default_rng(0).choice(len(data), 4000, replace=False)
    tiny = np.flatnonzero(data.sensitive["RAC1P"].to_numpy() == 4)
    rows = np.union1d(rows, tiny)
    return data.features[rows], data.one_hot()[0][rows], data.label[rows], data.sensitive[rows]


@pytest.fixture
def income(acs_folder):
    return read(acs_folder)


@pytest.mark.parametrize("aware", [False, True], ids=["blind", "aware"])
def test_the_default_trains_on_a_real_table(income, aware):
    features, _, label, sensitive = income
    fair = eh.FairPostprocessor(
        constraint=eh.DemographicParity(difference=0.05), aware=aware, posteriors=eh.CrossFit(2)
    )
    fair.fit(features, label, sensitive_features=sensitive)
    assert len(fair.groups_) == 18
    assert fair.groups_.counts.min() == 2
    assert abs(fair.certificate_.gap) < 1e-6
    decisions = fair.predict(features, sensitive_features=sensitive)
    assert (decisions == label.to_numpy()).mean() > 0.7


@pytest.mark.parametrize("aware", [False, True], ids=["blind", "aware"])
def test_every_notion_can_be_asked_for(income, notion, aware):
    _, numbers, label, sensitive = income
    X = np.nan_to_num(numbers)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    fair = eh.FairPostprocessor(model, notion(difference=0.05), aware=aware, posteriors=eh.CrossFit(2))
    fair.fit(X, label, sensitive_features=sensitive)
    assert abs(fair.certificate_.gap) < 1e-6
    assert fair.certificate_.violation < 1e-8
    selected = fair.predict_proba(X, sensitive_features=sensitive)[:, 1]
    sure = (selected == 0) | (selected == 1)
    assert sure.mean() > 0.5
    decided = fair.predict(X, sensitive_features=sensitive)
    assert (decided == fair.classes_[selected.astype(int)])[sure].all()
    assert 0.01 < selected.mean() < 0.99  # not constant
