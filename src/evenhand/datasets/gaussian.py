"""A problem with normal features, closed-form posteriors and exact population rates.

The feature is one number. In cell (m, y) it is normal with mean mu[m,y] and a common standard deviation,
so H(x) = sum W[m,y] p[m,y](x) has the sign of the weighted sum of normal densities
g(x) = sum W[m,y] pi[m,y] phi((x - mu[m,y]) / sigma). Between the roots of g the rule does not change,
and the selection rates of the rule are differences of normal distribution functions at those roots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq, minimize
from scipy.special import logsumexp, ndtr, softmax

from evenhand.datasets.finite import Optimum, Sample
from evenhand.exceptions import InputError
from evenhand.groups import Groups
from evenhand.notions import Constraint
from evenhand.rates import CellRates

__all__ = ["GaussianProblem"]

_GRID = 4001
_RESTARTS = 20
_PRECISION = 1e-8


@dataclass(frozen=True, eq=False)
class GaussianProblem:
    """Normal features with known posteriors.

    Parameters
    ----------
    masses : array, shape (M, 2)
        P(S=m, Y=y), all positive.
    means : array, shape (M, 2)
        Mean of the feature in each cell.
    groups : Groups
        Names of the M groups.
    scale : float
        Common standard deviation.

    Examples
    --------
    >>> from evenhand import DemographicParity
    >>> problem = GaussianProblem.random(levels=(2,), seed=0)
    >>> blind = problem.optimum(DemographicParity(difference=0.05))
    >>> aware = problem.optimum(DemographicParity(difference=0.05), aware=True)
    >>> bool(aware.risk <= blind.risk)
    True
    """

    masses: NDArray[np.float64]
    means: NDArray[np.float64]
    groups: Groups
    scale: float = 1.0

    def __post_init__(self) -> None:
        shape = (len(self.groups), 2)
        if self.masses.shape != shape or self.means.shape != shape:
            raise InputError(f"masses and means should have shape {shape}.")
        if (self.masses <= 0).any() or not np.isclose(self.masses.sum(), 1):
            raise InputError("masses should be positive and sum to 1.")
        if not np.isfinite(self.means).all() or not self.scale > 0:
            raise InputError("means should be finite and scale positive.")

    @classmethod
    def random(
        cls, *, levels: Sequence[int] = (2,), separation: float = 1.5, seed: int | np.random.Generator = 0
    ) -> Self:
        """Draw a problem: masses from a Dirichlet distribution, means that differ by group and label.

        Parameters
        ----------
        levels : sequence of int
            Number of values of each sensitive feature; M is their product.
        separation : float
            Distance between the means of the two labels.
        seed : int or Generator

        Returns
        -------
        GaussianProblem
        """
        rng = np.random.default_rng(seed)
        groups = Groups.product({f"A{k + 1}": range(size) for k, size in enumerate(levels)})
        masses = rng.dirichlet(np.full(2 * len(groups), 5.0)).reshape(-1, 2)
        shift = rng.normal(0.0, 0.7, size=(len(groups), 1))
        return cls(masses, shift + separation * np.array([-0.5, 0.5]), groups)

    def _log_joint(self, x: ArrayLike) -> NDArray[np.float64]:
        """Log of P(S=m, Y=y) times the density at x, up to a constant, shape (n, M, 2)."""
        points = np.asarray(x, dtype=np.float64).reshape(-1, 1, 1)
        z = (points - self.means) / self.scale
        log_joint: NDArray[np.float64] = np.log(self.masses) - 0.5 * z**2
        return log_joint

    def posteriors(self, X: ArrayLike) -> NDArray[np.float64]:
        """P(S=m, Y=y | x) of each row, shape (n, M, 2)."""
        return np.asarray(softmax(self._log_joint(X), axis=(1, 2)))

    def scores(self, X: ArrayLike, codes: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """P(Y=1 | x, s) of each row, whose group is known."""
        own = self._log_joint(X)[np.arange(len(codes)), codes]
        return np.asarray(np.exp(own[:, 1] - logsumexp(own, axis=1)))

    def sample(self, n: int, *, seed: int | np.random.Generator = 0) -> Sample:
        """Draw `n` independent rows."""
        rng = np.random.default_rng(seed)
        cells = rng.choice(self.masses.size, size=n, p=self.masses.ravel())
        return Sample.of(rng.normal(self.means.ravel()[cells], self.scale), cells, self.groups)

    def rates(self, table: ArrayLike, *, aware: bool = False) -> CellRates:
        """Population selection rates of the rule 1[sum W[m,y] p[m,y](x) > 0].

        Parameters
        ----------
        table : array, shape (M, 2)
            W.
        aware : bool
            Whether the rule sees the group: p is then zero off the observed one.

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

    def _selected(self, W: NDArray[np.float64], which: list[int]) -> NDArray[np.float64]:
        """P(H > 0) in each cell of the given groups, where H sums over those cells only."""
        means = self.means[which]
        weight = W * self.masses[which]

        def g(x: ArrayLike) -> Any:
            exponent = -0.5 * ((np.asarray(x)[..., None, None] - means) / self.scale) ** 2
            largest = exponent.max(axis=(-2, -1), keepdims=True)  # the sign does not change
            return (weight * np.exp(exponent - largest)).sum(axis=(-2, -1))

        grid = np.linspace(means.min() - 9 * self.scale, means.max() + 9 * self.scale, _GRID)
        above = g(grid) > 0
        turns = np.flatnonzero(above[:-1] != above[1:])
        roots = [brentq(g, grid[k], grid[k + 1], xtol=1e-15, rtol=1e-14) for k in turns]
        edges = np.array([-np.inf, *roots, np.inf])
        inner = np.concatenate([[grid[0]], (edges[1:-2] + edges[2:-1]) / 2, [grid[-1]]])[: len(edges) - 1]
        chosen = g(inner) > 0
        below = ndtr((edges[:, None, None] - means) / self.scale)
        selected: NDArray[np.float64] = np.diff(below, axis=0)[chosen].sum(axis=0)
        return selected

    def rates_of(self, decide: Callable[[NDArray[Any], NDArray[Any]], ArrayLike]) -> CellRates:
        """Population rates of any classifier, exact up to the places where its decision changes.

        Parameters
        ----------
        decide : function
            Takes features, shape (k, 1), and group codes, and gives decisions or their probabilities.

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
        """Find the Bayes-optimal fair classifier by maximising the dual with exact population rates.

        The risk is (1 - c) P(Y=1) minus the gain sum v[m,y] pi[m,y] rho[m,y] with v = (-c, 1 - c). With
        multipliers a, b >= 0 on the lower and upper sides of the rows, the best rule has
        W = v + C^T (a - b) / pi, and the dual value and its gradient need only the rates of that rule.

        Parameters
        ----------
        constraint : Constraint
        cost : float
            Price of a false positive; a false negative costs ``1 - cost``.
        aware : bool
            Whether the classifier may see the group.

        Returns
        -------
        Optimum
            Feasible, and within 1e-8 of the dual bound.

        Raises
        ------
        InputError
            If no rule of this form is optimal. That happens for accuracy parity when the group is known:
            H then vanishes in a whole group, whose decisions must be drawn by lot.
        """
        rows = constraint.rows(self.masses, self.groups)
        gain = np.array([-cost, 1 - cost])

        def table(multipliers: NDArray[np.float64]) -> NDArray[np.float64]:
            below, above = np.split(multipliers, 2)
            return gain + np.tensordot(below - above, rows.C, axes=1) / self.masses

        def dual(multipliers: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            below, above = np.split(multipliers, 2)
            W = table(multipliers)
            rates = self.rates(W, aware=aware)
            values = rows.values(rates.rates)
            bound = (W * rates.selected).sum() + below @ (rows.k - rows.lo) + above @ (rows.hi - rows.k)
            return float(bound), np.concatenate([values - rows.lo, rows.hi - values])

        point = np.zeros(2 * len(rows))
        for _ in range(_RESTARTS):  # a fresh start forgets curvature that has become wrong
            point = minimize(
                dual,
                point,
                jac=True,
                method="L-BFGS-B",
                bounds=[(0, None)] * len(point),
                options={"maxiter": 5000, "maxfun": 20000, "ftol": 1e-16, "gtol": 1e-12, "maxls": 60},
            ).x
            W = table(point)
            rates = self.rates(W, aware=aware)
            gap = dual(point)[0] - float((gain * rates.selected).sum())
            if rows.violation(rates.rates) <= _PRECISION and abs(gap) <= _PRECISION:
                return Optimum(rates.risk(cost), rates, W)
        raise InputError(f"the optimum under {constraint} was not found to {_PRECISION:g}; it may draw lots.")
