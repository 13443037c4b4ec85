"""
Save, verify, and deploy ten lines
==================================

A fitted model is a model of the posteriors and one small table, the rule. Files hold no
code, their proof can be recomputed by anybody who has the data, and the rule runs
where evenhand is not installed.
"""

import json
import tempfile
import textwrap
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenhand as eh

adult = eh.datasets.load_adult()
X, _ = adult.one_hot()
y, groups = adult.label, adult.sensitive
train, new = slice(0, 6000), slice(6000, None)

model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
fair = eh.FairPostprocessor(model, eh.DemographicParity(difference=0.05)).fit(
    X[train], y[train], sensitive_features=groups[train]
)

# %%
# One file, and its proof
# -----------------------
#
# With the rows of the fit, ``verify`` learns the posteriors again and recomputes risk
# and bound by their formulas, independently of the solver.

path = Path(tempfile.mkdtemp()) / "fair.evenhand"
eh.save(fair, path)
report = eh.verify(path, data=(X[train], y[train]), sensitive_features=groups[train])
print(textwrap.fill(report.proof.verdict, 88))
same = eh.load(path).predict(X[new]) == fair.predict(X[new])
print("Decisions of the loaded model alike:", same.all())

# %%
# The rule in plain NumPy
# -----------------------
#
# ``p`` has the probability of each group and label, for each person. Somebody is
# selected if the sum of W times p is positive. On the boundary decisions may be
# randomised; such rows are marked, for ``Rule.decide``.


def decide(text, p):
    rule = json.loads(text)
    W = np.array(rule["table"])
    H = (p * W).sum(axis=(1, 2))
    size = max(rule["unit"], np.abs(W).max())
    boundary = np.abs(H) <= max(1e-10 * size, rule["reach"])
    return H > 0, boundary


text = fair.rule_.to_json()
p = fair.posterior_model_.cells(X[new], None)
selected, boundary = decide(text, p)
same = selected == (fair.predict(X[new]) == ">50K")
print(f"alike: {same.sum():,} of {len(same):,}; on the boundary: {boundary.sum()}")
print(f"size of the rule: {len(text)} bytes")

# %%
# What the table says
# -------------------

for name, weights in zip(fair.groups_.names, fair.rule_.table, strict=True):
    print(f"{name!s:24}  <=50K {weights[0]:+.3f}  >50K {weights[1]:+.3f}")
