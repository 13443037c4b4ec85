import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binomtest, norm

from evenhand.guarantee.intervals import (
    Estimate,
    clopper_pearson,
    critical_value,
    difference,
    gap,
    paired_difference,
    quotient,
    wilson,
)

Z = critical_value(0.95)


def limits(found):
    return float(found.low), float(found.high)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize(("hits", "n"), [(0, 1), (1, 1), (0, 30), (30, 30), (3, 10), (499, 1000), (1, 10**6)])
def test_wilson_agrees_with_scipy(hits, n, confidence):
    expected = binomtest(hits, n).proportion_ci(confidence, method="wilson")
    found = wilson(hits / n, n, critical_value(confidence))
    assert limits(found) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert found.low <= hits / n <= found.high


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99999])
@pytest.mark.parametrize(("hits", "n"), [(0, 1), (1, 1), (0, 30), (30, 30), (3, 10), (499, 1000), (1, 10**6)])
def test_exact_limits_agree_with_scipy(hits, n, confidence):
    expected = binomtest(hits, n).proportion_ci(confidence, method="exact")
    found = clopper_pearson(hits / n, n, critical_value(confidence))
    assert limits(found) == pytest.approx((expected.low, expected.high), rel=1e-6)


@pytest.mark.parametrize("interval", [wilson, clopper_pearson])
def test_a_share_of_no_rows_is_nan(interval):
    found = interval([np.nan, 0.5], [0, 10], Z)
    assert np.isnan([found.value[0], found.low[0], found.high[0]]).all()
    assert not np.isnan(found.low[1])


def test_the_critical_value_is_two_sided_and_shared_among_comparisons():
    assert critical_value(0.9) == pytest.approx(norm.ppf(0.95))
    assert critical_value(0.95, comparisons=10) == pytest.approx(norm.ppf(1 - 0.0025))
    assert critical_value(0.95, comparisons=0) == critical_value(0.95)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # Newcombe, Statistics in Medicine 17 (1998), 873-890, table II, method 10
        ((56, 70), (48, 80), (0.0524, 0.3339)),
        ((9, 10), (3, 10), (0.1705, 0.8090)),
        ((6, 7), (2, 7), (0.0582, 0.8062)),
        ((5, 56), (0, 29), (-0.0381, 0.1926)),
        ((0, 10), (0, 20), (-0.1611, 0.2775)),
        ((10, 10), (0, 10), (0.6075, 1.0)),
    ],
)
def test_differences_are_newcombes(first, second, expected):
    shares = [wilson(hits / n, n, Z) for hits, n in (first, second)]
    assert limits(difference(*shares)) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        # Newcombe, Statistics in Medicine 17 (1998), 2635-2650, table III, method 10
        ((36, 12, 2, 0), (0.0569, 0.3404)),
        ((20, 12, 2, 16), (0.0562, 0.3292)),
        ((18, 12, 2, 18), (0.0562, 0.3290)),
        ((36, 14, 0, 0), (0.1528, 0.4167)),
        ((35, 14, 0, 1), (0.1461, 0.4175)),
        ((2, 97, 1, 0), (0.8721, 0.9854)),
        ((0, 29, 1, 0), (0.6666, 0.9882)),
        ((0, 30, 0, 0), (0.8395, 1.0)),
        ((54, 0, 0, 0), (-0.0664, 0.0664)),
        ((30, 0, 0, 24), (-0.0358, 0.0358)),
    ],
)
def test_paired_differences_are_newcombes(cells, expected):
    both, first, second, neither = cells
    found = paired_difference(
        both, second, first, neither, size=sum(cells), z=Z
    )  # theirs is first minus second
    assert found.value == pytest.approx((first - second) / sum(cells))
    assert limits(found) == pytest.approx(expected, abs=1e-4)


def test_a_paired_difference_of_no_rows_is_nan():
    found = paired_difference(0, 0, 0, 0, size=0, z=Z)
    assert np.isnan([found.value, found.low, found.high]).all()


