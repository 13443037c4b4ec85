"""
A bias audit of hiring decisions
================================

An audit needs decisions and sensitive features, of any model or of people. Here are
8,000 invented applications: we compute the impact ratios that New York City's Local
Law 144 asks for, and see of which groups the four-fifths rule can be judged at all.
"""

import numpy as np
import polars as pl

import evenhand as eh

rng = np.random.default_rng(7)
n = 8000
sex = rng.choice(["women", "men"], n, p=[0.45, 0.55])
race = rng.choice(
    ["Asian", "Black", "Hispanic", "White"], n, p=[0.12, 0.10, 0.18, 0.60]
)
chance = 0.30 * np.where(sex == "women", 0.8, 1) * np.where(race == "Black", 0.65, 1)
file = pl.DataFrame(
    {"sex": sex, "race": race, "invited": (rng.random(n) < chance).astype(int)}
)
file.head(3)

# %%
# Impact ratios
# -------------
#
# No label is needed to compare who is invited. The impact ratio is the selection rate
# of a category divided by the highest one.

audit = eh.audit(None, file["invited"], file[["sex", "race"]])
ratios = audit.impact_ratios(date="2026", source="invented")
ratios

# %%
# The four-fifths rule, with uncertainty
# --------------------------------------
#
# A ratio below 0.8 is a sign of adverse impact, but that of a small group can be below
# 0.8 by chance. The intervals hold for all categories of a table at once. Those of
# women and of Black applicants reach from below 0.8 to above it, which settles nothing.
# Of the combinations, Black women are below 0.8, interval and all.

from evenhand.charts import rates_chart

rates_chart(
    (
        {
            "group": ", ".join(one.group.values),
            "quantity": "impact ratio",
            "value": one.ratio,
            "low": one.ratio_low,
            "high": one.ratio_high,
        }
        for one in ratios.categories
        if len(one.group.features) == 2
    ),
    limits=[{"quantity": "impact ratio", "value": 0.8}],
    confidence=0.95,
    title="Impact ratios of sex and race",
)

# %%
# These data are invented, so the true ratios are known: 0.52 for Black women, 0.65 for
# Black men, 0.8 for all other women. That Black men are below 0.8 cannot be told from
# 453 of them. The verdict of an audit is about the lowest group:

wanted = eh.DemographicParity(ratio=0.8, against="groups")
found = eh.audit(None, file["invited"], file[["sex", "race"]], constraint=wanted)
one = found["demographic parity"]
print(f"{one.group}: {one.value:.2f} [{one.low:.2f}, {one.high:.2f}], {one.verdict}")
