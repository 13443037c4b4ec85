"""Waiting for a cluster, and its failures in a sentence."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

import dask
from dask.utils import parse_timedelta
from distributed import Client, Future, KilledWorker, get_client, wait
from distributed.protocol import pickle

from evenhand.exceptions import ClusterError, InputError, reason

_TIMEOUT, _DEFAULT = "evenhand.worker-timeout", "60s"
"""Dask's setting for how long to wait while no worker can run a task."""
_LOOK = 1.0
"""Seconds between looks at the workers; most passes over rows take less."""
_MESSAGE = 1 << 22
"""Bytes that are sent with one task: of more than ten million, Dask warns."""
_ADVICE = "make partitions smaller or give workers more memory."


def current_client() -> Client:
    """The current client of Dask."""
    try:
        client: Client = get_client()
    except ValueError:
        raise InputError("there is no Dask client; make one, such as distributed.Client().") from None
    if client.asynchronous:
        raise InputError("the Dask client must be made without asynchronous=True.")
    return client


@contextmanager
def connected(client: Client) -> Iterator[None]:
    """A context in which a lost connection to the cluster is a ClusterError."""
    _refuse_closed(client)
    try:
        yield
    except (CancelledError, OSError) as error:
        _refuse_closed(client)
        raise ClusterError(f"the connection to the Dask cluster was lost ({reason(error)}).") from error


def gather(client: Client, futures: Sequence[Future]) -> list[Any]:
    """Results in order; a ClusterError if the cluster cannot compute them.

    Parameters
    ----------
    client : distributed.Client
    futures : sequence of Future

    Returns
    -------
    list
    """
    finish(client, futures)
    with connected(client):
        return list(client.gather(futures))


def gather_once(client: Client, futures: Sequence[Future]) -> list[Any]:
    """Results in order, of futures that are released then: after an error nothing further is begun.

    Parameters
    ----------
    client : distributed.Client
    futures : sequence of Future

    Returns
    -------
    list
    """
    try:
        return gather(client, futures)
    finally:
        for future in futures:
            future.release()


def sent(client: Client, value: Any) -> Future:
    """A value on the cluster, of any size.

    It is not scattered, because that would be lost with its worker: it goes with tasks, in pieces.

    Parameters
    ----------
    client : distributed.Client
    value : object

    Returns
    -------
    Future
    """
    written = pickle.dumps(value)
    pieces: list[Any] = [written[k : k + _MESSAGE] for k in range(0, len(written), _MESSAGE)]
    with connected(client):
        if len(pieces) > 1:
            pieces = [client.submit(unchanged, piece, pure=False) for piece in pieces]
        return client.submit(_put_together, pieces, pure=False)


def unchanged(value: Any) -> Any:
    """A value as a task of its own, which Dask keeps and sends to each worker once."""
    return value


def _put_together(pieces: Sequence[bytes]) -> Any:
    return pickle.loads(b"".join(pieces))


def finish(client: Client, futures: Sequence[Future]) -> None:
    """Wait until all are computed, and raise the error of the first that failed.

    Parameters
    ----------
    client : distributed.Client
    futures : sequence of Future
    """
    with connected(client):
        _wait(client, futures)
        failed = next((future for future in futures if future.status == "error"), None)
        if failed is None:
            return
        error = failed.exception()
    if isinstance(error, KilledWorker):
        raise ClusterError(
            f"Dask workers died {error.allowed_failures + 1} times in a row on the same partition, most "
            f"likely because it needs more memory than they have; {_ADVICE}"
        ) from error
    if isinstance(error, MemoryError):
        raise ClusterError(f"a Dask worker ran out of memory; {_ADVICE}") from error
    raise error


def _wait(client: Client, futures: Sequence[Future]) -> None:
    """Wait for all results, but not for workers that do not come."""
    limit = parse_timedelta(dask.config.get(_TIMEOUT, _DEFAULT))
    able = time.monotonic()
    while True:
        try:
            with client.as_current():
                wait(futures, timeout=_LOOK)
        except TimeoutError:
            _refuse_closed(client)
        else:
            return
        stuck = _stuck(client)
        if stuck is None:
            able = time.monotonic()
        elif time.monotonic() - able > limit:
            raise ClusterError(
                f"{stuck} for {limit:g} seconds; to wait longer, set {_TIMEOUT!r} in Dask's configuration."
            )


def _stuck(client: Client) -> str | None:
    """Why no worker can run a task; None if one can."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    if not workers:
        return "the Dask cluster has had no worker"
    if all(worker["status"] == "paused" for worker in workers):
        return (
            f"all Dask workers have been paused because their memory is nearly full; {_ADVICE} This went on"
        )
    return None


def _refuse_closed(client: Client) -> None:
    if client.status in ("closing", "closed"):
        raise ClusterError(
            "the Dask client was closed before the end; keep it open until the result is there."
        )
