"""A synthetic problem with finitely many feature values; its fair optimum is a small linear program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog

from evenhand.datasets.gaussian import Sample
from evenhand.exceptions import InputError
from evenhand.groups.groups import Groups
from evenhand.requirements.rates import CellRates
from evenhand.requirements.requirement import Constraint

__all__ = ["FiniteProblem", "Optimum"]

# Under exact parity a general LP solver may fail or stop short of the optimum at some tolerances.
_TOLERANCES = (1e-10, 1e-9, 1e-7)
_FEASIBLE = 1e-9
_MAX_SECONDS = 20.0


@dataclass(frozen=True, eq=False)
class Optimum:
    """The Bayes-optimal fair classifier of a synthetic problem.

    Attributes
    ----------
    risk : float
        Its cost-sensitive risk.
    rates : CellRates
        Its selection rates in the population.
    solution : array
        The selection of each atom of a finite problem; the table W of a Gaussian one.
    """

    risk: float
    rates: CellRates
    solution: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FiniteProblem:
    """Features that take finitely many values (atoms), with known probabilities.

    Parameters
    ----------
    weights : array, shape (A,)
        P(X = atom).
    posteriors : array, shape (A, M, 2)
        P(S=m, Y=y | X = atom).
    groups : Groups
        Names of the M groups.
    """

    weights: NDArray[np.float64]
    posteriors: NDArray[np.float64]
    groups: Groups

    def __post_init__(self) -> None:
        n_atoms, n_groups = len(self.weights), len(self.groups)
        if self.posteriors.shape != (n_atoms, n_groups, 2):
            raise InputError(
                f"posteriors should have shape {(n_atoms, n_groups, 2)}, but have {self.posteriors.shape}."
            )
        if not np.isclose(self.weights.sum(), 1) or (self.weights < 0).any():
            raise InputError("the weights of the atoms should be non-negative and sum to 1.")
        if not np.allclose(self.posteriors.sum(axis=(1, 2)), 1) or (self.posteriors < 0).any():
            raise InputError("the posteriors of each atom should be non-negative and sum to 1.")

    @classmethod
    def random(
        cls,
        n_atoms: int,
        *,
        levels: Sequence[int] = (2,),
        concentration: float = 0.3,
        seed: int | np.random.Generator = 0,
    ) -> Self:
        """A random problem.

        Parameters
        ----------
        n_atoms : int
        levels : sequence of int, default=(2,)
            Number of values of each sensitive feature; M is their product.
        concentration : float, default=0.3
            Concentration of the Dirichlet distribution of the posteriors: the smaller, the more certain the
            cell of an atom.
        seed : int or Generator, default=0

        Returns
        -------
        FiniteProblem
        """
        rng = np.random.default_rng(seed)
        groups = Groups.product({f"A{k + 1}": range(size) for k, size in enumerate(levels)})
        weights = rng.dirichlet(np.ones(n_atoms))
        cells = rng.dirichlet(np.full(2 * len(groups), concentration), size=n_atoms)
        return cls(weights, cells.reshape(n_atoms, len(groups), 2), groups)

    @property
    def masses(self) -> NDArray[np.float64]:
        """P(S=m, Y=y), shape (M, 2)."""
        return np.tensordot(self.weights, self.posteriors, axes=1)

    def rates(self, selection: ArrayLike) -> CellRates:
        """Population masses and selection rates of the classifier with a given selection per atom."""
        chosen = self.weights * np.asarray(selection, dtype=np.float64)
        return CellRates(self.groups, self.masses, np.tensordot(chosen, self.posteriors, axes=1))

    def optimum(self, constraint: Constraint, *, cost: float = 0.5) -> Optimum:
        """The Bayes-optimal fair classifier, by a linear program in the selection of each atom.

        Parameters
        ----------
        constraint : Constraint
        cost : float, default=0.5
            Cost of a false positive; a false negative costs ``1 - cost``.

        Returns
        -------
        Optimum
        """
        masses = self.masses
        linear = constraint.linear(masses, self.groups)
        joint = self.weights[:, None, None] * self.posteriors  # P(X, S, Y)
        gain = joint @ np.array([-cost, 1 - cost])
        per_mass = np.divide(linear.C, masses, out=np.zeros_like(linear.C), where=masses > 0)
        A = np.einsum("jmy,amy->ja", per_mass, joint)
        # Scaled to entries of size 1, because the solver's tolerances are absolute.
        unit = 1 / np.where(A.any(axis=1), np.abs(A).max(axis=1, initial=0.0), 1.0)
        A, limits = np.vstack([A, -A]), np.concatenate([linear.hi - linear.k, linear.k - linear.lo])
        unit, kept = np.tile(unit, 2), np.isfinite(limits)
        goal = -gain.sum(axis=1)
        tries = []
        for tolerance in _TOLERANCES:
            found = linprog(
                goal / max(np.abs(goal).max(), np.finfo(float).tiny),
                A_ub=(A * unit[:, None])[kept],
                b_ub=(limits * unit)[kept],
                bounds=(0, 1),
                method="highs-ds",
                options={
                    "primal_feasibility_tolerance": tolerance,
                    "dual_feasibility_tolerance": tolerance,
                    "time_limit": _MAX_SECONDS,
                },
            )
            if found.success and found.x is not None:
                selection = np.clip(found.x, 0, 1)
                rates = self.rates(selection)
                excess = max(0.0, linear.violation(rates.rates) - _FEASIBLE)
                tries.append((excess, rates.risk(cost), Optimum(rates.risk(cost), rates, selection)))
        if not tries:
            raise InputError(f"no classifier of this problem satisfies {constraint}: {found.message}")
        return min(tries, key=lambda tried: tried[:2])[2]

    def sample(self, n: int, *, seed: int | np.random.Generator = 0) -> Sample:
        """A sample of `n` independent rows; X is the number of the atom."""
        rng = np.random.default_rng(seed)
        joint = (self.weights[:, None, None] * self.posteriors).ravel()
        drawn = rng.choice(joint.size, size=n, p=joint / joint.sum())
        atoms, cells = np.divmod(drawn, 2 * len(self.groups))
        return Sample.of(atoms, cells, self.groups)
