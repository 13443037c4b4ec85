"""Random requirements (notions, bounds, strata, costs, weights) against a linear program on all rows.

Run: ``python -m benchmarks.requirements`` (about three minutes).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.optimize import linprog

import evenhand as eh
from benchmarks.record import write
from evenhand.exceptions import CertificateError, EvenhandWarning, InfeasibleError
from evenhand.optimum.problem import FairnessProblem
from evenhand.posteriors.posteriors import GroupedScores, read_posteriors
from evenhand.requirements.bounds import BOUNDED_RATES
from evenhand.requirements.notions import NOTIONS
from evenhand.solver import optimize as optimize_module

RANDOM = 2000
RATES = ("selection rate", "true-positive rate", "false-positive rate", "error rate", "accuracy")


def random_part(rng: np.random.Generator, controls: tuple[str, ...] = ()) -> Any:
    """A notion, within strata or not, a bound, or no group worse off."""
    scope = str(rng.choice(["population", "intersectional", "independent"]))
    kind = rng.integers(0, 10)
    if kind < 5:
        slack = float(rng.choice([0.0, 0.01, 0.05, 0.2, 0.5]))
        tolerance = {"difference": slack} if rng.random() < 0.5 else {"ratio": 1 - slack}
        groups = str(rng.choice(["intersectional", "independent"]))
        given = None
        if controls and rng.random() < 0.8:
            given = [name for name in controls if rng.random() < 0.6] or [controls[0]]
        against = str(rng.choice(["population", "groups"]))
        return NOTIONS[kind](**tolerance, groups=groups, against=against, given=given)
    if kind == 5:
        return eh.NoWorse(str(rng.choice(RATES)), groups=scope)
    low, high = np.sort(rng.random(2)).round(3).tolist()
    bounds = [{"at_least": 0.7 * low}, {"at_most": high}, {"at_least": 0.5 * low, "at_most": high}]
    return eh.RateBound(BOUNDED_RATES[rng.integers(5)], **bounds[rng.integers(3)], groups=scope)


def random_task(seed: int, most_rows: int = 400) -> tuple[FairnessProblem, np.ndarray, np.ndarray]:
    """A problem, with its rows written out in the cells of all strata, and their weights.

    In a third of them the group is known, and in half of them there are strata.
    """
    rng = np.random.default_rng(seed)
    levels = [(2,), (3,), (2, 2), (2, 3)][rng.integers(4)]
    M, n = int(np.prod(levels)), int(rng.integers(20, most_rows))
    groups = eh.Groups.product({f"A{k}": range(size) for k, size in enumerate(levels)})
    rows: Any
    if rng.random() < 0.3:
        codes, eta = rng.integers(0, M, n), rng.beta(1, 2, n)
        rows = GroupedScores(np.round(6 * eta) / 6 if rng.random() < 0.4 else eta, codes, M)
    else:
        rows = rng.dirichlet(np.full(2 * M, rng.choice([0.2, 1.0])), n).reshape(n, M, 2)
        if rng.random() < 0.3:
            rows = np.round(8 * rows) / 8 + 1e-6
            rows /= rows.sum(axis=(1, 2), keepdims=True)
    controls: tuple[str, ...] = ()
    if rng.random() < 0.5:
        sizes = {"C0": 2, "C1": int(rng.integers(1, 4))}
        strata = eh.Groups.product({name: range(size) for name, size in sizes.items()})
        controls = ("C0", "C1", "A0") if len(levels) > 1 else ("C0", "C1")
        rows = read_posteriors(rows).within(rng.integers(0, len(strata), n), len(strata))
        groups = groups.within(strata)
    weights = rng.random(n) if rng.random() < 0.5 else None
    constraint = random_part(rng, controls)
    for _ in range(rng.integers(0, 3)):
        constraint = constraint & random_part(rng, controls)
    cost = float(rng.choice([0.5, 0.3, 0.8]))
    task = FairnessProblem.read(rows, constraint, cost=cost, sample_weight=weights, groups=groups)
    written_out = read_posteriors(rows).dense().reshape(n, -1)
    return task, written_out, np.full(n, 1 / n) if weights is None else weights / weights.sum()


def full_program(task: FairnessProblem, rows: np.ndarray, weights: np.ndarray) -> float | None:
    """The smallest risk, by a program with a variable for each row and each scalar; None if infeasible."""
    A, lo, hi = task.linear_constraints.in_sums(task.masses)
    D = task.masses.size
    per_row = weights[:, None] * rows
    matrix = np.hstack([A[:, :D] @ per_row.T, A[:, D:]])
    gain = np.concatenate([per_row @ task.program.gain[:D], np.zeros(A.shape[1] - D)])
    # In units of one row: the tolerances of HiGHS are absolute, and entries of 1/n have led it astray.
    matrix, gain, lo, hi = (len(rows) * part for part in (matrix, gain, lo, hi))
    limits = np.concatenate([hi, -lo])
    both = np.vstack([matrix, -matrix])[np.isfinite(limits)]
    found = linprog(-gain, both, limits[np.isfinite(limits)], bounds=(0, 1), method="highs")
    if found.status == 2:
        return None
    if found.status != 0:
        raise ArithmeticError(f"the other solver failed: {found.message}")
    return float(task.unit * (task.program.constant + found.fun / len(rows)))


def measure(count: int = RANDOM) -> dict[str, Any]:
    """How many of the random problems are solved wrongly, and how far off they are."""
    wrong = infeasible = unproven = stratified = 0
    worst = {"objective": 0.0, "violation": 0.0, "gap": 0.0}
    for seed in range(count):
        by_newton = seed % 2 == 1  # the others are small enough for a linear program of all rows
        optimize_module._SMALL = 30 if by_newton else 2000
        task, rows, weights = random_task(seed, 1500 if by_newton else 400)
        stratified += task.groups.strata is not None
        expected = full_program(task, rows, weights)
        try:
            certificate = task.solve(tol=1e-8, advise=False).certificate
        except InfeasibleError:
            infeasible += 1
            if expected is not None:
                wrong += 1
                print(f"seed {seed} can be satisfied: {task.constraint}")
            continue
        except CertificateError:
            unproven += 1
            print(f"seed {seed} is not proven: {task.constraint}")
            continue
        off = np.inf if expected is None else abs(certificate.objective - expected)
        if off > 1e-7:
            wrong += 1
            print(f"seed {seed} is off by {off:g}: {task.constraint}")
            continue
        worst["objective"] = max(worst["objective"], off)
        worst["violation"] = max(worst["violation"], certificate.violation)
        worst["gap"] = max(worst["gap"], abs(certificate.gap))
    optimize_module._SMALL = 2000
    return {
        "random problems": count,
        "of which with strata": stratified,
        "of which nothing satisfies": infeasible,
        "wrong (goal: 0)": wrong,
        "not proven to 1e-8": unproven,
        "worst difference from the full program": worst["objective"],
        "worst violation": worst["violation"],
        "worst certified gap": worst["gap"],
    }


def main() -> None:
    warnings.simplefilter("ignore", EvenhandWarning)
    write("requirements", measure(), ["evenhand", "numpy", "scipy", "highspy"])


if __name__ == "__main__":
    main()
