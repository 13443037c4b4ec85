"""``evenhand audit`` on a Parquet file, against ``group_by`` by hand in polars on the same columns.

Both read the file lazily and with polars' streaming engine. They are compared as fresh processes, with the
time to start and import, and by their calls in one process.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import evenhand as eh
from benchmarks.record import process_cost, seconds
from benchmarks.scale import by_hand
from evenhand.cli.table_files import write_pieces

ROWS = 40_000_000
_PIECE = 2_000_000


def measure(rows: int = ROWS, repeats: int = 5) -> dict[str, Any]:
    """Time and memory of both, without and with weights; the best time and the worst memory of a few runs."""
    results: dict[str, Any] = {"rows": rows}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "decisions.parquet"
        write_pieces(path, _pieces(rows))
        results["size of the file, MB"] = path.stat().st_size / 1e6
        for weight in (None, "weight"):
            results |= _compare(path, weight, repeats)
    return results


def _pieces(rows: int) -> Iterator[pl.DataFrame]:
    """Labels, decisions, two sensitive features with 2 x 4 = 8 groups, weights, and a column nobody reads."""
    rng = np.random.default_rng(0)
    sexes, races = pl.Series(["F", "M"]), pl.Series(["A", "B", "C", "D"])
    for start in range(0, rows, _PIECE):
        n = min(_PIECE, rows - start)
        sex, race = rng.integers(2, size=n), rng.choice(4, n, p=[0.6, 0.2, 0.15, 0.05])
        label = rng.random(n) < 0.3 + 0.1 * sex
        yield pl.DataFrame(
            {
                "id": np.arange(start, start + n),
                "label": label.astype(np.int64),
                "prediction": (rng.random(n) < 0.2 + 0.4 * label + 0.05 * sex).astype(np.int64),
                "sex": sexes[sex],
                "race": races[race],
                "weight": rng.lognormal(0, 0.5, n),
            }
        )


def _compare(path: Path, weight: str | None, repeats: int) -> dict[str, float]:
    weights = [] if weight is None else [weight]
    named = ["--label", "label", "--prediction", "prediction", "--sensitive", "sex,race"]
    options = [*named, *(["--weight", weight] if weight is not None else [])]
    commands = {
        "evenhand audit": [sys.executable, "-m", "evenhand", "audit", str(path), *options, "--json"],
        "group_by by hand": [sys.executable, "-m", by_hand.__name__, str(path), *weights],
    }
    calls = {
        "evenhand audit": lambda: eh.audit(
            "label", "prediction", ["sex", "race"], data=pl.scan_parquet(path), sample_weight=weight
        ),
        "group_by by hand": lambda: by_hand.count(path, weight),
    }
    costs: dict[str, list[Any]] = {name: [] for name in commands}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for k in range(repeats):  # in turn, so that other work on the machine disturbs both
        for name in sorted(commands, reverse=k % 2 == 1):
            costs[name].append(process_cost(commands[name]))
    for k in range(repeats):
        for name in sorted(calls, reverse=k % 2 == 1):
            times[name].append(seconds(calls[name], repeats=1))
    kind = "labels" if weight is None else "labels and weights"
    results = {}
    for name in commands:
        results |= {
            f"{kind}: {name}, fresh process, s": min(cost.seconds for cost in costs[name]),
            f"{kind}: {name}, fresh process, peak MB": max(cost.peak_bytes for cost in costs[name]) / 1e6,
            f"{kind}: {name}, call, s": min(times[name]),
        }
    ours, theirs = commands
    for way in ("fresh process, s", "call, s"):
        ratio = results[f"{kind}: {ours}, {way}"] / results[f"{kind}: {theirs}, {way}"]
        results[f"{kind}: audit over group_by, {way.removesuffix(', s')} (goal: at most 1.2)"] = ratio
    return results
