"""Partitions in threads: order, laziness, and what happens when one fails."""

import random
import threading
import time

import numpy as np
import pytest

from evenhand.solver.dense import DenseRows
from evenhand.solver.partitions import Partitions, ThreadedPartitions


def rows_of(k: int) -> DenseRows:
    return DenseRows(np.full((k, 2), 0.5), None)


def test_threads_implement_the_protocol():
    assert isinstance(ThreadedPartitions(rows_of, 3, 1), Partitions)
    assert not isinstance(np.zeros(3), Partitions)


def test_results_are_in_order_whoever_finishes_first():
    wait = random.Random(0)  # noqa: S311

    def slow(part, factor, further):
        time.sleep(wait.random() / 100)
        return factor * part.n_rows + further

    parts = ThreadedPartitions(rows_of, 20, 1, threads=8)
    assert parts.map(slow, 10, each=range(20)) == [11 * k for k in range(20)]


def test_no_partitions_give_no_results():
    parts = ThreadedPartitions(rows_of, 0, 1)
    assert parts.map(lambda part: part.n_rows) == []
    assert len(parts.lazy(lambda part: np.ones(part.n_rows))) == 0
    assert np.asarray(parts.lazy(lambda part: np.ones(part.n_rows))).shape == (0,)


def test_numbers_of_rows_are_computed_when_asked_for():
    computed = []

    def numbers(part, factor):
        computed.append(part.n_rows)
        return np.full(part.n_rows, factor * part.n_rows)

    values = ThreadedPartitions(rows_of, 4, 1).lazy(numbers, 2.0)
    assert len(values) == 6
    assert computed == []
    assert np.asarray(values).tolist() == [2, 4, 4, 6, 6, 6]
    assert computed == [0, 1, 2, 3]
    assert np.asarray(values, dtype=np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="a copy cannot be avoided"):
        np.asarray(values, copy=False)


def test_the_number_of_rows_is_known_once_partitions_were_loaded():
    loaded = []

    def load(k):
        loaded.append(k)
        return rows_of(k)

    parts = ThreadedPartitions(load, 4, 1)
    parts.map(lambda part: part.n_rows)
    values = parts.lazy(lambda part: np.ones(part.n_rows))
    assert (len(values), len(values)) == (6, 6)
    assert sorted(loaded) == [0, 1, 2, 3]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_in_one_partition_ends_the_others(error):
    """Ctrl-C leaves nothing running, and nothing further is begun."""
    begun = []

    def fails(part):
        begun.append(part.n_rows)
        if part.n_rows == 1:
            raise error("stop")
        time.sleep(0.01)

    before = threading.active_count()
    with pytest.raises(error, match="stop"):
        ThreadedPartitions(rows_of, 1000, 1, threads=2).map(fails)
    assert threading.active_count() == before
    assert len(begun) < 100
