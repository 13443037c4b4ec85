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
from evenhand.monitoring.findings import Alarm, Drift
from evenhand.monitoring.history import History, Record
from evenhand.requirements.requirement import Constraint

if TYPE_CHECKING:
    from evenhand.monitoring.monitor import Monitor

__all__ = ["read_state", "write_state"]

_FORMAT, _VERSION = "evenhand monitor", 1


def write_state(monitor: Monitor) -> bytes:
    """The content of a state file."""
    history = monitor._history
    plain = (monitor.constraint, monitor.pos_label, monitor._classes, history.cells, monitor._reference)
    values, parts = encode_value(plain)
    for part in parts:
        if not isinstance(part, np.ndarray):
            raise InputError(f"the monitor cannot be saved: its file would hold a {type(part).__name__}.")
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "confidence": monitor.confidence,
        "missing": monitor.missing,
        "excluded": monitor.excluded_rows,
        "columns": monitor.columns,
        "values": values,
        "parts": [[part.dtype.str, part.tolist()] for part in parts],
        "controls": history.controls,
        "features": history.features,
        "known": history.known,
        "records": [_written(one) for one in history.records],
        "seen": monitor._seen,
        "alarm": None if monitor.alarm is None else asdict(monitor.alarm),
        "drift": None if monitor.drift is None else asdict(monitor.drift),
    }
    return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


def _numbers(values: Any) -> Any:
    """Numbers as JSON, whole ones without a decimal point."""
    return [int(x) if float(x).is_integer() else float(x) for x in np.ravel(values)]


def _written(one: Record) -> dict[str, Any]:
    return {**vars(one), "sums": _numbers(one.sums) if one.sums.any() else []}


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
        constraint, pos_label, classes, cells, reference = decode_value(content["values"], parts)
        if not isinstance(constraint, Constraint):
            raise UntrustedFileError("it has no requirement.")
        found = make(
            constraint, confidence=content["confidence"], pos_label=pos_label, missing=content["missing"]
        )
        known = tuple(map(int, content["known"]))
        records = tuple(_read(one, len(cells)) for one in content["records"])
        names = (tuple(map(str, content["controls"])), tuple(map(str, content["features"])))
        proper = len(known) == len(cells) == len(set(cells)) and records[0].start == 0
        proper &= all((len(stratum), len(key)) == tuple(map(len, names)) for stratum, key in cells)
        sums = np.stack([one.sums for one in records])
        proper &= bool((np.diff(sums, axis=0) >= 0).all() and (sums[..., 1] <= sums[..., 0] + 1e-6).all())
        order = [(one.batch, one.rows) for one in records]
        starts = [one.start for one in records if one.start >= 0]
        proper &= order == sorted(order) and starts == sorted(set(starts))
        if not proper:
            raise UntrustedFileError("its groups and counts do not belong together.")
        found._history = History(*names, cells, known, records)
        found._classes, found._reference = classes, reference
        found.excluded_rows, found.columns = int(content["excluded"]), dict(content["columns"])
        found._seen = [str(one) for one in content["seen"]]
        found.alarm, found.drift = _told(Alarm, content["alarm"]), _told(Drift, content["drift"])
        return found
    except UntrustedFileError:
        raise
    except Exception as error:
        raise UntrustedFileError(f"it is damaged: {reason(error)}") from None


def _told(kind: Any, values: dict[str, Any] | None) -> Any:
    """An alarm or drift whose texts are safe to show."""
    if values is None:
        return None
    told = kind(**{name: show(one) if isinstance(one, str) else one for name, one in values.items()})
    str(told)  # raises an error if a number is none
    return told


def _read(one: dict[str, Any], cells: int) -> Record:
    return Record(
        int(one["batch"]),
        int(one["rows"]),
        _floats(one["sums"], cells, 3, 2),
        str(one["time"]),
        int(one["start"]),
        float(one["evidence"]),
    )


def _floats(values: Any, *shape: int) -> Any:
    found = np.array(values, np.float64).reshape(shape) if values else np.zeros(shape)
    if not np.isfinite(found).all() or (found < 0).any():
        raise UntrustedFileError("its counts are not numbers from 0 on.")
    return found
