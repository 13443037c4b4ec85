"""Strata that no bound joins are problems of their own, and are solved one after the other.

What they find is put together and proven on all rows, as any other solution is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from evenhand.solver.dense import DenseRows
from evenhand.solver.finish import Finish
from evenhand.solver.optimize import Accepted, Optimum, optimize
from evenhand.solver.oracle import ROUNDING, Oracle, Problem, Vector
from evenhand.solver.scalars import RowsWithScalars, totals_of
from evenhand.solver.stratified import StratifiedRows
from evenhand.solver.threads import one_thread


def optimize_in_strata(oracle: Oracle, problem: Problem, accepted: Accepted) -> Optimum | None:
    """Solve a problem to a proven gap: stratum by stratum where rows are in strata that no bound joins.

    Parameters
    ----------
    oracle, problem, accepted
        See :func:`evenhand.solver.optimize.optimize`.

    Returns
    -------
    Optimum or None
    """
    inner = oracle.inner if isinstance(oracle, RowsWithScalars) else oracle
    if isinstance(inner, StratifiedRows):
        task = _Task(oracle, inner, problem, accepted)
        parts = list(task.parts())
        if len(parts) > 1:
            with one_thread("blas"):
                found = task.optimize(parts)
            if found is not None:
                return found
    return optimize(oracle, problem, accepted)


@dataclass(frozen=True, eq=False)
class _Part:
    """Strata that bounds join, with these bounds and their scalars."""

    strata: NDArray[np.intp]
    bounds: NDArray[np.intp]
    scalars: NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class _Task:
    """What is to be solved; `rows` are those of the oracle without scalars."""

    oracle: Oracle
    rows: StratifiedRows
    problem: Problem
    accepted: Accepted

    def parts(self) -> Iterator[_Part]:
        """The smallest sets of strata that no bound joins with others."""
        A, L, D = self.problem.A, self.rows.n_strata, self.rows.n_columns
        touched = (A[:, :D].reshape(len(A), L, self.rows.width) != 0).any(axis=2)
        # Bounds, strata and scalars are the nodes of a graph: a bound is joined with what it contains.
        links = coo_array(np.hstack([touched, A[:, D:] != 0]))
        size = len(A) + links.shape[1]
        graph = coo_array((links.data, (links.row, links.col + len(A))), shape=(size, size))
        _, label = connected_components(graph, directed=False)
        bounds, strata, scalars = np.split(label, [len(A), len(A) + L])
        full = self.rows.ends[1:] > self.rows.ends[:-1]
        for one in np.unique(strata[full]):
            own = np.flatnonzero((strata == one) & full)
            yield _Part(own, np.flatnonzero(bounds == one), np.flatnonzero(scalars == one))

    def optimize(self, parts: list[_Part]) -> Optimum | None:
        """Solve one part after the other; None if one cannot be, or they prove nothing together."""
        rows, problem = self.rows, self.problem
        multipliers, of_ties = np.zeros((2, len(problem.lo)))
        selection = np.zeros(rows.n_rows)
        scalars = np.zeros(problem.scalars)
        for part in parts:
            own, index, share = rows.of_strata(part.strata)
            if not share:
                continue
            # Sums over the rows of the part, whose weight is now 1, have to be multiplied by its share.
            columns = (part.strata[:, None] * rows.width + np.arange(rows.width)).ravel()
            K, behind = len(part.scalars), rows.n_columns + part.scalars
            A = problem.A[part.bounds]
            smaller = Problem(
                gain=problem.gain[np.append(columns, behind)],
                A=np.hstack([share * A[:, columns], A[:, behind]]),
                lo=problem.lo[part.bounds],
                hi=problem.hi[part.bounds],
                scalars=K,
            )
            found = optimize(RowsWithScalars(own, K) if K else own, smaller, self.accepted)
            if found is None:
                return None
            multipliers[part.bounds] = share * found.multipliers
            if found.tie_multipliers is not None:
                of_ties[part.bounds] = share * found.tie_multipliers
            selection[index] = found.totals.selection
            scalars[part.scalars] = found.totals.sums[len(columns) :]
        found = self._proven(multipliers, selection, scalars)
        return None if found is None else replace(found, tie_multipliers=of_ties if of_ties.any() else None)

    def _proven(self, multipliers: Vector, selection: Vector, scalars: Vector) -> Optimum | None:
        rows, v = self.rows, self.problem.direction(multipliers)
        own, totals = v[: rows.n_columns], totals_of(self.oracle, v, selection, scalars)
        found = Optimum.of(self.problem, multipliers, totals)
        if not self.accepted.proven(found.certificate):
            return None
        # The rows that the sign of h does not decide.
        h, terms = rows.scores(own), rows.scores(np.abs(own))
        index = np.flatnonzero((np.abs(h) <= ROUNDING * np.maximum(1.0, terms)) | (selection != (h > 0)))
        undecided = DenseRows(rows.take(index), rows.weights_of(index))
        return replace(found, finish=Finish(undecided, selection[index], multipliers, 0.0))
