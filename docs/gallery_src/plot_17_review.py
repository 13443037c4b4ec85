"""
Review is a decision too
========================

Loans are approved, declined, or referred to a person. Reviewers have time for a tenth
of the cases, and their time should go to all groups alike. We find the best decisions
under both conditions, and what one more reviewer would be worth.
"""

import altair as alt
import numpy as np
import polars as pl
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenhand as eh

adult = eh.datasets.load_adult()
X, _ = adult.one_hot()
groups, codes = eh.Groups.fit(adult.sensitive.select("sex"))
label = (np.asarray(adult.label) == ">50K").astype(int)
train, test = slice(0, 10000), slice(10000, None)

# %%
# The probabilities of group and label
# ------------------------------------
#
# ``solve`` needs P(group, label | x) of rows that the model has not seen. Here one
# classifier learns all pairs of group and label, out of fold, and then again for new
# people. The features do not include sex.

pairs = 2 * codes + label
model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
learned = cross_val_predict(
    model, X[train], pairs[train], cv=3, method="predict_proba"
).reshape(-1, len(groups), 2)
model.fit(X[train], pairs[train])
new = model.predict_proba(X[test]).reshape(-1, len(groups), 2)

# %%
# What decisions cost
# -------------------
#
# A loan that is not paid back costs twice as much as one that is wrongly declined. A
# review costs a fifth of that, whatever comes out of it.

costs = eh.Costs(
    {
        "approve": {"low": 2, "high": 0},
        "review": {"low": 0.2, "high": 0.2},
        "decline": {"low": 0, "high": 1},
    }
)
capacity = eh.RateBound("review", at_most=0.1)
plans = {
    "capacity alone": capacity,
    "equal reviews": capacity & eh.DemographicParity(difference=0.01, action="review"),
    "all actions equal": capacity & eh.DemographicParity(difference=0.03),
}
solutions = {
    name: eh.solve(learned, constraint, cost=costs, groups=groups)
    for name, constraint in plans.items()
}
for name, solution in solutions.items():
    print(f"{name:18} cost {solution.certificate.objective:.4f}")

# %%
# No decisions of any kind do better with these probabilities. That is what the
# certificate says:

solutions["equal reviews"].certificate

# %%
# New people
# ----------
#
# The rule takes probabilities of new people, and gives that of each action. With the
# capacity alone, men are reviewed more than three times as often as women.

rows = []
for name, solution in solutions.items():
    chosen = solution.rule.selection(new)
    for m, group in enumerate(groups.cell_names):
        shares = chosen[codes[test] == m].mean(axis=0)
        rows += [
            {"plan": name, "group": str(group), "action": action, "share": float(share)}
            for action, share in zip(solution.rule.actions, shares, strict=True)
        ]
table = pl.DataFrame(rows)
alt.Chart(table).mark_bar().encode(
    x=alt.X("share:Q", title="share of the group").axis(format="%"),
    y=alt.Y("group:N", title=None),
    color=alt.Color("action:N", sort=list(costs.table), title=None),
    order=alt.Order("rank:Q"),
    row=alt.Row("plan:N", sort=list(plans), title=None),
).transform_calculate(
    rank="indexof(['approve', 'review', 'decline'], datum.action)"
).properties(
    width=360,
    height=60,
    title="What each group gets",
    description="Shares of approvals, reviews and refusals of each group, by plan.",
)

# %%
# One more reviewer
# -----------------
#
# The shadow price of the capacity is what one more review would save. It is high while
# reviews are few, and 0 once everyone is reviewed for whom that pays.

parity = eh.DemographicParity(difference=0.03)
shares = [0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4]
prices, solution = [], None
for share in shares:
    solution = eh.solve(
        learned,
        parity & eh.RateBound("review", at_most=share),
        cost=costs,
        groups=groups,
        start=solution,
    )
    price = {str(name): value for name, value in solution.shadow_prices.items()}
    decided = 1 - solution.rates.selected[:, :, 1].sum()
    right = (
        solution.rates.selected[:, 1, 0].sum() + solution.rates.selected[:, 0, 2].sum()
    )
    saved = 0.0 - price["rate of review: everybody"]
    prices.append(
        {"reviewed": share, "saved by one more": saved, "accuracy": right / decided}
    )
    print(f"reviewed {share:.2f}: one more saves {saved:.3f}")

# %%
# Accuracy among those whom nobody reviews grows with the share that is reviewed, and
# all of it under parity:

alt.Chart(pl.DataFrame(prices)).mark_line(point=True).encode(
    x=alt.X("reviewed:Q", title="share that is reviewed").axis(format="%"),
    y=alt.Y("accuracy:Q", title="accuracy of the other decisions").scale(zero=False),
).properties(
    width=400,
    height=220,
    title="What reviews buy, under parity of every action",
    description="Accuracy of decisions without review by the share that is reviewed.",
)
