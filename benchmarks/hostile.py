"""Small problems made to be hard: whether any is solved wrongly, or refused although it has an optimum.

Run: ``python -m benchmarks.hostile`` (a few minutes on one core).
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

import evenhand as eh
from benchmarks.exact import FiniteProblem
from benchmarks.record import write
from evenhand.exceptions import CertificateError, EvenhandWarning, InputError
from evenhand.optimum.problem import prices_of
from evenhand.optimum.solution import Solution
from evenhand.requirements.notions import NOTIONS

PROBLEMS = 4600
ATMOST = 60
"""Rows up to which a solution is checked in rational numbers."""
LEVELS = ((2,), (3,), (2, 2), (5,), (2, 3))
SLACKS = (0.0, 0.0, 1e-12, 1e-9, 1e-4, 0.01, 0.1, 0.4)
COSTS = (0.5, 0.5, 0.3, 0.001, 0.999)


@dataclass(frozen=True, eq=False)
class Hostile:
    """A problem, the rows to solve it with (posteriors or grouped scores), a requirement and a cost."""

    problem: FiniteProblem
    rows: Any
    constraint: eh.notions.Constraint
    cost: float

    def solve(self, tol: float = 1e-8) -> Solution:
        """Solve it, to a gap of `tol`."""
        problem = self.problem
        return eh.solve(
            self.rows,
            self.constraint,
            cost=self.cost,
            sample_weight=problem.weights,
            groups=problem.groups,
            tol=tol,
        )


def hostile_problem(seed: int, most_rows: int = 400) -> Hostile:
    """Draw a problem of 5 to `most_rows` rows, with several difficulties at once.

    Weights over twelve orders of magnitude, groups of a mass of 1e-9, tolerances of 0 and 1e-12, up to four
    notions at once, scores that are one-hot, nearly constant or tied, and errors that cost 0.001. In a third
    of them the group is known.
    """
    rng = np.random.default_rng([seed, 4600])
    levels = LEVELS[rng.integers(len(LEVELS))]
    M, n = int(np.prod(levels)), int(rng.integers(5, most_rows))
    weights = [np.ones(n), 10.0 ** rng.uniform(-12, 0, n), rng.exponential(size=n)][rng.integers(3)]
    rare = rng.integers(M) if rng.random() < 0.3 else None
    rows: Any
    if rng.random() < 1 / 3:
        codes, eta = rng.integers(0, M, n), _scores(rng, n)
        if rare is not None:
            weights = np.where(codes == rare, 1e-9 * weights, weights)
        p = np.zeros((n, M, 2))
        p[np.arange(n), codes] = np.column_stack([1 - eta, eta])
        rows = eh.GroupedScores(eta, codes, M)
    else:
        rows = p = _posteriors(rng, n, M, rare)
    constraint = _notion(rng)
    for _ in range(rng.integers(4)):
        constraint = constraint & _notion(rng)
    groups = eh.Groups.product({f"A{k}": range(size) for k, size in enumerate(levels)})
    problem = FiniteProblem(weights / weights.sum(), p, groups)
    return Hostile(problem, rows, constraint, float(rng.choice(COSTS)))


def _scores(rng: np.random.Generator, n: int) -> np.ndarray:
    kind = rng.integers(4)
    if kind == 0:
        return rng.beta(0.7, 1.0, n)
    if kind == 1:  # ties
        return np.round(6 * rng.random(n)) / 6
    if kind == 2:  # one-hot
        return (rng.random(n) < 0.4).astype(np.float64)
    return 0.9 * rng.random() + rng.choice([1e-3, 1e-6, 1e-9]) * rng.random(n)


def _posteriors(rng: np.random.Generator, n: int, M: int, rare: int | None) -> np.ndarray:
    kind = rng.integers(5)
    sizes = 2 * M * rng.dirichlet(np.full(2 * M, rng.choice([0.3, 1.0, 5.0])))
    if kind == 0:  # one-hot
        p = np.eye(2 * M)[rng.choice(2 * M, n, p=sizes / sizes.sum())]
    elif kind == 1:  # nearly constant
        p = rng.dirichlet(np.maximum(sizes, 0.1)) + rng.choice([1e-3, 1e-6, 1e-9]) * rng.random((n, 2 * M))
    else:
        p = rng.dirichlet(np.maximum(sizes * rng.choice([0.05, 0.3, 1.0, 5.0]), 0.01), size=n)
        p = np.round(8 * p) / 8 if kind == 2 else p
    if rare is not None:
        p[:, 2 * rare : 2 * rare + 2] *= 1e-9
    p[p.sum(axis=1) == 0] = 1.0
    return (p / p.sum(axis=1, keepdims=True)).reshape(n, M, 2)


def _notion(rng: np.random.Generator) -> eh.notions.Constraint:
    slack = float(rng.choice(SLACKS))
    tolerance = {"difference": slack} if rng.random() < 0.5 else {"ratio": 1 - slack}
    mode = "intersectional" if rng.random() < 0.7 else "independent"
    return NOTIONS[rng.integers(len(NOTIONS))](**tolerance, groups=mode)


def shortfall(constraint: eh.notions.Constraint, found: Solution) -> float:
    """By how much the rates of a solution miss what was asked for, as `measure` has it."""
    return float(np.nanmax([0.0, *(m.excess for m in constraint.measure(found.rates))]))


def exact_certificate(hostile: Hostile, found: Solution) -> tuple[Fraction, Fraction] | None:
    """Gap and violation of a solution in rational numbers, from its selection and multipliers alone.

    None where a notion was asked for twice: multipliers are kept by name, so that one of them is lost.
    """
    if len(set(found.linear_constraints.names)) < len(found.linear_constraints):
        return None
    p = hostile.problem.posteriors.reshape(len(found.selection), -1)
    w = _exact(hostile.problem.weights / hostile.problem.weights.sum())
    masses, rows = found.rates.mass, found.linear_constraints
    prices = prices_of(hostile.cost, found.rates.groups)
    C = np.divide(rows.C, masses, out=np.zeros_like(rows.C), where=masses > 0).reshape(len(rows), masses.size)
    lam = _exact([found.multipliers[name] for name in rows.names])
    gain = _exact((prices * [-1.0, 1.0]).ravel())
    v = [
        g + sum(a * Fraction(c) for a, c in zip(lam, column, strict=True))
        for g, column in zip(gain, C.T, strict=True)
    ]
    s, positive = [Fraction(0)] * len(v), Fraction(0)
    for weight, row, chance in zip(w, p.tolist(), _exact(found.selection), strict=True):
        at = [weight * Fraction(value) for value in row]
        positive += max(Fraction(0), sum(a * b for a, b in zip(at, v, strict=True)))
        s = [total + chance * value for total, value in zip(s, at, strict=True)]
    lo, hi = _exact(rows.lo - rows.k), _exact(rows.hi - rows.k)
    values = [sum(Fraction(c) * total for c, total in zip(row, s, strict=True)) for row in C.tolist()]
    penalty = sum(-a * (low if a > 0 else high) for a, low, high in zip(lam, lo, hi, strict=True))
    gap = positive + penalty - sum(g * total for g, total in zip(gain, s, strict=True))
    broken = [max(low - value, value - high) for low, high, value in zip(lo, hi, values, strict=True)]
    return gap, max([Fraction(0), *broken])


def _exact(values: Any) -> list[Fraction]:
    return [Fraction(float(value)) for value in values]


def compare(hostile: Hostile, found: Solution) -> str:
    """What a linear program on all rows by SciPy says of the optimum."""
    try:
        known = hostile.problem.optimum(hostile.constraint, cost=hostile.cost)
    except InputError:
        return "failed"
    # Bounds that it breaks are worth their multipliers.
    worth = found.linear_constraints.violation(known.rates.rates) * sum(map(abs, found.multipliers.values()))
    better = found.certificate.objective - known.risk
    if abs(better) <= 1e-7 + worth:
        return "agrees"
    return "is better" if better > 0 else "is worse"


def main(seeds: Sequence[int] = range(PROBLEMS)) -> None:
    warnings.simplefilter("ignore", EvenhandWarning)
    refused, verdicts, checked = [], Counter[str](), 0
    worst = dict.fromkeys(("gap", "violation", "shortfall", "exact gap", "exact violation"), 0.0)
    for seed in seeds:
        hostile = hostile_problem(seed)
        try:
            found = hostile.solve()
        except CertificateError:
            refused.append(seed)
            print(f"refused: seed {seed}, {len(hostile.problem.weights)} rows, {hostile.constraint}")
            continue
        figures = {
            "gap": abs(found.certificate.gap),
            "violation": found.certificate.violation,
            "shortfall": shortfall(hostile.constraint, found),
        }
        verdicts[compare(hostile, found)] += 1
        exact = exact_certificate(hostile, found) if len(found.selection) <= ATMOST else None
        if exact is not None:
            checked += 1
            gap, violation = exact
            widened = 1e-14 * sum(map(abs, found.multipliers.values()))  # by so much the solver widens bounds
            figures |= {
                "exact gap": max(0.0, abs(float(gap)) - widened),
                "exact violation": float(violation),
            }
        worst |= {name: max(worst[name], value) for name, value in figures.items()}
    write(
        "hostile",
        {
            "hostile problems": len(seeds),
            "refused although they have an optimum (goal: 0)": len(refused),
            "worst certified gap (goal: 1e-8)": worst["gap"],
            "worst violation (goal: 1e-9)": worst["violation"],
            "worst shortfall of what was asked for, as measured": worst["shortfall"],
            f"checked in rational numbers (of up to {ATMOST} rows)": checked,
            "worst gap in rational numbers, beyond bounds widened by 1e-14": worst["exact gap"],
            "worst violation in rational numbers": worst["exact violation"],
            "another solver agrees": verdicts["agrees"],
            "another solver is better (goal: 0)": verdicts["is better"],
            "another solver stops short of the optimum": verdicts["is worse"],
            "another solver fails": verdicts["failed"],
        },
        ["evenhand", "numpy", "scipy", "highspy"],
    )


if __name__ == "__main__":
    main()
