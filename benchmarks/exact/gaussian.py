"""Exact population rates and the fair optimum of a synthetic problem with a normal feature.

In cell (m, y) the feature is normal with mean mu[m,y] and a common standard deviation sigma, so
H(x) = sum W[m,y] p[m,y](x) has the sign of the weighted sum of normal densities
g(x) = sum W[m,y] pi[m,y] phi((x - mu[m,y]) / sigma). Between the roots of g the rule does not change, and its
selection rates are differences of normal distribution functions at those roots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq, minimize, minimize_scalar, nnls
from scipy.special import logsumexp, ndtr

from benchmarks.exact.finite import Optimum
from evenhand import datasets
from evenhand.exceptions import InputError
from evenhand.requirements.constraints import LinearConstraints
from evenhand.requirements.rates import CellRates
from evenhand.requirements.requirement import Constraint

__all__ = ["GaussianProblem"]

_GRID = 4001
_RESTARTS = 20
_MIN_DAMPING, _MAX_DAMPING = 1e-10, 10.0
_FLAT = 1e-13  # precision of the dual
_PRECISION = 1e-8
_GOAL = 1e-12  # of Newton's method; well below _PRECISION, so that other machines reach it too


class GaussianProblem(datasets.GaussianProblem):
    """The synthetic problem of the package, with its population rates and its fair optimum."""

    def scores(self, X: ArrayLike, codes: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """P(Y=1 | x, s) of each row, given its group."""
        own = self._log_joint(X)[np.arange(len(codes)), codes]
        return np.asarray(np.exp(own[:, 1] - logsumexp(own, axis=1)))

    def rates(self, table: ArrayLike, *, aware: bool = False) -> CellRates:
        """Population selection rates of the rule 1[sum W[m,y] p[m,y](x) > 0].

        Parameters
        ----------
        table : array, shape (M, 2)
            W.
        aware : bool, default=False
            Whether the rule is attribute-aware: p is then 0 for all groups but the row's own.

        Returns
        -------
        CellRates
        """
        W = np.asarray(table, dtype=np.float64)
        if aware:
            rho = np.vstack([self._selected(W[[m]], [m]) for m in range(len(self.groups))])
        else:
            rho = self._selected(W, list(range(len(self.groups))))
        return CellRates(self.groups, self.masses, self.masses * rho)

    def _density(self, x: ArrayLike, which: list[int]) -> NDArray[np.float64]:
        """Densities of the cells of the given groups at x, divided by the largest, shape (..., k, 2)."""
        exponent = -0.5 * ((np.asarray(x)[..., None, None] - self.means[which]) / self.scale) ** 2
        return np.asarray(np.exp(exponent - exponent.max(axis=(-2, -1), keepdims=True)))

    def _roots(self, W: NDArray[np.float64], which: list[int]) -> NDArray[np.float64]:
        """Where H, summed over the cells of the given groups only, changes sign."""
        weight = W * self.masses[which]

        def g(x: ArrayLike) -> Any:
            return (weight * self._density(x, which)).sum(axis=(-2, -1))

        means = self.means[which]
        grid = np.linspace(means.min() - 9 * self.scale, means.max() + 9 * self.scale, _GRID)
        height = g(grid)
        size = np.abs(height)
        dips = 1 + np.flatnonzero((size[1:-1] <= size[:-2]) & (size[1:-1] < size[2:]))
        # H may cross 0 twice between two grid points, so the minima of |H| are points as well.
        lowest = [_nearest_zero(g, grid[k - 1 : k + 2], height[k - 1 : k + 2]) for k in dips]
        points = np.sort([*grid, *lowest])
        above = g(points) > 0
        turns = np.flatnonzero(above[:-1] != above[1:])
        return np.array([brentq(g, points[k], points[k + 1], xtol=1e-15, rtol=1e-14) for k in turns])

    def _selected(self, W: NDArray[np.float64], which: list[int]) -> NDArray[np.float64]:
        """P(H > 0) in each cell of the given groups, where H sums over those cells only."""
        means, roots = self.means[which], self._roots(W, which)
        edges = np.array([-np.inf, *roots, np.inf])
        far = means.min() - 9 * self.scale, means.max() + 9 * self.scale
        inner = np.concatenate([far[:1], (roots[:-1] + roots[1:]) / 2, far[1:]])[: len(roots) + 1]
        chosen = (W * self.masses[which] * self._density(inner, which)).sum(axis=(-2, -1)) > 0
        below = ndtr((edges[:, None, None] - means) / self.scale)
        selected: NDArray[np.float64] = np.diff(below, axis=0)[chosen].sum(axis=0)
        return selected

    def rates_of(self, decide: Callable[[NDArray[Any], NDArray[Any]], ArrayLike]) -> CellRates:
        """Population rates of any classifier, exact but for grid cells in which its decision changes.

        Parameters
        ----------
        decide : function
            Takes features, shape (k, 1), and group codes; returns decisions or their probabilities.

        Returns
        -------
        CellRates
        """
        span = 9 * self.scale
        edges = np.linspace(self.means.min() - span, self.means.max() + span, 2 * _GRID)
        middle = ((edges[:-1] + edges[1:]) / 2)[:, None]
        M = len(self.groups)
        codes = np.repeat(np.arange(M), len(middle))
        chosen = np.asarray(decide(np.tile(middle, (M, 1)), codes), dtype=np.float64).reshape(M, -1)
        within = np.diff(ndtr((edges[:, None, None] - self.means) / self.scale), axis=0)
        return CellRates(self.groups, self.masses, self.masses * np.einsum("mk,kmy->my", chosen, within))

    def optimum(self, constraint: Constraint, *, cost: float = 0.5, aware: bool = False) -> Optimum:
        """The Bayes-optimal fair classifier, by minimising the dual with exact population rates.

        The risk is (1 - c) P(Y=1) minus the gain sum v[m,y] pi[m,y] rho[m,y] with v = (-c, 1 - c). With
        multipliers a, b >= 0 of the lower and upper bounds, the best rule has W = v + C^T (a - b) / pi, and
        the dual value and its gradient need only the rates of that rule.

        Parameters
        ----------
        constraint : Constraint
        cost : float, default=0.5
            Cost of a false positive; a false negative costs ``1 - cost``.
        aware : bool, default=False
            Whether the classifier is attribute-aware.

        Returns
        -------
        Optimum
            Violation and duality gap are at most 1e-8, and nearly always 1e-12.

        Raises
        ------
        InputError
            If no rule of this form is optimal. This happens for attribute-aware accuracy parity: H vanishes
            in a whole group, whose decisions must be randomised.
        """
        dual = _Dual(self, constraint.linear(self.masses, self.groups), np.array([-cost, 1 - cost]), aware)
        point = dual.at(np.zeros(len(dual.ends[0])))
        for _ in range(_RESTARTS):  # a restart discards curvature estimates that have become wrong
            point = dual.newton(dual.descend(point))
            if point.shortfall <= _PRECISION:
                return Optimum(point.rates.risk(cost), point.rates, dual.table(point.multipliers))
        raise InputError(
            f"the optimum under {constraint} was not found to {_PRECISION:g}; it may be randomised."
        )

    def _curvature(
        self, W: NDArray[np.float64], C: NDArray[np.float64], *, aware: bool
    ) -> NDArray[np.float64]:
        """Square root of the second derivative of E[max(0, H)] in the multipliers, one row per root of H.

        When multiplier j moves, the root r moves by c_j(r) / |h'(r)|, where h and c_j are the sums
        of W and C_j over the cells, weighted by their densities. So the derivative is the sum over the roots
        of c_j c_k / |h'|.
        """
        every = list(range(len(self.groups)))
        found = []
        for which in [[m] for m in every] if aware else [every]:
            roots = self._roots(W[which], which)
            distance = (roots[:, None, None] - self.means[which]) / self.scale
            density = np.exp(-0.5 * distance**2) / (self.scale * np.sqrt(2 * np.pi))
            steepness = (
                np.abs((W[which] * self.masses[which] * density * distance).sum(axis=(1, 2))) / self.scale
            )
            change = np.einsum("rmy,jmy->rj", density, C[:, which])
            found.append(change / np.sqrt(np.maximum(steepness, np.finfo(float).tiny))[:, None])
        return np.vstack(found)


@dataclass(frozen=True, eq=False)
class _Point:
    """Multipliers, the dual and its gradient there, the rates of the rule, and its shortfall."""

    multipliers: NDArray[np.float64]
    value: float
    slope: NDArray[np.float64]
    rates: CellRates
    shortfall: float


@dataclass(frozen=True, eq=False)
class _Dual:
    """The dual of a requirement, minimised over multipliers a, b >= 0 of its lower and upper bounds."""

    problem: GaussianProblem
    linear: LinearConstraints
    gain: NDArray[np.float64]
    aware: bool

    @cached_property
    def ends(self) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
        """Of each multiplier the constraint, 1 for a lower bound or -1 for an upper one, and the bound."""
        lower, upper = (np.flatnonzero(np.isfinite(end)) for end in (self.linear.lo, self.linear.hi))
        signs = np.repeat([1.0, -1.0], [len(lower), len(upper)])
        limits = np.append(self.linear.lo[lower], self.linear.hi[upper])
        return np.append(lower, upper), signs, limits

    def table(self, multipliers: NDArray[np.float64]) -> NDArray[np.float64]:
        """W of the best rule at given multipliers."""
        rows, signs, _ = self.ends
        correction: NDArray[np.float64] = np.tensordot(signs * multipliers, self.linear.C[rows], axes=1)
        return self.gain + correction / self.problem.masses

    def at(self, multipliers: NDArray[np.float64]) -> _Point:
        linear, W = self.linear, self.table(multipliers)
        rates = self.problem.rates(W, aware=self.aware)
        values = linear.values(rates.rates)
        rows, signs, limits = self.ends
        value = float((W * rates.selected).sum() + (signs * (linear.k[rows] - limits)) @ multipliers)
        gap = value - float((self.gain * rates.selected).sum())
        slope = signs * (values[rows] - limits)
        return _Point(multipliers, value, slope, rates, max(abs(gap), linear.violation(rates.rates)))

    def descend(self, start: _Point) -> _Point:
        """Approach the optimum by L-BFGS; H may gain and lose roots on the way."""

        def dual(multipliers: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            point = self.at(multipliers)
            return point.value, point.slope

        found = minimize(
            dual,
            start.multipliers,
            jac=True,
            method="L-BFGS-B",
            bounds=[(0, None)] * len(start.multipliers),
            options={"maxiter": 200, "ftol": 1e-12, "gtol": 1e-8, "maxls": 60},
        )
        return self.at(found.x)

    def newton(self, point: _Point) -> _Point:
        """Polish a point near the optimum by Newton steps with the exact curvature.

        A step d minimises <slope, d> + |curvature d|^2 / 2 + damping |d|^2 / 2 subject to multipliers >= 0,
        which is a non-negative least-squares problem.
        """
        damping = _MIN_DAMPING
        while point.shortfall > _GOAL and damping < _MAX_DAMPING:
            half = self.problem._curvature(self.table(point.multipliers), self.linear.C, aware=self.aware)
            curvature = half[:, self.ends[0]] * self.ends[1]
            root = np.sqrt(damping)
            system = np.vstack([curvature, root * np.eye(len(point.multipliers))])
            goal = [curvature @ point.multipliers, root * point.multipliers - point.slope / root]
            try:
                trial = self.at(nnls(system, np.concatenate(goal))[0])
            except np.linalg.LinAlgError:  # SciPy 1.13, if rows are nearly parallel
                damping *= 10
                continue
            better = trial.value - point.value
            # Near the end the dual is flat to rounding, but the gap and the violation still differ.
            if better < -_FLAT or (better < _FLAT and trial.shortfall < point.shortfall):
                point, damping = trial, max(damping / 10, _MIN_DAMPING)
            else:
                damping *= 10
        return point


def _nearest_zero(
    g: Callable[[ArrayLike], Any], x: NDArray[np.float64], height: NDArray[np.float64]
) -> float:
    """Where |g| is smallest between the first and the last of three points, if it may reach 0 there."""
    bend = height[0] - 2 * height[1] + height[2]
    lowest = height[1] - (height[2] - height[0]) ** 2 / (8 * bend) if bend else height[1]
    if lowest * height[1] > 0.5 * height[1] ** 2:
        return float(x[1])
    side = np.sign(height[1])
    found = minimize_scalar(
        lambda at: side * float(g(at)), bounds=(x[0], x[2]), method="bounded", options={"xatol": 1e-12}
    )
    return float(found.x)
