"""Measure the parts that are asked for, and keep their figures."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

import benchmarks.scale
from benchmarks.record import write
from benchmarks.scale import audit, cluster, fit, solve

PACKAGES = {
    "audit": ["evenhand", "narwhals", "numpy", "polars"],
    "solve": ["evenhand", "highspy", "numpy", "polars"],
    "fit": ["evenhand", "numpy", "polars", "scikit-learn"],
    "cluster": ["dask", "distributed", "evenhand", "numpy"],
}
"""The parts, and the packages whose versions are kept with their figures."""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=benchmarks.scale.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(PACKAGES), help="parts, separated by commas")
    parser.add_argument("--audit-rows", type=int, default=audit.ROWS, help="rows of the audited file")
    parser.add_argument(
        "--solve-rows", type=int, default=10**8, help="rows of the largest file of posteriors"
    )
    parser.add_argument("--fit-rows", type=int, default=fit.ROWS, help="rows of the largest file fitted to")
    chosen = parser.parse_args(arguments)
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "audit": lambda: audit.measure(chosen.audit_rows),
        "solve": lambda: solve.measure(chosen.solve_rows),
        "fit": lambda: fit.measure(chosen.fit_rows),
        "cluster": cluster.measure,
    }
    for name in chosen.only.split(","):
        if name not in parts:
            parser.error(f"there is no part {name!r}: choose among {', '.join(parts)}.")
    for name in chosen.only.split(","):
        load, _, _ = os.getloadavg()  # of the last minute; figures of a busy machine are worth less
        write(f"scale-{name}", {"load average before": load, **parts[name]()}, PACKAGES[name])


if __name__ == "__main__":
    main()
