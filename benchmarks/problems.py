"""Problems to solve: large smooth ones, and small nasty ones at random."""

from __future__ import annotations

import numpy as np

import evenhand as eh
from benchmarks.exact import FiniteProblem
from evenhand.requirements.notions import NOTIONS


def smooth_posteriors(
    n: int, n_groups: int, seed: int = 0, *, features_seed: int | None = None
) -> np.ndarray:
    """Posteriors of a multinomial model on six normal features, shape (n, M, 2).

    With `features_seed`, other rows of the same model.
    """
    rng = np.random.default_rng(seed)
    X = (rng if features_seed is None else np.random.default_rng([seed, features_seed])).normal(size=(n, 6))
    Z = X @ (0.7 * rng.normal(size=(6, 2 * n_groups))) + 0.7 * rng.normal(size=2 * n_groups)
    Z -= Z.max(axis=1, keepdims=True)
    np.exp(Z, out=Z)
    Z /= Z.sum(axis=1, keepdims=True)
    return Z.reshape(n, n_groups, 2)


def aware_scores(n: int, n_groups: int, seed: int = 0) -> eh.GroupedScores:
    """Scores whose distribution depends on the group."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_groups, n)
    return eh.GroupedScores(rng.beta(1 + codes % 3, 2), codes, n_groups)


def random_constraint(rng: np.random.Generator) -> eh.Notion:
    """One notion at random, with a tolerance from exact to nothing."""
    slack = rng.choice([0.0, 1e-9, 1e-4, 0.01, 0.05, 0.2, 0.5, 1.0])
    tolerance = {"difference": float(slack)} if rng.random() < 0.5 else {"ratio": float(1 - slack)}
    return NOTIONS[rng.integers(5)](**tolerance, groups=str(rng.choice(["intersectional", "independent"])))


def random_problem(seed: int, most_rows: int) -> tuple[FiniteProblem, object, object, float]:
    """A problem with ties, tiny and empty cells, weights; its rows, a requirement and a cost.

    In a quarter of them the group is known, and the rows are grouped scores.
    """
    rng = np.random.default_rng(seed)
    levels = [(2,), (3,), (2, 2), (2, 3), (5,), (2, 2, 3), (3, 4)][rng.integers(7)]
    M, n = int(np.prod(levels)), int(rng.integers(5, most_rows))
    groups = eh.Groups.product({f"A{k}": range(size) for k, size in enumerate(levels)})
    if rng.random() < 0.25:
        codes, eta = rng.integers(0, M, n), rng.beta(0.7, 1.0, n)
        eta = np.round(6 * eta) / 6 if rng.random() < 0.4 else eta
        p = np.zeros((n, M, 2))
        p[np.arange(n), codes] = np.column_stack([1 - eta, eta])
        rows: object = eh.GroupedScores(eta, codes, M)
    else:
        sizes = rng.dirichlet(np.full(2 * M, rng.choice([0.2, 1.0, 5.0])))
        p = rng.dirichlet(np.maximum(2 * M * sizes * rng.choice([0.05, 0.3, 1.0, 5.0]), 0.01), size=n)
        if rng.random() < 0.3:
            p = np.round(8 * p) / 8
        if rng.random() < 0.1:
            p = p[rng.integers(0, max(1, n // 5), n)]
        if rng.random() < 0.2:
            p[:, rng.integers(2 * M)] = 0.0
        p[p < 1e-7] = 0.0
        p[p.sum(axis=1) == 0] = 1.0
        p = (p / p.sum(axis=1, keepdims=True)).reshape(n, M, 2)
        rows = p
    weights = rng.exponential(size=n) + 1e-5 if rng.random() < 0.4 else np.ones(n)
    constraint = random_constraint(rng)
    if rng.random() < 0.3:
        constraint = constraint & random_constraint(rng)
    cost = float(rng.choice([0.5, 0.3, 0.8, 0.0, 1.0]))
    return FiniteProblem(weights / weights.sum(), p, groups), rows, constraint, cost
