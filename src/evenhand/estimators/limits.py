"""What cannot be done where a table is not in memory, in one place."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.data.batched_table import is_dask, is_lazy
from evenhand.estimators.settings import Settings
from evenhand.exceptions import InputError
from evenhand.groups.proxy import Proxy

LIMITS = {
    "proxy": (
        "a Proxy with data, passed to `fit`",
        "name its columns in the constructor: `sensitive_features=Proxy(race=[...])`",
    ),
    "sensitive_features": (
        "sensitive features passed to `fit` beside a lazy table",
        "name columns of the table in the constructor",
    ),
    "at_most": (
        "`predict(at_most=...)`, which is about all rows together",
        "pass a table in memory",
    ),
    "splits": (
        "`cv` as a list of splits, where models learn from a sample",
        "pass a number or a splitter, or raise `max_samples`",
    ),
    "pooled": (
        "a guarantee together with `min_size`, where models learn from a sample",
        "merge rare groups beforehand, or raise `max_samples`",
    ),
}
"""What is refused for tables that are not in memory, and what to do instead."""


def refuse_beyond_memory(X: Any, sensitive_features: Any, scratch: Any) -> None:
    """Raise an InputError for what needs a table in memory."""
    lazy, on_cluster = is_lazy(X), is_dask(X)
    if scratch is not None and not lazy:
        raise InputError("scratch is for a lazy table, whose posteriors are kept in files.")
    if (lazy or on_cluster) and isinstance(sensitive_features, Proxy):
        raise refused("proxy")
    if lazy and sensitive_features is not None:
        raise refused("sensitive_features")


def refuse_large(settings: Settings) -> None:
    """Raise an InputError for what needs all rows to be learned from."""
    if settings.confidence is not None and settings.groups.min_size:
        raise refused("pooled")
    cv = settings.posteriors.cv
    if cv is not None and not isinstance(cv, int | float | np.integer) and not hasattr(cv, "split"):
        raise refused("splits")


def refused(name: str) -> InputError:
    """The error about one of the limits."""
    what, remedy = (text.replace("`", "") for text in LIMITS[name])
    return InputError(f"a table that is not in memory does not support {what}: {remedy}.")
