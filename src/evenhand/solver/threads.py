"""Limits on the threads of compiled code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, Literal

from threadpoolctl import ThreadpoolController

Api = Literal["blas", "openmp"]

_lock = Lock()
_inside: dict[Api, int] = {"blas": 0, "openmp": 0}
_limits: dict[Api, Any] = {}


@contextmanager
def one_thread(api: Api) -> Iterator[None]:
    """A context in which compiled code uses one thread.

    On work in small pieces more threads gain little, and where other processes share the cores they wait for
    one another at the end of every piece. Of contexts that overlap in several threads, the last restores.
    """
    with _lock:
        if not _inside[api]:
            _limits[api] = _pools(api).limit(limits=1, user_api=api)
        _inside[api] += 1
    try:
        yield
    finally:
        with _lock:
            _inside[api] -= 1
            if not _inside[api]:
                _limits.pop(api).restore_original_limits()


@cache
def _pools(api: Api) -> ThreadpoolController:  # noqa: ARG001  (libraries of each kind are loaded by its first use)
    """The libraries that are loaded; looking for them takes some milliseconds."""
    return ThreadpoolController()
