"""What goes wrong during a fit on a cluster ends in the right answer or in a sentence."""

import gc
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pytest
from distributed import Client
from sklearn.linear_model import LogisticRegression
from tests.flat import build
from tests.routes.data import FAIR, SENSITIVE, table, wait_until

import evenhand as eh
from evenhand.cluster.client import sent
from evenhand.cluster.dask_rows import OnCluster
from evenhand.estimators import fit_rows
from evenhand.exceptions import ClusterError, InputError

# Workers that die or are closed in the middle of things leave sockets and processes behind for a moment.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.slow,  # clusters that start and fail take long
]


def make(estimator=None, **params):
    params = {"sensitive_features": SENSITIVE, "cv": 2, "max_samples": 500, "calibration": None, **params}
    return build(eh.FairPostprocessor, estimator or LogisticRegression(), FAIR, **params)


def rows(partitions=8):
    return dd.from_pandas(table().drop(columns="weight"), npartitions=partitions)


def slow_model(seconds):
    """A classifier that takes its time; of no module, so that workers need not import this one."""

    class Slow(LogisticRegression):
        def predict_proba(self, X):
            time.sleep(seconds)
            return super().predict_proba(X)

    return Slow()


def at_the_start_of(stage, module, act, monkeypatch):
    before = getattr(module, stage)

    def begun(*given, **named):
        act()
        return before(*given, **named)

    monkeypatch.setattr(module, stage, begun)


@pytest.mark.parametrize("stage", ["_scored", "draw_sample"])
def test_a_worker_killed_in_the_middle_changes_nothing(own_cluster, monkeypatch, stage):
    with Client(own_cluster()) as client:
        undisturbed = make().fit(rows(), "y")
        victim = min(client.run(os.getpid).values())
        killer = threading.Timer(0.3, os.kill, (victim, signal.SIGKILL))
        at_the_start_of(stage, fit_rows, killer.start, monkeypatch)
        found = make(slow_model(0.04)).fit(rows(), "y")
        killer.join()
        assert victim not in client.run(os.getpid).values()
        assert found.rule_.to_json() == undisturbed.rule_.to_json()
        assert found.certificate_ == undisturbed.certificate_
        ddf = rows()
        assert np.array_equal(found.predict(ddf).compute(), undisturbed.predict(ddf).compute())


def spoiled(ddf, number, spoil):
    def one(part, partition_info=None):
        return spoil(part) if partition_info is not None and partition_info["number"] == number else part

    return ddf.map_partitions(one, meta=ddf._meta, enforce_metadata=False)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda part: part.drop(columns="z"), "partition 3 of X has no column 'z'"),
        (lambda part: part.drop(columns="sex"), "partition 3 of X has no column 'sex'"),
        (lambda part: part.assign(more=1), "partition 3 of X has a column 'more'"),
        (
            lambda part: part.assign(z="a"),
            "column 'z' of X holds text in partition 3 .* numbers were expected",
        ),
        (lambda part: part.to_numpy(), "partition 3 of X is a ndarray, not a table"),
    ],
)
def test_a_partition_with_another_schema_is_named(client, spoil, message):
    with pytest.raises(InputError, match=message):
        make().fit(spoiled(rows(), 3, spoil), "y")


def test_sensitive_features_of_another_name_in_a_partition_are_an_error(client):
    ddf = rows()
    other = spoiled(ddf[SENSITIVE], 2, lambda part: part.rename(columns={"sex": "gender"}))
    with pytest.raises(InputError, match=r"are 'gender', 'race' in partition 2, and 'sex', 'race' in the"):
        make(sensitive_features=None).fit(ddf[["x", "z"]], ddf["y"], sensitive_features=other)


@pytest.mark.slow
def test_columns_in_another_order_or_of_another_type_of_number_are_the_same(client):
    known = make().fit(rows(), "y")
    ddf = spoiled(rows(), 3, lambda part: part[["y", "race", "sex", "z", "x"]].astype({"race": "float64"}))
    assert make().fit(ddf, "y").certificate_ == known.certificate_


def test_a_block_of_an_array_with_another_shape_is_named(client):
    X = da.random.random((1000, 3), chunks=(100, 3))
    y = da.zeros(1000, chunks=100, dtype=int)

    def cut(block, block_id):
        return block[:, :2] if block_id[0] == 4 else block

    def words(block, block_id):
        return block.astype(str) if block_id[0] == 6 else block

    meta = np.empty((0, 0))
    for spoil, message in (
        (cut, r"partition 4 of X must have 3 columns, got shape \(100, 2\)"),
        (words, "X holds text in partition 6"),
    ):
        with pytest.raises(InputError, match=message):
            make(sensitive_features=[0]).fit(X.map_blocks(spoil, dtype=float, meta=meta), y)


@pytest.mark.parametrize("stage", ["draw_sample", "_scored"])
def test_a_client_closed_early_is_an_error(cluster, monkeypatch, stage):
    client = Client(cluster)
    at_the_start_of(stage, fit_rows, client.close, monkeypatch)
    fair = make()
    with pytest.raises(ClusterError, match="the Dask client was closed before the end"):
        fair.fit(rows(), "y")
    assert not fair.__sklearn_is_fitted__()


def test_two_fits_at_once_do_not_disturb_each_other(client):
    ddf = rows()
    settings = [{}, {"max_samples": 300}]
    alone = [make(**one).fit(ddf, "y") for one in settings]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda one: make(**one).fit(ddf, "y"), settings))
    for one, other in zip(alone, together, strict=True):
        assert one.rule_.to_json() == other.rule_.to_json()


def test_a_cluster_without_workers_is_an_error(own_cluster):
    with (
        Client(own_cluster(n_workers=0)),
        dask.config.set({"evenhand.worker-timeout": "1s"}),
        pytest.raises(ClusterError, match="has had no worker for 1 seconds"),
    ):
        make().fit(rows(), "y")


def test_nothing_is_left_on_the_cluster_after_a_fit(client):
    make().fit(rows(), "y")
    gc.collect()  # `distributed.utils.sync` leaves its arguments, futures among them, in a cycle
    wait_until(lambda: not any(client.has_what().values()))


def test_what_is_sent_may_be_larger_than_dask_likes(client, monkeypatch):
    monkeypatch.setattr("evenhand.cluster.client._MESSAGE", 1000)
    known = make().fit(rows(), "y")
    monkeypatch.undo()
    assert make().fit(rows(), "y").rule_.to_json() == known.rule_.to_json()
    large = np.random.default_rng(0).random(3_000_000)  # 24 MB, of which Dask would warn
    assert np.array_equal(sent(client, large).result(), large)


def test_rows_that_change_between_passes_are_an_error(client, monkeypatch):
    before = OnCluster.counts

    def counts(self):
        found, self.sizes = before(self), tuple(size + 1 for size in self.sizes)
        return found

    monkeypatch.setattr(OnCluster, "counts", counts)
    message = "partition 0 had 251 rows when they were counted, and now has 250"
    with pytest.raises(InputError, match=message):
        make().fit(rows(), "y")
