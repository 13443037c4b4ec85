"""What the paper's ways to choose multipliers lose against the exact solver, and what they cost.

Run: ``python -m benchmarks.search`` (about two minutes on two cores). Finite problems whose fair optimum is
known, demographic parity by mean difference; for grid and ascent decisions are 1[H > 0], as in the paper.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import evenhand as eh
from benchmarks.record import write
from evenhand.datasets import FiniteProblem
from evenhand.estimators.search import PlugIn, best_trial
from evenhand.optimum.problem import FairnessProblem

PROBLEMS = 40
SEARCHES: dict[str, Any] = {
    "exact": None,
    "dual ascent, 500 steps": eh.DualAscent(),
    "grid, step 0.2": eh.GridSearch(step=0.2),
    "grid, step 0.1": eh.GridSearch(step=0.1),
}


def found_by(search: Any, asked: FairnessProblem) -> tuple[float, float]:
    """Risk and violation of what a search finds."""
    if search is None:
        certificate = asked.solve(tol=1e-9).certificate
        return certificate.objective, certificate.violation
    best = best_trial(search.run(PlugIn(asked), watch=lambda steps, total: steps))  # noqa: ARG005
    return best.risk, best.violation


def compare(n_atoms: int, results: dict[str, Any]) -> None:
    """Compare the searches on problems with four groups and so many feature values."""
    tolerance = eh.DemographicParity(difference=0.05)
    lost: dict[str, list[float]] = {name: [] for name in SEARCHES}
    broken, seconds = dict.fromkeys(SEARCHES, 0), dict.fromkeys(SEARCHES, 0.0)
    for seed in range(PROBLEMS):
        problem = FiniteProblem.random(n_atoms, levels=(2, 2), seed=seed)
        known = problem.optimum(tolerance).risk
        asked = FairnessProblem.read(
            problem.posteriors, tolerance, sample_weight=problem.weights, groups=problem.groups
        )
        for name, search in SEARCHES.items():
            start = time.perf_counter()
            risk, violation = found_by(search, asked)
            seconds[name] += time.perf_counter() - start
            if violation > 1e-9:
                broken[name] += 1
            else:
                lost[name].append(risk - known)
    for name in SEARCHES:
        label = f"{n_atoms} feature values: {name}"
        results[f"{label}, problems without a fair answer, of {PROBLEMS}"] = broken[name]
        results[f"{label}, mean risk above the known optimum, of the others"] = _mean(lost[name], np.mean)
        results[f"{label}, largest"] = _mean(lost[name], np.max)
        results[f"{label}, time over exact"] = seconds[name] / seconds["exact"]


def _mean(values: list[float], how: Callable[[list[float]], Any]) -> float | str:
    return float(how(values)) if values else "none"


def main() -> None:
    results: dict[str, Any] = {}
    for n_atoms in (30, 1000):
        compare(n_atoms, results)
    write("search", results, ["evenhand", "numpy", "highspy"])


if __name__ == "__main__":
    main()
