"""
Each feature by itself, or every combination?
=============================================

Rates can be alike between women and men and between young and old, and still be far
apart for young women and older women. ``groups="independent"`` compares the values of
each feature, ``groups="intersectional"``, the default, every combination.
"""

import numpy as np
import polars as pl
from sklearn.linear_model import LogisticRegression

import evenhand as eh

rng = np.random.default_rng(1)
n = 20_000
groups = pl.DataFrame(
    {"sex": rng.choice(["women", "men"], n), "age": rng.choice(["young", "old"], n)}
)
women, young = groups["sex"] == "women", groups["age"] == "young"
favoured = (women == young).to_numpy()  # young women and old men
score = rng.normal(0.7 * favoured - 0.3 * women.to_numpy(), 1.0)
label = (rng.random(n) < 1 / (1 + np.exp(0.9 - 1.5 * score))).astype(int)
X = score[:, None]
train, test = slice(0, n // 2), slice(n // 2, n)

# %%
# Three requirements
# ------------------
#
# Parity of single features costs nothing here, parity of all combinations about one
# point of accuracy.


def audited(constraint):
    fair = eh.FairPostprocessor(LogisticRegression(), constraint, aware=True)
    fair.fit(X[train], label[train], sensitive_features=groups[train])
    decisions = fair.predict(X[test], sensitive_features=groups[test])
    print(f"accuracy {(decisions == label[test]).mean():.3f}  {constraint}")
    return eh.audit(label[test], decisions, groups[test]).to_frame()


found = pl.concat(
    audited(constraint).with_columns(requirement=pl.lit(name))
    for name, constraint in {
        "none": eh.DemographicParity(difference=1),
        "single features": eh.DemographicParity(difference=0.02, groups="independent"),
        "combinations": eh.DemographicParity(difference=0.02),
    }.items()
).filter(quantity="selection rate")

# %%
# On one picture
# --------------
#
# With parity of single features, women and men have rates close to each other, and so
# have young and old. But old men are still selected more than twice as often as old
# women. Parity of the combinations implies that of the single features.

import altair as alt

order = ["none", "single features", "combinations"]
base = alt.Chart(found.filter(pl.col("group") != "everyone")).encode(
    y=alt.Y("group:N", title=None, sort=None),
    yOffset=alt.YOffset("requirement:N", sort=order),
    color=alt.Color("requirement:N", sort=order, title="parity of"),
)
x = alt.X("low:Q", title="selection rate, with 95 % intervals").axis(tickCount=6)
(
    base.mark_rule(strokeWidth=2).encode(x=x, x2="high:Q")
    + base.mark_point(filled=True, size=60, opacity=1).encode(x="value:Q")
).properties(
    width=480,
    height=alt.Step(13),
    title="Alike by sex and by age, but not by both",
    description="Selection rates of groups under three requirements.",
)
