"""Digests of rows that come in batches."""

import numpy as np
import polars as pl
import pytest

from evenhand.inputs.fingerprint import Fingerprint, FingerprintOfBatches

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


def in_batches(size, table=TABLE, weights=WEIGHTS):
    found = FingerprintOfBatches()
    chain = []
    for first in range(0, N, size):
        rows = slice(first, first + size)
        found.add(table[rows], POSITIVE[rows], CODES[rows], None if weights is None else weights[rows])
        chain.append(found.so_far())
    return found.whole(), chain


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("size", [1, 64, 500])
def test_batches_have_the_digests_of_the_whole(size, weights):
    """Also where a number that a float cannot hold is in one batch only."""
    found, _ = in_batches(size, weights=weights)
    whole = Fingerprint.of(TABLE, POSITIVE, CODES, weights)
    for name in ("rows", "labels", "groups", "weights", "features"):
        assert getattr(found, name) == getattr(whole, name)
    assert found.difference(in_batches(77, weights=weights)[0]) is None


def test_a_change_is_seen_from_its_batch_on():
    changed = TABLE.with_columns(number=pl.when(pl.int_range(N) == 150).then(0.5).otherwise("number"))
    _, before = in_batches(100)
    found, after = in_batches(100, changed)
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, False, False, False]
    assert "their features differ" in in_batches(100)[0].difference(found)


def test_another_order_is_a_difference():
    found = in_batches(100, TABLE.reverse())[0]
    assert in_batches(100)[0].difference(found) == "these are not the rows of the fit: their features differ"
