"""The rule that a solution amounts to: a table W, and what to do where it leaves the decision open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.columns import blocks
from evenhand.exceptions import InputError
from evenhand.scores import GroupedScores
from evenhand.solver.oracle import ROUNDING
from evenhand.solver.thresholds import Steps

__all__ = ["Rule"]


@dataclass(frozen=True, eq=False)
class Rule:
    """Decide 1 where H(x) = sum of W[m,y] p[m,y](x) is positive, and by lot where it is 0.

    Attributes
    ----------
    table : array, shape (M, 2)
        W.
    atoms : array, shape (k, M, 2)
        Posteriors on the boundary that have a probability of their own.
    chances : array, shape (k,)
        The probability of deciding 1 at each atom.
    chance : float
        The probability of deciding 1 elsewhere on the boundary.
    steps : Steps or None
        Where the group is known: the probability of deciding 1 as a step function of the score in each group.
        It then says everything, and includes what happens on the boundary.
    unit : float
        Size of costs. A row is on the boundary if H is 0 up to rounding, compared with its terms and this.
    reach : float
        Size of H up to which a row may be an atom.

    Examples
    --------
    >>> import numpy as np
    >>> rule = Rule(np.array([[-0.5, 0.5]]))
    >>> rule.selection(np.array([[[0.3, 0.7]], [[0.6, 0.4]], [[0.5, 0.5]]]))
    array([1. , 0. , 0.5])
    """

    table: NDArray[np.float64]
    atoms: NDArray[np.float64] | None = None
    chances: NDArray[np.float64] | None = None
    chance: float = 0.5
    steps: Steps | None = None
    unit: float = 1.0
    reach: float = 0.0

    def decision(self, posteriors: NDArray[Any] | GroupedScores) -> NDArray[np.float64]:
        """H of each row.

        Parameters
        ----------
        posteriors : array, shape (n, M, 2), or GroupedScores

        Returns
        -------
        array, shape (n,)
        """
        H = np.empty(len(posteriors))
        if isinstance(posteriors, GroupedScores) and posteriors.n_groups <= len(self.table):
            for rows in blocks(len(posteriors)):
                eta, codes = posteriors.eta[rows].astype(np.float64), posteriors.codes[rows]
                H[rows] = self.table[codes, 0] * (1.0 - eta) + self.table[codes, 1] * eta
            return H
        if isinstance(posteriors, GroupedScores) or np.shape(posteriors)[1:] != self.table.shape:
            raise InputError(f"the rule is for posteriors of {len(self.table)} groups, of shape (n, M, 2).")
        posteriors = np.asarray(posteriors)
        for rows in blocks(len(posteriors)):
            block = posteriors[rows].astype(np.float64, copy=False)
            H[rows] = block.reshape(len(block), -1) @ self.table.ravel()
        unknown = int(np.count_nonzero(np.isnan(H)))
        if unknown:
            raise InputError(f"posteriors are NaN in {unknown:,} of {len(H):,} rows.")
        return H

    def selection(self, posteriors: NDArray[Any] | GroupedScores) -> NDArray[np.float64]:
        """Give the probability of deciding 1 for each row.

        Parameters
        ----------
        posteriors : array, shape (n, M, 2), or GroupedScores

        Returns
        -------
        array, shape (n,)
        """
        if self.steps is not None:
            if not isinstance(posteriors, GroupedScores):
                raise InputError("this rule needs the group of each row: pass GroupedScores.")
            if posteriors.n_groups > len(self.table):
                raise InputError(
                    f"the rule is for {len(self.table)} groups, but the scores are of {posteriors.n_groups}."
                )
            return self.steps.selection(posteriors.eta.astype(np.float64, copy=False), posteriors.codes)
        posteriors = posteriors if isinstance(posteriors, GroupedScores) else np.asarray(posteriors)
        H = self.decision(posteriors)
        chosen = (H > 0).astype(np.float64)
        largest = max(self.unit, float(np.abs(self.table).max()))
        near = np.flatnonzero(np.abs(H) <= ROUNDING * largest)
        terms = np.tensordot(written_out(posteriors, near, len(self.table)), np.abs(self.table), axes=2)
        chosen[near[np.abs(H[near]) <= ROUNDING * np.maximum(self.unit, terms)]] = self.chance
        known = self._known()
        if known:
            open_rows = np.flatnonzero(np.abs(H) <= self.reach)
            for row, atom in zip(open_rows, written_out(posteriors, open_rows, len(self.table)), strict=True):
                chosen[row] = known.get(atom.tobytes(), chosen[row])
        return chosen

    def _known(self) -> dict[bytes, float]:
        if self.atoms is None or self.chances is None:
            return {}
        return {
            atom.tobytes(): chance for atom, chance in zip(self.atoms, self.chances.tolist(), strict=True)
        }


def written_out(
    posteriors: NDArray[Any] | GroupedScores, rows: NDArray[np.intp], n_groups: int
) -> NDArray[np.float64]:
    """Some rows as float64 of shape (k, M, 2); where the group is known, zero off it."""
    if not isinstance(posteriors, GroupedScores):
        return np.ascontiguousarray(posteriors[rows], dtype=np.float64) + 0.0  # no negative zeros
    out = np.zeros((len(rows), n_groups, 2))
    eta = posteriors.eta[rows].astype(np.float64)
    codes = posteriors.codes[rows]
    out[np.arange(len(rows)), codes, 0] = 1.0 - eta
    out[np.arange(len(rows)), codes, 1] = eta
    return out
