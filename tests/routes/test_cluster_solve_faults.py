"""What goes wrong on a cluster ends in the right answer or in a sentence, never in a wait without end."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client
from tests.routes.data import wait_until

import evenhand as eh
from evenhand.cluster import client as clients
from evenhand.cluster import dask_partitions as partitions
from evenhand.cluster.dask_partitions import DaskPartitions
from evenhand.exceptions import ClusterError, InputError, MissingExtraError
from evenhand.solver.dense import DenseRows

FAIR = eh.DemographicParity(difference=0.02)
# Workers that die or are closed in the middle of things leave sockets and processes behind for a moment.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.slow,  # clusters that start and fail take long
]


def posteriors(n=20_000, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(4), n).reshape(n, 2, 2)


def rows(n=20_000, chunk=2000):
    return da.from_array(posteriors(n), chunks=(chunk, 2, 2))


def during_the_solve(monkeypatch, act, passes=3):
    """Have something done once, in the middle of a solve."""
    done = []
    before = DaskPartitions.map

    def map_and_act(self, function, *arguments, each=None):
        if function is DenseRows.smooth:
            done.append(function)
            if len(done) == passes:
                act()
        return before(self, function, *arguments, each=each)

    monkeypatch.setattr(DaskPartitions, "map", map_and_act)
    return done


def slowly(part, seconds):
    time.sleep(seconds)
    return part.n_rows, os.getpid()


def test_a_worker_killed_in_the_middle_changes_nothing(own_cluster, monkeypatch):
    expected = eh.solve(posteriors(), FAIR).certificate.objective
    with Client(own_cluster()) as client:
        undisturbed = eh.solve(rows(), FAIR)
        victim = min(client.run(os.getpid).values())
        done = during_the_solve(monkeypatch, lambda: os.kill(victim, signal.SIGKILL))
        found = eh.solve(rows(), FAIR)
        assert len(done) >= 3
        assert found.certificate == undisturbed.certificate
        assert found.certificate.objective == pytest.approx(expected, abs=1e-12)
        assert np.array_equal(found.selection.compute(), undisturbed.selection.compute())


@pytest.mark.slow
def test_a_worker_killed_while_it_computes_changes_nothing(own_cluster, monkeypatch):
    monkeypatch.setattr(partitions, "_TOGETHER", 0)
    with Client(own_cluster()) as client:
        held = DaskPartitions(rows())
        victim = min(client.run(os.getpid).values())
        killer = threading.Timer(0.3, os.kill, (victim, signal.SIGKILL))
        killer.start()
        found = held.map(slowly, 0.2)
        killer.join()
        assert [size for size, _ in found] == [2000] * 10
        assert any(process != victim for _, process in found)


def test_workers_that_die_of_a_partition_are_an_error(own_cluster):
    def deadly(block):
        os.kill(os.getpid(), signal.SIGKILL)  # as an operating system that is out of memory does

    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        cluster = own_cluster(n_workers=1)
    with (
        Client(cluster),
        pytest.raises(ClusterError, match=r"Dask workers died 1 times in a row on the same partition"),
    ):
        eh.solve(rows().map_blocks(deadly, dtype=float, meta=np.empty((0, 0, 0))), FAIR)


@pytest.mark.slow
def test_workers_without_memory_for_a_partition_are_an_error(own_cluster):
    def too_much(block):
        kept = [np.ones(1 << 24) for _ in range(8)]  # 1 GB
        time.sleep(10)  # the memory of a worker is looked at ten times a second
        return block + 0 * len(kept)

    settings = {"distributed.scheduler.allowed-failures": 0, "distributed.worker.memory.pause": False}
    with dask.config.set(settings):
        cluster = own_cluster(n_workers=1, memory_limit="600MB")
    with Client(cluster), pytest.raises(ClusterError, match=r"needs more memory .*; make partitions smaller"):
        eh.solve(rows().map_blocks(too_much, dtype=float), FAIR)


def test_an_allocation_that_fails_is_an_error(client):
    def refused(block):
        raise MemoryError

    with pytest.raises(ClusterError, match="a Dask worker ran out of memory; make partitions smaller"):
        eh.solve(rows().map_blocks(refused, dtype=float, meta=np.empty((0, 0, 0))), FAIR)


@pytest.mark.slow
def test_workers_that_are_paused_for_good_are_an_error(own_cluster):
    def heavy(block):
        globals()["kept"] = np.ones(1 << 25)  # 268 MB that Dask cannot write to disk
        return block

    settings = {"distributed.worker.memory.pause": 0.3, "distributed.worker.memory.terminate": False}
    with dask.config.set(settings):
        cluster = own_cluster(n_workers=1, memory_limit="800MB")
    with (
        Client(cluster),
        dask.config.set({"evenhand.worker-timeout": "2s"}),
        pytest.raises(ClusterError, match=r"all Dask workers have been paused .* 2 seconds"),
    ):
        eh.solve(rows().map_blocks(heavy, dtype=float, meta=np.empty((0, 0, 0))), FAIR)


def test_a_cluster_without_workers_is_an_error(own_cluster):
    with (
        Client(own_cluster(n_workers=0)),
        dask.config.set({"evenhand.worker-timeout": "1s"}),
        pytest.raises(ClusterError, match=r"has had no worker for 1 seconds; .* 'evenhand.worker-timeout'"),
    ):
        eh.solve(rows(), FAIR)


@pytest.mark.slow
def test_workers_may_come_late(own_cluster):
    cluster = own_cluster(n_workers=0)
    with Client(cluster):
        threading.Timer(1.5, cluster.scale, (1,)).start()
        assert eh.solve(rows(), FAIR).certificate.gap < 1e-6


def test_a_client_closed_before_or_in_the_middle_is_an_error(cluster, monkeypatch):
    client = Client(cluster)
    during_the_solve(monkeypatch, client.close)
    with pytest.raises(ClusterError, match="the Dask client was closed before the end"):
        eh.solve(rows(), FAIR)
    with pytest.raises(InputError, match="there is no Dask client"):
        DaskPartitions(rows())


def test_a_client_closed_by_another_thread_while_it_waits_is_an_error(cluster):
    client = Client(cluster)
    held = DaskPartitions(rows())
    closer = threading.Timer(0.3, client.close)
    closer.start()
    with pytest.raises(ClusterError, match="the Dask client was closed before the end"):
        held.map(slowly, 0.3)  # five of them, one after the other
    closer.join()


@pytest.mark.slow
def test_a_scheduler_that_is_gone_is_an_error(own_cluster, monkeypatch):
    cluster = own_cluster()
    with Client(cluster, timeout=3):
        during_the_solve(monkeypatch, cluster.close)
        with (
            dask.config.set({"distributed.comm.timeouts.connect": "2s", "evenhand.worker-timeout": "2s"}),
            pytest.raises(ClusterError),
        ):
            eh.solve(rows(), FAIR)


def test_a_partition_that_is_not_what_it_should_be_is_named(client):
    def cut_off(block, block_id):
        return block[:, :1] if block_id[0] == 3 else block

    def strings(block, block_id):
        return block.astype("U3") if block_id[0] == 7 else block

    def shorter(block, block_id):
        return block[1:] if block_id[0] == 2 else block

    for spoil, message in (
        (cut_off, r"posteriors of partition 3 must have shape \(2000, 2, 2\), got \(2000, 1, 2\)"),
        (strings, "posteriors of partition 7 must be numbers, got type <U3"),
        (shorter, r"posteriors of partition 2 must have shape \(2000, 2, 2\), got \(1999, 2, 2\)"),
    ):
        spoiled = rows().map_blocks(spoil, dtype=float, meta=np.empty((0, 0, 0)))
        with pytest.raises(InputError, match=message):
            eh.solve(spoiled, FAIR)


def test_scores_and_codes_of_a_partition_must_fit(client):
    eta = da.random.random(1000, chunks=100)
    codes = da.zeros(1000, chunks=100, dtype=int)
    with pytest.raises(InputError, match=r"codes of partition \d must have shape"):
        eh.solve(eh.GroupedScores(eta[eta > 0.5], codes[codes == 0], 1), FAIR)
    floats = codes.map_blocks(lambda block: block / 2, dtype=int)
    with pytest.raises(InputError, match="codes of partition 0 must be integers, got type float64"):
        eh.solve(eh.GroupedScores(eta, floats, 1), FAIR)


def test_errors_of_the_rows_own_tasks_stay_what_they_are(client):
    def unreadable(block):
        raise FileNotFoundError("part-7.parquet")

    with pytest.raises(FileNotFoundError, match=r"part-7\.parquet"):
        eh.solve(rows().map_blocks(unreadable, dtype=float, meta=np.empty((0, 0, 0))), FAIR)


def test_ctrl_c_leaves_no_task_behind(client, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    held = DaskPartitions(rows())
    monkeypatch.setattr(clients, "gather", interrupt)
    with pytest.raises(KeyboardInterrupt):
        held.map(slowly, 0.1)
    wait_until(lambda: not any(client.processing().values()))


def test_without_dask_the_extra_is_named():
    code = (
        "import sys; sys.modules['distributed'] = None\n"
        "import evenhand as eh, numpy as np; eh.GroupedScores(np.array([0.5]), np.array([0]), 1)\n"
        "import evenhand.cluster"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    said = done.stderr.strip().splitlines()[-1]
    assert said == (
        "evenhand.exceptions.MissingExtraError: this needs the package 'distributed'; install it with: "
        "pip install 'evenhand[dask]'"
    )
    assert issubclass(MissingExtraError, ImportError)


def test_a_client_of_an_event_loop_is_refused():
    async def ask():
        async with Client(processes=False, n_workers=0, dashboard_address=":0", asynchronous=True):
            return eh.solve(rows(), FAIR)

    with pytest.raises(InputError, match="without asynchronous=True"):
        asyncio.run(ask())
