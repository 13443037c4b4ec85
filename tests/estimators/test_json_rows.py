"""Rows as a web service receives them: a dictionary, or a list of them."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import evenhand as eh
from evenhand.exceptions import InputError

DRAWN = eh.datasets.GaussianProblem.random(seed=3).sample(600, seed=0)
X = np.hstack([DRAWN.X, np.random.default_rng(0).normal(size=(600, 1))])


def test_rows_as_json_has_them_are_decided_like_tables():
    table = pd.DataFrame(X, columns=["a", "b"])
    table["town"] = np.where(X[:, 0] > 0, "north", "south")
    table["age"] = (20 + 5 * np.abs(X[:, 1])).astype(int)
    fair = eh.FairPostprocessor(None, eh.DemographicParity(difference=0.1), posteriors=eh.CrossFit(2))
    fair.fit(table, DRAWN.y, sensitive_features=DRAWN.sensitive)
    rows = json.loads(json.dumps(table[::-1].to_dict("records")))
    np.testing.assert_array_equal(fair.predict(rows)[::-1], fair.predict(table))
    np.testing.assert_array_equal(fair.predict_proba(rows)[::-1], fair.predict_proba(table))
    one = dict(reversed(rows[0].items())) | {"request": "4711"}
    assert fair.predict(one) == fair.predict(table)[-1:]
    assert fair.explain(one)[0].person == fair.explain(table[-1:])[0].person
    gap = table[:1].assign(a=np.nan)
    np.testing.assert_array_equal(fair.predict_proba(rows[-1] | {"a": None}), fair.predict_proba(gap))
    with pytest.raises(InputError, match="row 1 has no 'town'"):
        fair.predict([rows[0], {name: value for name, value in rows[1].items() if name != "town"}])
    unnamed = eh.FairPostprocessor(LogisticRegression(), eh.DemographicParity(difference=0.3))
    unnamed.fit(X, DRAWN.y, sensitive_features=DRAWN.sensitive)
    with pytest.raises(InputError, match="fitted to columns without names"):
        unnamed.predict({"a": 1.0, "b": 2.0})


def test_a_dictionary_may_leave_out_sensitive_columns_that_are_not_used():
    table = pd.DataFrame(X, columns=["a", "b"]).assign(sex=np.where(X[:, 0] > 0, "F", "M"))
    fair = eh.FairPostprocessor(
        LogisticRegression(), eh.DemographicParity(difference=0.3), sensitive_features=["sex"]
    ).fit(table, DRAWN.y)
    rows = table.to_dict("records")
    without = [{"a": row["a"], "b": row["b"]} for row in rows]
    np.testing.assert_array_equal(fair.predict(without), fair.predict(table))
    np.testing.assert_array_equal(fair.predict(rows), fair.predict(table))
