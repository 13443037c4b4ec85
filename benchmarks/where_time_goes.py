"""Where the time of one fit and of one prediction goes, stage by stage.

Run: ``python -m benchmarks.where_time_goes``; a minute. One thread, default trees, 8,000 rows of Adult in
four groups and of ACS income in ten, demographic parity. A profiler slows short functions down most: the
shares are for orientation, and the times are those of `benchmarks.serving`.
"""

from __future__ import annotations

import cProfile
import pstats
import warnings
from collections.abc import Callable
from typing import Any

from threadpoolctl import threadpool_limits

import evenhand as eh
from benchmarks.record import write
from benchmarks.serving import TOLERANCE, adult_rows, income_rows, repeated

FIT = {
    "reading the table, labels and groups": ("training_data.py", "read_training_data"),
    "fitting trees": ("tabular.py", "fit"),
    "evaluating trees": ("learner.py", "proba", "proba_with"),
    "calibrating": ("crossfit.py", "calibrate"),
    "solving and proving": ("problem.py", "solve"),
    "making the rule": ("fit_rows.py", "rule"),
}
PREDICTION = {
    "reading the table": ("access.py", "read"),
    "encoding it": ("table_encoder.py", "__call__"),
    "evaluating trees": ("learner.py", "proba", "proba_with"),
    "calibrating": ("models.py", "calibrated"),
    "keys of the rows": ("row_keys.py", "row_keys"),
    "the rule": ("rule.py", "decide"),
}


def shares(work: Callable[[], Any], stages: dict[str, tuple[str, ...]]) -> tuple[float, dict[str, float]]:
    """Seconds of some work under the profiler, and the share of each stage."""
    profile = cProfile.Profile()
    profile.runcall(work)
    found: Any = pstats.Stats(profile)
    spent = {
        name: sum(
            line[3]
            for (path, _, own), line in found.stats.items()
            if path.endswith(file) and own in functions
        )
        for name, (file, *functions) in stages.items()
    }
    return found.total_tt, {name: seconds / found.total_tt for name, seconds in spent.items()}


def told(name: str, work: Callable[[], Any], stages: dict[str, tuple[str, ...]]) -> dict[str, float]:
    work()  # what is loaded once is not counted
    seconds, found = shares(work, stages)
    rest = 1 - sum(found.values())
    return {f"{name}: seconds": seconds} | {
        f"{name}: {stage}, share": share for stage, share in {**found, "everything else": rest}.items()
    }


def main() -> None:
    found: dict[str, float] = {}
    for table, (X, y, new, sensitive) in {
        "Adult": adult_rows(),
        "ACS income": income_rows() or [None] * 4,
    }.items():
        if X is None:
            continue
        for way, aware in {"blind": False, "aware": True}.items():
            parity = eh.DemographicParity(difference=TOLERANCE)
            fair = eh.FairPostprocessor(constraint=parity, sensitive_features=sensitive, aware=aware)
            found |= told(f"{table}, {way}, fit", lambda fair=fair, X=X, y=y: fair.fit(X, y), FIT)  # type: ignore[misc]
            for size, text in {1: "one row, 100 times", 100_000: "100,000 rows"}.items():
                batch, times = repeated(new, size), 100 if size == 1 else 1

                def predict(fair: Any = fair, batch: Any = batch, times: int = times) -> None:
                    for _ in range(times):
                        fair.predict(batch)

                found |= told(f"{table}, {way}, {text}", predict, PREDICTION)
    write("where_time_goes", found, ["evenhand", "numpy", "scikit-learn"])


if __name__ == "__main__":
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
