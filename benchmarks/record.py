"""Time things, and keep the last results of a benchmark with versions and date."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def seconds(work: Callable[[], Any], repeats: int = 3) -> float:
    """Smallest wall-clock time of a few runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def peak_bytes(work: Callable[[], Any]) -> int:
    """Most memory that `work` holds at a time beyond what was there before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def fresh_process_seconds(code: str, repeats: int = 7) -> float:
    """Smallest time in which a new interpreter runs `code`."""
    return seconds(lambda: subprocess.run([sys.executable, "-c", code], check=True), repeats)  # noqa: S603


@dataclass(frozen=True)
class ProcessCost:
    """What a process took: wall-clock time, and the most memory that was resident at a time."""

    seconds: float
    peak_bytes: int


# A process starts with the peak of the one that started it, so a small one starts it.
_LAUNCH = """
import json, os, subprocess, sys, time
start = time.perf_counter()
_, status, usage = os.wait4(subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL).pid, 0)
print(json.dumps([time.perf_counter() - start, usage.ru_maxrss * 1024, os.waitstatus_to_exitcode(status)]))
"""


def process_cost(command: Sequence[str]) -> ProcessCost:
    """Run a command in a process of its own, which must succeed; what it prints is dropped."""
    launch = [sys.executable, "-I", "-S", "-c", _LAUNCH, *command]
    told = subprocess.run(  # noqa: S603
        launch, check=True, capture_output=True, text=True, cwd=RESULTS.parents[1]
    )
    took, peak, code = json.loads(told.stdout)
    if code:
        raise RuntimeError(f"{command[0]} ended with exit code {code}: {told.stderr}")
    return ProcessCost(took, peak)


def write(name: str, results: dict[str, Any], packages: list[str]) -> None:
    """Print results and keep them in ``results/<name>.json``."""
    record = {
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "versions": {package: version(package) for package in packages},
        "results": results,
    }
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    width = max(len(key) for key in results)
    for key, value in results.items():
        print(f"{key:<{width}}  {value:,.4g}" if isinstance(value, float) else f"{key:<{width}}  {value}")
    print(f"kept in benchmarks/results/{path.name}")
