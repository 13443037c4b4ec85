"""Limits on the threads of compiled code."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Literal

from threadpoolctl import ThreadpoolController

__all__ = ["one_thread"]


def one_thread(api: Literal["blas", "openmp"]) -> AbstractContextManager[Any]:
    """A context in which compiled code uses one thread.

    On work in small pieces more threads gain little, and where other processes share the cores they wait for
    one another at the end of every piece.
    """
    found: AbstractContextManager[Any] = _pools(api).limit(limits=1, user_api=api)
    return found


@cache
def _pools(api: str) -> ThreadpoolController:  # noqa: ARG001  (libraries of each kind are loaded by its first use)
    """The libraries that are loaded; looking for them takes some milliseconds."""
    return ThreadpoolController()
