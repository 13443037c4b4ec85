"""The state of a monitor as one JSON file of counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.display.text import show
from evenhand.exceptions import InputError, UntrustedFileError, reason
from evenhand.files.archive import check_memory, read_json
from evenhand.files.encoding import decode_value, encode_value
from evenhand.monitoring.counts import History, Record
from evenhand.monitoring.findings import Alarm, Drift
from evenhand.requirements.requirement import Constraint

if TYPE_CHECKING:
    from evenhand.monitoring.monitor import Monitor

_FORMAT, _VERSION = "evenhand monitor", 1
_SETTINGS = ("constraint", "confidence", "pos_label", "missing")
_COUNTED = ("excluded_rows", "columns", "_classes", "_reference", "_seen")
_HISTORY = ("names", "controls", "cells", "known")


def write_state(monitor: Monitor) -> bytes:
    """The content of a state file."""
    plain = {name: getattr(monitor, name) for name in (*_SETTINGS, *_COUNTED)}
    values, parts = encode_value(plain | {name: getattr(monitor._history, name) for name in _HISTORY})
    for part in parts:
        if not isinstance(part, np.ndarray):
            raise InputError(f"the monitor cannot be saved: its file would hold a {type(part).__name__}.")
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "values": values,
        "parts": [[part.dtype.str, part.tolist()] for part in parts],
        "records": [{**vars(one), "sums": _numbers(one.sums)} for one in monitor._history.records],
        **{name: one and asdict(one) for name, one in (("alarm", monitor.alarm), ("drift", monitor.drift))},
    }
    return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


def _numbers(sums: Any) -> list[float]:
    """Counts as JSON, whole ones without a decimal point; none if there are no rows."""
    return [int(x) if x.is_integer() else x for x in np.ravel(sums).tolist()] if sums.any() else []


def read_state(data: bytes, max_bytes: int, make: Callable[..., Monitor]) -> Monitor:
    """The monitor of a state file.

    Parameters
    ----------
    data : bytes
    max_bytes : int
    make : callable
        The constructor, which checks the parameters.

    Returns
    -------
    Monitor
    """
    check_memory(data, max_bytes)
    content = read_json(data, "content")
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise UntrustedFileError("it is not the state of a monitor.")
    if content.get("version") != _VERSION:
        raise UntrustedFileError(f"it has format {content.get('version')!r}; this version reads {_VERSION}.")
    try:
        parts = [np.array(values, np.dtype(kind).type) for kind, values in content["parts"]]
        plain = decode_value(content["values"], parts)
        if not isinstance(plain["constraint"], Constraint):
            raise UntrustedFileError("it has no requirement.")
        found = make(**{name: plain[name] for name in _SETTINGS})
        records = tuple(_record(one, len(plain["cells"])) for one in content["records"])
        found._history = History(**{name: plain[name] for name in _HISTORY}, records=records)
        _check(found._history)
        for name in _COUNTED:
            setattr(found, name, plain[name])
        found.alarm, found.drift = _told(Alarm, content["alarm"]), _told(Drift, content["drift"])
        return found
    except UntrustedFileError:
        raise
    except Exception as error:
        raise UntrustedFileError(f"it is damaged: {reason(error)}") from None


def _check(history: History) -> None:
    """Refuse groups and counts that do not belong together."""
    cells, known, starts = history.cells, tuple(map(int, history.known)), history.start_numbers.tolist()
    sums = np.stack([one.sums for one in history.records])
    order = [(one.batch, one.rows) for one in history.records]
    proper = len(known) == len(cells) == len(set(cells)) and 0 <= history.controls <= len(history.names)
    proper &= all(len(cell) == len(history.names) for cell in cells)
    proper &= bool((np.diff(sums, axis=0) >= 0).all() and (sums[..., 1] <= sums[..., 0] + 1e-6).all())
    proper &= order == sorted(order) and history.records[0].start == 0 and starts == sorted(set(starts))
    if not proper:
        raise UntrustedFileError("its groups and counts do not belong together.")


def _told(kind: Any, values: dict[str, Any] | None) -> Any:
    """An alarm or drift whose texts are safe to show."""
    if values is None:
        return None
    told = kind(**{name: show(one) if isinstance(one, str) else one for name, one in values.items()})
    str(told)  # raises an error if a number is none
    return told


def _record(one: dict[str, Any], cells: int) -> Record:
    values = one["sums"]
    sums = np.array(values, np.float64).reshape(cells, 3, 2) if values else np.zeros((cells, 3, 2))
    if not np.isfinite(sums).all() or (sums < 0).any():
        raise UntrustedFileError("its counts must be non-negative numbers.")
    start, evidence = int(one["start"]), float(one["evidence"])
    return Record(int(one["batch"]), int(one["rows"]), sums, str(one["time"]), start, evidence)
