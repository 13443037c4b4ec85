"""
When race is missing, or only estimated
=======================================

Half of the people have not told their race, and those with more education told it
less often. Leaving them out learns from another population; ``missing="impute"``
learns race from those who told it. The truth is known here, so we can compare.
"""

import altair as alt
import numpy as np
import polars as pl
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenhand as eh

adult = eh.datasets.load_adult()
X, names = adult.one_hot()
y, truth = (adult.label == ">50K").to_numpy(), adult.sensitive
train, test = slice(0, 8000), slice(8000, None)
logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))

education = StandardScaler().fit_transform(X[:, [names.index("education-num")]])[:, 0]
silent = np.random.default_rng(0).random(len(y)) < 1 / (1 + np.exp(-1.5 * education))
told = truth.with_columns(race=pl.when(~pl.Series(silent)).then("race"))

# %%
# Do those who did not tell differ?
# ---------------------------------
#
# Yes, in features and label. That does no harm to ``missing="impute"``. What it assumes
# cannot be seen in data: that people with the same features and label do not keep their
# race to themselves *because of* their race.

seen = np.column_stack([X[train], y[train]])
chance = cross_val_predict(logistic, seen, silent[train], cv=5, method="predict_proba")[
    :, 1
]
print(f"AUC of who did not tell: {roc_auc_score(silent[train], chance):.2f}")
print(
    f"positive labels: {y[train][silent[train]].mean():.2f} of those who did not tell,"
)
print(f"                 {y[train][~silent[train]].mean():.2f} of those who did")

# %%
# Known, imputed, left out
# -------------------------
#
# Fitted to those who told only, the rule misses the tolerance on everyone else; with
# race imputed it comes closer to a fit that knows the race of everyone.

parity = eh.DemographicParity(difference=0.02)


def fitted(table, rows, **settings):
    fair = eh.FairPostprocessor(logistic, parity, **settings)
    return fair.fit(X[rows], y[rows], sensitive_features=table[rows])


rows, impute = np.arange(8000), eh.GroupPolicy(missing="impute")
ways = {
    "race of everybody": fitted(truth, rows),
    "half missing, imputed": fitted(
        told, rows, groups=eh.GroupPolicy(missing="impute")
    ),
    "half missing, left out": fitted(told, rows[~silent[train]]),
}
found = [
    {"way": way, "value": one.value, "low": one.low, "high": one.high}
    for way, fair in ways.items()
    for one in [
        eh.audit(y[test], fair.predict(X[test]), truth[test])["demographic parity"]
    ]
]
base = alt.Chart(alt.InlineData(found)).encode(y=alt.Y("way:N", title=None, sort=None))
x = alt.X("low:Q", title="largest difference on test rows, with 95 % intervals")
x = x.axis(tickCount=6)
(
    base.mark_rule(strokeWidth=2, color="#0072B2").encode(x=x, x2="high:Q")
    + base.mark_point(filled=True, size=80, opacity=1).encode(x="value:Q")
).properties(
    width=440,
    height=alt.Step(30),
    title="Selection rates by sex and race, tolerance 0.02",
    description="Largest difference of selection rates: race known, imputed, dropped.",
)

# %%
# Race as a probability
# ---------------------
#
# Where race is estimated from other data, a ``Proxy`` holds the probabilities. The
# intervals of an audit then hold whatever the true groups are, if the probabilities are
# calibrated. These are vague, so the intervals are wide; but they do contain the rates
# by true race, which are printed first.

seen = [k for k, name in enumerate(names) if name.startswith(("native", "relation"))]
tool = logistic.fit(X[train][:, seen], truth["race"][train] == "Black")
black = tool.predict_proba(X[test][:, seen])[:, 1]
decisions = ways["half missing, imputed"].predict(X[test])
known = truth[test].select("race")
estimated = eh.Proxy(race={"White": 1 - black, "Black": black})
for race in (known, estimated):
    for group in eh.audit(None, decisions, race).groups[1:]:
        rate = group.rates["selection rate"]
        print(f"{group.group}  {rate.value:.3f} [{rate.low:.3f}, {rate.high:.3f}]")
