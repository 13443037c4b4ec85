"""What polars does by itself: ``python -m benchmarks.scale.by_hand FILE [WEIGHT]`` imports nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl


def count(path: str | Path, weight: str | None = None) -> pl.DataFrame:
    """The counts from which an audit's rates follow; with weights, the sums of them and of their squares."""
    sums = [pl.len()]
    if weight is not None:
        sums += [pl.col(weight).sum(), (pl.col(weight) ** 2).sum().alias("squares")]
    keys = ["label", "prediction", "sex", "race"]
    return pl.scan_parquet(path).group_by(keys).agg(sums).collect(engine="streaming")


if __name__ == "__main__":
    print(count(*sys.argv[1:]))
