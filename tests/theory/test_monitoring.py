"""False alarms of evidence that is looked at again and again."""

import numpy as np
import pytest

import evenhand as eh
from evenhand.groups.groups import Groups
from evenhand.monitoring.comparisons import find_comparisons
from evenhand.monitoring.evidence import find_blocks, log_evidence, weights

ALPHA = 0.05
STREAMS, LOOKS = 200, 60


def false_alarms(constraint, shares, rates, rng):
    """Share of streams with an alarm at any look; `shares` has shape (looks, M)."""
    groups = Groups.product({"group": [f"{m:02}" for m in range(len(rates))]})
    comparisons = find_comparisons(constraint, groups)
    each = weights(comparisons, np.zeros(len(rates), np.intp))
    sizes = rng.choice([1, 20, 400], LOOKS)
    sums = np.zeros((STREAMS, LOOKS, len(rates), 3, 2))
    for look in range(LOOKS):
        rows = rng.multinomial(sizes[look], shares[look], STREAMS)
        sums[:, look, :, 0, 0] = rows
        sums[:, look, :, 0, 1] = rng.binomial(rows, rates)
    evidence = np.exp(log_evidence(comparisons, find_blocks(comparisons, sums.cumsum(axis=1))))
    total = evidence @ each + 1 - each.sum()
    return (total >= 1 / ALPHA).any(axis=1).mean()


@pytest.mark.parametrize(
    ("constraint", "shares", "rates"),
    [
        (eh.DemographicParity(difference=0.05), [0.5, 0.5], [0.2, 0.3]),
        (eh.DemographicParity(ratio=0.8, against="groups"), [0.3, 0.7], [0.24, 0.3]),
        (eh.DemographicParity(difference=0.1, against={"group": "01"}), [0.02, 0.98], [0.2, 0.3]),
        (eh.RateBound("selection rate", at_most=0.1), [0.5, 0.5], [0.1, 0.1]),
    ],
    ids=repr,
)
def test_at_the_border_of_the_tolerance_alarms_are_rare(constraint, shares, rates):
    """At most alpha at any of 60 looks, after batches of 1, 20 and 400 rows."""
    found = false_alarms(constraint, np.tile(shares, (LOOKS, 1)), rates, np.random.default_rng(7))
    assert found <= ALPHA + 3 * np.sqrt(ALPHA * (1 - ALPHA) / STREAMS)


def test_changing_shares_raise_no_alarm():
    """Rates at the border between groups stay there whatever the mix of people."""
    first = np.linspace(0.1, 0.9, LOOKS)
    shares = np.column_stack([first, 1 - first])
    constraint = eh.DemographicParity(difference=0.1, against="groups")
    found = false_alarms(constraint, shares, [0.2, 0.3], np.random.default_rng(8))
    assert found <= ALPHA + 3 * np.sqrt(ALPHA * (1 - ALPHA) / STREAMS)
