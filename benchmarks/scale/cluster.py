"""What a solve on a Dask cluster costs, against the same rows in memory.

Everything runs on one machine: ten million rows with four groups, demographic parity, posteriors that are
already there (in memory, or persisted on the workers). In memory the passes over rows use one core. At equal
cores a cluster of two workers with one thread each is compared with two threads that share the rows.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait

import evenhand as eh
from benchmarks.record import seconds
from evenhand.cluster.dask_partitions import DaskPartitions
from evenhand.optimum.solution import Solution
from evenhand.solver.dense import DenseRows
from evenhand.solver.partitions import Partitions, ThreadedPartitions

FAIR = eh.DemographicParity(difference=0.02)
ROWS, CHUNKS, GROUPS = 10_000_000, 20, 4
SIZE = ROWS // CHUNKS
FEW = 100_000
"""Rows in a hundred chunks, for what a pass costs beyond its arithmetic."""


def chunk(number: int, size: int = SIZE) -> np.ndarray:
    """Posteriors of a multinomial model on six normal features: the same model in every chunk."""
    model, rng = np.random.default_rng(0), np.random.default_rng([1, number])
    Z = rng.normal(size=(size, 6)) @ (0.7 * model.normal(size=(6, 2 * GROUPS)))
    Z += 0.7 * model.normal(size=2 * GROUPS)
    np.exp(Z, out=Z)
    Z /= Z.sum(axis=1, keepdims=True)
    return Z.reshape(size, GROUPS, 2)


def lazy(count: int, size: int) -> da.Array:
    make = dask.delayed(chunk, pure=False)
    shape = (size, GROUPS, 2)
    return da.concatenate([da.from_delayed(make(k, size), shape, float) for k in range(count)])


class Metered:
    """Partitions, with the time that functions of them take and, if asked for, the bytes that travel."""

    def __init__(self, inner: Partitions, *, count_bytes: bool = False) -> None:
        self.inner = inner
        self.n_groups, self.known = inner.n_groups, inner.known
        self.weighted, self.most = inner.weighted, inner.most
        self.count_bytes = count_bytes
        self.passes, self.seconds, self.sent, self.received = 0, 0.0, 0, 0

    def map(
        self, function: Callable[..., Any], *arguments: Any, each: Sequence[Any] | None = None
    ) -> list[Any]:
        """Apply a function to every partition."""
        start = time.perf_counter()
        found = self.inner.map(function, *arguments, each=each)
        self.seconds += time.perf_counter() - start
        self.passes += 1
        if self.count_bytes:
            self.sent += len(pickle.dumps((function, arguments, each)))
            self.received += len(pickle.dumps(found))
        return found

    def lazy(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """One number per row."""
        return self.inner.lazy(function, *arguments)


def threaded(posteriors: np.ndarray, threads: int) -> ThreadedPartitions:
    return ThreadedPartitions(
        lambda k: DenseRows(posteriors[k * SIZE : (k + 1) * SIZE], None), CHUNKS, GROUPS, threads=threads
    )


def on_cluster(workers: int) -> dict[str, float]:
    """Seconds of a whole solve, and of the part of it that touches rows; passes; bytes."""
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        rows = client.persist(lazy(CHUNKS, SIZE))
        wait(rows)

        def solve() -> Solution:
            return eh.solve(DaskPartitions(rows), FAIR)  # as eh.solve of a Dask array does

        found = solve()  # workers import the package
        whole = seconds(solve)
        touching = []
        for _ in range(3):
            metered = Metered(DaskPartitions(rows))
            eh.solve(metered, FAIR)
            touching.append(metered.seconds)
        counted = Metered(DaskPartitions(rows), count_bytes=True)
        eh.solve(counted, FAIR)
        few = DaskPartitions(client.persist(lazy(100, FEW // 100)))
        a_pass = seconds(lambda: few.map(_nothing), repeats=20)
        return {
            "solve": whole,
            "rows": min(touching),
            "objective": found.certificate.objective,
            "passes": counted.passes,
            "sent": counted.sent,
            "received": counted.received,
            "a pass": a_pass,
        }


def _nothing(part: DenseRows) -> int:
    return part.n_rows


def measure() -> dict[str, Any]:
    """Figures by name; times in seconds are the smallest of three."""
    one, two = on_cluster(1), on_cluster(2)
    posteriors = np.concatenate([chunk(k) for k in range(CHUNKS)])
    known = eh.solve(posteriors, FAIR)
    memory = seconds(lambda: eh.solve(posteriors, FAIR))
    by_threads = {n: seconds(lambda n=n: eh.solve(threaded(posteriors, n), FAIR)) for n in (1, 2)}
    return {
        "rows": ROWS,
        "groups": GROUPS,
        "chunks": CHUNKS,
        "in memory, one core, s": memory,
        "partitions, one thread, s": by_threads[1],
        "partitions, two threads, s": by_threads[2],
        "Dask, one worker, s": one["solve"],
        "Dask, two workers, s": two["solve"],
        "Dask, two workers over two threads (goal: at most 2)": two["solve"] / by_threads[2],
        "Dask, one worker over one thread": one["solve"] / by_threads[1],
        "Dask, one worker over in memory": one["solve"] / memory,
        "Dask, two workers over in memory (one core)": two["solve"] / memory,
        "two workers against one, the part that touches rows (goal: at least 1.6)": one["rows"] / two["rows"],
        "two workers against one, all": one["solve"] / two["solve"],
        "share that touches rows, two workers": two["rows"] / two["solve"],
        "passes": two["passes"],
        "arguments, bytes pickled, once per solve": two["sent"],
        "results of all chunks, bytes pickled": two["received"],
        "bytes of all rows over bytes that travel": posteriors.nbytes / (2 * two["sent"] + two["received"]),
        "a pass over 100 chunks of 1,000 rows, s": two["a pass"],
        "objective, largest difference": max(
            abs(each["objective"] - known.certificate.objective) for each in (one, two)
        ),
    }
