"""
Is this hiring fair?
====================

An audit needs only decisions and sensitive features, of any model or of people. Here
are 600 invented applications to one employer, by sex and age band, with the decision
whom to invite.
"""

import numpy as np
import polars as pl

import evenhand as eh

rng = np.random.default_rng(7)
n = 600
sex = rng.choice(["women", "men"], n)
age = rng.choice(["under 40", "40 and over"], n, p=[0.6, 0.4])
chance = 0.25 + 0.15 * (sex == "men") + 0.10 * (age == "under 40")
applications = pl.DataFrame(
    {"sex": sex, "age": age, "invited": (rng.random(n) < chance).astype(int)}
)
applications.head()

# %%
# The rates of groups
# -------------------
#
# No label is needed to compare who is invited. Every rate has an interval: with 600
# people a difference can be chance.

audit = eh.audit(
    None,
    applications["invited"],
    applications[["sex", "age"]],
    constraint=eh.DemographicParity(ratio=0.8, against="groups"),
)
audit

# %%
# The four-fifths rule
# --------------------
#
# The requirement compares the group that is invited least with the one that is invited
# most. The verdict is about the population that these people come from: "violated"
# means that the whole interval lies below 0.8.

found = audit["demographic parity"]
print(f"{found.group}, against {found.reference}:")
print(f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}], {found.verdict}")

# %%
# A chart of your own
# -------------------
#
# ``to_frame`` gives the figures as a table, for any library. Altair draws this chart.

import altair as alt

rates = audit.to_frame().filter(pl.col("quantity") == "selection rate")
base = alt.Chart(rates).encode(y=alt.Y("group:N", title=None).axis(labelLimit=250))
intervals = base.mark_rule().encode(
    x=alt.X("low:Q", title="share invited"), x2="high:Q"
)
points = base.mark_point(filled=True, size=70).encode(x="value:Q")
(intervals + points).properties(
    width=380,
    title="Invitations, with 95 % intervals",
    description="Share of applicants who are invited, by group.",
)
