"""Solving from files: time in readings of the same file by polars, and memory.

Each of the two runs in a process of its own. The reading sums every column with polars' streaming engine, so
that every number is read once and nothing is kept.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import polars as pl

CASES = ((10**6, 4), (10**6, 16), (10**7, 4), (10**7, 16), (10**8, 4), (10**8, 16))
_PIECE = 1_000_000


def measure(most_rows: int = 10**8, repeats: int = 2) -> dict[str, Any]:
    """Solve demographic parity within 0.02 on files of several sizes."""
    results: dict[str, Any] = {}
    for rows, groups in CASES:
        if rows > most_rows:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "posteriors.parquet"
            _write(path, rows, groups)
            reads, solves = [], []
            for _ in range(repeats if rows < 10**8 else 1):  # in turn, so that other work disturbs both
                reads.append(_apart("read", path))
                solves.append(_apart("solve", path))
            size = path.stat().st_size / 1e9
        read, solve = (min(runs, key=lambda run: run["seconds"]) for runs in (reads, solves))
        case = f"n={rows:,}, M={groups}"
        goal = " (goal: at most 10)" if rows == 10**8 else ""
        results |= {
            f"{case}: size of the file, GB": size,
            f"{case}: one reading by polars, s": read["seconds"],
            f"{case}: solve, s": solve["seconds"],
            f"{case}: solve in readings{goal}": solve["seconds"] / read["seconds"],
            f"{case}: of which copying to a temporary file": solve["copying"] / read["seconds"],
            f"{case}: passes over the rows": solve["passes"],
            f"{case}: peak memory of the process, GB (goal: at most 2)": max(run["peak"] for run in solves)
            / 1e9,
            f"{case}: certified gap": abs(solve["gap"]),
            f"{case}: violation": solve["violation"],
        }
    return results


def _write(path: Path, rows: int, groups: int) -> None:
    from benchmarks.problems import smooth_posteriors  # noqa: PLC0415
    from evenhand.cli.table_files import write_pieces  # noqa: PLC0415

    def pieces() -> Any:
        for start in range(0, rows, _PIECE):
            p = smooth_posteriors(min(_PIECE, rows - start), groups, features_seed=start).astype("float32")
            columns = p.reshape(len(p), -1).T
            yield pl.DataFrame({f"group {k // 2}, label {k % 2}": column for k, column in enumerate(columns)})

    write_pieces(path, pieces())


def _apart(what: str, path: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.scale.solve", what, str(path)]
    found = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    answer: dict[str, Any] = json.loads(found.stdout)
    return answer


def _run(what: str, path: str) -> dict[str, Any]:
    if what == "read":
        start = time.perf_counter()
        pl.scan_parquet(path).select(pl.all().sum()).collect(engine="streaming")
        return {"seconds": time.perf_counter() - start}
    import evenhand as eh  # noqa: PLC0415
    from evenhand.optimum import solve as module  # noqa: PLC0415
    from evenhand.solver.partitions import ThreadedPartitions  # noqa: PLC0415

    spent, passes = {"copying": 0.0}, 0
    spooled, mapped = module.spooled, ThreadedPartitions.map

    def copy(*given: Any) -> Any:
        begin = time.perf_counter()
        partitions = spooled(*given)
        spent["copying"] = time.perf_counter() - begin
        return partitions

    def count(self: Any, function: Any, *given: Any, **named: Any) -> Any:
        nonlocal passes
        passes += function.__name__ != "_take"  # which reads a few rows only
        return mapped(self, function, *given, **named)

    module.spooled, ThreadedPartitions.map = copy, count  # type: ignore[method-assign,assignment]
    start = time.perf_counter()
    found = eh.solve(pl.scan_parquet(path), eh.DemographicParity(difference=0.02)).certificate
    return {
        "seconds": time.perf_counter() - start,
        **spent,
        "passes": passes,
        "peak": _peak_bytes(),
        "gap": found.gap,
        "violation": found.violation,
    }


def _peak_bytes() -> int:
    """Most memory of this process; that of getrusage begins with the process that started it."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return 1024 * int(line.split()[1])


if __name__ == "__main__":
    print(json.dumps(_run(*sys.argv[1:])))
