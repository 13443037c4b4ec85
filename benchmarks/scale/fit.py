"""A fit from a Parquet file that is read in batches: memory, and where the time goes.

Run: ``python -m benchmarks.scale.fit [rows]``
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import evenhand as eh
from evenhand.estimators import fit_rows
from evenhand.optimum.problem import FairnessProblem
from evenhand.sources.posterior_file import PosteriorFile

ROWS = 10_000_000
LEARN_ROWS = 200_000
_AT_ONCE = 1_000_000
_STAGES = {
    "count_table": "counting",
    "draw_sample": "drawing",
    "learn_posteriors": "learning",
    "_scored": "scoring",
    "randomise_atoms": "ties",
}
"""Functions that `fit` calls besides the solver, and what they do."""


def measure(rows: int = ROWS, max_samples: int = LEARN_ROWS) -> dict[str, Any]:
    """Peak memory of a fit, and its seconds by stage relative to reading the file once with polars.

    Every step runs in a process of its own, so that memory is that of the fit alone.

    Parameters
    ----------
    rows : int, default=10_000_000
    max_samples : int, default=200_000

    Returns
    -------
    dict
    """
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "people.parquet")
        written = _in_process("write", path, rows)
        read = min(_in_process("read", path)["seconds"] for _ in range(3))
        fitted = _in_process("fit", path, max_samples)
        predicted = _in_process("predict", path, Path(folder) / "model.eh")
        stages = fitted.pop("stages")
    return {
        "rows": rows,
        "rows learned from": max_samples,
        "file, bytes": written["bytes"],
        "table in memory, bytes": written["memory"],
        "reading the file once with polars, seconds": read,
        **{f"{stage}, times reading": taken / read for stage, taken in stages.items()},
        "fit, times reading": fitted["seconds"] / read,
        "fit, peak resident bytes": fitted["peak"],
        "posteriors on the disk, bytes": fitted["disk"],
        "predict, times reading": predicted["seconds"] / read,
        "predict, peak resident bytes": predicted["peak"],
        "imports alone, resident bytes": fitted["before"],
        "gap": fitted["gap"],
        "violation": fitted["violation"],
    }


def people(rows: int, seed: int) -> pl.DataFrame:
    """Twelve columns: nine features, two sensitive ones with four groups of 5 to 45 %, and a label."""
    rng = np.random.default_rng(seed)
    sex, race = rng.choice(["F", "M"], rows), rng.choice(["a", "b"], rows, p=[0.9, 0.1])
    apart = 0.5 * (sex == "M") - 0.4 * (race == "b")
    x = rng.normal(size=(rows, 8)) + apart[:, None] * np.linspace(1.0, 0.0, 8)
    job = rng.integers(0, 12, rows)
    score = x @ np.linspace(0.6, -0.2, 8) + 0.1 * (job - 6)
    return pl.DataFrame(
        {
            **{f"x{k}": x[:, k] for k in range(8)},
            "job": np.array([f"job {k}" for k in range(12)])[job],
            "sex": sex,
            "race": race,
            "paid": rng.random(rows) < 1 / (1 + np.exp(-score)),
        }
    )


def _write(path: str, rows: str) -> dict[str, Any]:
    parts = [min(_AT_ONCE, int(rows) - first) for first in range(0, int(rows), _AT_ONCE)]
    tables = [people(part, seed) for seed, part in enumerate(parts)]
    whole = pl.concat(tables)
    whole.write_parquet(path, row_group_size=250_000)
    return {"bytes": Path(path).stat().st_size, "memory": whole.estimated_size()}


def _read(path: str) -> dict[str, Any]:
    start = time.perf_counter()
    for _ in pl.scan_parquet(path).collect_batches(chunk_size=1 << 18, maintain_order=True):
        pass
    return {"seconds": time.perf_counter() - start}


def _fit(path: str, max_samples: str) -> dict[str, Any]:
    taken: dict[str, float] = {}

    def timed(stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*given, **named)
            finally:
                taken[stage] = taken.get(stage, 0.0) + time.perf_counter() - start

        return call

    for name, stage in _STAGES.items():
        setattr(fit_rows, name, timed(stage, getattr(fit_rows, name)))
    FairnessProblem.solve = timed("solving", FairnessProblem.solve)  # type: ignore[method-assign]
    disk, reserve = [], PosteriorFile.reserve

    def noted(file: PosteriorFile) -> None:
        disk.append(file.size)
        reserve(file)

    PosteriorFile.reserve = noted  # type: ignore[method-assign]
    model = eh.FairPostprocessor(
        constraint=eh.DemographicParity(difference=0.02),
        sensitive_features=["sex", "race"],
        posteriors=eh.CrossFit(max_samples=int(max_samples)),
    )
    before, start = _peak(), time.perf_counter()
    model.fit(pl.scan_parquet(path), "paid")
    seconds = time.perf_counter() - start
    peak = _peak()
    eh.save(model, Path(path).with_name("model.eh"))
    return {
        "seconds": seconds,
        "stages": taken,
        "peak": peak,
        "before": before,
        "disk": disk[0],
        "gap": model.certificate_.gap,
        "violation": model.certificate_.violation,
    }


def _predict(path: str, model: str) -> dict[str, Any]:
    loaded = eh.load(model)
    start = time.perf_counter()
    for _ in loaded.predict(pl.scan_parquet(path)):
        pass
    return {"seconds": time.perf_counter() - start, "peak": _peak()}


def _peak() -> int:
    """Most resident memory of this process so far, without that of the one that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith("VmHWM:")]
    return 1024 * int(line.split()[1])


_STEPS = {"write": _write, "read": _read, "fit": _fit, "predict": _predict}


def _in_process(step: str, *arguments: Any) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.scale.fit", step, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in _STEPS:
        print(json.dumps(_STEPS[sys.argv[1]](*sys.argv[2:])))
    else:
        for name, value in measure(*map(int, sys.argv[1:])).items():
            print(f"{name:<45} {value:,.4g}" if isinstance(value, float) else f"{name:<45} {value:,}")
