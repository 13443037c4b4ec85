"""Digests of rows, whole and in batches."""

import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_array

from evenhand.data.fingerprint import ANOTHER_ORDER, Fingerprint, sum_of

N = 500
RNG = np.random.default_rng(0)
POSITIVE, CODES, WEIGHTS = RNG.random(N) < 0.4, RNG.integers(0, 3, N), RNG.random(N)
TABLE = pl.DataFrame(
    {
        "number": RNG.normal(size=N),
        "whole": RNG.integers(-5, 5, N),
        "large": np.where(np.arange(N) == 400, 2**60 + 1, np.arange(N)),
        "text": RNG.choice(["a", "b"], N),
        "gaps": pl.Series(RNG.choice([1, 2], N)).set(pl.Series(np.arange(N) % 9 == 0), None),
        "yes": RNG.random(N) < 0.5,
    }
)
SPARSE = csr_array(RNG.integers(0, 2, (N, 5)) * RNG.normal(size=(N, 5)))


def in_batches(size, table=TABLE, weights=WEIGHTS):
    def part(rows, first):
        own = None if weights is None else weights[rows]
        return Fingerprint.of(table[rows], POSITIVE[rows], CODES[rows], own, first=first)

    return [part(slice(first, first + size), first) for first in range(0, N, size)]


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("table", [TABLE, SPARSE], ids=["table", "sparse"])
@pytest.mark.parametrize("size", [1, 64, 500])
def test_the_sum_over_batches_is_that_of_the_whole(size, table, weights):
    """Also where a number that a float cannot hold is in one batch only."""
    whole = Fingerprint.of(table, POSITIVE, CODES, weights)
    assert sum_of(in_batches(size, table, weights)) == whole


def test_a_change_is_seen_in_its_batch_and_in_the_sum():
    changed = TABLE.with_columns(number=pl.when(pl.int_range(N) == 150).then(0.5).otherwise("number"))
    before, after = in_batches(100), in_batches(100, changed)
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, True, True, True]
    assert "their features differ" in sum_of(before).difference(sum_of(after))


@pytest.mark.parametrize("column", TABLE.columns)
def test_every_column_counts(column):
    other = TABLE.with_columns(pl.col(column).shift(1))
    assert sum_of(in_batches(100, other)).features != sum_of(in_batches(100)).features


def test_values_that_change_places_are_a_difference():
    swapped = TABLE.select("whole", "number", *TABLE.columns[2:])
    assert sum_of(in_batches(100, swapped)).features != sum_of(in_batches(100)).features


def test_another_order_is_told():
    order = RNG.permutation(N)
    whole = Fingerprint.of(TABLE, POSITIVE, CODES, WEIGHTS)
    shuffled = Fingerprint.of(TABLE[order], POSITIVE[order], CODES[order], WEIGHTS[order])
    assert whole.difference(shuffled) == ANOTHER_ORDER
    assert "differ" in whole.difference(Fingerprint.of(TABLE[order], POSITIVE, CODES, WEIGHTS))
