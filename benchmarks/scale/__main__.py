"""Measure the parts that are asked for, and keep their figures."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

import benchmarks.scale
from benchmarks.record import write
from benchmarks.scale import audit

PACKAGES = {"audit": ["evenhand", "narwhals", "numpy", "polars"]}
"""The parts, and the packages whose versions are kept with their figures."""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=benchmarks.scale.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(PACKAGES), help="parts, separated by commas")
    parser.add_argument("--audit-rows", type=int, default=audit.ROWS, help="rows of the audited file")
    chosen = parser.parse_args(arguments)
    parts: dict[str, Callable[[], dict[str, Any]]] = {"audit": lambda: audit.measure(chosen.audit_rows)}
    for name in chosen.only.split(","):
        if name not in parts:
            parser.error(f"there is no part {name!r}: choose among {', '.join(parts)}.")
    for name in chosen.only.split(","):
        load, _, _ = os.getloadavg()  # of the last minute; figures of a busy machine are worth less
        write(f"scale-{name}", {"load average before": load, **parts[name]()}, PACKAGES[name])


if __name__ == "__main__":
    main()
