"""What both algorithms begin with: estimates of eta(x), of P(S, Y | x), and so of gamma(x)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.posteriors.learner import Learner

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows: what models see of them, Y, S, eta(x), and P(E_{y,m} | x) of shape (n, M, 2)."""

    X: Any
    positive: NDArray[np.bool_]
    codes: NDArray[np.intp]
    eta: Floats
    cells: Floats

    @property
    def events(self) -> Floats:
        """1[E_{y,m}] of every row, shape (n, 2 M)."""
        return np.asarray(np.eye(self.cells[0].size)[2 * self.codes + self.positive])


@dataclass(frozen=True, eq=False)
class Halves:
    """The half that models are fitted to, the half that lambda is selected on, and the models."""

    fitted: Rows
    choosing: Rows
    model: ProbabilityModel

    @property
    def masses(self) -> Floats:
        """P(E_{y,m}) among the rows that models are fitted to, shape (M, 2)."""
        return np.asarray(self.fitted.events.mean(axis=0).reshape(-1, 2))


@dataclass(frozen=True, eq=False)
class ProbabilityModel:
    """Estimates of eta(x), and of the group membership probabilities P(S, Y | x).

    Attributes
    ----------
    label : Learner
        Of Y: Algorithm 2, line 1.
    cells : Learner or None
        Of (S, Y), as one multi-class predictor: Algorithm 1, line 1, and Algorithm 2, line 2. None in the
        attribute-aware setting, where P(S=m, Y | x, s) = P(Y | x, s) 1[m = s].
    n_groups : int
    """

    label: Learner
    cells: Learner | None
    n_groups: int

    def rows(self, X: Any, positive: NDArray[np.bool_], codes: NDArray[np.intp]) -> Rows:
        """Rows with their probabilities, which depend on `codes` in the attribute-aware setting only."""
        eta = self.label.proba(X)[:, 1]
        if self.cells is None:
            p = np.zeros((len(eta), self.n_groups, 2))
            p[np.arange(len(eta)), codes] = np.column_stack([1 - eta, eta])
        else:
            p = self.cells.proba(X).reshape(len(eta), -1, 2)
        return Rows(X, positive, codes, eta, p)
