"""Evidence against the inequalities of a requirement."""

import numpy as np
import pytest

import evenhand as eh
from evenhand.groups.groups import Groups
from evenhand.monitoring.comparisons import find_comparisons
from evenhand.monitoring.evidence import (
    find_blocks,
    limits,
    log_above,
    log_below,
    log_evidence,
    log_total,
    start_weights,
    weights,
)

SEX = Groups.product({"sex": ["F", "M"]})


def counted(rows, selected):
    """Sums over cells; half of each group has label 1, with the same decisions."""
    sums = np.zeros((len(rows), 3, 2))
    sums[:, 0] = np.column_stack([rows, selected])
    sums[:, 1:] = sums[:, :1] / 2
    return sums


def test_evidence_against_a_bound_is_that_of_one_rate_at_the_bound():
    comparisons = find_comparisons(eh.RateBound("selection rate", at_least=0.2, at_most=0.3), SEX)
    found = log_evidence(comparisons, find_blocks(comparisons, counted([400, 600], [100, 250])))
    n, total = np.array(1000.0), np.array(350.0)
    expected = [log_below(np.array(0.2), n, total), log_above(np.array(0.3), n, total)]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize(
    "constraint",
    [
        eh.DemographicParity(difference=0.05),
        eh.DemographicParity(ratio=0.8),
        eh.DemographicParity(ratio=0.8, against="groups"),
        eh.DemographicParity(difference=0.1, against={"sex": "M"}),
        eh.EqualizedOdds(difference=0.05),
        eh.AccuracyParity(difference=0.05, against="groups"),
    ],
    ids=repr,
)
def test_the_minimum_is_that_of_a_grid_of_rates(constraint):
    comparisons = find_comparisons(constraint, SEX)
    blocks = find_blocks(comparisons, counted([300, 500], [60, 190]))
    found = log_evidence(comparisons, blocks)
    p = np.linspace(0, 1, 401)
    for j, one in enumerate(comparisons):
        own, others, bound = one.inequality(np.array(one.tolerance), blocks.share[j])
        group, other = (log_below, log_above) if one.low else (log_above, log_below)
        value = group(p, blocks.n[j], blocks.total[j])[:, None]
        value = value + other(p, blocks.n_others[j], blocks.total_others[j])
        sign = -1 if one.low else 1
        holds = sign * (own * p[:, None] - others * p) <= bound + 1e-12
        assert found[j] <= value[holds].min() + 1e-9
        assert found[j] >= value[holds].min() - 0.5  # the grid is coarse


def test_limits_contain_the_estimate_and_narrow_with_rows():
    comparisons = find_comparisons(eh.DemographicParity(difference=0.05), SEX)
    widths = []
    for times in (1, 10, 100):
        sums = counted(np.array([300, 500]) * times, np.array([60, 190]) * times)
        low, high = limits(comparisons, find_blocks(comparisons, sums), 0.05)
        value = 0.3125 - 0.2  # everyone minus women
        assert low[0] < value < high[0]
        widths.append(high[0] - low[0])
    assert widths[0] > widths[1] > widths[2]


def test_without_rows_there_is_no_evidence():
    comparisons = find_comparisons(eh.EqualizedOdds(ratio=0.8), SEX)
    assert not log_evidence(comparisons, find_blocks(comparisons, np.zeros((2, 3, 2)))).any()


def test_groups_that_come_later_are_compared_from_then_on():
    groups = Groups.product({"race": ["A", "B", "C"]})
    comparisons = find_comparisons(eh.DemographicParity(difference=0.05), groups)
    found = weights(comparisons, np.array([0, 0, 1]), np.arange(3))
    np.testing.assert_allclose(found[0], [0.2, 0.2, 0.2, 0.2, 0, 0])
    np.testing.assert_allclose(found[1], np.full(6, 0.1 / 6))
    np.testing.assert_allclose(found[2], np.full(6, 0.2 / 6 / 6))
    assert start_weights(np.arange(1000)).sum() < 1


def test_labels_and_decisions_have_evidence_of_their_own():
    """The alarm is that of either, at half of alpha, because labels may arrive later."""
    comparisons = find_comparisons(
        eh.DemographicParity(difference=0.05) & eh.EqualOpportunity(difference=0.05), SEX
    )
    starts = np.array([0])
    shares = weights(comparisons, np.array([0, 0]), starts)
    np.testing.assert_allclose(shares, np.full((1, 8), 0.2))
    evidence = np.log([[1e3, 1, 1, 1, 1, 1, 1, 1]])
    found = log_total(comparisons, evidence, shares, starts)
    assert found == pytest.approx(np.log((0.2 * 1003 + 0.2) / 2))
