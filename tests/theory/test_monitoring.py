"""False alarms of evidence that is looked at again and again."""

import numpy as np
import pytest

import evenhand as eh
from evenhand.groups.groups import Groups
from evenhand.monitoring.comparisons import find_comparisons
from evenhand.monitoring.counts import Batch, History
from evenhand.monitoring.evidence import find_blocks, limits, log_evidence, log_total, weights
from evenhand.monitoring.findings import find_drift

ALPHA = 0.05
STREAMS, LOOKS = 80, 30
RARE = ALPHA + 3 * np.sqrt(ALPHA * (1 - ALPHA) / STREAMS)


def batch_of(groups, sums):
    return Batch(groups.features, 0, groups.keys, sums, int(sums[:, 0, 0].sum()))


def false_alarms(constraint, shares, chances, rng):
    """Share of streams with an alarm at any look, with the starts of evidence that a monitor makes.

    `shares` has shape (looks, M). `chances` holds for each group the probability of label 1, and of selection
    given label 0 and label 1.
    """
    groups = Groups.product({"group": [f"{m:02}" for m in range(len(chances))]})
    comparisons = find_comparisons(constraint, groups)
    known = np.zeros(len(chances), np.intp)
    positive, given_0, given_1 = np.transpose(chances)
    history, ever = History(), np.zeros(STREAMS, np.bool_)
    ends = [np.zeros((STREAMS, len(chances), 3, 2))]
    for look, size in enumerate(rng.choice([1, 20, 400], LOOKS)):
        rows = rng.multinomial(size, shares[look], STREAMS)
        ones = rng.binomial(rows, positive)
        sums = np.zeros((STREAMS, len(chances), 3, 2))
        sums[:, :, 1] = np.stack([rows - ones, rng.binomial(rows - ones, given_0)], axis=-1)
        sums[:, :, 2] = np.stack([ones, rng.binomial(ones, given_1)], axis=-1)
        sums[:, :, 0] = sums[:, :, 1:].sum(axis=2)
        ends.append(ends[-1] + sums)
        history = history.added(batch_of(groups, sums[0]), "")
        starts = np.array([one.start for one in history.starts])
        since = np.stack([ends[-1] - ends[one.batch] for one in history.starts], axis=1)
        evidence = log_evidence(comparisons, find_blocks(comparisons, since))
        found = log_total(comparisons, evidence, weights(comparisons, known, starts), starts)
        ever |= found >= -np.log(ALPHA)
    return ever.mean()


def alike(*rates):
    """Groups whose decisions do not depend on the label."""
    return [(0.5, rate, rate) for rate in rates]


@pytest.mark.parametrize(
    ("constraint", "shares", "chances"),
    [
        (eh.DemographicParity(difference=0.05), [0.5, 0.5], alike(0.2, 0.3)),
        (eh.RateBound("precision", at_least=0.5), [0.3, 0.7], alike(0.2, 0.4)),
        pytest.param(
            eh.DemographicParity(difference=0.1, against={"group": "01"}),
            [0.02, 0.98],
            alike(0.2, 0.3),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            eh.DemographicParity(ratio=0.8, against="groups"),
            [0.3, 0.7],
            alike(0.24, 0.3),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            eh.EqualizedOdds(difference=0.1, against="groups"),
            [0.3, 0.3, 0.4],
            [(0.3, 0.1, 0.6), (0.4, 0.2, 0.7), (0.5, 0.2, 0.6)],
            marks=pytest.mark.slow,
        ),
        pytest.param(
            eh.DemographicParity(difference=0.05) & eh.AccuracyParity(difference=0.05),
            [0.5, 0.5],
            [(0.5, 0.1, 0.3), (0.5, 0.3, 0.3)],
            marks=pytest.mark.slow,
        ),
    ],
    ids=repr,
)
def test_at_the_border_of_the_tolerance_alarms_are_rare(constraint, shares, chances):
    """At most alpha at any look, after batches of 1, 20 and 400 rows."""
    found = false_alarms(constraint, np.tile(shares, (LOOKS, 1)), chances, np.random.default_rng(7))
    assert found <= RARE


@pytest.mark.slow
def test_changing_shares_raise_no_alarm():
    """Rates at the border between groups stay there whatever the mix of people."""
    first = np.linspace(0.1, 0.9, LOOKS)
    shares = np.column_stack([first, 1 - first])
    constraint = eh.DemographicParity(difference=0.1, against="groups")
    assert false_alarms(constraint, shares, alike(0.2, 0.3), np.random.default_rng(8)) <= RARE


def test_limits_hold_at_all_looks_together():
    groups = Groups.product({"group": ["a", "b"]})
    comparisons = find_comparisons(eh.DemographicParity(difference=0.05), groups)
    rng, rates, sizes = np.random.default_rng(9), np.array([0.2, 0.5]), [10, 100, 1000, 3000]
    rows = np.stack([rng.multinomial(size, [0.4, 0.6], STREAMS) for size in sizes], axis=1)
    sums = np.zeros((STREAMS, len(sizes), 2, 3, 2))
    sums[..., 0, :] = np.stack([rows, rng.binomial(rows, rates)], axis=-1)
    blocks = find_blocks(comparisons, sums.cumsum(axis=1))
    low, high = limits(comparisons, blocks, ALPHA / len(comparisons))
    # q - q_g or q_g - q, for the mix of people that was seen
    sign = np.array([1 if (one.group.values == ("a",)) == one.low else -1 for one in comparisons])
    truth = sign * 0.3 * (1 - blocks.share)
    wrong = ((low > truth) | (high < truth)).any(axis=(1, 2))
    assert wrong.mean() <= RARE
    assert ((high - low)[:, -1] < 0.25).all()


@pytest.mark.slow
def test_the_people_of_the_fit_raise_no_drift():
    """The shares of the fit are estimated too, from as many rows."""
    rng, cells = np.random.default_rng(10), (("a",), ("b",))
    groups = Groups.product({"group": ["a", "b"]})
    told = 0
    for _ in range(STREAMS):
        reference = dict(zip(cells, rng.multinomial(500, [0.3, 0.7]).astype(float), strict=True))
        history, ever = History(), False
        for size in (10, 100, 300, 300, 300, 300):
            sums = np.zeros((2, 3, 2))
            sums[:, 0, 0] = rng.multinomial(size, [0.3, 0.7])
            history = history.added(batch_of(groups, sums), "")
            ever |= find_drift(reference, history)[0] >= -np.log(ALPHA)
        told += ever
    assert told / STREAMS <= RARE
