"""
A table that is never held in memory
====================================

A lazy table is read in batches: models learn from ``max_samples`` of its rows, and the
rule is found on all of them and proven for what was learned. The posteriors of this
problem are known, so that we see how many rows are enough to learn from.
"""

import tempfile
from pathlib import Path

import polars as pl
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

import evenhand as eh

problem = eh.datasets.GaussianProblem.random(levels=(2, 2), seed=3)
data = problem.sample(40_000, seed=0)
file = Path(tempfile.mkdtemp()) / "people.parquet"
table = pl.DataFrame({"x": data.X[:, 0], "label": data.y, **data.sensitive})
table.write_parquet(file)
people = pl.scan_parquet(file)

# %%
# Learn from some, solve on all
# -----------------------------
#
# The rows to learn from are drawn so that small groups are kept, and weighted
# accordingly. Every fit is proven on all 40,000 rows, given what was learned.

parity = eh.DemographicParity(difference=0.05)
model = make_pipeline(SplineTransformer(), LogisticRegression())
names = list(data.sensitive)
new = problem.sample(100_000, seed=1)


def on_new_rows(decisions):
    """Error and difference of decisions for the new rows."""
    rates = eh.cell_rates(new.y, decisions, new.sensitive)
    [measured] = parity.measure(rates)
    return {"error": 2 * rates.risk(), "difference": measured.difference}


found = []
for rows in (250, 1000, 4000):
    for seed in range(4):
        settings = {"posteriors": eh.CrossFit(max_samples=rows), "random_state": seed}
        fair = eh.FairPostprocessor(model, parity, sensitive_features=names, **settings)
        fair.fit(people, "label")
        decisions = fair.predict(pl.DataFrame({"x": new.X[:, 0]}))
        found.append({"rows": f"{rows:,}", **on_new_rows(decisions)})

# %%
# Decisions come batch by batch, in the order of the rows. There is one batch here.

for batch in fair.predict(people):
    print(f"{len(batch):,} rows, of which {batch.mean():.1%} are selected")

# %%
# Against the optimum
# -------------------
#
# The line is the smallest possible error at each difference, by the true posteriors.
# Learned from 250 rows, all four rules are further from parity than was asked. With
# 4,000 rows all are at the line, within 0.01 of the tolerance of 0.05.

import altair as alt

known = problem.posteriors(new.X)
line = []
for percent in range(2, 11):
    tolerance = eh.DemographicParity(difference=percent / 100)
    best = eh.solve(known, tolerance, groups=problem.groups)
    line.append(on_new_rows(best.selection))
x = alt.X("difference:Q").scale(zero=False, nice=False).axis(tickCount=5)
y = alt.Y("error:Q").scale(zero=False).axis(tickCount=5)
(
    alt.Chart(alt.InlineData(line)).mark_line(color="#555555").encode(x=x, y=y)
    + alt.Chart(alt.InlineData(found))
    .mark_point(size=90, strokeWidth=2, opacity=1)
    .encode(
        x=x,
        y=y,
        color=alt.Color("rows:N", title="rows learned from", sort=None),
        shape=alt.Shape("rows:N", sort=None),
    )
).properties(
    width=480,
    height=280,
    title="Twelve fits, and the optimum",
    description="Error and difference by the number of rows that models learn from.",
)
