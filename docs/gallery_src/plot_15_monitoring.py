"""
Watch decisions that drift
==========================

A bank approves loans within its tolerance. After thirty days a new policy hits one
group. A monitor counts each day, and its alarm is valid whenever somebody looks: if the
requirement holds, the probability that it is ever raised is at most 5 %.
"""

import textwrap

import numpy as np

import evenhand as eh

rng = np.random.default_rng(0)


def day(number, rows=500):
    """Decisions of one day; from day 31 on, fewer people of group B are approved."""
    group = rng.choice(["A", "B", "C"], rows, p=[0.5, 0.3, 0.2])
    rate = np.select(
        [group == "A", group == "B"], [0.36, 0.34 if number <= 30 else 0.22], 0.35
    )
    return (rng.random(rows) < rate).astype(int), {"group": group}


# %%
# Every day by itself
# -------------------
#
# The difference that a single day shows is mostly chance. Here the policy has not
# changed yet, and every group is within the tolerance.

false = 0
for number in range(1, 31):
    approved, groups = day(number)
    p = [approved[groups["group"] == one].mean() for one in "ABC"]
    false += max(abs(rate - approved.mean()) for rate in p) > 0.05
print(f"The difference of the day is above 0.05 on {false} of 30 days.")

# %%
# The monitor
# -----------
#
# It keeps counts and no rows. One call for each batch.

monitor = eh.Monitor(eh.DemographicParity(difference=0.05))
for number in range(1, 61):
    approved, groups = day(number)
    monitor.update(approved, groups, batch=f"day {number}")
print(textwrap.fill(str(monitor.alarm), 88))

# %%
# All groups, over all days: intervals that hold at all times.

monitor

# %%
# The chart shows the rates of each period, and the evidence on which the alarm rests.

monitor.plot()
