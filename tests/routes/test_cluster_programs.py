"""A cluster of programs, as an administrator starts them."""

import json
import os
import signal
import subprocess
import sys
import time

import dask.array as da
import numpy as np
import pytest
from distributed import Client

import evenhand as eh
from evenhand.cluster.dask_partitions import DaskPartitions
from evenhand.solver.dense import DenseRows

pytestmark = pytest.mark.slow


@pytest.fixture
def programs(tmp_path):
    """A scheduler and two workers on this machine; all of them are stopped in the end."""
    started = []

    def start(*arguments):
        command = [sys.executable, "-m", "dask", *map(str, arguments)]
        log = (tmp_path / f"{len(started)}.log").open("w")
        # Each in a session of its own, so that whatever it starts is stopped with it.
        program = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)  # noqa: S603
        log.close()
        started.append(program)
        return program

    address = tmp_path / "scheduler.json"
    here = ["--host", "127.0.0.1"]
    try:
        start(
            "scheduler", *here, "--port", 0, "--dashboard-address", "127.0.0.1:0", "--scheduler-file", address
        )
        workers = [
            start(
                "worker", *here, "--scheduler-file", address, "--nthreads", 1, "--no-nanny", "--no-dashboard",
                "--local-directory", tmp_path,
            )
            for _ in range(2)
        ]  # fmt: skip
        end = time.monotonic() + 120
        while not (address.exists() and address.read_text().endswith("}")):
            assert time.monotonic() < end, [log.read_text() for log in tmp_path.glob("*.log")]
            time.sleep(0.1)
        yield json.loads(address.read_text())["address"], workers
    finally:
        for program in started:
            if program.poll() is None:
                os.killpg(program.pid, signal.SIGKILL)
            program.wait(60)


def test_a_solve_survives_the_end_of_a_worker_program(programs, monkeypatch):
    address, workers = programs
    P = np.random.default_rng(0).dirichlet(np.ones(4), 20_000).reshape(-1, 2, 2)
    fair = eh.EqualOpportunity(difference=0.01)
    passes = []
    before = DaskPartitions.map

    def map_and_kill(self, function, *arguments, each=None):
        passes.extend([function] * (function is DenseRows.smooth))
        if len(passes) == 2:
            os.killpg(workers[0].pid, signal.SIGKILL)
            workers[0].wait(60)
        return before(self, function, *arguments, each=each)

    with Client(address, timeout=120) as client:
        client.wait_for_workers(2, timeout=120)
        rows = da.from_array(P, chunks=(2500, 2, 2))
        undisturbed = eh.solve(rows, fair)
        monkeypatch.setattr(DaskPartitions, "map", map_and_kill)
        found = eh.solve(rows, fair)
        assert workers[0].poll() is not None
        assert workers[1].poll() is None
        assert found.certificate == undisturbed.certificate
        assert found.certificate.objective == pytest.approx(
            eh.solve(P, fair).certificate.objective, abs=1e-12
        )
        assert np.array_equal(found.selection.compute(), undisturbed.selection.compute())
