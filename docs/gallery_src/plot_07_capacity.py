"""
A capacity, and no group worse off
==================================

A support programme for people at risk of being charged again has places for a quarter
of them. Giving groups similar chances takes places from one of them. We ask how many
places it takes so that no group loses any: a capacity, parity and ``NoWorse`` together.
"""

import polars as pl
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenhand as eh

compas = eh.datasets.load_compas()
X, _ = compas.one_hot()
y, groups = compas.label, compas.sensitive
train, test = slice(0, 3000), slice(3000, None)


def fitted(constraint):
    model = make_pipeline(StandardScaler(), LogisticRegression())
    fair = eh.FairPostprocessor(model, constraint, aware=True)
    return fair.fit(X[train], y[train], sensitive_features=groups[train])


# %%
# Today and with parity
# ---------------------
#
# Today the programme takes those with the highest risk. With parity, the share of each
# group with a place is within 5 points of everyone's.

today = fitted(eh.RateBound("selection rate", at_most=0.25))
similar = eh.DemographicParity(difference=0.05)
parity = fitted(eh.RateBound("selection rate", at_most=0.25) & similar)

# %%
# Can that be had without losses?
# -------------------------------
#
# ``NoWorse`` compares with the rates of today. With a quarter of places the answer is
# no, and the error says what would have to give way. Each number is enough alone.

keep = eh.NoWorse("selection rate", than=today.rates_)
try:
    fitted(eh.RateBound("selection rate", at_most=0.25) & similar & keep)
except eh.exceptions.InfeasibleError as error:
    nearest = error.nearest
for name, value in nearest.items():
    print(f"{name:32} {value:.3f}")

# %%
# So places for a third are enough.

places = nearest["selection_rate__at_most"]
more = fitted(eh.RateBound("selection rate", at_most=places) & similar & keep)

# %%
# Who gets a place
# ----------------
#
# On test rows, Black men keep their rate of today, and every other group gains. With a
# quarter of places, parity would take a fifth of theirs.

import altair as alt

plans = {"today": today, "parity": parity, "parity, more places": more}
tables = []
for name, plan in plans.items():
    decisions = plan.predict(X[test], sensitive_features=groups[test])
    audit = eh.audit(y[test], decisions, groups[test])
    tables.append(audit.to_frame().with_columns(plan=pl.lit(name)))
rates = pl.concat(tables).filter(pl.col("quantity") == "selection rate")
shown = rates.filter(pl.col("group").str.contains("(,|everyone)"))

base = alt.Chart(shown).encode(
    y=alt.Y("group:N", title=None, sort=None),
    yOffset=alt.YOffset("plan:N", sort=list(plans)),
    color=alt.Color("plan:N", sort=list(plans), title=None),
)
x = alt.X("low:Q", title="share with a place, with 95 % intervals").axis(tickCount=5)
(
    base.mark_rule(strokeWidth=2).encode(x=x, x2="high:Q")
    + base.mark_point(filled=True, size=60, opacity=1).encode(x="value:Q")
).properties(
    width=440,
    height=alt.Step(14),
    title="Parity with a quarter and with a third of places",
    description="Shares of each group with a place, under three plans.",
)
