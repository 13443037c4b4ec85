"""Clusters of two workers on this machine."""

import dask
import pytest
from distributed import Client, LocalCluster


def local_cluster(**settings) -> LocalCluster:
    """Two workers with one thread each, on ports that are free."""
    return LocalCluster(
        **{"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0", **settings}
    )


@pytest.fixture(scope="module")
def cluster():
    """A cluster that tests of a module share: none of them may harm it, or outlive it.

    Its workers are threads, which need not import everything again; as they are reached by TCP, what is sent
    to them is pickled all the same. Clusters that tests make for themselves have processes.
    """
    # A busy machine answers late.
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "120s"}),
        local_cluster(processes=False, protocol="tcp://") as made,
    ):
        yield made


@pytest.fixture
def client(cluster):
    with Client(cluster) as made:
        yield made


@pytest.fixture
def own_cluster():
    """A function that makes a cluster for one test, which may do it harm."""
    made = []

    def make(**settings):
        cluster = local_cluster(**settings)
        made.append(cluster)
        return cluster

    yield make
    for cluster in made:
        cluster.close()
