"""A fit from a Parquet file: time and memory from ten thousand rows on, beside a plain model.

Run: ``python -m benchmarks.scale.fit [most rows]``; with ten million about half an hour.
"""

from __future__ import annotations

import json
import os
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


def measure(most: int = ROWS) -> dict[str, Any]:
    """Processor time and peak memory at 10,000 rows and each further power of ten.

    Every step runs in a process of its own with one thread, so that memory is that of the step alone. The
    plain model reads the table, and is fitted to all rows.

    Parameters
    ----------
    most : int, default=10_000_000

    Returns
    -------
    dict
    """
    found: dict[str, Any] = {"rows learned from, at most": LEARN_ROWS}
    rows = 10_000
    while rows <= most:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "people.parquet")
            written = _in_process("write", path, rows)
            plain = _in_process("plain", path)
            fitted = _in_process("fit", path)
            predicted = _in_process("predict", path, Path(folder) / "model.eh")
        stages = fitted.pop("stages")
        figures = {
            "table in memory, MB": written["memory"] / 1e6,
            "plain fit, s": plain["seconds"],
            "plain fit, peak MB": plain["peak"] / 1e6,
            "fit, s": fitted["seconds"],
            **{f"of which {stage}, s": taken for stage, taken in stages.items()},
            "fit, peak MB": fitted["peak"] / 1e6,
            "posteriors on the disk, MB": fitted["disk"] / 1e6,
            "fit over plain": fitted["seconds"] / plain["seconds"],
            "plain answers, s": plain["answers"],
            "answers, s": predicted["seconds"],
            "answers, peak MB": predicted["peak"] / 1e6,
            "imports alone, MB": fitted["before"] / 1e6,
            "gap": fitted["gap"],
            "violation": fitted["violation"],
        }
        for name, value in figures.items():
            print(f"{rows:>12,}  {name:<30} {value:,.4g}", flush=True)
        found |= {f"{rows:,} rows: {name}": value for name, value in figures.items()}
        rows *= 10
    return found


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


def _plain(path: str) -> dict[str, Any]:
    table = pl.read_parquet(path)
    X, y = table.drop("sex", "race", "paid"), table["paid"].to_numpy()
    start = time.process_time()
    model = eh.TabularClassifier().fit(X, y)
    fitted = time.process_time()
    model.predict(X)
    return {"seconds": fitted - start, "answers": time.process_time() - fitted, "peak": _peak()}


def _fit(path: str) -> dict[str, Any]:
    taken: dict[str, float] = {}

    def timed(stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            start = time.process_time()
            try:
                return function(*given, **named)
            finally:
                taken[stage] = taken.get(stage, 0.0) + time.process_time() - start

        return call

    for name, stage in _STAGES.items():
        setattr(fit_rows, name, timed(stage, getattr(fit_rows, name)))
    FairnessProblem.solve = timed("solving", FairnessProblem.solve)  # type: ignore[method-assign]
    disk, reserve = [0], PosteriorFile.reserve

    def noted(file: PosteriorFile) -> None:
        disk.append(file.size)
        reserve(file)

    PosteriorFile.reserve = noted  # type: ignore[method-assign]
    model = eh.FairPostprocessor(
        constraint=eh.DemographicParity(difference=0.02),
        sensitive_features=["sex", "race"],
        posteriors=eh.CrossFit(max_samples=LEARN_ROWS),
    )
    before, start = _peak(), time.process_time()
    model.fit(pl.scan_parquet(path), "paid")
    seconds = time.process_time() - start
    peak = _peak()
    eh.save(model, Path(path).with_name("model.eh"))
    return {
        "seconds": seconds,
        "stages": taken,
        "peak": peak,
        "before": before,
        "disk": disk[-1],
        "gap": model.certificate_.gap,
        "violation": model.certificate_.violation,
    }


def _predict(path: str, model: str) -> dict[str, Any]:
    loaded = eh.load(model)
    start = time.process_time()
    for _ in loaded.predict(pl.scan_parquet(path)):
        pass
    return {"seconds": time.process_time() - start, "peak": _peak()}


def _peak() -> int:
    """Most resident memory of this process so far, without that of the one that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith("VmHWM:")]
    return 1024 * int(line.split()[1])


_STEPS = {"write": _write, "plain": _plain, "fit": _fit, "predict": _predict}


def _in_process(step: str, *arguments: Any) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.scale.fit", step, *map(str, arguments)]
    one = os.environ | {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=one)  # noqa: S603
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in _STEPS:
        print(json.dumps(_STEPS[sys.argv[1]](*sys.argv[2:])))
    else:
        measure(*map(int, sys.argv[1:]))
