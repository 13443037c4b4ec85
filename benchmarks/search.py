"""What the paper's ways to choose multipliers lose against the exact solver, and what they cost.

Run: ``python -m benchmarks.search`` (about two minutes on two cores). Finite problems whose fair optimum is
known, demographic parity by mean difference; for grid and ascent decisions are 1[H > 0], as in the paper
(:mod:`evenhand.paper`), and risk and rates are those of the known probabilities.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import evenhand as eh
from benchmarks.exact import FiniteProblem
from benchmarks.record import write
from evenhand.optimum.problem import FairnessProblem
from evenhand.paper import Ascent, Grid
from evenhand.paper.algorithms import Validation, corrections, plug_in

PROBLEMS = 40
TOLERANCE = eh.DemographicParity(difference=0.05)
SEARCHES: dict[str, Any] = {
    "exact": None,
    "dual ascent, 500 steps": Ascent(),
    "grid, step 0.2": Grid(((1.0, 0.2),)),
    "grid, step 0.1": Grid(((1.0, 0.1),)),
}


def found_by(search: Any, problem: FiniteProblem) -> tuple[float, float]:
    """Risk and violation of what a search finds."""
    p, weights = problem.posteriors, problem.weights
    if search is None:
        asked = FairnessProblem.read(p, TOLERANCE, sample_weight=weights, groups=problem.groups)
        certificate = asked.solve(tol=1e-9).certificate
        return certificate.objective, certificate.violation
    masses = np.tensordot(weights, p, axes=1)
    linear = TOLERANCE.linear(masses, problem.groups)
    validation = Validation(weights[:, None] * p.reshape(len(p), -1), linear, 0.5)
    eta, unit = p[:, :, 1].sum(axis=1), corrections(p, linear, masses)

    def evaluate(points: np.ndarray) -> Any:
        return validation(points, plug_in(eta, unit @ points.T, 0.5))

    bounds = linear.lo, linear.hi
    grid = isinstance(search, Grid)
    found = search.run(evaluate, [bounds], linear.C) if grid else search.run(evaluate, bounds)
    best = found.best(bounds)
    return float(found.risks[best]), float(found.violations(bounds)[best])


def compare(n_atoms: int, results: dict[str, Any]) -> None:
    """Compare the searches on problems with four groups and so many feature values."""
    lost: dict[str, list[float]] = {name: [] for name in SEARCHES}
    broken, seconds = dict.fromkeys(SEARCHES, 0), dict.fromkeys(SEARCHES, 0.0)
    for seed in range(PROBLEMS):
        problem = FiniteProblem.random(n_atoms, levels=(2, 2), seed=seed)
        known = problem.optimum(TOLERANCE).risk
        for name, search in SEARCHES.items():
            start = time.perf_counter()
            risk, violation = found_by(search, problem)
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
