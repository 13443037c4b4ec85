"""Multinomial logistic regression with an offset and a ridge penalty: Newton's method in blocks of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

Floats = NDArray[np.float64]

_BLOCK = 250_000  # entries of the largest array per block: 2 MB
_MOST_STEPS = 100
_CLOSE = 1e-9
_ROUNDING = 1e-13  # of sums over all rows; without it steps near the minimum would be rejected
_STALE = 0.25
_SIZES = 0.5 ** np.arange(40)


@dataclass(frozen=True, eq=False)
class Regression:
    """The mean loss of the softmax of (1 + slope) offset_k + sum over features of B[j, k] z_j + B[-1, k].

    The penalty is half of `ridge` times each parameter squared. The parameters are one vector: the slope,
    then the rows of B.

    Attributes
    ----------
    offset : array, shape (n, classes)
    features : array, shape (n, F)
        Not yet centred and scaled to z; that is done block by block.
    center, scale : array, shape (F,)
    target : array of int, shape (n,)
        The class of each row.
    weights : array, shape (n,)
        They sum to 1.
    ridge : array, shape (1 + (F + 1) * classes,)
        Positive, which makes the minimum unique.
    """

    offset: Floats
    features: Floats
    center: Floats
    scale: Floats
    target: NDArray[np.intp]
    weights: Floats
    ridge: Floats

    def loss(self, point: Floats) -> tuple[float, Floats]:
        """The loss and its gradient."""
        value, slope = 0.0, 0.0
        B = np.zeros((self.features.shape[1] + 1, self.offset.shape[1]))
        for rows, z, logits in self._blocks(point):
            offset, w = self.offset[rows], self.weights[rows]
            own = np.arange(len(w)), self.target[rows]
            residual = np.exp(logits)
            total = residual.sum(axis=1)
            value += float(w @ (np.log(total) - logits[own]))
            residual *= (w / total)[:, None]
            residual[own] -= w
            slope += float(np.vdot(residual, offset))
            B += z.T @ residual
        penalty = self.ridge * point
        return value + 0.5 * float(penalty @ point), np.append(slope, B) + penalty

    def hessian(self, point: Floats) -> Floats:
        """The second derivatives of the loss.

        With q the softmax, they are the mean over rows of the covariance, under q, of the vector that has
        offset_k in the place of the slope and z in the place of column k of B.
        """
        F, K = self.features.shape[1] + 1, self.offset.shape[1]
        slopes, mixed = 0.0, np.zeros((F, K))
        squares, products = np.zeros((K, F, F)), np.zeros((F * K, F * K))
        for rows, z, logits in self._blocks(point):
            offset, w = self.offset[rows], self.weights[rows]
            q = np.exp(logits)
            q /= q.sum(axis=1, keepdims=True)
            spread = offset - np.einsum("ik,ik->i", q, offset)[:, None]
            spread *= q * w[:, None]
            slopes += float(np.vdot(spread, offset))
            mixed += z.T @ spread
            root = z * np.sqrt(w)[:, None]
            for k in range(K):
                part = root * np.sqrt(q[:, [k]])
                squares[k] += part.T @ part
            each = (root[:, :, None] * q[:, None, :]).reshape(len(w), -1)
            products += each.T @ each
        curvature = -products.reshape(F, K, F, K)
        for k in range(K):
            curvature[:, k, :, k] += squares[k]
        full = np.empty((1 + F * K, 1 + F * K))
        full[0, 0] = slopes
        full[0, 1:] = full[1:, 0] = mixed.ravel()
        full[1:, 1:] = curvature.reshape(F * K, F * K)
        full.flat[:: len(full) + 1] += self.ridge
        return full

    def _blocks(self, point: Floats) -> Iterator[tuple[slice, Floats, Floats]]:
        """Rows, their z, and their logits minus the largest, in blocks that fit into the cache."""
        n, K = self.offset.shape
        slope, B = point[0], point[1:].reshape(-1, K)
        size = max(64, _BLOCK // B.size)
        for start in range(0, n, size):
            rows = slice(start, start + size)
            offset = self.offset[rows]
            z = np.ones((len(offset), len(B)))
            z[:, :-1] = (self.features[rows] - self.center) / self.scale
            logits = (1 + slope) * offset + z @ B
            logits -= logits.max(axis=1, keepdims=True)
            yield rows, z, logits


def fit(regression: Regression) -> Floats:
    """The parameters at the minimum, by Newton's method: the loss is within 1e-18 of it up to rounding.

    The Hessian costs as much as ten gradients, so it is reused while convergence is fast.
    """
    point = np.zeros(len(regression.ridge))
    value, gradient = regression.loss(point)
    factor, before = cho_factor(regression.hessian(point)), np.inf
    for _ in range(_MOST_STEPS):
        step = -cho_solve(factor, gradient)
        distance = max(0.0, -float(gradient @ step)) ** 0.5  # Newton decrement
        if distance <= _CLOSE:
            return point + step
        if distance > _STALE * before:
            factor, before = cho_factor(regression.hessian(point)), np.inf
            continue
        least = value + _ROUNDING * (1 + abs(value))
        for size in _SIZES:
            value, gradient = regression.loss(point + size * step)
            if value <= least - 0.1 * size * distance**2:
                break
        point, before = point + size * step, distance
    return point