def some_shares(seed):
    rng = np.random.default_rng(seed)
    group, rest = (wilson(rng.random(20).round(2), rng.integers(2, 300, 20), Z) for _ in range(2))
    return group, rest, wilson(rng.random(20), rng.integers(30, 500, 20), Z)


def test_a_gap_of_a_negligible_group_is_a_difference():
    group, rest, part = some_shares(0)
    nothing = np.zeros_like(part.value)
    alone, plain = gap(group, rest, Estimate(nothing, nothing, nothing)), difference(rest, group)
    for name in ("value", "low", "high"):
        np.testing.assert_allclose(getattr(alone, name), getattr(plain, name))


def test_a_gap_is_the_statistic_of_everyone_minus_that_of_the_group():
    group, rest, part = some_shares(1)
    found = gap(group, rest, part)
    everyone = part.value * group.value + (1 - part.value) * rest.value
    np.testing.assert_allclose(found.value, everyone - group.value, atol=1e-15)
    assert (found.low <= found.value).all()
    assert (found.value <= found.high).all()


def test_the_gap_of_complements_has_the_opposite_sign():
    group, rest, part = some_shares(2)
    found, mirrored = gap(group, rest, part), gap(group.complement, rest.complement, part)
    np.testing.assert_allclose(mirrored.low, -found.high)
    np.testing.assert_allclose(mirrored.high, -found.low)


def test_the_quotient_contains_every_delta_whose_difference_may_be_zero():
    """A direct inversion, by root finding, of the interval of group - delta * everyone."""
    for k, (group, rest, part) in enumerate(zip(*map(rows, some_shares(3)), strict=True)):
        found = quotient(group, rest, part)
        q = part.value * group.value + (1 - part.value) * rest.value
        if q == 0:
            continue

        def distance(delta, sign, shares=(group, rest, part), q=q):
            own, other, share = shares
            near, far = (own.below, other.above) if sign < 0 else (own.above, other.below)
            shrinks = (own.value > other.value) == (sign < 0)
            shift = delta * (own.value - other.value) * (share.above if shrinks else share.below)
            spread = [(1 - delta * share.value) * near, delta * (1 - share.value) * far, shift]
            return own.value - delta * q + sign * np.sqrt(np.sum(np.square(spread)))

        if group.low > 0:
            assert distance(found.low, -1) == pytest.approx(0, abs=1e-9), k
        else:
            assert found.low == 0
        if np.isfinite(found.high):
            assert distance(found.high, 1) == pytest.approx(0, abs=1e-9), k
            assert brentq(distance, found.value, found.high + 1e-6, args=(1,)) == pytest.approx(found.high)


def rows(found):
    return [Estimate(*parts) for parts in zip(found.value, found.low, found.high, strict=True)]


def test_a_quotient_of_two_shares_agrees_with_the_delta_method_for_many_rows():
    p, q, n = 0.3, 0.4, 10**6
    found = quotient(wilson(p, n, Z), wilson(q, n, Z))
    spread = Z * np.sqrt((1 - p) / (p * n) + (1 - q) / (q * n))
    assert limits(found) == pytest.approx((p / q * np.exp(-spread), p / q * np.exp(spread)), rel=1e-4)


def test_a_quotient_whose_denominator_may_be_zero_has_no_upper_limit():
    found = quotient(wilson(0.5, 10, Z), wilson(0.0, 10, Z))
    assert (found.value, found.high) == (1.0, np.inf)
    nobody = quotient(wilson(0.0, 10, Z), wilson(0.0, 10, Z), wilson(0.5, 20, Z))
    assert (nobody.value, nobody.low, nobody.high) == (1.0, 0.0, np.inf)


def test_quotients_of_nan_are_nan():
    found = quotient(wilson(np.nan, 0, Z), wilson(0.5, 10, Z))
    assert np.isnan([found.value, found.low, found.high]).all()


def test_estimates_can_be_shifted_and_scaled():
    found = wilson(0.25, 40, Z).moved(-1.0, 2.0)
    assert found.value == -0.5
    assert found.low == pytest.approx(-1 + 2 * wilson(0.25, 40, Z).low)
