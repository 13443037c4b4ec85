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
from collections.abc import Callable
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
