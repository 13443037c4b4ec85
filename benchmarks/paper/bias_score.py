"""Decisions flipped where a bias score is high, from the formulas of Chen, Klochkov and Liu (2024).

Of the plain classifier's decision Yhat with confidence c(x) = |2 P(Y=1|x) - 1|, flipping x changes the k-th
rate that is compared in proportion to f_k(x), and costs c(x). The decision is flipped where
z . f(x) > c(x). The multipliers z are chosen on validation rows: of those whose disparity there is within
the tolerance, those of highest accuracy. With two groups z is one number, and all quantiles are tried; with
more, directions and lengths are drawn at random, and then again around the best, ever nearer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.paper.linear_post import LABELS

CANDIDATES = 4_000
STEPS = (0.3, 0.15, 0.08, 0.04)
"""How far around the best multipliers others are drawn, as a share of their size, round after round."""
MOST_ROWS = 20_000
_AT_A_TIME = 500


@dataclass(frozen=True, eq=False)
class BiasScore:
    """Multipliers, their accuracy and disparity on validation rows, and the masses they refer to."""

    notion: str
    masses: np.ndarray
    multipliers: np.ndarray
    accuracy: np.ndarray
    disparity: np.ndarray

    def joined(self, other: BiasScore) -> BiasScore:
        """Put multipliers together."""
        return BiasScore(
            self.notion,
            self.masses,
            np.vstack([self.multipliers, other.multipliers]),
            np.concatenate([self.accuracy, other.accuracy]),
            np.concatenate([self.disparity, other.disparity]),
        )

    def best(self, tolerance: float) -> np.ndarray:
        """The multipliers to take."""
        fair = self.disparity <= tolerance
        if not fair.any():
            return np.asarray(self.multipliers[self.disparity.argmin()])
        return np.asarray(self.multipliers[np.where(fair, self.accuracy, -1).argmax()])

    def selection(self, p: np.ndarray, tolerance: float) -> np.ndarray:
        """Decide new rows."""
        plain, confidence, scores = _parts(p, self.notion, self.masses)
        return (plain ^ (scores @ self.best(tolerance) > confidence)).astype(float)


def fit(
    p: np.ndarray, y: np.ndarray, codes: np.ndarray, notion: str, *, tolerances: list[float], seed: int
) -> BiasScore:
    """Try multipliers on validation rows with posteriors of shape (n, M, 2)."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(p))[:MOST_ROWS]
    p, y, codes = p[rows], y[rows], codes[rows]
    groups = p.shape[1]
    masses = np.bincount(2 * codes + y, minlength=2 * groups).reshape(groups, 2) / len(y)
    parts = _parts(p, notion, masses)
    tried = _tried(_candidates(parts[2], parts[1], rng), parts, 2 * codes + y, notion, masses)
    for step in STEPS if parts[2].shape[1] > 1 else ():
        best = np.array([tried.best(tolerance) for tolerance in tolerances])
        near = np.repeat(best, CANDIDATES // len(best), axis=0)
        near = near + rng.normal(size=near.shape) * step * np.abs(near).max(axis=1, keepdims=True)
        tried = tried.joined(_tried(near, parts, 2 * codes + y, notion, masses))
    return tried


def _tried(
    multipliers: np.ndarray,
    parts: tuple[np.ndarray, np.ndarray, np.ndarray],
    cells: np.ndarray,
    notion: str,
    masses: np.ndarray,
) -> BiasScore:
    plain, confidence, scores = parts
    indicator = np.eye(masses.size, dtype=np.float32)[cells].T
    hits = np.concatenate(
        [
            indicator @ (plain[:, None] ^ (scores @ some.T > confidence[:, None])).astype(np.float32)
            for some in np.array_split(multipliers, max(1, len(multipliers) // _AT_A_TIME))
        ],
        axis=1,
    )
    hits = hits.reshape(*masses.shape, -1) / len(cells)
    accuracy = hits[:, 1].sum(0) - hits[:, 0].sum(0) + masses[:, 0].sum()
    disparity = np.zeros(len(multipliers))
    for labels in LABELS[notion]:
        some = list(labels)
        mass = masses[:, some].sum(1)
        rate = hits[:, some].sum(1) / np.maximum(mass, 1e-12)[:, None]
        apart = np.abs(rate - hits[:, some].sum((0, 1)) / mass.sum())[mass > 0]
        disparity = np.maximum(disparity, apart.max(axis=0))
    return BiasScore(notion, masses, multipliers, accuracy, disparity)


def _parts(p: np.ndarray, notion: str, masses: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Plain decisions, their confidence, and what flipping does to each rate that is compared."""
    eta = p[:, :, 1].sum(axis=1)
    plain = eta > 0.5
    scores = []
    for labels in LABELS[notion]:
        some = list(labels)
        mass = masses[:, some].sum(axis=1)
        share = p[:, :, some].sum(axis=2)
        apart = share / np.maximum(mass, 1e-12) - share.sum(axis=1, keepdims=True) / mass.sum()
        scores.append(apart[:, :1] if len(mass) == 2 else apart[:, mass > 0])
    return plain, np.abs(2 * eta - 1), np.hstack(scores) * np.where(plain, 1, -1)[:, None]


def _candidates(scores: np.ndarray, confidence: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if scores.shape[1] == 1:
        known = scores[:, 0] != 0
        ratios = confidence[known] / scores[known, 0]
        return np.concatenate([[0.0], np.quantile(ratios, np.linspace(0, 1, 1001)) * (1 + 1e-9)])[:, None]
    directions = rng.normal(size=(CANDIDATES, scores.shape[1]))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    lengths = 10 ** rng.uniform(-2.5, 0.3, CANDIDATES)
    return np.vstack([np.zeros(scores.shape[1]), directions * lengths[:, None]])
