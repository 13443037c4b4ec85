"""
Fair in training: xgboost and lightgbm
======================================

Where outputs may not be altered afterwards, ``FairInprocessor`` trains a classifier
that is fair by itself, by giving each row its own costs. What is shipped is an ordinary
model of xgboost or lightgbm, and decisions need no sensitive features.
"""

import altair as alt
from lightgbm import LGBMClassifier
from xgboost import XGBClassifier

import evenhand as eh

adult = eh.datasets.load_adult()
X, _ = adult.one_hot()
y, groups = (adult.label == ">50K").to_numpy().astype(int), adult.sensitive
train, test = slice(0, 6000), slice(6000, None)

learners = {
    "xgboost": XGBClassifier(n_estimators=60, max_depth=3, learning_rate=0.2, n_jobs=1),
    "lightgbm": LGBMClassifier(n_estimators=60, num_leaves=8, n_jobs=1, verbose=-1),
}

# %%
# Plain and fair
# --------------
#
# The learner is passed as it is; it has to take sample weights.

parity = eh.DemographicParity(difference=0.05)
found = []
for name, learner in learners.items():
    fair = eh.FairInprocessor(learner, parity)
    fair.fit(X[train], y[train], sensitive_features=groups[train])
    plain = learner.fit(X[train], y[train])
    for kind, model in (("plain", plain), ("fair", fair.model_)):
        decisions = model.predict(X[test])
        one = eh.audit(y[test], decisions, groups[test])["demographic parity"]
        accuracy = (decisions == y[test]).mean()
        print(f"{name}, {kind}: accuracy {accuracy:.3f}")
        row = {"value": one.value, "low": one.low, "high": one.high}
        found.append({"learner": name, "model": kind, **row})

# %%
# What is shipped is the learner's own model:

print(type(fair.model_))

# %%
# The difference on test rows
# ---------------------------
#
# Some accuracy is given up for a much smaller difference. A point alone says little
# about a tolerance: the intervals show what the test rows can tell.

kinds = ["plain", "fair"]
base = alt.Chart(alt.InlineData(found)).encode(
    y=alt.Y("learner:N", title=None, sort=list(learners)),
    yOffset=alt.YOffset("model:N", sort=kinds),
    color=alt.Color("model:N", sort=kinds, title=None),
)
x = alt.X("low:Q", title="largest difference from everybody, with 95 % intervals")
x = x.scale(domain=[0, 0.2]).axis(tickCount=5)
(
    base.mark_rule(strokeWidth=2).encode(x=x, x2="high:Q")
    + base.mark_point(filled=True, size=80, opacity=1).encode(x="value:Q")
).properties(
    width=440,
    height=alt.Step(22),
    title="Selection rates by sex and race, tolerance 0.05",
    description="Largest difference of selection rates of plain and fair models.",
)
