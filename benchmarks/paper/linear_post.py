"""Post-processing by a linear program, from the formulas of Xian and Zhao (2024).

With probabilities p[m,y] of every cell, the share of each group that is selected may be at most a from any
other's: all of them lie within a/2 of a centre that is free. Multipliers of the program's rows give the rule
for new rows. Scores are moved a little at random, so that ties, which the rule decides alike, are rare.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_matrix, hstack

LABELS = {"DP": [(0, 1)], "EO": [(1,)], "PE": [(0,)], "odds": [(0,), (1,)]}
"""Of each notion, the labels whose rates are compared."""
MOVED = 1e-4
MOST_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class LinearPost:
    """The rule: select where the score is positive."""

    weights: np.ndarray
    risk: float

    def selection(self, p: np.ndarray, seed: int) -> np.ndarray:
        """Decide new rows."""
        return (np.einsum("nmy,my->n", p, self.weights) + _moves(len(p), seed) > 0).astype(float)


def fit(p: np.ndarray, notion: str, tolerance: float, seed: int) -> LinearPost:
    """Solve the program for posteriors of shape (n, M, 2)."""
    rng = np.random.default_rng(seed)
    p = p[rng.permutation(len(p))[:MOST_ROWS]]
    n, groups, _ = p.shape
    gain = (p[:, :, 1] - p[:, :, 0]).sum(axis=1) + _moves(n, seed)
    blocks, cells = [], []
    for k, labels in enumerate(LABELS[notion]):
        for m in range(groups):
            mask = np.zeros((groups, 2))
            mask[m, list(labels)] = 1
            mass = (p * mask).sum() / n
            if mass > 0:
                cells.append(mask / mass)
                centre = np.zeros(len(LABELS[notion]))
                centre[k] = -1
                blocks.append((np.einsum("nmy,my->n", p, cells[-1]) / n, centre))
    rates = hstack(
        [csr_matrix(np.array([rate for rate, _ in blocks])), csr_matrix(np.array([c for _, c in blocks]))]
    ).tocsr()
    both = csr_matrix(np.vstack([rates.toarray(), -rates.toarray()]))
    extra = len(LABELS[notion])
    found = linprog(
        np.concatenate([-gain / n, np.zeros(extra)]) * n,
        A_ub=both,
        b_ub=np.full(both.shape[0], tolerance / 2),
        bounds=[(0, 1)] * n + [(0, 1)] * extra,
        method="highs",
    )
    duals = found.ineqlin.marginals / n
    price = duals[: len(cells)] - duals[len(cells) :]
    weights = np.zeros((groups, 2))
    weights[:, 0], weights[:, 1] = -1, 1
    weights += sum(price[j] * cells[j] for j in range(len(cells)))
    risk = (p[:, :, 1].sum() / n + found.fun / n) / 2
    return LinearPost(weights, float(risk))


def _moves(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng([seed, n]).normal(0, MOVED, n)
