"""
A table that is never held in memory
====================================

A lazy table is read in batches: models learn from ``learn_rows`` of its rows, and the
rule is found and proven on all of them. This problem has a known optimum, so that we
see how many rows are enough to learn from.
"""

import tempfile
from pathlib import Path

import polars as pl
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

import evenhand as eh

problem = eh.datasets.GaussianProblem.random(levels=(2, 2), seed=3)
data = problem.sample(200_000, seed=0)
file = Path(tempfile.mkdtemp()) / "people.parquet"
table = pl.DataFrame({"x": data.X[:, 0], "label": data.y, **data.sensitive})
table.write_parquet(file)
people = pl.scan_parquet(file)

# %%
# Learn from some, solve on all
# -----------------------------
#
# The rows to learn from are drawn so that small groups are kept, and weighted
# accordingly. Every fit is proven on all 200,000 rows, given what was learned.

parity = eh.DemographicParity(difference=0.05)
model = make_pipeline(SplineTransformer(), LogisticRegression())


def population(fair):
    """Exact rates in the population, by the formulas of the problem."""
    return problem.rates_of(lambda x, _: fair.predict(pl.DataFrame({"x": x.ravel()})))


found = []
for rows in (250, 1000, 4000, 16_000):
    fair = eh.FairPostprocessor(
        model, parity, sensitive_features=list(data.sensitive), learn_rows=rows
    ).fit(people, "label")
    rates = population(fair)
    [one] = parity.measure(rates)
    found.append({"rows": rows, "error": 2 * rates.risk(), "difference": one.difference})
pl.DataFrame(found)

# %%
# Against the optimum of the population
# -------------------------------------

import altair as alt


def panel(name, best):
    base = alt.Chart(pl.DataFrame(found), width=280, height=220).encode(
        x=alt.X("rows", title="rows learned from").scale(type="log").axis(values=ticks),
        y=alt.Y(name).scale(zero=False).axis(tickCount=5),
    )
    line = alt.Chart().mark_rule(strokeDash=[4, 3]).encode(y=alt.datum(best))
    return base.mark_line() + base.mark_point(size=60, filled=True, opacity=1) + line


ticks = [250, 1000, 4000, 16_000]
optimum = problem.optimum(parity)
(panel("error", 2 * optimum.risk) | panel("difference", 0.05)).properties(
    title="Error and difference in the population; dashed: the optimum",
    description="Error and difference by the number of rows that models learn from.",
)
