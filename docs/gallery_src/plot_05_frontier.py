"""
What fairness costs, and which group sets the price
===================================================

``frontier`` computes accuracy against disparity over all tolerances, from one set of
fitted models. The shadow prices say what a little more tolerance would buy, and for
which group it would be spent.
"""

from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenhand as eh

adult = eh.datasets.load_adult()
X, _ = adult.one_hot()
y, groups = adult.label, adult.sensitive
train, test = slice(0, 8000), slice(8000, None)

model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
parity = eh.DemographicParity(
    difference=0.1
)  # the frontier goes through all tolerances
curve = eh.frontier(
    {
        "blind": eh.FairPostprocessor(model, parity),
        "aware": eh.FairPostprocessor(model, parity, aware=True),
    },
    X[train],
    y[train],
    sensitive_features=groups[train],
    test=(X[test], y[test], groups[test]),
)

# %%
# The trade-off
# -------------
#
# Lines are what the learned probabilities predict for the test rows, points what was
# measured there. Decisions that may use sex and race are more accurate at the same
# difference, by about a point near parity. That is what the lines say; the intervals of
# points are wider than the distance between the two.

curve.plot()

# %%
# The prices
# ----------
#
# The first points of tolerance are worth most. Up to about 0.05, White women are the
# dearest group, and from there on Black women: the smallest group, whose rate is the
# furthest from everyone's.

from evenhand.charts import prices_chart

blind = [row for row in curve.price_records() if row["curve"] == "blind"]
prices_chart(blind)

# %%
# As numbers, on test rows:

points = curve.curve("blind")
for point in points[4 :: len(points) // 6]:
    accuracy, gap = point.accuracy, point.comparison
    print(
        f"tolerance {point.tolerance:.3f}  "
        f"accuracy {accuracy.value:.3f} [{accuracy.low:.3f}, {accuracy.high:.3f}]  "
        f"difference {gap.value:.3f} [{gap.low:.3f}, {gap.high:.3f}]  "
        f"0.01 more buys {point.price:.4f}"
    )
