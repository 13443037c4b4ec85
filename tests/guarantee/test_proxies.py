"""Bounds of rates of groups that are known by probabilities, against linear programs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from evenhand.guarantee.proxies import proxy_rate


def extremes(hit, miss, p, bins):
    """Lowest and highest rate over all assignments, by bisection on the rate with a linear program each.

    In each bin, the people who are hits, misses and neither can be in the group in any shares that sum to the
    group's share of the bin. The rate can be at least r if hits - r (hits + misses) can be at least 0.
    """
    parts = []
    for k in np.unique(bins):
        own = bins == k
        parts.append((own.mean(), hit[own].mean(), miss[own].mean(), p[own].mean()))

    def largest(r, sign):
        total = 0.0
        for mass, a, c, b in parts:
            gain = sign * np.array([1 - r, -r, 0.0])
            found = linprog(
                -gain, A_eq=[[1, 1, 1]], b_eq=[b], bounds=[(0, a), (0, c), (0, max(0.0, 1 - a - c))]
            )
            total -= mass * found.fun
        return total

    ends = []
    for sign in (-1, 1):
        low, high = 0.0, 1.0
        for _ in range(22):
            r = (low + high) / 2
            possible = largest(r, sign) >= 0
            if (sign == 1) == possible:
                low = r
            else:
                high = r
        ends.append((low + high) / 2)
    return ends


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("among", ["all", "positives"])
def test_bounds_are_those_of_the_best_and_the_worst_assignment(seed, among):
    """A few distinct probabilities with the same shares in both halves of their rows."""
    rng = np.random.default_rng(seed)
    hit, miss, p = [], [], []
    for b in rng.uniform(0.05, 0.95, 4):
        share = rng.dirichlet([1, 1, 1])
        hit.append(np.full(2_000, share[0]))  # randomised decisions: every row has the shares of its bin
        miss.append(np.full(2_000, 1 - share[0] if among == "all" else share[1]))
        p.append(np.full(2_000, b))
    hit, miss, p = map(np.concatenate, (hit, miss, p))
    found = proxy_rate(hit, miss, p, np.ones(len(p)))
    low, high = extremes(hit, miss, p, np.repeat(np.arange(4), 2_000))
    assert found.low == pytest.approx(low, abs=1e-6)
    assert found.high == pytest.approx(high, abs=1e-6)
    assert found.value == pytest.approx((p @ hit) / (p @ (hit + miss)))
    assert found.low <= found.value <= found.high


def test_certain_rows_have_their_rate_and_no_width():
    rng = np.random.default_rng(0)
    p = (rng.random(5_000) < 0.3).astype(float)
    hit = (rng.random(5_000) < 0.4).astype(float)
    found = proxy_rate(hit, 1 - hit, p, np.ones(5_000))
    rate = hit[p == 1].mean()
    assert [found.value, found.low, found.high] == pytest.approx([rate] * 3)
    assert found.high_size == pytest.approx(p.sum())


def test_weights_count_as_so_many_rows():
    rng = np.random.default_rng(1)
    p, hit = rng.choice([0.2, 0.7], 3_000), (rng.random(3_000) < 0.5).astype(float)
    times = rng.integers(1, 4, 3_000)
    whole = np.repeat(np.arange(3_000), times)
    found = proxy_rate(hit, 1 - hit, p, times.astype(float))
    again = proxy_rate(hit[whole], 1 - hit[whole], p[whole], np.ones(len(whole)))
    assert found.value == pytest.approx(again.value)
    assert [found.low, found.high] == pytest.approx([again.low, again.high], abs=0.02)


def test_a_group_without_hits_and_misses_is_undefined():
    found = proxy_rate(np.zeros(10), np.zeros(10), np.full(10, 0.5), np.ones(10))
    assert np.isnan(found.value)
    nobody = proxy_rate(np.ones(10), np.zeros(10), np.zeros(10), np.ones(10))
    assert np.isnan(nobody.value)


@given(
    st.lists(
        st.tuples(st.floats(0, 1), st.sampled_from([(1.0, 0.0), (0.0, 1.0), (0.0, 0.0), (0.3, 0.7)])),
        min_size=1,
        max_size=60,
    )
)
def test_the_estimate_is_within_the_bounds_and_misses_mirror_hits(rows):
    p = np.array([one for one, _ in rows])
    hit, miss = np.array([pair for _, pair in rows]).T
    found, mirrored = (proxy_rate(*pair, p, np.ones(len(p))) for pair in ((hit, miss), (miss, hit)))
    if np.isnan(found.value):
        assert np.isnan(mirrored.value)
        return
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.value == pytest.approx(1 - mirrored.value)
    assert found.low == pytest.approx(1 - mirrored.high)
    assert found.high == pytest.approx(1 - mirrored.low)
